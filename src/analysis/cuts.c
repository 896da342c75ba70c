#include "analysis/cuts.h"

#include "base/memory.h"

#include <stdlib.h>

void mt_cut_list_release(struct mt_cut_list *list)
{
    free(list->items);
    *list = (struct mt_cut_list){0};
}

static void append(struct mt_cut_list *list, struct mt_cut cut)
{
    list->items = mt_host_room(list->items, list->count, sizeof *list->items);
    list->items[list->count++] = cut;
}

/* The first event at or after a position. */
static int64_t event_from(int64_t position)
{
    return position / 2 + position % 2;
}

void mt_cut_list_add(struct mt_cut_list *list, const struct mt_scene *scene, size_t index, int64_t from, int64_t to)
{
    const struct mt_block_row *block = &scene->input->blocks[index];
    int64_t begin = mt_scene_begin(scene, block), end = mt_scene_end(scene, block);
    struct mt_cut cut = {.block = (uint32_t)index, .from = from > begin ? from : begin, .to = to < end ? to : end};
    if (cut.from < cut.to && event_from(cut.from) < event_from(cut.to))
        append(list, cut);
}

static int compare_cuts(const void *left, const void *right)
{
    const struct mt_cut *a = left, *b = right;
    return (a->from > b->from) - (a->from < b->from);
}

void mt_cut_list_join(struct mt_cut_list *list, size_t first)
{
    if (list->count < first + 2)
        return;
    struct mt_cut *cuts = list->items + first;
    qsort(cuts, list->count - first, sizeof *cuts, compare_cuts);
    size_t last = 0;
    for (size_t i = 1; i < list->count - first; i++) {
        if (cuts[i].from > cuts[last].to)
            cuts[++last] = cuts[i];
        else if (cuts[i].to > cuts[last].to)
            cuts[last].to = cuts[i].to;
    }
    list->count = first + last + 1;
}

/* What remains of a block, between two cuts. */
struct piece {
    struct mt_lifetime lifetime;
    int64_t end_as_it_was;
    size_t number; /* in the order in which they were made */
};

struct pieces {
    struct piece *items;
    size_t count;
};

static int compare_pieces(const void *left, const void *right)
{
    const struct piece *a = left, *b = right;
    if (a->end_as_it_was != b->end_as_it_was)
        return a->end_as_it_was < b->end_as_it_was ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

static struct mt_lifetime lifetime_of(const struct mt_scene *scene, const struct mt_block_row *block)
{
    return (struct mt_lifetime){.requested_bytes = block->requested_bytes,
                                .category = scene->categories[block->label],
                                .begin = mt_scene_begin(scene, block),
                                .end = mt_scene_end(scene, block),
                                .label = block->label,
                                .stream = block->stream};
}

static void add_piece(struct pieces *pieces, struct mt_lifetime lifetime, int64_t begin, int64_t end)
{
    struct piece piece = {.lifetime = lifetime, .end_as_it_was = lifetime.end, .number = pieces->count};
    piece.lifetime.begin = begin;
    piece.lifetime.end = end;
    if (begin < end)
        pieces->items[pieces->count++] = piece;
}

/* Adds what is left of a block by the cuts at `cuts`; returns how many of them are its own. */
static size_t add_pieces(struct pieces *pieces, struct mt_lifetime lifetime, const struct mt_cut *cuts, size_t count)
{
    size_t own = 0;
    int64_t begin = lifetime.begin;
    for (; own < count && cuts[own].block == cuts[0].block; own++) {
        add_piece(pieces, lifetime, begin, cuts[own].from);
        begin = cuts[own].to;
    }
    add_piece(pieces, lifetime, begin, lifetime.end);
    return own;
}

struct mt_lifetime *mt_lifetimes_with_cuts(const struct mt_scene *scene, const struct mt_cut *cuts, size_t cut_count,
                                           size_t *out_count)
{
    size_t blocks = scene->input->block_count, count = 0, cut = 0;
    struct mt_lifetime *lifetimes = mt_host_resize(NULL, blocks + 2 * cut_count + 1, sizeof *lifetimes);
    struct pieces pieces = {.items = mt_host_resize(NULL, 2 * cut_count + 1, sizeof *pieces.items)};
    for (size_t i = 0; i < blocks; i++) {
        struct mt_lifetime lifetime = lifetime_of(scene, &scene->input->blocks[i]);
        if (cut < cut_count && cuts[cut].block == i)
            cut += add_pieces(&pieces, lifetime, cuts + cut, cut_count - cut);
        else
            lifetimes[count++] = lifetime;
    }
    qsort(pieces.items, pieces.count, sizeof *pieces.items, compare_pieces);
    for (size_t i = 0; i < pieces.count; i++)
        lifetimes[count++] = pieces.items[i].lifetime;
    free(pieces.items);
    *out_count = count;
    return lifetimes;
}
