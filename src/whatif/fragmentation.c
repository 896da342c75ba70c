/* The moment of most reserved bytes is that of a segment being mapped; its block is handed out just after that, and what
 * is free then is what nobody could use. */
#include "whatif/fragmentation.h"

#include "base/memory.h"

#include <stdlib.h>

/* A segment's change of what is reserved. */
struct change {
    int64_t event;
    uint64_t bytes; /* wraps around where it is taken away */
};

static int compare_changes(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    return (a->event > b->event) - (a->event < b->event);
}

static size_t list_changes(const struct mt_advice_input *input, struct change *out)
{
    size_t count = 0;
    for (size_t i = 0; i < input->segment_count; i++) {
        const struct mt_segment_row *segment = &input->segments[i];
        if (segment->mapped_event <= input->last_event)
            out[count++] = (struct change){segment->mapped_event, segment->bytes};
        if (segment->unmapped_event != 0 && segment->unmapped_event <= input->last_event)
            out[count++] = (struct change){segment->unmapped_event, 0 - segment->bytes};
    }
    qsort(out, count, sizeof *out, compare_changes);
    return count;
}

/* The event in the window that most was reserved after, the first of them; 0: nothing was. */
static int64_t find_peak(const struct mt_advice_input *input, uint64_t *out_bytes)
{
    struct change *changes = mt_host_alloc((2 * input->segment_count + 1) * sizeof *changes);
    size_t count = list_changes(input, changes);
    uint64_t reserved = 0, most = 0;
    int64_t event = 0;
    for (size_t i = 0; i < count; i++) {
        reserved += changes[i].bytes;
        bool lasts = i + 1 == count || changes[i + 1].event > input->first_event; /* into the window */
        if (lasts && reserved > most) {
            most = reserved;
            event = changes[i].event;
        }
    }
    free(changes);
    *out_bytes = most;
    return event < input->first_event && most > 0 ? input->first_event : event;
}

/* The block that was handed out first from `event` on; NULL: none. */
static const struct mt_block_row *next_block(const struct mt_advice_input *input, int64_t event)
{
    for (size_t i = 0; i < input->block_count; i++)
        if (input->blocks[i].alloc_event >= event)
            return &input->blocks[i];
    return NULL;
}

static bool is_live(const struct mt_block_row *block, int64_t event)
{
    return block->alloc_event <= event && (block->free_event == 0 || block->free_event > event);
}

static bool is_mapped(const struct mt_segment_row *segment, int64_t event)
{
    return segment->mapped_event <= event && (segment->unmapped_event == 0 || segment->unmapped_event > event);
}

/* The live blocks by segment, then offset; the caller's. */
static int compare_places(const void *left, const void *right)
{
    const struct mt_block_row *a = *(const struct mt_block_row *const *)left;
    const struct mt_block_row *b = *(const struct mt_block_row *const *)right;
    if (a->segment != b->segment)
        return a->segment < b->segment ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static const struct mt_block_row **list_live(const struct mt_advice_input *input, int64_t event, size_t *out_count)
{
    const struct mt_block_row **live = mt_host_alloc((input->block_count + 1) * sizeof(struct mt_block_row *));
    *out_count = 0;
    for (size_t i = 0; i < input->block_count; i++)
        if (is_live(&input->blocks[i], event))
            live[(*out_count)++] = &input->blocks[i];
    qsort(live, *out_count, sizeof(struct mt_block_row *), compare_places);
    return live;
}

static void add_hole(struct mt_fragmentation *found, uint64_t bytes)
{
    if (bytes == 0)
        return;
    found->hole_bytes += bytes;
    found->hole_count++;
    if (bytes > found->largest_bytes)
        found->largest_bytes = bytes;
}

/* Adds the holes of a segment with `count` blocks; returns their bytes. */
static uint64_t add_segment(struct mt_fragmentation *found, const struct mt_segment_row *segment,
                            const struct mt_block_row *const *blocks, size_t count)
{
    uint64_t before = found->hole_bytes, at = 0;
    for (size_t i = 0; i < count; i++) {
        add_hole(found, blocks[i]->offset > at ? blocks[i]->offset - at : 0);
        at = blocks[i]->offset + blocks[i]->block_bytes;
        found->allocated_bytes += blocks[i]->block_bytes;
    }
    add_hole(found, segment->bytes > at ? segment->bytes - at : 0);
    return found->hole_bytes - before;
}

/* The label of the largest of some blocks. */
static uint32_t largest_label(const struct mt_block_row *const *blocks, size_t count)
{
    const struct mt_block_row *largest = blocks[0];
    for (size_t i = 1; i < count; i++)
        if (blocks[i]->block_bytes > largest->block_bytes)
            largest = blocks[i];
    return largest->label;
}

static void add_idle_segment(struct mt_fragmentation *found, const struct mt_segment_row *segment)
{
    found->idle_bytes += segment->bytes;
    if (segment->bytes > found->largest_bytes)
        found->largest_bytes = segment->bytes;
}

static void walk_segments(const struct mt_advice_input *input, int64_t event, struct mt_fragmentation *found)
{
    size_t count, at = 0;
    const struct mt_block_row **live = list_live(input, event, &count);
    uint64_t *holes_of_label = mt_host_alloc((input->label_count + 1) * sizeof *holes_of_label);
    for (size_t i = 0; i < input->segment_count; i++) {
        size_t first = at;
        while (at < count && live[at]->segment == i)
            at++;
        if (!is_mapped(&input->segments[i], event))
            continue;
        if (at == first) {
            add_idle_segment(found, &input->segments[i]);
            continue;
        }
        uint32_t label = largest_label(live + first, at - first);
        holes_of_label[label] += add_segment(found, &input->segments[i], live + first, at - first);
        if (holes_of_label[label] > holes_of_label[found->culprit])
            found->culprit = label;
    }
    free(holes_of_label);
    free(live);
}

struct mt_fragmentation mt_fragmentation_find(const struct mt_advice_input *input)
{
    struct mt_fragmentation found = {0};
    int64_t event = find_peak(input, &found.reserved_bytes);
    if (event == 0)
        return found;
    const struct mt_block_row *asked = next_block(input, event);
    if (asked != NULL)
        found.asked_bytes = asked->requested_bytes;
    walk_segments(input, asked != NULL ? asked->alloc_event : event, &found);
    return found;
}
