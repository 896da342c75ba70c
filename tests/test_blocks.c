/* Blocks, labels, segments and marks of random runs, against the events as they were emitted; and what damaged traces say,
 * which may lead nowhere. */
#include "folder.h"
#include "recording.h"
#include "synthetic.h"
#include "trace/blocks.h"

#include <inttypes.h>
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { RUNS = 2, PROBES = 12 };

/* A sink before another one that keeps what goes through. */
struct witness {
    const struct mt_sink *behind;
    struct mt_sink sink;
    struct mt_event *events;
    size_t count, capacity;
};

/* The runs of a trace, each with what was emitted. */
struct fixture {
    char path[64];
    uint64_t seed;
    struct witness witness[RUNS];
    struct mt_trace *trace;
    const struct mt_run *runs;
};

static void witness_emit(void *context, const struct mt_event *event)
{
    struct witness *witness = context;
    if (witness->count == witness->capacity) {
        witness->capacity = witness->capacity * 2 + 1024;
        witness->events = mt_host_resize(witness->events, witness->capacity, sizeof *event);
    }
    witness->events[witness->count++] = *event;
    witness->behind->emit(witness->behind->context, event);
}

static mt_label_id witness_label(void *context, const struct mt_label *label)
{
    const struct mt_sink *behind = ((struct witness *)context)->behind;
    return behind->intern_label(behind->context, label);
}

static mt_span_id witness_span(void *context, mt_span_id parent, const char *name)
{
    const struct mt_sink *behind = ((struct witness *)context)->behind;
    return behind->intern_span(behind->context, parent, name);
}

static void witness_begin(struct witness *witness, const struct mt_sink *behind)
{
    *witness = (struct witness){.behind = behind};
    witness->sink = (struct mt_sink){
        .context = witness, .emit = witness_emit, .intern_label = witness_label, .intern_span = witness_span};
}

static void emit_marks(struct synthetic *run, uint64_t seed)
{
    mt_span_id span = run->sink->intern_span(run->sink->context, 0, "epilogue");
    synthetic_emit(run, (struct mt_event){.kind = MT_EVENT_SPAN_BEGIN, .span = span});
    synthetic_emit(run, (struct mt_event){.kind = MT_EVENT_PHASE, .value = seed % MT_PHASE_COUNT});
    synthetic_emit(run, (struct mt_event){.kind = MT_EVENT_SPAN_END, .span = span});
    synthetic_emit(run, (struct mt_event){.kind = MT_EVENT_OOM,
                                          .requested_bytes = seed % 1000000,
                                          .label = run->labels[0],
                                          .span = seed % 2 == 0 ? span : 0});
}

/* Gives the first segment back, from its middle on: its slots must be free, and are lost. */
static void emit_unmap(struct synthetic *run)
{
    while (run->live_count > 0)
        synthetic_give(run);
    for (uint64_t i = 0; i < SYNTHETIC_SLOTS_A_SEGMENT; i++)
        synthetic_emit_slot(run, MT_EVENT_SEGMENT_UNMAP, (i + 1) % SYNTHETIC_SLOTS_A_SEGMENT);
    size_t kept = 0;
    for (size_t i = 0; i < run->free_count; i++)
        if (run->free_slots[i] >= SYNTHETIC_SLOTS_A_SEGMENT)
            run->free_slots[kept++] = run->free_slots[i];
    run->free_count = kept;
}

static void begin_run(struct synthetic *run, struct witness *witness, const char *path, uint64_t seed)
{
    assert_int_equal(synthetic_open(run, path, NULL, seed, 5 + seed % 40), MT_OK);
    witness_begin(witness, run->sink);
    run->sink = &witness->sink;
}

/* Steps of some thousand events, so that there are checkpoints. */
static void emit_run(struct synthetic *run, uint64_t seed)
{
    synthetic_move(run, seed % 50, 20);
    for (uint64_t step = 0; step < 2 + seed % 3; step++) {
        synthetic_step(run, step, 5000 + seed % 3000, 30 + seed % 60);
        if (step == 0)
            emit_unmap(run);
        emit_marks(run, seed + step);
    }
}

static void record_run(const char *path, struct witness *witness, uint64_t seed)
{
    struct synthetic run;
    begin_run(&run, witness, path, seed);
    emit_run(&run, seed);
    assert_int_equal(synthetic_close(&run), MT_OK);
}

static void open_trace(struct fixture *fixture)
{
    size_t count;
    if (mt_trace_open(fixture->path, &fixture->trace) != MT_OK)
        fail_msg("%s", mt_last_error());
    fixture->runs = mt_trace_runs(fixture->trace, &count);
    assert_int_equal(count, RUNS);
}

static void name_trace(struct fixture *fixture, const char *what)
{
    static uint64_t seed;
    if (seed == 0)
        seed = (uint64_t)getpid();
    seed = mt_splitmix64(seed) >> 32;
    *fixture = (struct fixture){.seed = seed};
    print_message("seed %" PRIu64 "\n", seed);
    snprintf(fixture->path, sizeof fixture->path, "test_blocks_%s_%d.db", what, (int)getpid());
    unlink(fixture->path);
}

static int set_up(void **state)
{
    struct fixture *fixture = mt_host_alloc(sizeof *fixture);
    name_trace(fixture, "random");
    for (int i = 0; i < RUNS; i++)
        record_run(fixture->path, &fixture->witness[i], fixture->seed + (uint64_t)i);
    open_trace(fixture);
    *state = fixture;
    return 0;
}

static void clean_up(struct fixture *fixture)
{
    mt_trace_close(fixture->trace);
    unlink(fixture->path);
    for (int i = 0; i < RUNS; i++)
        free(fixture->witness[i].events);
}

static int tear_down(void **state)
{
    clean_up(*state);
    free(*state);
    return 0;
}

static int64_t id_of(const struct mt_run *run, size_t event)
{
    return run->first_event + (int64_t)event;
}

/* The block that an alloc event begins, freed by the next free of its address, found by looking for it. */
static struct mt_block_row expected_block(const struct witness *witness, const struct mt_run *run, size_t alloc)
{
    const struct mt_event *event = &witness->events[alloc];
    struct mt_block_row block = {.alloc_event = id_of(run, alloc),
                                 .alloc_ns = event->time_ns,
                                 .requested_bytes = event->requested_bytes,
                                 .block_bytes = event->block_bytes,
                                 .offset = event->offset,
                                 .segment = event->segment,
                                 .label = mt_label_number(event->label),
                                 .stream = event->stream};
    for (size_t i = alloc + 1; i < witness->count && i < (size_t)run->event_count; i++) {
        if (witness->events[i].kind != MT_EVENT_FREE || witness->events[i].address != event->address)
            continue;
        block.free_event = id_of(run, i);
        block.free_ns = witness->events[i].time_ns;
        break;
    }
    return block;
}

static void expect_block(const struct mt_block_row *found, const struct mt_block_row *expected)
{
    assert_int_equal(found->alloc_event, expected->alloc_event);
    assert_int_equal(found->free_event, expected->free_event);
    assert_int_equal(found->alloc_ns, expected->alloc_ns);
    assert_int_equal(found->free_ns, expected->free_ns);
    assert_int_equal(found->requested_bytes, expected->requested_bytes);
    assert_int_equal(found->block_bytes, expected->block_bytes);
    assert_int_equal(found->offset, expected->offset);
    assert_int_equal(found->segment, expected->segment);
    assert_int_equal(found->label, expected->label);
    assert_int_equal(found->stream, expected->stream);
}

/* The blocks live at some moment of [first, last], in order. */
static void expect_blocks(const struct witness *witness, const struct mt_run *run, int64_t first, int64_t last,
                          const struct mt_block_row *found, size_t count)
{
    size_t next = 0;
    for (size_t i = 0; i < witness->count && id_of(run, i) <= last; i++) {
        if (witness->events[i].kind != MT_EVENT_ALLOC)
            continue;
        struct mt_block_row expected = expected_block(witness, run, i);
        if (expected.free_event != 0 && expected.free_event < first)
            continue;
        if (expected.free_event > last)
            expected.free_event = 0, expected.free_ns = 0;
        assert_true(next < count);
        expect_block(&found[next++], &expected);
    }
    assert_int_equal(next, count);
}

static void check_window(struct fixture *fixture, int run, int64_t first, int64_t last)
{
    struct mt_block_row *rows;
    size_t count;
    assert_int_equal(mt_trace_blocks(fixture->trace, &fixture->runs[run], first, last, &rows, &count), MT_OK);
    expect_blocks(&fixture->witness[run], &fixture->runs[run], first, last, rows, count);
    free(rows);
}

static void check_whole_run(struct fixture *fixture, int run)
{
    const struct mt_run *found = &fixture->runs[run];
    int64_t last = found->first_event + found->event_count - 1;
    check_window(fixture, run, found->first_event, last);
}

static void check_live(struct fixture *fixture, int run, int64_t event)
{
    struct mt_block_row *rows;
    size_t count;
    assert_int_equal(mt_trace_live(fixture->trace, &fixture->runs[run], event, &rows, &count), MT_OK);
    /* What is live after an event is what was live at some moment between it and the next. */
    int64_t between = event + 1;
    size_t next = 0;
    for (size_t i = 0; i < fixture->witness[run].count && id_of(&fixture->runs[run], i) <= event; i++) {
        if (fixture->witness[run].events[i].kind != MT_EVENT_ALLOC)
            continue;
        struct mt_block_row expected = expected_block(&fixture->witness[run], &fixture->runs[run], i);
        if (expected.free_event != 0 && expected.free_event < between)
            continue;
        expected.free_event = 0, expected.free_ns = 0;
        assert_true(next < count);
        expect_block(&rows[next++], &expected);
    }
    assert_int_equal(next, count);
    free(rows);
}

static int64_t draw_event(struct fixture *fixture, int run)
{
    static uint64_t draws;
    uint64_t drawn = mt_splitmix64(fixture->seed + ++draws * 7919) % (uint64_t)fixture->runs[run].event_count;
    return id_of(&fixture->runs[run], drawn);
}

static void blocks_of_a_run_are_its_allocations_with_their_frees(void **state)
{
    for (int run = 0; run < RUNS; run++)
        check_whole_run(*state, run);
}

static void blocks_of_a_window_are_those_that_were_live_in_it(void **state)
{
    struct fixture *fixture = *state;
    for (int probe = 0; probe < PROBES; probe++) {
        int run = probe % RUNS;
        int64_t a = draw_event(fixture, run), b = draw_event(fixture, run);
        check_window(fixture, run, a < b ? a : b, a < b ? b : a);
        check_window(fixture, run, a, a);
    }
}

static void a_window_beyond_the_run_is_cut_to_it(void **state)
{
    struct fixture *fixture = *state;
    for (int run = 0; run < RUNS; run++) {
        struct mt_block_row *rows;
        size_t count;
        const struct mt_run *found = &fixture->runs[run];
        assert_int_equal(mt_trace_blocks(fixture->trace, found, INT64_MIN, INT64_MAX, &rows, &count), MT_OK);
        expect_blocks(&fixture->witness[run], found, found->first_event, INT64_MAX, rows, count);
        free(rows);
        int64_t end = found->first_event + found->event_count;
        assert_int_equal(mt_trace_blocks(fixture->trace, found, end, end + 5, &rows, &count), MT_OK);
        assert_int_equal(count, 0);
        free(rows);
    }
}

static void live_blocks_are_those_between_two_events(void **state)
{
    struct fixture *fixture = *state;
    for (int probe = 0; probe < PROBES; probe++)
        check_live(fixture, probe % RUNS, draw_event(fixture, probe % RUNS));
    for (int run = 0; run < RUNS; run++) {
        check_live(fixture, run, fixture->runs[run].first_event - 1);
        check_live(fixture, run, INT64_MAX - 1);
    }
}

static void check_peak(struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_peak_row peak;
    struct mt_block_row *rows;
    size_t count;
    uint64_t sum = 0;
    assert_int_equal(mt_trace_peak(trace, run, MT_MEASURE_ALLOCATED, &peak), MT_OK);
    assert_int_equal(mt_trace_live(trace, run, peak.event, &rows, &count), MT_OK);
    for (size_t i = 0; i < count; i++)
        sum += rows[i].block_bytes;
    assert_true(sum > 0);
    assert_int_equal(sum, peak.bytes);
    free(rows);
    mt_peak_row_release(&peak);
}

static void live_blocks_at_the_peak_sum_to_it(void **state)
{
    struct fixture *fixture = *state;
    for (int run = 0; run < RUNS; run++)
        check_peak(fixture->trace, &fixture->runs[run]);
}

static void labels_say_what_their_numbers_stand_for(void **state)
{
    struct fixture *fixture = *state;
    struct mt_label_row *labels;
    size_t count;
    assert_int_equal(mt_trace_labels(fixture->trace, &fixture->runs[1], &labels, &count), MT_OK);
    assert_string_equal(labels[0].category, "");
    assert_string_equal(labels[0].place, "");
    const struct witness *witness = &fixture->witness[1];
    const char *named[MT_MOST_CATEGORIES] = {0}; /* what those that are not ours are called, as it shows */
    for (size_t i = 0; i < witness->count; i++) {
        if (witness->events[i].kind != MT_EVENT_ALLOC)
            continue;
        assert_in_range(mt_label_number(witness->events[i].label), 1, count - 1);
        const struct mt_label_row *label = &labels[mt_label_number(witness->events[i].label)];
        mt_category category = mt_label_category(witness->events[i].label);
        if (category >= MT_CATEGORY_COUNT && named[category] == NULL)
            named[category] = label->category;
        assert_string_equal(label->category,
                            category < MT_CATEGORY_COUNT ? mt_category_name(category) : named[category]);
        assert_int_equal(strstr(label->place, ".*.") != NULL, label->layer >= 0);
        assert_true(label->layer >= 0 || label->place == label->span);
    }
    for (int i = MT_CATEGORY_COUNT + 1; i < MT_MOST_CATEGORIES; i++)
        if (named[i] != NULL && named[i - 1] != NULL)
            assert_string_not_equal(named[i], named[i - 1]);
    free(labels);
}

static void segments_are_those_that_were_mapped(void **state)
{
    struct fixture *fixture = *state;
    for (int run = 0; run < RUNS; run++) {
        struct mt_segment_row *rows;
        size_t count, next = 0;
        const struct mt_run *found = &fixture->runs[run];
        assert_int_equal(mt_trace_segments(fixture->trace, found, &rows, &count), MT_OK);
        assert_int_equal(rows[1].unmapped_event, 0);
        for (size_t i = 0; i < fixture->witness[run].count; i++) {
            const struct mt_event *event = &fixture->witness[run].events[i];
            bool is_last = event->offset == 0; /* as they are given back */
            if (event->kind == MT_EVENT_SEGMENT_UNMAP && is_last)
                assert_int_equal(rows[event->segment].unmapped_event, id_of(found, i));
            if (event->kind != MT_EVENT_SEGMENT_MAP || event->offset != 0)
                continue;
            assert_true(next < count);
            assert_int_equal(rows[next].number, event->segment);
            assert_int_equal(rows[next].address, event->address);
            assert_int_equal(rows[next++].mapped_event, id_of(found, i));
        }
        for (size_t i = 0; i + 1 < count; i++)
            assert_int_equal(rows[i].bytes, SYNTHETIC_SLOTS_A_SEGMENT * SYNTHETIC_SLOT_BYTES);
        assert_int_equal(next, count);
        free(rows);
    }
}

static const char *expected_span(const struct mt_event *event, const struct mt_label_row *labels)
{
    if (event->span != 0)
        return "epilogue";
    return event->kind == MT_EVENT_OOM ? labels[mt_label_number(event->label)].span : "";
}

static void check_marks(struct fixture *fixture, int run, int64_t first, int64_t last)
{
    struct mt_mark_row *marks;
    struct mt_label_row *labels;
    size_t count, label_count, next = 0;
    const struct mt_run *found = &fixture->runs[run];
    assert_int_equal(mt_trace_marks(fixture->trace, found, first, last, &marks, &count), MT_OK);
    assert_int_equal(mt_trace_labels(fixture->trace, found, &labels, &label_count), MT_OK);
    for (size_t i = 0; i < fixture->witness[run].count; i++) {
        const struct mt_event *event = &fixture->witness[run].events[i];
        if (event->kind < MT_EVENT_OOM || id_of(found, i) < first || id_of(found, i) > last)
            continue;
        assert_true(next < count);
        assert_int_equal(marks[next].event, id_of(found, i));
        assert_int_equal(marks[next].time_ns, event->time_ns);
        assert_int_equal(marks[next].kind, event->kind);
        assert_int_equal(marks[next].value, event->value);
        assert_int_equal(marks[next].label, mt_label_number(event->label));
        assert_string_equal(marks[next++].span, expected_span(event, labels));
    }
    assert_int_equal(next, count);
    free(marks);
    free(labels);
}

static void marks_are_all_that_is_not_about_memory(void **state)
{
    struct fixture *fixture = *state;
    for (int run = 0; run < RUNS; run++) {
        int64_t a = draw_event(fixture, run), b = draw_event(fixture, run);
        check_marks(fixture, run, INT64_MIN, INT64_MAX);
        check_marks(fixture, run, a < b ? a : b, a < b ? b : a);
    }
}

static void a_run_that_is_still_being_written_is_answered_for_as_well(void **state)
{
    (void)state;
    struct fixture live;
    struct synthetic run;
    name_trace(&live, "live");
    record_run(live.path, &live.witness[0], live.seed);
    begin_run(&run, &live.witness[1], live.path, live.seed + 1);
    emit_run(&run, live.seed + 1);
    assert_int_equal(live.witness[1].behind->flush(live.witness[1].behind->context), MT_OK);
    open_trace(&live);
    synthetic_step(&run, 99, 5000, 200); /* what came after the opening is not spoken of */
    assert_int_equal(live.witness[1].behind->flush(live.witness[1].behind->context), MT_OK);
    live.witness[1].count = (size_t)live.runs[1].event_count;
    check_whole_run(&live, 1);
    check_live(&live, 1, draw_event(&live, 1));
    check_marks(&live, 1, INT64_MIN, INT64_MAX);
    struct mt_segment_row *segments;
    size_t count, mapped = 0;
    assert_int_equal(mt_trace_segments(live.trace, &live.runs[1], &segments, &count), MT_OK);
    for (size_t i = 0; i < live.witness[1].count; i++)
        mapped += live.witness[1].events[i].kind == MT_EVENT_SEGMENT_MAP && live.witness[1].events[i].offset == 0;
    assert_int_equal(count, mapped);
    free(segments);
    assert_int_equal(synthetic_close(&run), MT_OK);
    clean_up(&live);
}

/* A small run of the eager model, its events and labels kept and recorded. */
struct training {
    struct mt_recorder *recorder;
    struct recording kept;
};

static void train_emit(void *context, const struct mt_event *event)
{
    struct training *training = context;
    const struct mt_sink *sink = mt_recorder_sink(training->recorder);
    recording_emit(&training->kept, event);
    sink->emit(sink->context, event);
}

static mt_label_id train_label(void *context, const struct mt_label *label)
{
    struct training *training = context;
    const struct mt_sink *sink = mt_recorder_sink(training->recorder);
    recording_label(&training->kept, label);
    return sink->intern_label(sink->context, label);
}

static mt_span_id train_span(void *context, mt_span_id parent, const char *name)
{
    struct training *training = context;
    const struct mt_sink *sink = mt_recorder_sink(training->recorder);
    recording_span(&training->kept, parent, name);
    return sink->intern_span(sink->context, parent, name);
}

static void train(struct training *training, const char *path)
{
    struct mt_training_config config = mt_training_config_default();
    config.model = (struct mt_model_config){
        .name = "custom", .vocab = 97, .d_model = 40, .d_ff = 72, .layers = 3, .heads = 5, .rope = true};
    config.autocast = true;
    config.batch = 3, config.seq = 13;
    struct mt_run_info info = {.device = "sim", .capacity_bytes = 1u << 30};
    struct mt_sink sink = {
        .context = training, .emit = train_emit, .intern_label = train_label, .intern_span = train_span};
    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_alloc_settings settings;
    recording_open(&training->kept);
    assert_int_equal(mt_recorder_open(path, &info, &training->recorder), MT_OK);
    assert_int_equal(mt_alloc_settings_parse("policy=torch", &settings), MT_OK);
    assert_int_equal(mt_device_open("sim:1GiB", &device), MT_OK);
    assert_int_equal(mt_alloc_create(device, &sink, &settings, &alloc), MT_OK);
    assert_int_equal(mt_training_run(device, alloc, &config, NULL), MT_OK);
    mt_alloc_destroy(alloc);
    mt_device_close(device);
    assert_int_equal(mt_recorder_close(training->recorder, MT_RUN_DONE), MT_OK);
}

static void expect_shape(const char *shape, const struct mt_label *label)
{
    char text[128] = "";
    for (int i = 0; i < label->dims; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%" PRId64, i == 0 ? "" : ",", label->shape[i]);
    assert_string_equal(shape, text);
}

static void expect_label(const struct mt_label_row *row, const struct mt_label *label, const struct recording *kept)
{
    const struct mt_span *span = mt_interner_find_span(kept->interner, label->span);
    assert_string_equal(row->category, mt_category_name(label->category));
    assert_string_equal(row->role, mt_role_name(label->role));
    assert_string_equal(row->op, label->op);
    assert_string_equal(row->phase, mt_phase_name(label->phase));
    assert_string_equal(row->dtype, mt_dtype_name(label->dtype));
    assert_string_equal(row->span, span != NULL ? span->path : "");
    assert_int_equal(row->layer, label->layer);
    assert_int_equal(strstr(row->place, ".layers.*") != NULL, label->layer >= 0);
    expect_shape(row->shape, label);
}

static void every_block_of_an_eager_run_has_the_label_that_it_was_given(void **state)
{
    (void)state;
    struct training training;
    struct fixture eager;
    name_trace(&eager, "eager");
    train(&training, eager.path);
    struct mt_trace *trace;
    const struct mt_run *run;
    struct mt_label_row *labels;
    struct mt_block_row *blocks;
    size_t label_count, block_count;
    if (mt_trace_open(eager.path, &trace) != MT_OK)
        fail_msg("%s", mt_last_error());
    assert_int_equal(mt_trace_find_run(trace, NULL, &run), MT_OK);
    assert_int_equal(mt_trace_labels(trace, run, &labels, &label_count), MT_OK);
    assert_int_equal(mt_trace_blocks(trace, run, 0, INT64_MAX, &blocks, &block_count), MT_OK);
    assert_true(block_count > 1000);
    for (size_t i = 0; i < block_count; i++) {
        const struct mt_event *event = &training.kept.events[blocks[i].alloc_event - run->first_event];
        expect_label(&labels[blocks[i].label], recording_label_of(&training.kept, event), &training.kept);
    }
    check_peak(trace, run);
    free(labels);
    free(blocks);
    recording_close(&training.kept);
    mt_trace_close(trace);
    unlink(eager.path);
}

/* Asks everything about the second run, the first failure is the outcome; *out_freed: blocks that have an end. */
static mt_status ask_everything(struct fixture *fixture, size_t *out_freed)
{
    struct mt_block_row *blocks = NULL, *live = NULL;
    struct mt_label_row *labels = NULL;
    struct mt_segment_row *segments = NULL;
    struct mt_part_row *parts = NULL;
    struct mt_mark_row *marks = NULL;
    const struct mt_run *run = &fixture->runs[1];
    size_t count = 0, rest;
    mt_status status = mt_trace_blocks(fixture->trace, run, INT64_MIN, INT64_MAX, &blocks, &count);
    *out_freed = 0;
    for (size_t i = 0; i < count; i++)
        *out_freed += blocks[i].free_event != 0;
    int64_t last = run->first_event + run->event_count - 1;
    status = mt_status_keep(status, mt_trace_live(fixture->trace, run, last, &live, &rest));
    status = mt_status_keep(status, mt_trace_labels(fixture->trace, run, &labels, &rest));
    status = mt_status_keep(status, mt_trace_segments(fixture->trace, run, &segments, &rest));
    status = mt_status_keep(status, mt_trace_parts(fixture->trace, run, &parts, &rest));
    status = mt_status_keep(status, mt_trace_marks(fixture->trace, run, INT64_MIN, INT64_MAX, &marks, &rest));
    free(blocks);
    free(live);
    free(labels);
    free(segments);
    free(parts);
    free(marks);
    return status;
}

/* The newest event of a kind, in SQL. */
#define NEWEST(kind) " WHERE id = (SELECT max(id) FROM event WHERE kind = " #kind ")"

/* What is done to the trace, and what is said of it then; `lost_frees`: blocks that lose their end by it. */
static const struct {
    const char *damage;
    mt_status status;
    size_t lost_frees;
} damages[] = {
    {"UPDATE event SET label = 16777215" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET label = -1" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET label = NULL" NEWEST(2), MT_OK, 0},
    {"UPDATE event SET requested_bytes = -5" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET block_bytes = -512" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET block_bytes = 0" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET requested_bytes = 1, block_bytes = 9223372036854775807" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET block_bytes = 1 << 56 WHERE kind = 2", MT_BAD_TRACE, 0},
    {"UPDATE event SET offset = -1" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET segment = 4294967296" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET segment = 1000000" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET stream = 65536" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET time_ns = -1" NEWEST(2), MT_BAD_TRACE, 0},
    {"UPDATE event SET allocation = NULL" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET allocation = -1" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET allocation = id" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET allocation = (SELECT min(id) FROM event WHERE kind = 2)" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET time_ns = -1" NEWEST(3), MT_BAD_TRACE, 0},
    {"UPDATE event SET kind = 77" NEWEST(3), MT_OK, 1},
    {"UPDATE event SET requested_bytes = 5" NEWEST(9), MT_BAD_TRACE, 0},
    {"UPDATE event SET label = 16777215" NEWEST(4), MT_BAD_TRACE, 0},
    {"DELETE FROM label WHERE run = 2 AND id = 1", MT_BAD_TRACE, 0},
    {"UPDATE label SET id = -1 WHERE run = 2 AND id = 1", MT_BAD_TRACE, 0},
    {"UPDATE label SET id = 9000000000 WHERE run = 2 AND id = 2", MT_BAD_TRACE, 0},
    {"UPDATE label SET layer = 9000000000 WHERE run = 2 AND id = 1", MT_BAD_TRACE, 0},
    {"UPDATE label SET span = 999 WHERE run = 2 AND id = 1", MT_OK, 0},
    {"UPDATE label SET category = x'ff00' WHERE run = 2 AND id = 1", MT_OK, 0},
    {"DELETE FROM segment WHERE run = 2 AND id = 1", MT_BAD_TRACE, 0},
    {"UPDATE segment SET stream = -1 WHERE run = 2 AND id = 0", MT_BAD_TRACE, 0},
    {"UPDATE segment SET bytes = -1 WHERE run = 2 AND id = 0", MT_BAD_TRACE, 0},
    {"UPDATE segment SET mapped_event = 1 WHERE run = 2 AND id = 0", MT_BAD_TRACE, 0},
    {"UPDATE checkpoint SET live = x'ff' WHERE run = 2", MT_BAD_TRACE, 0},
    {"UPDATE checkpoint SET live = x'0000' WHERE run = 2", MT_BAD_TRACE, 0},
    {"UPDATE checkpoint SET live = x'ffffffff7f' WHERE run = 2", MT_BAD_TRACE, 0},
    {"UPDATE checkpoint SET live = x'ffffffffffffffff7f' WHERE run = 2", MT_BAD_TRACE, 0},
};

static void execute(const char *path, const char *sql)
{
    sqlite3 *database;
    char *error = NULL;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    if (sqlite3_exec(database, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", sql, error);
    sqlite3_close(database);
}

/* A copy of the trace beside it, damaged and opened. */
static void open_damaged(const struct fixture *whole, const char *damage, struct fixture *out)
{
    char copy[128];
    *out = (struct fixture){0};
    snprintf(out->path, sizeof out->path, "test_blocks_damaged_%d.db", (int)getpid());
    unlink(out->path);
    snprintf(copy, sizeof copy, "VACUUM INTO '%s'", out->path);
    execute(whole->path, copy);
    execute(out->path, damage);
    open_trace(out);
}

static void a_damaged_trace_leads_nowhere(void **state)
{
    struct fixture *whole = *state, damaged;
    size_t freed, freed_before;
    assert_int_equal(ask_everything(whole, &freed_before), MT_OK);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        open_damaged(whole, damages[i].damage, &damaged);
        mt_status status = ask_everything(&damaged, &freed);
        if (status != damages[i].status || (status == MT_OK && freed + damages[i].lost_frees != freed_before))
            fail_msg("%s: status %d (%s), %zu blocks freed of %zu", damages[i].damage, status, mt_last_error(), freed,
                     freed_before);
        clean_up(&damaged);
    }
}

static void a_run_whose_events_have_no_numbers_is_damaged(void **state)
{
    static const char *const cases[] = {"first_event = 9223372036854775807",
                                        "event_count = -1",
                                        "first_event = -5",
                                        "event_count = 9223372036854775807",
                                        "event_count = 4000000000000",
                                        "event_count = event_count + 1",
                                        "first_event = first_event + 1"};
    struct fixture *whole = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fixture damaged = {.path = "test_blocks_numbers.db"};
        char copy[128], damage[128];
        snprintf(copy, sizeof copy, "VACUUM INTO '%s'", damaged.path);
        snprintf(damage, sizeof damage, "UPDATE run SET %s WHERE id = 2", cases[i]);
        unlink(damaged.path);
        execute(whole->path, copy);
        execute(damaged.path, damage);
        assert_int_equal(mt_trace_open(damaged.path, &damaged.trace), MT_BAD_TRACE);
        unlink(damaged.path);
    }
}

#define RANDOM_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static int enter(void **state)
{
    *state = enter_folder("test_blocks");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANDOM_TEST(blocks_of_a_run_are_its_allocations_with_their_frees),
        RANDOM_TEST(blocks_of_a_window_are_those_that_were_live_in_it),
        RANDOM_TEST(a_window_beyond_the_run_is_cut_to_it),
        RANDOM_TEST(live_blocks_are_those_between_two_events),
        RANDOM_TEST(live_blocks_at_the_peak_sum_to_it),
        RANDOM_TEST(labels_say_what_their_numbers_stand_for),
        RANDOM_TEST(segments_are_those_that_were_mapped),
        RANDOM_TEST(marks_are_all_that_is_not_about_memory),
        RANDOM_TEST(a_damaged_trace_leads_nowhere),
        RANDOM_TEST(a_run_whose_events_have_no_numbers_is_damaged),
        cmocka_unit_test(a_run_that_is_still_being_written_is_answered_for_as_well),
        cmocka_unit_test(every_block_of_an_eager_run_has_the_label_that_it_was_given),
    };
    return cmocka_run_group_tests(tests, enter, leave_folder);
}
