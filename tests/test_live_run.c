/* A run with an allocator and notes, used by many threads. Whatever they do, the stored events describe one program
 * that obeys base/event.h, up to the moment at which the trace ended. */
#include "alloc_opening.h"
#include "base/random.h"
#include "event_shadow.h"
#include "folder.h"
#include "run/live_run.h"
#include "run/thread_spans.h"
#include "seed.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>

enum {
    ALLOCATING = 2,
    NOTING = 2,
    THREADS = ALLOCATING + NOTING,
    ROUNDS = 3000,
    SLOTS = 30,
    DEPTH = 4,
    STEPS_EVERY = 50
};
enum { MIB = 1 << 20, UNIT = 2 * MIB /* the shadow needs whole ones */, CATEGORIES = 12, NOTE_SHIFT = 44 };

#define TRACE "live.db"

struct program {
    struct mt_live_run *run;
    struct mt_thread_spans *spans;
    uint64_t seed;
    mt_span_id span_of[THREADS][DEPTH]; /* by thread and depth, in the trace */
    atomic_int rounds;                  /* of all threads */
};

/* A thread of the program. Invariant: live_bytes are the requested bytes of its live blocks. */
struct actor {
    struct program *program;
    int number;
    uint64_t drawn, live_bytes;
    mt_addr blocks[SLOTS]; /* 0: none */
    uint64_t bytes[SLOTS];
};

static uint64_t draw(struct actor *actor, uint64_t below)
{
    return mt_splitmix64(actor->program->seed * 1000003 + (uint64_t)actor->number * 100019 + actor->drawn++) % below;
}

/* ---- what a thread does ---- */

/* Returns a label whose op is the name of its category. */
static mt_label_id make_label(struct actor *actor)
{
    char name[16];
    const struct mt_sink *sink = mt_live_run_sink(actor->program->run);
    snprintf(name, sizeof name, "mine %d", (int)draw(actor, CATEGORIES));
    const struct mt_label label = {.category = mt_sink_category(sink, name), .op = name, .layer = -1};
    return sink->intern_label(sink->context, &label);
}

static void take_block(struct actor *actor, size_t slot)
{
    const struct mt_alloc_request request = {.bytes = 1 + draw(actor, 4 * MIB), .label = make_label(actor)};
    assert_int_equal(mt_live_run_take(actor->program->run, &request, &actor->blocks[slot]), MT_OK);
    actor->bytes[slot] = request.bytes;
}

static void note_block(struct actor *actor, size_t slot)
{
    const struct mt_foreign_block block = {.address = ((mt_addr)actor->number << NOTE_SHIFT) +
                                                      ((mt_addr)(slot + 1) << (NOTE_SHIFT - 8)),
                                           .requested_bytes = (1 + draw(actor, 3)) * UNIT,
                                           .label = make_label(actor)};
    if (draw(actor, 2) == 0)
        mt_live_note_map(actor->program->run, block.address, block.requested_bytes, 0);
    mt_live_note_take(actor->program->run, &block);
    actor->blocks[slot] = block.address;
    actor->bytes[slot] = block.requested_bytes;
}

static void give(struct actor *actor, size_t slot)
{
    struct mt_live_run *run = actor->program->run;
    if (actor->number < ALLOCATING) {
        assert_true(mt_live_run_give(run, actor->blocks[slot]));
    } else {
        mt_live_note_give(run, actor->blocks[slot]);
        mt_live_note_unmap(run, actor->blocks[slot], actor->bytes[slot]); /* nothing happens to memory that it owned */
    }
    actor->blocks[slot] = 0;
}

static void relabel(struct actor *actor, size_t slot)
{
    bool (*const change)(struct mt_live_run *, mt_addr, mt_label_id, mt_span_id) =
        actor->number < ALLOCATING ? mt_live_run_relabel : mt_live_note_relabel;
    assert_true(change(actor->program->run, actor->blocks[slot], make_label(actor), 0));
}

static void change_block(struct actor *actor)
{
    const size_t slot = draw(actor, SLOTS);
    if (actor->blocks[slot] == 0) {
        (actor->number < ALLOCATING ? take_block : note_block)(actor, slot);
        actor->live_bytes += actor->bytes[slot];
    } else if (draw(actor, 4) == 0) {
        relabel(actor, slot);
    } else {
        actor->live_bytes -= actor->bytes[slot];
        give(actor, slot);
    }
}

static void change_span(struct actor *actor)
{
    struct program *program = actor->program;
    const uint32_t depth = mt_thread_spans_depth(program->spans);
    if (depth == DEPTH || draw(actor, 2) == 0) {
        mt_thread_spans_end(program->spans, (uint32_t)draw(actor, depth + 1));
        return;
    }
    const struct mt_place place = {.span = program->span_of[actor->number][depth], .layer = -1};
    assert_int_equal(mt_thread_spans_begin(program->spans, &place), depth);
    mt_live_run_mark(program->run, MT_EVENT_SPAN_BEGIN, 0, place.span);
}

static void *act(void *given)
{
    struct actor *actor = given;
    struct mt_live_run *run = actor->program->run;
    for (int i = 0; i < ROUNDS; i++) {
        change_block(actor);
        if (draw(actor, 4) == 0)
            change_span(actor);
        if (actor->number == 0 && i % STEPS_EVERY == 0)
            mt_live_run_mark(run, i % (2 * STEPS_EVERY) == 0 ? MT_EVENT_STEP_BEGIN : MT_EVENT_STEP_END, 0, 0);
        if (i % STEPS_EVERY == 7)
            mt_live_run_measure(run, "round", mt_live_note_step(run), i);
        atomic_fetch_add(&actor->program->rounds, 1);
    }
    return NULL; /* with open spans, which end with the thread */
}

/* ---- what was stored ---- */

/* The model: the state of a program that is derived from its events alone. */
struct model {
    const struct program *program;
    struct shadow shadow;
    struct mt_event *events; /* by position in the run */
    int64_t first;
    int depth[THREADS];
    int64_t steps;
    bool in_step;
};

static void check_span(struct model *model, const struct mt_event *event)
{
    int thread = 0;
    for (; thread < THREADS; thread++)
        for (int depth = 0; depth < DEPTH; depth++)
            if (model->program->span_of[thread][depth] == event->span) {
                model->depth[thread] -= event->kind == MT_EVENT_SPAN_END;
                assert_int_equal(model->depth[thread], depth);
                model->depth[thread] += event->kind == MT_EVENT_SPAN_BEGIN;
                return;
            }
    fail_msg("span %u is no thread's", event->span);
}

static void check_step(struct model *model, const struct mt_event *event)
{
    assert_int_equal(model->in_step, event->kind == MT_EVENT_STEP_END);
    model->steps += event->kind == MT_EVENT_STEP_BEGIN;
    model->in_step = event->kind == MT_EVENT_STEP_BEGIN;
    assert_int_equal(event->value, model->steps - 1);
}

static bool is_live(const struct model *model, const struct mt_event *alloc)
{
    for (int i = 0; i < model->shadow.live_count; i++)
        if (model->shadow.live[i].sequence == alloc->sequence)
            return true;
    return false;
}

/* Returns a free with what its row leaves out, which its alloc has. */
static struct mt_event complete(const struct mt_event *freed, const struct mt_event *alloc)
{
    struct mt_event event = *alloc;
    event.kind = freed->kind;
    event.sequence = freed->sequence;
    event.time_ns = freed->time_ns;
    return event;
}

/* Applies an event. `alloc` began its block, if it has one. */
static void apply(struct model *model, const struct mt_event *event, const struct mt_event *alloc)
{
    struct shadow *shadow = &model->shadow;
    if (event->kind == MT_EVENT_FREE) {
        const struct mt_event whole = complete(event, alloc);
        shadow_apply(shadow, &whole);
        return;
    }
    if (event->kind < MT_EVENT_FREE) {
        shadow_apply(shadow, event);
        return;
    }
    assert_int_equal(event->sequence, shadow->next_sequence++);
    assert_true(event->time_ns >= shadow->last_time_ns);
    shadow->last_time_ns = event->time_ns;
    if (event->kind == MT_EVENT_RELABEL)
        assert_true(is_live(model, alloc));
    else if (event->kind == MT_EVENT_SPAN_BEGIN || event->kind == MT_EVENT_SPAN_END)
        check_span(model, event);
    else
        check_step(model, event);
}

static void apply_row(struct model *model, sqlite3_stmt *row)
{
    const int64_t id = sqlite3_column_int64(row, 0);
    if (model->shadow.next_sequence == 0)
        model->first = id;
    const struct mt_event event = {.sequence = (uint64_t)(id - model->first),
                                   .time_ns = (uint64_t)sqlite3_column_int64(row, 1),
                                   .kind = (uint16_t)sqlite3_column_int(row, 2),
                                   .label = (mt_label_id)sqlite3_column_int64(row, 3),
                                   .span = (mt_span_id)sqlite3_column_int64(row, 4),
                                   .requested_bytes = (uint64_t)sqlite3_column_int64(row, 5),
                                   .block_bytes = (uint64_t)sqlite3_column_int64(row, 6),
                                   .segment = (uint32_t)sqlite3_column_int64(row, 7),
                                   .offset = (uint64_t)sqlite3_column_int64(row, 8)};
    model->events[event.sequence] = event;
    apply(model, &event,
          &model->events[sqlite3_column_type(row, 9) != SQLITE_NULL ? sqlite3_column_int64(row, 9) - model->first : 0]);
}

static sqlite3_stmt *ask(sqlite3 *database, const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(database));
    return statement;
}

static int64_t ask_number(sqlite3 *database, const char *sql)
{
    sqlite3_stmt *statement = ask(database, sql);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    const int64_t number = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return number;
}

/* Applies all stored events. */
static void replay(struct model *model)
{
    sqlite3 *database;
    assert_int_equal(sqlite3_open_v2(TRACE, &database, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    model->events = calloc((size_t)ask_number(database, "SELECT count(*) FROM event"), sizeof *model->events);
    sqlite3_stmt *rows = ask(database, "SELECT id, time_ns, kind, CASE kind WHEN 2 THEN label END,"
                                       " CASE WHEN kind IN (5, 6) THEN span END,"
                                       " CASE WHEN kind >= 2 THEN requested_bytes END, block_bytes, segment, offset,"
                                       " allocation FROM event ORDER BY id");
    while (sqlite3_step(rows) == SQLITE_ROW)
        apply_row(model, rows);
    sqlite3_finalize(rows);
    assert_int_equal(ask_number(database, "SELECT count(*) FROM label WHERE op <> category"), 0);
    assert_int_equal(ask_number(database, "SELECT lost_events FROM run"), 0);
    assert_int_equal(sqlite3_close(database), SQLITE_OK);
    free(model->events);
    assert_int_equal(model->shadow.contradictions, 0);
}

/* ---- the tests ---- */

static void end_span(void *context, mt_span_id span)
{
    mt_live_run_mark(((struct program *)context)->run, MT_EVENT_SPAN_END, 0, span);
}

static void name_spans(struct program *program)
{
    const struct mt_sink *sink = mt_live_run_sink(program->run);
    for (int i = 0; i < THREADS * DEPTH; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        program->span_of[i / DEPTH][i % DEPTH] = sink->intern_span(sink->context, 0, name);
    }
}

/* Runs the threads, and ends the trace after so many rounds, the last one being the threads' end. Returns the bytes
 * that are live then. */
static uint64_t run_threads(struct program *program, int rounds)
{
    static struct actor actors[THREADS];
    pthread_t threads[THREADS];
    uint64_t live_bytes = 0;
    for (int i = 0; i < THREADS; i++) {
        actors[i] = (struct actor){.program = program, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, act, &actors[i]), 0);
    }
    while (atomic_load(&program->rounds) < rounds)
        sched_yield();
    if (rounds < THREADS * ROUNDS)
        assert_int_equal(mt_live_run_end_trace(program->run, MT_RUN_DONE), MT_OK);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        live_bytes += actors[i].live_bytes;
    }
    return live_bytes;
}

static uint64_t run_program(struct program *program, int rounds)
{
    struct mt_alloc_settings alloc;
    struct mt_live_settings settings = {.trace = TRACE,
                                        .info = {.ring_records = 1 << 14},
                                        .device = open_device("sim"),
                                        .alloc = &alloc,
                                        .has_notes = true,
                                        .access = MT_LIVE_ANY_THREAD};
    assert_int_equal(mt_alloc_settings_parse("policy=torch", &alloc), MT_OK);
    assert_int_equal(mt_live_run_open(&settings, &program->run), MT_OK);
    assert_int_equal(mt_thread_spans_create(end_span, program, &program->spans), MT_OK);
    name_spans(program);
    const uint64_t live_bytes = run_threads(program, rounds);
    assert_int_equal(mt_live_run_is_traced(program->run), rounds == THREADS * ROUNDS);
    assert_int_equal(mt_alloc_check(mt_live_run_alloc(program->run)), MT_OK);
    const struct mt_foreign_counts counts = mt_live_note_counts(program->run);
    assert_int_equal(counts.unseen_gives + counts.lost_gives + counts.unmapped_gives + counts.unseen_relabels, 0);
    mt_thread_spans_destroy(program->spans);
    assert_int_equal(mt_live_run_close(program->run, MT_RUN_DONE), MT_OK);
    mt_device_close(settings.device);
    return live_bytes;
}

static void what_threads_do_is_stored_in_one_order(void **state)
{
    (void)state;
    struct program program = {.seed = take_seed()};
    struct model *model = calloc(1, sizeof *model);
    model->program = &program;
    const uint64_t live_bytes = run_program(&program, THREADS * ROUNDS);
    replay(model);
    assert_int_equal(model->shadow.requested_bytes, live_bytes);
    assert_int_equal(model->steps, ROUNDS / STEPS_EVERY / 2);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(model->depth[i], 0);
    free(model);
}

static void threads_go_on_after_the_end_of_the_trace(void **state)
{
    (void)state;
    struct program program = {.seed = take_seed()};
    struct model *model = calloc(1, sizeof *model);
    model->program = &program;
    (void)run_program(&program, THREADS * ROUNDS / 2);
    replay(model);
    assert_true(model->shadow.next_sequence > 0);
    free(model);
}

static int enter(void **state)
{
    *state = enter_folder("test_live_run");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_threads_do_is_stored_in_one_order, enter, leave_folder),
        cmocka_unit_test_setup_teardown(threads_go_on_after_the_end_of_the_trace, enter, leave_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
