/* The columns of docs/page.md, each with the function that computes its numbers. */
#include "page/page_run.h"

#include <assert.h>
#include <stdlib.h>

/* Defines a column's function. RESULT is an expression of `page`, the run, and `row`. */
#define VALUE(name, result)                                                                                            \
    static uint64_t name(const void *rows, size_t row)                                                                 \
    {                                                                                                                  \
        const struct mt_page_run *page = rows;                                                                         \
        return (uint64_t)(result);                                                                                     \
    }
#define PLAIN(column, function)                                                                                        \
    {                                                                                                                  \
        .name = column, .coding = MT_PAGE_PLAIN, .value = function                                                     \
    }
#define DELTA(column, function)                                                                                        \
    {                                                                                                                  \
        .name = column, .coding = MT_PAGE_DELTA, .value = function                                                     \
    }

/* Returns a lifetime in events; 0: to the end. */
static int64_t life(int64_t begin, int64_t end)
{
    return end > begin ? end - begin : 0;
}

VALUE(event_time, page->beside.times[row] / page->time_unit_ns)
static const struct mt_page_column event_columns[] = {DELTA("time", event_time)};

VALUE(knot_event, page->knots[row].event)
VALUE(knot_time, page->knots[row].time / page->time_unit_ns)
static const struct mt_page_column knot_columns[] = {DELTA("event", knot_event), DELTA("time", knot_time)};

VALUE(size_requested, page->sizes[row].requested_bytes)
VALUE(size_block, page->sizes[row].block_bytes)
static const struct mt_page_column size_columns[] = {PLAIN("requested", size_requested), PLAIN("block", size_block)};

VALUE(label_category, page->labels[row].category)
VALUE(label_role, page->labels[row].role)
VALUE(label_op, page->labels[row].op)
VALUE(label_phase, page->labels[row].phase)
VALUE(label_dtype, page->labels[row].dtype)
VALUE(label_shape, page->labels[row].shape)
VALUE(label_span, page->labels[row].span)
VALUE(label_place, page->labels[row].place)
VALUE(label_layer, page->labels[row].layer)
static const struct mt_page_column label_columns[] = {
    PLAIN("category", label_category), PLAIN("role", label_role),   PLAIN("op", label_op),
    PLAIN("phase", label_phase),       PLAIN("dtype", label_dtype), PLAIN("shape", label_shape),
    PLAIN("span", label_span),         PLAIN("place", label_place), PLAIN("layer", label_layer)};

VALUE(segment_address, page->segments[row].address)
VALUE(segment_bytes, page->segments[row].bytes)
VALUE(segment_stream, page->segments[row].stream)
VALUE(segment_mapped, page->segments[row].mapped_event - page->run->first_event)
VALUE(segment_life, life(page->segments[row].mapped_event, page->segments[row].unmapped_event))
static const struct mt_page_column segment_columns[] = {PLAIN("address", segment_address),
                                                        PLAIN("bytes", segment_bytes), PLAIN("stream", segment_stream),
                                                        DELTA("mapped", segment_mapped), PLAIN("life", segment_life)};

VALUE(part_segment, page->parts[row].segment)
VALUE(part_offset, page->parts[row].offset)
VALUE(part_bytes, page->parts[row].bytes)
VALUE(part_mapped, page->parts[row].mapped_event - page->run->first_event)
VALUE(part_life, life(page->parts[row].mapped_event, page->parts[row].unmapped_event))
static const struct mt_page_column part_columns[] = {PLAIN("segment", part_segment), PLAIN("offset", part_offset),
                                                     PLAIN("bytes", part_bytes), PLAIN("mapped", part_mapped),
                                                     PLAIN("life", part_life)};

VALUE(block_alloc, page->blocks[row].alloc_event - page->run->first_event)
VALUE(block_life, life(page->blocks[row].alloc_event, page->blocks[row].free_event))
VALUE(block_segment, page->blocks[row].segment)
VALUE(block_offset, page->blocks[row].offset)
VALUE(block_size, page->size_of_block[row])
VALUE(block_label, page->blocks[row].label)
static const struct mt_page_column block_columns[] = {DELTA("alloc", block_alloc),     PLAIN("life", block_life),
                                                      PLAIN("segment", block_segment), PLAIN("offset", block_offset),
                                                      PLAIN("size", block_size),       PLAIN("label", block_label)};

/* A refused request may have any size. Sizes above this one, which no device has, are shown as this one. */
#define MOST_MARK_VALUE ((UINT64_C(1) << 8 * MT_PAGE_MOST_WIDTH) - 1)

VALUE(mark_event, page->beside.marks[row].event - page->run->first_event)
VALUE(mark_value, page->beside.marks[row].value < MOST_MARK_VALUE ? page->beside.marks[row].value : MOST_MARK_VALUE)
VALUE(mark_span, page->mark_spans[row])
VALUE(mark_label, page->beside.marks[row].label)

/* Returns the kind of a mark, as the page numbers kinds. */
static uint64_t mark_kind(const void *rows, size_t row)
{
    static const unsigned char number[MT_EVENT_KIND_COUNT] = {
        [MT_EVENT_STEP_BEGIN] = 0, [MT_EVENT_STEP_END] = 1, [MT_EVENT_PHASE] = 2,
        [MT_EVENT_SPAN_BEGIN] = 3, [MT_EVENT_SPAN_END] = 4, [MT_EVENT_OOM] = 5};
    mt_event_kind kind = ((const struct mt_page_run *)rows)->beside.marks[row].kind;
    assert(number[kind] > 0 || kind == MT_EVENT_STEP_BEGIN);
    return number[kind];
}
static const struct mt_page_column mark_columns[] = {DELTA("event", mark_event), PLAIN("kind", mark_kind),
                                                     PLAIN("value", mark_value), PLAIN("span", mark_span),
                                                     PLAIN("label", mark_label)};

static int compare_alloc(const void *event, const void *block)
{
    int64_t a = *(const int64_t *)event, b = ((const struct mt_block_row *)block)->alloc_event;
    return (a > b) - (a < b);
}

/* Returns the distance in rows to the block that this one was copied from; 0: none that is older. */
static uint64_t use_source(const void *rows, size_t row)
{
    const struct mt_page_run *page = rows;
    assert(row < page->block_count);
    int64_t original = page->uses[row].copied_from;
    const struct mt_block_row *found =
        original != 0 ? bsearch(&original, page->blocks, row, sizeof *page->blocks, compare_alloc) : NULL;
    return found != NULL ? row - (size_t)(found - page->blocks) : 0;
}

enum { USE_IS_KNOWN = 1, USE_IS_UNREAD = 2 };
VALUE(use_flags, page->uses[row].known ? USE_IS_KNOWN + (page->uses[row].unread ? USE_IS_UNREAD : 0) : 0)
VALUE(use_reads, page->uses[row].reads)
VALUE(use_writes, page->uses[row].writes)
VALUE(use_first, life(page->blocks[row].alloc_event, page->uses[row].first))
VALUE(use_last, life(page->uses[row].first, page->uses[row].last))
VALUE(use_idle_from, life(page->uses[row].first, page->uses[row].idle_from))
VALUE(use_idle, life(page->uses[row].idle_from, page->uses[row].idle_to))
static const struct mt_page_column use_columns[] = {PLAIN("flags", use_flags),   PLAIN("reads", use_reads),
                                                    PLAIN("writes", use_writes), PLAIN("first", use_first),
                                                    PLAIN("last", use_last),     PLAIN("idle_from", use_idle_from),
                                                    PLAIN("idle", use_idle),     PLAIN("source", use_source)};

VALUE(stack_parent, page->stacks[row].parent)
VALUE(stack_function, page->stacks[row].function)
VALUE(stack_file, page->stacks[row].file)
VALUE(stack_line, page->stacks[row].line)
static const struct mt_page_column stack_columns[] = {PLAIN("parent", stack_parent), PLAIN("function", stack_function),
                                                      PLAIN("file", stack_file), PLAIN("line", stack_line)};

VALUE(caller_stack, page->callers[row])
static const struct mt_page_column caller_columns[] = {PLAIN("stack", caller_stack)};

VALUE(kernel_start, page->beside.kernels[row].start_ns / page->time_unit_ns)
VALUE(kernel_duration, page->beside.kernels[row].duration_ns / page->time_unit_ns)
VALUE(kernel_name, page->kernel_names[row])
VALUE(kernel_label, page->beside.kernels[row].label)
VALUE(kernel_stream, page->beside.kernels[row].stream)
static const struct mt_page_column kernel_columns[] = {DELTA("start", kernel_start), PLAIN("duration", kernel_duration),
                                                       PLAIN("name", kernel_name), PLAIN("label", kernel_label),
                                                       PLAIN("stream", kernel_stream)};

VALUE(phase_event, page->beside.phases[row].event - page->run->first_event)
VALUE(phase_name, page->phase_names[row])
static const struct mt_page_column phase_columns[] = {DELTA("event", phase_event), PLAIN("name", phase_name)};

static bool any_use_is_known(const struct mt_page_run *page)
{
    for (size_t i = 0; i < page->block_count; i++)
        if (page->uses[i].known)
            return true;
    return false;
}

/* True if every segment had all of its memory from its first event to its last. Then the table of parts is left out. */
static bool segments_are_whole(const struct mt_page_run *page)
{
    if (page->part_count != page->segment_count)
        return false;
    for (size_t i = 0; i < page->part_count; i++) {
        const struct mt_segment_row *segment = &page->segments[i];
        const struct mt_part_row *part = &page->parts[i];
        if (part->segment != i || part->offset != 0 || part->bytes != segment->bytes ||
            part->mapped_event != segment->mapped_event || part->unmapped_event != segment->unmapped_event)
            return false;
    }
    return true;
}

#define TABLE(text, row, list, count)                                                                                  \
    (struct mt_page_table)                                                                                             \
    {                                                                                                                  \
        .name = text, .row_name = row, .rows = page, .row_count = count, .columns = list,                              \
        .column_count = sizeof list / sizeof list[0]                                                                   \
    }

_Static_assert(sizeof label_columns / sizeof label_columns[0] <= MT_PAGE_MOST_COLUMNS, "a table has room for them");

void mt_page_run_declare(struct mt_page_run *page)
{
    struct mt_page_table *tables = page->tables;
    assert(page->knot_count <= page->time_count && page->size_count <= page->block_count);
    tables[MT_PAGE_EVENTS] = TABLE("events", "event", event_columns, page->time_count);
    tables[MT_PAGE_KNOTS] = TABLE("knots", "knot", knot_columns, page->knot_count);
    tables[MT_PAGE_SIZES] = TABLE("sizes", "size", size_columns, page->size_count);
    tables[MT_PAGE_LABELS] = TABLE("labels", "label", label_columns, page->label_count);
    tables[MT_PAGE_SEGMENTS] = TABLE("segments", "segment", segment_columns, page->segment_count);
    if (!segments_are_whole(page))
        tables[MT_PAGE_PARTS] = TABLE("parts", "part of a segment", part_columns, page->part_count);
    tables[MT_PAGE_BLOCKS] = TABLE("blocks", "block", block_columns, page->block_count);
    tables[MT_PAGE_MARKS] = TABLE("marks", "mark", mark_columns, page->beside.mark_count);
    if (any_use_is_known(page))
        tables[MT_PAGE_USES] = TABLE("uses", "use of block", use_columns, page->block_count);
    if (page->stack_count > 1) {
        tables[MT_PAGE_STACKS] = TABLE("stacks", "call stack", stack_columns, page->stack_count);
        tables[MT_PAGE_CALLERS] = TABLE("callers", "caller of block", caller_columns, page->block_count);
    }
    if (page->beside.kernel_count > 0)
        tables[MT_PAGE_KERNELS] = TABLE("kernels", "kernel", kernel_columns, page->beside.kernel_count);
    if (page->beside.phase_count > 0)
        tables[MT_PAGE_PROGRAM_PHASES] =
            TABLE("program_phases", "program phase", phase_columns, page->beside.phase_count);
}
