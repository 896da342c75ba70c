/* Sorts the live blocks by address, and walks them along the memory of the segments once. */
#include "analysis/fragmentation.h"

#include "base/memory.h"
#include "base/order.h"

#include <assert.h>
#include <stdlib.h>

static int compare_places(const void *left, const void *right)
{
    const struct mt_block_row *a = *(const struct mt_block_row *const *)left;
    const struct mt_block_row *b = *(const struct mt_block_row *const *)right;
    int order = MT_COMPARE(a->segment, b->segment);
    return order != 0 ? order : MT_COMPARE(a->offset, b->offset);
}

/* Lists the live blocks by segment, then offset. The caller frees them. */
static const struct mt_block_row **list_live(const struct mt_layout *layout, int64_t event, size_t *out_count)
{
    const struct mt_block_row **live = mt_host_alloc((layout->block_count + 1) * sizeof(struct mt_block_row *));
    *out_count = 0;
    for (size_t i = 0; i < layout->block_count; i++)
        if (mt_block_is_live(&layout->blocks[i], event))
            live[(*out_count)++] = &layout->blocks[i];
    qsort(live, *out_count, sizeof(struct mt_block_row *), compare_places);
    return live;
}

/* A walk along a segment. Invariants: memory before `at` has been walked, and [hole, at) is free; blocks before `next`
 * begin before `at`. */
struct walk {
    struct mt_segment_holes *found;
    uint64_t *holes; /* found->holes */
    uint64_t hole, at;
    size_t next;
};

/* Ends the current gap, if any. */
static void end_hole(struct walk *walk)
{
    struct mt_segment_holes *found = walk->found;
    if (walk->at == walk->hole)
        return;
    assert(walk->at > walk->hole);
    uint64_t bytes = walk->at - walk->hole;
    walk->holes[found->hole_count++] = bytes;
    found->hole_bytes += bytes;
    if (bytes > found->largest_bytes)
        found->largest_bytes = bytes;
}

/* Continues at `offset` if that is ahead. The range in between has no memory, or belongs to a block. */
static void skip_to(struct walk *walk, uint64_t offset)
{
    if (offset <= walk->at)
        return;
    end_hole(walk);
    walk->hole = walk->at = offset;
}

/* Walks along memory up to `end`. Bytes outside blocks are free. Blocks of a damaged trace may overlap. */
static void walk_to(struct walk *walk, uint64_t end)
{
    const struct mt_segment_holes *found = walk->found;
    for (; walk->next < found->block_count && found->blocks[walk->next]->offset < end; walk->next++) {
        const struct mt_block_row *block = found->blocks[walk->next];
        walk->at = block->offset > walk->at ? block->offset : walk->at;
        skip_to(walk, block->offset + block->block_bytes);
    }
    walk->at = end > walk->at ? end : walk->at;
}

/* Computes a segment's gaps and sums from its parts and blocks. The parts begin at `*part`, which is advanced past
 * them. `holes` has room for the number of parts and blocks together. */
static void measure(const struct mt_layout *layout, int64_t event, size_t *part, struct mt_segment_holes *found,
                    uint64_t *holes)
{
    struct walk walk = {.found = found, .holes = holes};
    for (; *part < layout->part_count && layout->parts[*part].segment == found->segment->number; ++*part) {
        const struct mt_part_row *memory = &layout->parts[*part];
        if (!mt_part_has_memory(memory, event))
            continue;
        found->mapped_bytes += memory->bytes;
        skip_to(&walk, memory->offset);
        walk_to(&walk, memory->offset + memory->bytes);
    }
    end_hole(&walk);
    for (size_t i = 0; i < found->block_count; i++)
        found->allocated_bytes += found->blocks[i]->block_bytes;
    found->holes = holes;
}

void mt_holes_visit(const struct mt_layout *layout, int64_t event, const struct mt_hole_visitor *visitor)
{
    size_t count, at = 0, part = 0;
    const struct mt_block_row **live = list_live(layout, event, &count);
    uint64_t *holes = mt_host_alloc((count + layout->part_count + 1) * sizeof *holes);
    for (size_t i = 0; i < layout->segment_count; i++) {
        size_t first = at;
        while (at < count && live[at]->segment == i)
            at++;
        struct mt_segment_holes found = {
            .segment = &layout->segments[i], .blocks = live + first, .block_count = at - first};
        measure(layout, event, &part, &found, holes);
        if (found.mapped_bytes > 0)
            visitor->visit(visitor->context, &found);
    }
    assert(part == layout->part_count);
    free(holes);
    free(live);
}

struct mt_layout mt_layout_of(const struct mt_advice_input *input)
{
    return (struct mt_layout){input->blocks,        input->block_count, input->segments,
                              input->segment_count, input->parts,       input->part_count};
}

/* A change of the reserved bytes. */
struct change {
    int64_t event;
    uint64_t bytes; /* wraps around where memory is unmapped */
};

static int compare_changes(const void *left, const void *right)
{
    return MT_COMPARE(((const struct change *)left)->event, ((const struct change *)right)->event);
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

/* Returns the first event in the window after which the most bytes are reserved; 0 if none are. */
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

/* Returns the first block allocated at or after `event`; NULL if there is none. */
static const struct mt_block_row *next_block(const struct mt_advice_input *input, int64_t event)
{
    for (size_t i = 0; i < input->block_count; i++)
        if (input->blocks[i].alloc_event >= event)
            return &input->blocks[i];
    return NULL;
}

/* Returns the event between `event` and `end` after which the most bytes are allocated; `event` if there is none. */
static int64_t find_fullest(const struct mt_advice_input *input, int64_t event, int64_t end)
{
    struct change *changes = mt_host_alloc((2 * input->block_count + 1) * sizeof *changes);
    size_t count = 0;
    uint64_t allocated = 0, most = 0;
    for (size_t i = 0; i < input->block_count; i++) {
        const struct mt_block_row *block = &input->blocks[i];
        changes[count++] = (struct change){block->alloc_event, block->block_bytes};
        if (block->free_event != 0)
            changes[count++] = (struct change){block->free_event, 0 - block->block_bytes};
    }
    qsort(changes, count, sizeof *changes, compare_changes);
    for (size_t i = 0; i < count && changes[i].event < end; i++) {
        allocated += changes[i].bytes;
        if (allocated > most && changes[i].event > event) {
            most = allocated;
            event = changes[i].event;
        }
    }
    free(changes);
    return event;
}

/* Returns the event at which the reserved bytes next change after an event, or the end of the window. */
static int64_t next_change(const struct mt_advice_input *input, int64_t event)
{
    int64_t next = input->last_event + 1;
    for (size_t i = 0; i < input->part_count; i++) {
        const struct mt_part_row *part = &input->parts[i];
        if (part->mapped_event > event && part->mapped_event < next)
            next = part->mapped_event;
        if (part->unmapped_event > event && part->unmapped_event < next)
            next = part->unmapped_event;
    }
    return next;
}

/* True if several segments or parts were mapped before all blocks: the recording began late. */
static bool began_late(const struct mt_advice_input *input)
{
    size_t count = 0;
    for (size_t i = 0; i < input->part_count && input->block_count > 0; i++)
        count += input->parts[i].mapped_event < input->blocks[0].alloc_event;
    return count > 1;
}

/* Returns the label of the largest block. There is at least one. */
static uint32_t largest_label(const struct mt_block_row *const *blocks, size_t count)
{
    assert(count > 0);
    const struct mt_block_row *largest = blocks[0];
    for (size_t i = 1; i < count; i++)
        if (blocks[i]->block_bytes > largest->block_bytes)
            largest = blocks[i];
    return largest->label;
}

/* A visit of all segments. */
struct search {
    struct mt_fragmentation *found;
    uint64_t *holes_of_label; /* bytes of gaps in segments whose largest block has the label */
};

static void add_free(void *context, const struct mt_segment_holes *holes)
{
    struct search *search = context;
    struct mt_fragmentation *found = search->found;
    if (holes->largest_bytes > found->largest_bytes)
        found->largest_bytes = holes->largest_bytes;
    if (holes->segment->pool[0] != '\0')
        found->pool_bytes += holes->hole_bytes;
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
    const struct mt_layout layout = mt_layout_of(input);
    uint64_t *holes_of_label = mt_host_alloc((input->label_count + 1) * sizeof *holes_of_label);
    struct search search = {found, holes_of_label};
    const struct mt_hole_visitor visitor = {&search, add_free};
    mt_holes_visit(&layout, event, &visitor);
    free(holes_of_label);
}

/* Reserved bytes peak just after a segment or part was mapped. Its block is allocated directly after that, and the free
 * memory at that moment was not usable for the block. If the memory was mapped before all blocks, the moment with the
 * most allocated bytes counts. */
struct mt_fragmentation mt_fragmentation_find(const struct mt_advice_input *input)
{
    struct mt_fragmentation found = {0};
    int64_t event = find_peak(input, &found.reserved_bytes);
    if (event == 0)
        return found;
    if (began_late(input) && event < input->blocks[0].alloc_event)
        event = find_fullest(input, event, next_change(input, event));
    const struct mt_block_row *asked = next_block(input, event);
    if (asked != NULL)
        found.asked_bytes = asked->requested_bytes;
    visit_segments(input, asked != NULL ? asked->alloc_event : event, &found);
    return found;
}
