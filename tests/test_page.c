/* The timeline page, read back: every column against the trace, sums against the peaks, and large units. */
#include "page_fixture.h"
#include "read_rows.h"
#include "trace/query/blocks.h"

enum { EVENTS = 150000, FEW_EVENTS = 3000 }; /* more events than two chunks hold, and blocks than one */
enum { WORTH_A_THREAD = 70000 };             /* events that are read by two threads */

/* Checks every value of a column against an expression of `i`, the row. */
#define EXPECT_COLUMN(page, run, table, column, count, expected)                                                       \
    do {                                                                                                               \
        size_t rows_;                                                                                                  \
        uint64_t *values_ = page_column(page, run, table, column, &rows_);                                             \
        assert_int_equal(rows_, count);                                                                                \
        for (size_t i = 0; i < rows_; i++)                                                                             \
            if (values_[i] != (uint64_t)(expected))                                                                    \
                fail_msg("%s.%s of row %zu is %" PRIu64 ", not %" PRIu64, table, column, i, values_[i],                \
                         (uint64_t)(expected));                                                                        \
        free(values_);                                                                                                 \
    } while (0)

#define EXPECT_TEXTS(page, run, table, column, count, list, expected)                                                  \
    do {                                                                                                               \
        size_t rows_;                                                                                                  \
        uint64_t *values_ = page_column(page, run, table, column, &rows_);                                             \
        assert_int_equal(rows_, count);                                                                                \
        for (size_t i = 1; i < rows_; i++)                                                                             \
            assert_string_equal(page_text(page, list, values_[i]), expected);                                          \
        free(values_);                                                                                                 \
    } while (0)

static int64_t span_of(int64_t begin, int64_t end)
{
    return end != 0 ? end - begin : 0;
}

/* Everything that is read of a run. */
struct material {
    const struct mt_run *run;
    int64_t first, last;
    uint64_t *times;
    struct mt_label_row *labels;
    struct mt_block_row *blocks;
    struct mt_use_row *uses;
    struct mt_segment_row *segments;
    struct mt_part_row *parts;
    struct mt_mark_row *marks;
    size_t label_count, block_count, segment_count, part_count, mark_count;
};

/* Reads the uses of the rows. A block whose label changes has several rows; the first has the uses before the change. */
static mt_status read_uses(struct material *all)
{
    struct mt_block_row *whole;
    size_t count, next = 0;
    mt_status status = mt_trace_blocks(trace, all->run, all->first, all->last, &whole, &count);
    struct mt_use_row *uses = calloc(count + 1, sizeof *uses);
    status = mt_status_keep(status, mt_trace_uses(trace, all->run, whole, count, uses));
    all->uses = calloc(all->block_count + 1, sizeof *all->uses);
    for (size_t i = 0; i < all->block_count && next < count && status == MT_OK; i++) {
        if (all->blocks[i].alloc_event != whole[next].alloc_event)
            continue;
        if (all->blocks[i].free_event == 0 || uses[next].last < all->blocks[i].free_event)
            all->uses[i] = uses[next];
        next++;
    }
    free(whole);
    free(uses);
    return status;
}

static struct material read_material(const struct mt_run *run)
{
    struct material all = {.run = run, .first = run->first_event, .last = run->first_event + run->event_count - 1};
    mt_status status = read_times(trace, run, &all.times);
    status = mt_status_keep(status, mt_trace_labels(trace, run, &all.labels, &all.label_count));
    status = mt_status_keep(status, read_blocks_by_label(trace, run, &all.blocks, &all.block_count));
    status = mt_status_keep(status, mt_trace_segments(trace, run, &all.segments, &all.segment_count));
    status = mt_status_keep(status, mt_trace_parts(trace, run, &all.parts, &all.part_count));
    status = mt_status_keep(status, mt_trace_marks(trace, run, all.first, all.last, &all.marks, &all.mark_count));
    status = mt_status_keep(status, read_uses(&all));
    if (status != MT_OK)
        fail_msg("%s", mt_last_error());
    return all;
}

static void release_material(struct material *all)
{
    free(all->times);
    free(all->labels);
    free(all->blocks);
    free(all->uses);
    free(all->segments);
    free(all->parts);
    free(all->marks);
}

static void check_times(const struct page *page, size_t run, const struct material *all)
{
    EXPECT_COLUMN(page, run, "events", "time", (size_t)all->run->event_count, all->times[i]);
    size_t count;
    uint64_t *knots = page_column(page, run, "knots", "event", &count);
    assert_int_equal(knots[0], 0);
    assert_int_equal(knots[count - 1], all->run->event_count - 1);
    EXPECT_COLUMN(page, run, "knots", "time", count, all->times[knots[i]]);
    free(knots);
}

static void check_labels(const struct page *page, size_t run, const struct material *all)
{
    size_t count = all->label_count;
    EXPECT_TEXTS(page, run, "labels", "category", count, "categories", all->labels[i].category);
    EXPECT_TEXTS(page, run, "labels", "role", count, "texts", all->labels[i].role);
    EXPECT_TEXTS(page, run, "labels", "op", count, "texts", all->labels[i].op);
    EXPECT_TEXTS(page, run, "labels", "phase", count, "texts", all->labels[i].phase);
    EXPECT_TEXTS(page, run, "labels", "dtype", count, "texts", all->labels[i].dtype);
    EXPECT_TEXTS(page, run, "labels", "shape", count, "texts", all->labels[i].shape);
    EXPECT_TEXTS(page, run, "labels", "span", count, "texts", all->labels[i].span);
    EXPECT_TEXTS(page, run, "labels", "place", count, "texts", all->labels[i].place);
    EXPECT_COLUMN(page, run, "labels", "layer", count, i == 0 ? 0 : all->labels[i].layer + 1);
}

static void check_segments(const struct page *page, size_t run, const struct material *all)
{
    const struct mt_segment_row *rows = all->segments;
    EXPECT_COLUMN(page, run, "segments", "address", all->segment_count, rows[i].address);
    EXPECT_COLUMN(page, run, "segments", "bytes", all->segment_count, rows[i].bytes);
    EXPECT_COLUMN(page, run, "segments", "stream", all->segment_count, rows[i].stream);
    EXPECT_COLUMN(page, run, "segments", "mapped", all->segment_count, rows[i].mapped_event - all->first);
    EXPECT_COLUMN(page, run, "segments", "life", all->segment_count,
                  span_of(rows[i].mapped_event, rows[i].unmapped_event));
}

static void check_parts(const struct page *page, size_t run, const struct material *all)
{
    const struct mt_part_row *rows = all->parts;
    EXPECT_COLUMN(page, run, "parts", "segment", all->part_count, rows[i].segment);
    EXPECT_COLUMN(page, run, "parts", "offset", all->part_count, rows[i].offset);
    EXPECT_COLUMN(page, run, "parts", "bytes", all->part_count, rows[i].bytes);
    EXPECT_COLUMN(page, run, "parts", "mapped", all->part_count, rows[i].mapped_event - all->first);
    EXPECT_COLUMN(page, run, "parts", "life", all->part_count, span_of(rows[i].mapped_event, rows[i].unmapped_event));
}

static void check_blocks(const struct page *page, size_t run, const struct material *all)
{
    const struct mt_block_row *rows = all->blocks;
    size_t size_count, ignored;
    uint64_t *requested = page_column(page, run, "sizes", "requested", &size_count);
    uint64_t *block = page_column(page, run, "sizes", "block", &ignored);
    uint64_t *size = page_column(page, run, "blocks", "size", &ignored);
    for (size_t i = 0; i < all->block_count; i++) {
        assert_in_range(size[i], 0, size_count - 1);
        assert_int_equal(requested[size[i]], rows[i].requested_bytes);
        assert_int_equal(block[size[i]], rows[i].block_bytes);
    }
    free(requested);
    free(block);
    free(size);
    EXPECT_COLUMN(page, run, "blocks", "alloc", all->block_count, rows[i].alloc_event - all->first);
    EXPECT_COLUMN(page, run, "blocks", "life", all->block_count, span_of(rows[i].alloc_event, rows[i].free_event));
    EXPECT_COLUMN(page, run, "blocks", "segment", all->block_count, rows[i].segment);
    EXPECT_COLUMN(page, run, "blocks", "offset", all->block_count, rows[i].offset);
    EXPECT_COLUMN(page, run, "blocks", "label", all->block_count, rows[i].label);
}

/* Returns the distance in rows to the block that was allocated at an event; 0 if there is none before `before`. */
static uint64_t rows_back(const struct material *all, size_t before, int64_t alloc_event)
{
    for (size_t i = before; i-- > 0 && all->blocks[i].alloc_event >= alloc_event;)
        if (all->blocks[i].alloc_event == alloc_event)
            return before - i;
    return 0;
}

static void check_uses(const struct page *page, size_t run, const struct material *all)
{
    const struct mt_use_row *rows = all->uses;
    size_t count = all->block_count;
    EXPECT_COLUMN(page, run, "uses", "flags", count, rows[i].known + 2 * rows[i].unread);
    EXPECT_COLUMN(page, run, "uses", "reads", count, rows[i].reads);
    EXPECT_COLUMN(page, run, "uses", "writes", count, rows[i].writes);
    EXPECT_COLUMN(page, run, "uses", "first", count, span_of(all->blocks[i].alloc_event, rows[i].first));
    EXPECT_COLUMN(page, run, "uses", "last", count, span_of(rows[i].first, rows[i].last));
    EXPECT_COLUMN(page, run, "uses", "idle_from", count, span_of(rows[i].first, rows[i].idle_from));
    EXPECT_COLUMN(page, run, "uses", "idle", count, span_of(rows[i].idle_from, rows[i].idle_to));
}

/* Checks the originals of some blocks, since the search is long. */
static void check_sources(const struct page *page, size_t run, const struct material *all)
{
    size_t count;
    uint64_t *source = page_column(page, run, "uses", "source", &count);
    for (size_t i = 0; i < count; i += 97)
        assert_int_equal(source[i], all->uses[i].copied_from != 0 ? rows_back(all, i, all->uses[i].copied_from) : 0);
    free(source);
}

/* Returns the number of a kind in docs/page.md. */
static uint64_t page_kind(mt_event_kind kind)
{
    static const char *const kinds[] = {"step_begin", "step_end", "phase", "span_begin", "span_end", "oom"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i], mt_event_kind_name(kind)) == 0)
            return i;
    fail_msg("%s is no mark", mt_event_kind_name(kind));
    return 0;
}

static void check_marks(const struct page *page, size_t run, const struct material *all)
{
    const struct mt_mark_row *rows = all->marks;
    EXPECT_COLUMN(page, run, "marks", "event", all->mark_count, rows[i].event - all->first);
    EXPECT_COLUMN(page, run, "marks", "kind", all->mark_count, page_kind(rows[i].kind));
    EXPECT_COLUMN(page, run, "marks", "value", all->mark_count, rows[i].value);
    EXPECT_COLUMN(page, run, "marks", "label", all->mark_count, rows[i].label);
    EXPECT_TEXTS(page, run, "marks", "span", all->mark_count, "texts", rows[i].span);
}

static void check_run(const struct page *page, size_t number, const struct mt_run *run)
{
    struct material all = read_material(run);
    check_times(page, number, &all);
    check_labels(page, number, &all);
    check_segments(page, number, &all);
    check_parts(page, number, &all);
    check_blocks(page, number, &all);
    check_uses(page, number, &all);
    check_sources(page, number, &all);
    check_marks(page, number, &all);
    release_material(&all);
}

static void every_column_is_what_the_trace_says(void **state)
{
    (void)state;
    fixture_record(path, seed + 1, FEW_EVENTS); /* so that the ids of the run do not begin at 1 */
    fixture_record(path, seed, EVENTS);
    struct page page = page_of_run("2");
    const struct mt_run *run = open_run("2");
    const json_t *told = page_run(&page, 0);
    assert_int_equal(page_number(told, "id"), 2);
    assert_int_equal(page_number(told, "first_event"), FEW_EVENTS + 1);
    assert_int_equal(page_number(told, "event_count"), EVENTS);
    assert_true(page_number(page_table(&page, 0, "blocks"), "rows") >
                page_number(page_table(&page, 0, "blocks"), "part_rows"));
    check_run(&page, 0, run);
    page_release(&page);
}

static void a_trace_that_is_no_longer_at_its_path_is_read_all_the_same(void **state)
{
    (void)state;
    char other[sizeof path + 8];
    snprintf(other, sizeof other, "%s-other", path);
    fixture_record(path, seed, WORTH_A_THREAD);
    fixture_record(other, seed + 1, WORTH_A_THREAD + 1000);
    struct mt_page_plan plan = plan_of(open_run(NULL));
    const char *const elsewhere[] = {"/nowhere/memtrace.db", other};
    for (size_t i = 0; i < sizeof elsewhere / sizeof elsewhere[0]; i++) {
        plan.sources[0].path = elsewhere[i];
        struct page page = page_of(&plan);
        check_run(&page, 0, plan.sources[0].run);
        page_release(&page);
    }
    unlink(other);
}

/* The live bytes after each event, by category; their highest sum, and the first event with it. */
struct replayed {
    uint64_t bytes, event, shares[64];
};

static struct replayed replay(const struct page *page)
{
    size_t block_count, ignored;
    uint64_t *alloc = page_column(page, 0, "blocks", "alloc", &block_count);
    uint64_t *life = page_column(page, 0, "blocks", "life", &ignored);
    uint64_t *size = page_column(page, 0, "blocks", "size", &ignored);
    uint64_t *label = page_column(page, 0, "blocks", "label", &ignored);
    uint64_t *bytes = page_column(page, 0, "sizes", "block", &ignored);
    uint64_t *category = page_column(page, 0, "labels", "category", &ignored);
    size_t event_count = (size_t)page_number(page_run(page, 0), "event_count");
    int64_t *change = calloc(event_count, sizeof *change), now = 0;
    struct replayed peak = {0};
    for (size_t i = 0; i < block_count; i++) {
        change[alloc[i]] += (int64_t)bytes[size[i]];
        if (life[i] != 0)
            change[alloc[i] + life[i]] -= (int64_t)bytes[size[i]];
    }
    for (size_t event = 0; event < event_count; event++)
        if ((now += change[event]) > (int64_t)peak.bytes)
            peak = (struct replayed){.bytes = (uint64_t)now, .event = event};
    for (size_t i = 0; i < block_count; i++)
        if (alloc[i] <= peak.event && (life[i] == 0 || alloc[i] + life[i] > peak.event))
            peak.shares[category[label[i]]] += bytes[size[i]];
    free(alloc);
    free(life);
    free(size);
    free(label);
    free(bytes);
    free(category);
    free(change);
    return peak;
}

static void blocks_add_up_to_the_peak(void **state)
{
    (void)state;
    fixture_record(path, seed, 20000);
    struct page page = page_of_run(NULL);
    const struct mt_run *run = open_run(NULL);
    struct replayed found = replay(&page);
    struct mt_peak_row peak;
    assert_int_equal(mt_trace_peak(trace, run, MT_MEASURE_ALLOCATED, &peak), MT_OK);
    assert_int_equal(found.bytes, peak.bytes);
    assert_int_equal((int64_t)found.event, peak.event - run->first_event);
    const json_t *told = json_object_get(json_object_get(page_run(&page, 0), "peaks"), "allocated");
    assert_int_equal(page_number(told, "bytes"), (int64_t)peak.bytes);
    assert_int_equal(page_number(told, "event"), peak.event - run->first_event);
    for (size_t i = 0; i < peak.share_count; i++) {
        uint64_t position = 0;
        while (strcmp(page_text(&page, "categories", position), peak.shares[i].name) != 0)
            position++;
        assert_int_equal(found.shares[position], peak.shares[i].allocated_bytes);
    }
    mt_peak_row_release(&peak);
    page_release(&page);
}

static void two_runs_share_their_texts(void **state)
{
    (void)state;
    char other[FIXTURE_PATH_BYTES];
    struct mt_trace *other_trace = NULL;
    fixture_record(path, seed, FEW_EVENTS);
    fixture_path(other);
    fixture_record(other, seed + 1, FEW_EVENTS);
    assert_int_equal(mt_trace_open(other, &other_trace), MT_OK);
    struct mt_page_plan plan = plan_of(open_run(NULL));
    size_t count;
    plan.sources[plan.source_count++] = (struct mt_page_source){other_trace, mt_trace_runs(other_trace, &count), other};
    struct page page = page_of(&plan);
    const json_t *texts = json_object_get(page.description, "texts");
    for (size_t i = 0; i < json_array_size(texts); i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(page_text(&page, "texts", i), page_text(&page, "texts", j));
    assert_string_equal(json_string_value(json_object_get(page_run(&page, 0), "trace")), path);
    assert_string_equal(json_string_value(json_object_get(page_run(&page, 1), "trace")), other);
    check_run(&page, 0, plan.sources[0].run);
    struct mt_trace *first = trace;
    trace = other_trace;
    check_run(&page, 1, plan.sources[1].run);
    trace = first;
    page_release(&page);
    mt_trace_close(other_trace);
    fixture_remove(other);
}

static void a_run_without_events_has_empty_tables(void **state)
{
    (void)state;
    fixture_record(path, seed, 0);
    struct page page = page_of_run(NULL);
    static const char *const tables[] = {"events", "sizes", "segments", "knots", "blocks", "marks"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        assert_int_equal(page_number(page_table(&page, 0, tables[i]), "rows"), 0);
    assert_int_equal(page_number(page_table(&page, 0, "labels"), "rows"), 1);
    assert_null(page_table(&page, 0, "uses"));
    assert_null(page_table(&page, 0, "kernels"));
    assert_null(page_table(&page, 0, "program_phases"));
    assert_int_equal(json_object_size(json_object_get(page_run(&page, 0), "peaks")), 0);
    page_release(&page);
}

static void uses_that_nobody_told_are_absent(void **state)
{
    (void)state;
    fixture_record(path, seed, FEW_EVENTS);
    edit_trace(path, "DELETE FROM block_use");
    struct page page = page_of_run(NULL);
    assert_null(page_table(&page, 0, "uses"));
    page_release(&page);
}

static void a_block_has_its_call_stack(void **state)
{
    (void)state;
    fixture_record(path, seed, FEW_EVENTS);
    edit_trace(path, "DELETE FROM frame; DELETE FROM stack; UPDATE event SET stack = NULL");
    edit_trace(path, "INSERT INTO frame VALUES (1, 1, 'main', 'train.py', 7), (1, 2, 'forward', 'model.py', 9)");
    edit_trace(path, "INSERT INTO stack VALUES (1, 1, 0, 1), (1, 2, 1, 2)");
    edit_trace(path, "UPDATE event SET stack = 2 WHERE id = (SELECT min(id) FROM event WHERE kind = 2)");
    struct page page = page_of_run(NULL);
    static const uint64_t parents[] = {0, 0, 1}, lines[] = {0, 7, 9};
    static const char *const functions[] = {"", "main", "forward"}, *const files[] = {"", "train.py", "model.py"};
    EXPECT_COLUMN(&page, 0, "stacks", "parent", 3, parents[i]);
    EXPECT_COLUMN(&page, 0, "stacks", "line", 3, lines[i]);
    EXPECT_TEXTS(&page, 0, "stacks", "function", 3, "texts", functions[i]);
    EXPECT_TEXTS(&page, 0, "stacks", "file", 3, "texts", files[i]);
    size_t blocks = (size_t)page_number(page_table(&page, 0, "blocks"), "rows");
    EXPECT_COLUMN(&page, 0, "callers", "stack", blocks, i == 0 ? 2 : 0);
    page_release(&page);
    edit_trace(path, "DELETE FROM stack");
    page = page_of_run(NULL);
    assert_null(page_table(&page, 0, "stacks"));
    assert_null(page_table(&page, 0, "callers"));
    page_release(&page);
}

static void kernels_are_told_by_start(void **state)
{
    (void)state;
    struct mt_recorder *recorder = fixture_open(path, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    struct script script = script_begin(seed, sink);
    script_emit(&script, FEW_EVENTS);
    mt_label_id label = script_label(&script, 0);
    for (uint64_t i = 0; i < 100; i++) {
        uint64_t start = mt_splitmix64(seed + i) % (FEW_EVENTS * 100);
        const struct mt_kernel kernel = {.start_ns = start,
                                         .end_ns = start + i,
                                         .name = i % 2 == 0 ? "exp_kernel(float)" : "void <copy>(\"\")",
                                         .step = MT_NO_STEP,
                                         .label = i % 3 == 0 ? label : 0,
                                         .stream = (uint32_t)(i % 5)};
        sink->kernel(sink->context, &kernel);
    }
    fixture_close(recorder, MT_RUN_DONE);
    struct page page = page_of_run(NULL);
    struct mt_launch_row *rows;
    size_t count;
    assert_int_equal(read_launches(trace, open_run(NULL), &rows, &count), MT_OK);
    assert_int_equal(count, 100);
    EXPECT_COLUMN(&page, 0, "kernels", "start", count, rows[i].start_ns);
    EXPECT_COLUMN(&page, 0, "kernels", "duration", count, rows[i].duration_ns);
    EXPECT_COLUMN(&page, 0, "kernels", "label", count, rows[i].label);
    EXPECT_COLUMN(&page, 0, "kernels", "stream", count, rows[i].stream);
    EXPECT_TEXTS(&page, 0, "kernels", "name", count, "texts", rows[i].name);
    free(rows);
    page_release(&page);
}

static void program_phases_are_told_by_their_first_events(void **state)
{
    (void)state;
    static const mt_program_phase phases[] = {MT_PROGRAM_PHASE_LOAD, MT_PROGRAM_PHASE_TRAIN, MT_PROGRAM_PHASE_LOAD};
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct script script = script_begin(seed, mt_recorder_sink(recorder));
    for (size_t i = 0; i < 3; i++) {
        mt_recorder_program_phase(recorder, phases[i]);
        script_emit(&script, 10);
    }
    mt_recorder_program_phase(recorder, MT_PROGRAM_PHASE_SAVE); /* without an event: not on the page */
    fixture_close(recorder, MT_RUN_DONE);
    struct page page = page_of_run(NULL);
    EXPECT_COLUMN(&page, 0, "program_phases", "event", 3, i * 10);
    EXPECT_TEXTS(&page, 0, "program_phases", "name", 3, "texts", mt_program_phase_name(phases[i]));
    page_release(&page);
}

static void segments_that_were_given_back_end(void **state)
{
    (void)state;
    struct mt_recorder *recorder = fixture_open(path, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    static const mt_event_kind kinds[] = {MT_EVENT_SEGMENT_MAP, MT_EVENT_SEGMENT_MAP, MT_EVENT_SEGMENT_UNMAP};
    for (uint64_t i = 0; i < 3; i++) {
        const struct mt_event event = {.sequence = i,
                                       .kind = (uint16_t)kinds[i],
                                       .segment_address = (i % 2 + 1) << 46,
                                       .block_bytes = UINT64_C(5) << 32,
                                       .segment = (uint32_t)(i % 2)};
        sink->emit(sink->context, &event);
    }
    fixture_close(recorder, MT_RUN_DONE);
    struct page page = page_of_run(NULL);
    EXPECT_COLUMN(&page, 0, "segments", "life", 2, i == 0 ? 2 : 0);
    EXPECT_COLUMN(&page, 0, "segments", "address", 2, (i + 1) << 46);
    EXPECT_COLUMN(&page, 0, "segments", "bytes", 2, UINT64_C(5) << 32);
    assert_null(page_table(&page, 0, "parts")); /* they were whole */
    page_release(&page);
}

/* Times of four days, offsets of 2^50 bytes, and a refused request of 2^60 bytes. */
static void what_six_bytes_do_not_hold_is_counted_in_larger_units(void **state)
{
    (void)state;
    fixture_record(path, seed, FEW_EVENTS);
    edit_trace(path, "UPDATE event SET time_ns = time_ns + 345600000000000;" /* four days */
                     "UPDATE event SET offset = offset + (1 << 50) WHERE offset IS NOT NULL AND kind = 2;"
                     "UPDATE event SET requested_bytes = 1 << 60 WHERE kind = 4");
    struct page page = page_of_run(NULL);
    struct material all = read_material(open_run(NULL));
    assert_int_equal(page_number(page_run(&page, 0), "time_unit_ns"), 1000);
    EXPECT_COLUMN(&page, 0, "events", "time", (size_t)all.run->event_count, all.times[i] / 1000);
    EXPECT_COLUMN(&page, 0, "blocks", "offset", all.block_count, all.blocks[i].offset);
    EXPECT_COLUMN(&page, 0, "marks", "value", all.mark_count,
                  all.marks[i].kind == MT_EVENT_OOM ? (UINT64_C(1) << 48) - 1 : all.marks[i].value);
    release_material(&all);
    page_release(&page);
}

static void a_clock_that_falls_stands_still(void **state)
{
    (void)state;
    fixture_record(path, seed, FEW_EVENTS);
    edit_trace(path, "UPDATE event SET time_ns = 100 * 500 WHERE id BETWEEN 1002 AND 1100");
    struct page page = page_of_run(NULL);
    EXPECT_COLUMN(&page, 0, "events", "time", FEW_EVENTS, i > 1000 && i < 1100 ? 100000 : i * 100);
    page_release(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_column_is_what_the_trace_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trace_that_is_no_longer_at_its_path_is_read_all_the_same, set_up, tear_down),
        cmocka_unit_test_setup_teardown(blocks_add_up_to_the_peak, set_up, tear_down),
        cmocka_unit_test_setup_teardown(two_runs_share_their_texts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_without_events_has_empty_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(uses_that_nobody_told_are_absent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_block_has_its_call_stack, set_up, tear_down),
        cmocka_unit_test_setup_teardown(kernels_are_told_by_start, set_up, tear_down),
        cmocka_unit_test_setup_teardown(program_phases_are_told_by_their_first_events, set_up, tear_down),
        cmocka_unit_test_setup_teardown(segments_that_were_given_back_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_six_bytes_do_not_hold_is_counted_in_larger_units, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_clock_that_falls_stands_still, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
