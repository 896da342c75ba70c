/* An export of Nsight Systems to SQLite as a run: the memory that one process allocated on one device, its NVTX ranges
 * as spans, steps and phases, and its kernels. Each allocation is a segment of its own, since an export does not
 * contain the segments of pools. */
#include "base/memory.h"
#include "base/text.h"
#include "producers/file/import_reader.h"
#include "producers/file/import_spans.h"
#include "producers/file/nsys_tables.h"
#include "producers/file/plain_labels.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum range_kind { RANGE_SPAN, RANGE_STEP, RANGE_PHASE } range_kind;

struct range {
    range_kind kind;
    int64_t thread;
    mt_span_id span;
    char *path; /* of a span */
    bool has_ended;
};

/* Deeper ranges are ignored: a damaged file may have any number. */
enum { MOST_OPEN = 512 };

/* The open ranges, in order of time. Ranges of one thread nest; ranges of several threads are replayed in the order of
 * their events. The innermost span is the place of an allocation. Invariants: `places` has the index in `open` of each
 * range that has not ended; the last of `open` has not ended; count <= MOST_OPEN. */
struct ranges {
    struct mt_sink sink;
    struct mt_foreign *foreign;
    struct mt_plain_labels *labels;
    struct range open[MOST_OPEN];
    uint32_t count;
    struct mt_number_map places; /* by the number of the range */
    uint32_t open_phases;        /* a range with the name of a phase inside another such range is a span */
};

static struct ranges *ranges_create(const struct mt_sink *sink, struct mt_foreign *foreign,
                                    struct mt_plain_labels *labels)
{
    struct ranges *ranges = mt_host_alloc(sizeof *ranges);
    ranges->sink = *sink;
    ranges->foreign = foreign;
    ranges->labels = labels;
    mt_number_map_create(&ranges->places);
    return ranges;
}

static void ranges_destroy(struct ranges *ranges)
{
    if (ranges == NULL)
        return;
    for (uint32_t i = 0; i < ranges->count; i++)
        free(ranges->open[i].path);
    mt_number_map_release(&ranges->places);
    free(ranges);
}

static const struct range *innermost_span(const struct ranges *ranges)
{
    for (uint32_t i = ranges->count; i > 0; i--)
        if (ranges->open[i - 1].kind == RANGE_SPAN && !ranges->open[i - 1].has_ended)
            return &ranges->open[i - 1];
    return NULL;
}

static const char *ranges_path(const struct ranges *ranges)
{
    const struct range *range = innermost_span(ranges);
    return range != NULL ? range->path : "";
}

static bool is_phase(const char *text, mt_phase *out)
{
    for (int i = 0; i < MT_PHASE_COUNT; i++)
        if (strcmp(text, mt_phase_name((mt_phase)i)) == 0) {
            *out = (mt_phase)i;
            return true;
        }
    return false;
}

static bool is_step(const char *text)
{
    return strncmp(text, "step ", 5) == 0 && text[5] != '\0' && text[strspn(text + 5, "0123456789") + 5] == '\0';
}

/* Returns the path of a range within its parent's path. The text may repeat that path. The caller frees the result. */
static char *path_within(const char *parent, const char *text)
{
    struct mt_text path = {0};
    size_t length = strlen(parent);
    if (length > 0 && !(strncmp(text, parent, length) == 0 && text[length] == '.'))
        mt_text_add(&path, "%s.", parent);
    mt_text_add(&path, "%s", text[0] != '\0' ? text : "(range)");
    return path.data;
}

static void begin_span(struct ranges *ranges, uint64_t time_ns, const char *text, struct range *range)
{
    const struct range *parent = innermost_span(ranges);
    bool is_within = parent != NULL && parent->thread == range->thread;
    range->path = path_within(is_within ? parent->path : "", text);
    range->span = mt_span_of_path(&ranges->sink, range->path);
    if (range->span != 0)
        mt_foreign_span_begin(ranges->foreign, time_ns, range->span);
}

static void ranges_begin(struct ranges *ranges, uint64_t time_ns, int64_t number, int64_t thread, const char *text)
{
    assert(ranges->count <= MOST_OPEN);
    struct range range = {.thread = thread};
    mt_phase phase;
    if (ranges->count == MOST_OPEN)
        return;
    if (is_step(text)) {
        range.kind = RANGE_STEP;
        mt_foreign_step_begin(ranges->foreign, time_ns);
    } else if (ranges->open_phases == 0 && is_phase(text, &phase)) {
        range.kind = RANGE_PHASE;
        ranges->open_phases++;
        mt_plain_labels_phase(ranges->labels, phase);
        mt_foreign_phase(ranges->foreign, time_ns, phase);
    } else {
        begin_span(ranges, time_ns, text, &range);
    }
    mt_number_map_put(&ranges->places, (uint64_t)number, ranges->count);
    ranges->open[ranges->count++] = range;
}

static void ranges_end(struct ranges *ranges, uint64_t time_ns, int64_t number)
{
    uint64_t place;
    if (!mt_number_map_take(&ranges->places, (uint64_t)number, &place))
        return;
    struct range *range = &ranges->open[place];
    assert(place < ranges->count && !range->has_ended);
    range->has_ended = true;
    ranges->open_phases -= range->kind == RANGE_PHASE;
    if (range->kind == RANGE_STEP && mt_foreign_step(ranges->foreign) != MT_NO_STEP)
        mt_foreign_step_end(ranges->foreign, time_ns);
    if (range->kind == RANGE_SPAN && range->span != 0)
        mt_foreign_span_end(ranges->foreign, time_ns, range->span);
    for (; ranges->count > 0 && ranges->open[ranges->count - 1].has_ended; ranges->count--)
        free(ranges->open[ranges->count - 1].path);
    assert(ranges->open_phases <= ranges->count);
}

/* A replay of the tables. */
struct nsys {
    struct mt_nsys_tables tables;
    struct mt_foreign *foreign;
    struct mt_plain_labels *labels;
    struct ranges *ranges;
    uint64_t allocations, frees, range_count, kernels;
    struct mt_import_sizes sizes; /* of allocations */
};

/* Returns the text of a row: its own, or the text whose number it has. */
static const char *text_of(const struct nsys *nsys, const struct mt_statement *row)
{
    const char *text = mt_statement_text(row, MT_NSYS_TEXT);
    if (text == NULL && !mt_statement_is_null(row, MT_NSYS_TEXT_ID))
        text = mt_nsys_tables_string(&nsys->tables, mt_statement_integer(row, MT_NSYS_TEXT_ID));
    return text != NULL ? text : "";
}

/* Returns the time since the first allocation. */
static uint64_t run_time(const struct nsys *nsys, int64_t time_ns)
{
    int64_t since;
    return __builtin_sub_overflow(time_ns, nsys->tables.start_ns, &since) || since < 0 ? 0 : (uint64_t)since;
}

static mt_status replay_allocation(struct nsys *nsys, uint64_t now, int64_t row, const char *name,
                                   struct mt_foreign_block *block)
{
    assert(nsys->foreign != NULL);
    mt_status status = mt_import_sizes_add(&nsys->sizes, block->requested_bytes);
    if (status != MT_OK)
        return mt_fail_context(status, "row %" PRId64 " of " MT_NSYS_MEMORY_TABLE, row);
    nsys->allocations++;
    mt_plain_labels_give(nsys->labels, name, ranges_path(nsys->ranges), block);
    mt_plain_labels_count(nsys->labels, block);
    mt_foreign_take(nsys->foreign, now, block);
    return MT_OK;
}

static mt_status replay_row(struct nsys *nsys, const struct mt_statement *row)
{
    uint64_t now = run_time(nsys, mt_statement_integer(row, MT_NSYS_TIME));
    int64_t number = mt_statement_integer(row, MT_NSYS_NUMBER);
    const char *text = text_of(nsys, row);
    struct mt_foreign_block block = {.address = (uint64_t)mt_statement_integer(row, MT_NSYS_A),
                                     .requested_bytes = (uint64_t)mt_statement_integer(row, MT_NSYS_B),
                                     .stream = (uint64_t)mt_statement_integer(row, MT_NSYS_C)};
    switch (mt_statement_integer(row, MT_NSYS_KIND)) {
    case MT_NSYS_RANGE_BEGINS:
        nsys->range_count++;
        ranges_begin(nsys->ranges, now, number, mt_statement_integer(row, MT_NSYS_A), text);
        break;
    case MT_NSYS_RANGE_ENDS:
        ranges_end(nsys->ranges, now, number);
        break;
    case MT_NSYS_ALLOCATION:
        return replay_allocation(nsys, now, number, text, &block);
    default:
        nsys->frees++;
        mt_foreign_give(nsys->foreign, now, block.address);
    }
    return MT_OK;
}

static mt_status replay_kernel(struct nsys *nsys, const struct mt_statement *row)
{
    const char *name = mt_nsys_tables_string(&nsys->tables, mt_statement_integer(row, 3));
    const struct mt_kernel kernel = {.start_ns = run_time(nsys, mt_statement_integer(row, 0)),
                                     .end_ns = run_time(nsys, mt_statement_integer(row, 1)),
                                     .name = name != NULL ? name : "(unknown)",
                                     .step = MT_NO_STEP,
                                     .stream = (uint32_t)mt_statement_integer(row, 2)};
    nsys->kernels++;
    if (kernel.end_ns >= kernel.start_ns)
        mt_foreign_kernel(nsys->foreign, &kernel);
    return MT_OK;
}

/* Calls `replay_one` for each row of a statement, and finalizes it. NULL: no rows. */
static mt_status replay_rows(struct nsys *nsys, struct mt_statement *statement,
                             mt_status (*replay_one)(struct nsys *, const struct mt_statement *))
{
    mt_status status = MT_OK;
    while (statement != NULL && mt_statement_advance(statement, &status))
        status = replay_one(nsys, statement);
    return status;
}

static mt_status replay_tables(struct nsys *nsys, const struct mt_import_input *input, struct mt_import_report *out)
{
    struct mt_statement *statement;
    uint64_t all = 0;
    mt_status status = mt_nsys_tables_open(input->plan->file, input->plan->device, &nsys->tables);
    if (status == MT_OK && (status = mt_nsys_tables_events(&nsys->tables, &statement)) == MT_OK)
        status = replay_rows(nsys, statement, replay_row);
    if (status == MT_OK && (status = mt_nsys_tables_kernels(&nsys->tables, &statement)) == MT_OK)
        status = replay_rows(nsys, statement, replay_kernel);
    MT_THEN(status, mt_nsys_tables_count(&nsys->tables, &all));
    out->elsewhere = all - nsys->allocations - nsys->frees;
    return status;
}

static void report(const struct nsys *nsys, struct mt_import_report *out)
{
    mt_import_count(out, "allocations", nsys->allocations);
    mt_import_count(out, "frees", nsys->frees);
    mt_import_count(out, "ranges", nsys->range_count);
    mt_import_count(out, "kernels", nsys->kernels);
    out->device = nsys->tables.knows_device ? nsys->tables.device : MT_IMPORT_ANY_DEVICE;
    out->foreign = mt_foreign_counts(nsys->foreign);
    out->coverage = mt_plain_labels_coverage(nsys->labels);
    assert(out->coverage.all_blocks == nsys->allocations);
}

static mt_status replay(const struct mt_import_input *input, const struct mt_sink *sink, struct mt_import_report *out)
{
    struct nsys nsys = {0};
    struct mt_bounded_names bounded;
    mt_bounded_names_create(&bounded, sink);
    const struct mt_sink names = mt_bounded_names_sink(&bounded);
    nsys.foreign = mt_foreign_create(sink);
    nsys.labels = mt_plain_labels_create(input->rules, &names);
    nsys.ranges = ranges_create(&names, nsys.foreign, nsys.labels);
    mt_status status = replay_tables(&nsys, input, out);
    report(&nsys, out);
    ranges_destroy(nsys.ranges);
    mt_plain_labels_destroy(nsys.labels);
    mt_foreign_destroy(nsys.foreign);
    mt_bounded_names_release(&bounded);
    mt_nsys_tables_close(&nsys.tables);
    return status;
}

static bool recognizes(const struct mt_import_input *input)
{
    return input->is_database;
}

const struct mt_import_reader mt_nsys_reader = {
    .kind = MT_IMPORT_NSYS,
    .source = {.title = "Nsight Systems export (SQLite)",
               .format = "Nsight Systems (SQLite)",
               .device = "Nsight Systems"},
    .recognizes = recognizes,
    .replay = replay,
};
