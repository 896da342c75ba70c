/* The fixture of tests of a trace's blocks: a trace of random runs, with the events as they were emitted, and a
 * folder. */
#pragma once

#include "folder.h"
#include "seed.h"
#include "synthetic.h"
#include "trace/query/blocks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

enum { RUNS = 2 };

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

static inline void witness_emit(void *context, const struct mt_event *event)
{
    struct witness *witness = context;
    if (witness->count == witness->capacity) {
        witness->capacity = witness->capacity * 2 + 1024;
        witness->events = mt_host_resize(witness->events, witness->capacity, sizeof *event);
    }
    witness->events[witness->count++] = *event;
    witness->behind->emit(witness->behind->context, event);
}

static inline mt_label_id witness_label(void *context, const struct mt_label *label)
{
    const struct mt_sink *behind = ((struct witness *)context)->behind;
    return behind->intern_label(behind->context, label);
}

static inline mt_span_id witness_span(void *context, mt_span_id parent, const char *name)
{
    const struct mt_sink *behind = ((struct witness *)context)->behind;
    return behind->intern_span(behind->context, parent, name);
}

static inline void witness_begin(struct witness *witness, const struct mt_sink *behind)
{
    *witness = (struct witness){.behind = behind};
    witness->sink = (struct mt_sink){
        .context = witness, .emit = witness_emit, .intern_label = witness_label, .intern_span = witness_span};
}

static inline void emit_marks(struct synthetic *run, uint64_t seed)
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
static inline void emit_unmap(struct synthetic *run)
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

static inline void begin_run(struct synthetic *run, struct witness *witness, const char *path, uint64_t seed)
{
    assert_int_equal(synthetic_open(run, path, NULL, seed, 5 + seed % 40), MT_OK);
    witness_begin(witness, run->sink);
    run->sink = &witness->sink;
}

/* Steps of some thousand events, so that there are checkpoints. */
static inline void emit_run(struct synthetic *run, uint64_t seed)
{
    synthetic_move(run, seed % 50, 20);
    for (uint64_t step = 0; step < 2 + seed % 3; step++) {
        synthetic_step(run, step, 5000 + seed % 3000, 30 + seed % 60);
        if (step == 0)
            emit_unmap(run);
        emit_marks(run, seed + step);
    }
}

static inline void record_run(const char *path, struct witness *witness, uint64_t seed)
{
    struct synthetic run;
    begin_run(&run, witness, path, seed);
    emit_run(&run, seed);
    assert_int_equal(synthetic_close(&run), MT_OK);
}

static inline void open_trace(struct fixture *fixture)
{
    size_t count;
    if (mt_trace_open(fixture->path, &fixture->trace) != MT_OK)
        fail_msg("%s", mt_last_error());
    fixture->runs = mt_trace_runs(fixture->trace, &count);
    assert_int_equal(count, RUNS);
}

static inline void name_trace(struct fixture *fixture, const char *what)
{
    *fixture = (struct fixture){.seed = take_seed()};
    snprintf(fixture->path, sizeof fixture->path, "test_blocks_%s_%d.db", what, (int)getpid());
    unlink(fixture->path);
}

static inline int set_up(void **state)
{
    struct fixture *fixture = mt_host_alloc(sizeof *fixture);
    name_trace(fixture, "random");
    for (int i = 0; i < RUNS; i++)
        record_run(fixture->path, &fixture->witness[i], fixture->seed + (uint64_t)i);
    open_trace(fixture);
    *state = fixture;
    return 0;
}

static inline void clean_up(struct fixture *fixture)
{
    mt_trace_close(fixture->trace);
    unlink(fixture->path);
    for (int i = 0; i < RUNS; i++)
        free(fixture->witness[i].events);
}

static inline int tear_down(void **state)
{
    clean_up(*state);
    free(*state);
    return 0;
}

static inline int64_t id_of(const struct mt_run *run, size_t event)
{
    return run->first_event + (int64_t)event;
}

static inline int64_t draw_event(struct fixture *fixture, int run)
{
    static uint64_t draws;
    uint64_t drawn = mt_splitmix64(fixture->seed + ++draws * 7919) % (uint64_t)fixture->runs[run].event_count;
    return id_of(&fixture->runs[run], drawn);
}

static inline void check_peak(struct mt_trace *trace, const struct mt_run *run)
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

#define RANDOM_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
