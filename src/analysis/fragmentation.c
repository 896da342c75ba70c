/* The moment of most reserved bytes is that of a segment, or a part of one, being mapped; its block is handed out just
 * after that, and what is free then is what nobody could use. */
#include "analysis/fragmentation.h"

#include "analysis/holes.h"
#include "base/memory.h"

#include <stdlib.h>

/* A part's change of what is reserved. */
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
    for (size_t i = 0; i < input->part_count; i++) {
        const struct mt_part_row *part = &input->parts[i];
        if (part->mapped_event <= input->last_event)
            out[count++] = (struct change){part->mapped_event, part->bytes};
        if (part->unmapped_event != 0 && part->unmapped_event <= input->last_event)
            out[count++] = (struct change){part->unmapped_event, 0 - part->bytes};
    }
    qsort(out, count, sizeof *out, compare_changes);
    return count;
}

/* The event in the window that most was reserved after, the first of them; 0: nothing was. */
static int64_t find_peak(const struct mt_advice_input *input, uint64_t *out_bytes)
{
    struct change *changes = mt_host_alloc((2 * input->part_count + 1) * sizeof *changes);
    size_t count = list_changes(input, changes);
    uint64_t reserved = 0, most = 0;
    int64_t event = 0;
    for (size_t i = 0; i < count; i++) {
        reserved += changes[i].bytes;
        bool is_last = i + 1 == count || changes[i + 1].event != changes[i].event; /* of its event */
        bool lasts = i + 1 == count || changes[i + 1].event > input->first_event;  /* into the window */
        if (is_last && lasts && reserved > most) {
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

/* The label of the largest of some blocks. */
static uint32_t largest_label(const struct mt_block_row *const *blocks, size_t count)
{
    const struct mt_block_row *largest = blocks[0];
    for (size_t i = 1; i < count; i++)
        if (blocks[i]->block_bytes > largest->block_bytes)
            largest = blocks[i];
    return largest->label;
}

/* What is found while segments are visited. */
struct search {
    struct mt_fragmentation *found;
    uint64_t *holes_of_label; /* bytes beside blocks the largest of which has the label */
};

static void add_segment(void *context, const struct mt_segment_holes *holes)
{
    struct search *search = context;
    struct mt_fragmentation *found = search->found;
    if (holes->largest_bytes > found->largest_bytes)
        found->largest_bytes = holes->largest_bytes;
    if (holes->block_count == 0) {
        found->idle_bytes += holes->hole_bytes;
        return;
    }
    found->allocated_bytes += holes->allocated_bytes;
    found->hole_bytes += holes->hole_bytes;
    found->hole_count += holes->hole_count;
    uint32_t label = largest_label(holes->blocks, holes->block_count);
    search->holes_of_label[label] += holes->hole_bytes;
    if (search->holes_of_label[label] > search->holes_of_label[found->culprit])
        found->culprit = label;
}

static void visit_segments(const struct mt_advice_input *input, int64_t event, struct mt_fragmentation *found)
{
    const struct mt_layout layout = {input->blocks,        input->block_count, input->segments,
                                     input->segment_count, input->parts,       input->part_count};
    uint64_t *holes_of_label = mt_host_alloc((input->label_count + 1) * sizeof *holes_of_label);
    struct search search = {found, holes_of_label};
    const struct mt_hole_visitor visitor = {&search, add_segment};
    mt_holes_visit(&layout, event, &visitor);
    free(holes_of_label);
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
    visit_segments(input, asked != NULL ? asked->alloc_event : event, &found);
    return found;
}
