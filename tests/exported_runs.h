/* Runs for tests of exports: of the model, one that ran out of memory, one with everything that a trace may contain,
 * and an empty one. Each is a trace, exported in every format into the same folder. */
#pragma once

#include "program.h"

#include "synthetic.h"

#include <sqlite3.h>

#define TINY "run --vocab 64 --d-model 16 --d-ff 32 --layers 3 --heads 2 --seq 8 --batch 2 --device sim "

/* The traces, each of one run. */
static const char *const traces[] = {"model.db", "oom.db", "odd.db", "empty.db"};
enum { TRACE_COUNT = 4 };

static inline void expect_success(const struct said *said)
{
    if (said->code != 0)
        fail_msg("exit code %d: %s%s", said->code, said->err, said->out);
}

static inline void emit_mark(struct synthetic *run, mt_event_kind kind, mt_span_id span)
{
    synthetic_emit(run, (struct mt_event){.kind = (uint16_t)kind, .span = span});
}

static inline void run_kernel(struct synthetic *run, uint64_t start_ns, uint64_t end_ns, uint32_t stream,
                              mt_label_id label)
{
    run->sink->kernel(run->sink->context, &(struct mt_kernel){.start_ns = start_ns,
                                                              .end_ns = end_ns,
                                                              .name = "_Z4busyPf",
                                                              .step = MT_NO_STEP,
                                                              .label = label,
                                                              .stream = stream});
}

/* Relabels the newest live block, and allocates one with a call stack, from a span that is not its label's. */
static inline void label_oddly(struct synthetic *run, mt_span_id span)
{
    const struct mt_sink *sink = run->sink;
    const struct mt_frame outer = {.function = "main", .file = "train.py", .line = 40};
    const struct mt_frame inner = {.function = "for\"ward", .file = "model.py", .line = 7};
    struct synthetic_block *block = &run->live[run->live_count - 1];
    block->label = run->labels[block->label == run->labels[0]];
    synthetic_emit_block(run, MT_EVENT_RELABEL, *block);
    synthetic_grow(run);
    uint64_t slot = run->slot_count - 1;
    run->free_count--;
    synthetic_emit(run, (struct mt_event){.kind = MT_EVENT_ALLOC,
                                          .requested_bytes = 100,
                                          .block_bytes = 512,
                                          .segment = (uint32_t)(slot / SYNTHETIC_SLOTS_A_SEGMENT),
                                          .offset = slot % SYNTHETIC_SLOTS_A_SEGMENT * SYNTHETIC_SLOT_BYTES,
                                          .label = run->labels[2],
                                          .span = span,
                                          .stack = mt_sink_stack(sink, mt_sink_stack(sink, 0, &outer), &inner)});
}

/* Spans that do not end in order, or not at all, a step inside a step, a refusal, kernels that overlap, blocks that
 * are never freed, segments that grow, call stacks, labels that change. */
static inline void make_odd_trace(void)
{
    struct synthetic run;
    assert_int_equal(synthetic_open(&run, "odd.db", "odd", 7, 40), MT_OK);
    const struct mt_sink *sink = run.sink;
    mt_span_id outer = sink->intern_span(sink->context, 0, "out\"er.\\\x01"), inner, other;
    inner = sink->intern_span(sink->context, outer, "inner;\xFF");
    other = sink->intern_span(sink->context, 0, "other");
    synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_PHASE, .value = MT_PHASE_FORWARD});
    emit_mark(&run, MT_EVENT_SPAN_BEGIN, outer);
    emit_mark(&run, MT_EVENT_SPAN_BEGIN, inner);
    synthetic_step(&run, 0, 500, 20);
    emit_mark(&run, MT_EVENT_SPAN_END, outer);
    emit_mark(&run, MT_EVENT_SPAN_END, inner);
    emit_mark(&run, MT_EVENT_SPAN_END, other);
    emit_mark(&run, MT_EVENT_SPAN_BEGIN, other);
    synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_STEP_BEGIN, .value = 1});
    synthetic_move(&run, 3000, 100);
    synthetic_emit(&run, (struct mt_event){.kind = MT_EVENT_PHASE, .value = MT_PHASE_BACKWARD});
    synthetic_emit(
        &run,
        (struct mt_event){.kind = MT_EVENT_OOM, .requested_bytes = 1ull << 42, .label = run.labels[0], .span = other});
    label_oddly(&run, other);
    run_kernel(&run, 1000, 2500, 7, run.labels[1]);
    run_kernel(&run, 2000, 2600, 7, 0);
    run_kernel(&run, 2500, 2700, 7, 0);
    run_kernel(&run, 2000, 9000, 13, run.labels[2]);
    assert_true(run.live_count > 10);
    assert_int_equal(synthetic_close(&run), MT_OK);
}

/* The state is for leave_folder. */
static inline int set_up(void **state)
{
    struct synthetic run;
    void *folder = enter_folder("test_export_run");
    expect_success(MEMTRACE(TINY "--steps 2 --trace model.db --name 'the model'"));
    assert_int_equal(MEMTRACE(TINY "--steps 2 --trace oom.db --device sim:4MiB --batch 64")->code, MT_OUT_OF_MEMORY);
    make_odd_trace();
    assert_int_equal(synthetic_open(&run, "empty.db", NULL, 1, 1), MT_OK);
    assert_int_equal(synthetic_close(&run), MT_OK);
    for (int i = 0; i < TRACE_COUNT; i++) {
        expect_success(
            shell("for f in torch pickle perfetto nsys rmm; do \"$M\" export --trace %s --format $f -o %s.$f;"
                  " done; \"$M\" peak --trace %s --json >%s.peak",
                  traces[i], traces[i], traces[i], traces[i]));
    }
    *state = folder;
    return 0;
}

static inline json_t *json_file(const char *trace, const char *end)
{
    char path[64];
    json_error_t error;
    snprintf(path, sizeof path, "%s.%s", trace, end);
    json_t *json = json_load_file(path, 0, &error);
    if (json == NULL)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    return json;
}

static inline int64_t peak_of(const char *trace, const char *measure)
{
    json_t *peak = json_file(trace, "peak");
    int64_t bytes = integer_of(peak, measure);
    json_decref(peak);
    return bytes;
}

static inline sqlite3 *open_database(const char *path)
{
    sqlite3 *database;
    assert_int_equal(sqlite3_open_v2(path, &database, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    return database;
}

/* Runs a statement that returns one number. */
static inline int64_t number_of(const char *path, const char *sql)
{
    sqlite3 *database = open_database(path);
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    sqlite3_close(database);
    return number;
}
