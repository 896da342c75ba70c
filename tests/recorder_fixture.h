/* The fixture of tests of the recorder: a folder of their own, a script of events that looks like an allocator's and is
 * the same for the same seed, and the comparison of a stored run with it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/interner.h"
#include "base/random.h"
#include "trace/store/recorder.h"

#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIXTURE_LIVE = 300, FIXTURE_PATH_BYTES = 256 };

/* A script under way. Blocks that are live are kept as their alloc events. */
struct script {
    uint64_t seed, drawn;
    uint64_t sequence, segments, next_offset;
    uint64_t freed; /* sequence of the alloc of the block that was freed last */
    const struct mt_sink *sink;
    struct mt_event live[FIXTURE_LIVE];
    size_t live_count;
};

static inline uint64_t script_draw(struct script *script, uint64_t below)
{
    return mt_splitmix64(script->seed * 1000003 + script->drawn++) % below;
}

static inline struct script script_begin(uint64_t seed, const struct mt_sink *sink)
{
    return (struct script){.seed = seed, .sink = sink};
}

static inline mt_span_id script_span(struct script *script)
{
    char name[32];
    const struct mt_sink *sink = script->sink;
    snprintf(name, sizeof name, "layer%d", (int)script_draw(script, 40));
    mt_span_id layer = sink->intern_span(sink->context, sink->intern_span(sink->context, 0, "model"), name);
    return sink->intern_span(sink->context, layer, script_draw(script, 2) == 0 ? "attn" : "ffn");
}

/* A stack of up to 5 frames of a program of 12; none for one in three. */
static inline mt_stack_id script_stack(struct script *script)
{
    static const char *const functions[] = {"main", "train", "forward", "(lambda)"};
    mt_stack_id stack = 0;
    uint64_t depth = script_draw(script, 3) == 0 ? 0 : 1 + script_draw(script, 5);
    for (uint64_t i = 0; i < depth; i++) {
        const struct mt_frame frame = {functions[script_draw(script, 4)], i % 2 == 0 ? "train.py" : "",
                                       (uint32_t)script_draw(script, 3)};
        stack = mt_sink_stack(script->sink, stack, &frame);
    }
    return stack;
}

/* One of ours, or of five that the script names. */
static inline mt_category script_category(struct script *script)
{
    static const char *const named[] = {"Vision tower", "Adapter", "\xC3\x89tage", "Replay buffer", "tower"};
    uint64_t drawn = script_draw(script, MT_CATEGORY_COUNT + 5);
    if (drawn < MT_CATEGORY_COUNT)
        return (mt_category)drawn;
    return script->sink->intern_category(script->sink->context, named[drawn - MT_CATEGORY_COUNT]);
}

static inline mt_label_id script_label(struct script *script, mt_span_id span)
{
    static const char *const ops[] = {"einsum", "softmax.exp", "cast",
                                      "a rather long name of an operation that does not fit into one record"};
    struct mt_label label = {.category = script_category(script),
                             .role = (mt_role)script_draw(script, MT_ROLE_COUNT),
                             .role_source = (mt_role_source)script_draw(script, MT_ROLE_SOURCE_COUNT),
                             .phase = (mt_phase)script_draw(script, MT_PHASE_COUNT),
                             .dtype = (mt_dtype)script_draw(script, MT_DTYPE_COUNT),
                             .op = ops[script_draw(script, 4)],
                             .span = span,
                             .layer = (int)script_draw(script, 4) - 1,
                             .dims = (int)script_draw(script, MT_LABEL_MAX_DIMS + 1)};
    for (int i = 0; i < label.dims; i++)
        label.shape[i] = 1 + (int64_t)script_draw(script, 3);
    return script->sink->intern_label(script->sink->context, &label);
}

static inline void script_fill_alloc(struct script *script, struct mt_event *event)
{
    event->kind = MT_EVENT_ALLOC;
    event->stack = script_stack(script);
    event->span = script_span(script);
    event->label = script_label(script, event->span);
    if (script_draw(script, 10) == 0)
        event->span = script_span(script);
    event->requested_bytes = 1 + script_draw(script, 1 << 20);
    event->block_bytes = (event->requested_bytes + 511) / 512 * 512;
    event->segment = (uint32_t)(script->segments == 0 ? 0 : script->segments - 1);
    event->offset = script->next_offset;
    script->next_offset += event->block_bytes;
    script->live[script->live_count++] = *event;
}

static inline void script_fill_free(struct script *script, struct mt_event *event)
{
    size_t index = script_draw(script, script->live_count);
    uint64_t sequence = event->sequence, time_ns = event->time_ns;
    *event = script->live[index];
    script->freed = event->sequence;
    event->kind = MT_EVENT_FREE;
    event->sequence = sequence;
    event->time_ns = time_ns;
    script->live[index] = script->live[--script->live_count];
}

/* Gives a live block another label. */
static inline void script_fill_relabel(struct script *script, struct mt_event *event)
{
    struct mt_event *block = &script->live[script_draw(script, script->live_count)];
    block->span = script_span(script);
    block->label = script_label(script, block->span);
    uint64_t sequence = event->sequence, time_ns = event->time_ns;
    *event = *block;
    event->kind = MT_EVENT_RELABEL;
    event->sequence = sequence;
    event->time_ns = time_ns;
}

/* A segment, or the other half of one. */
static inline void script_fill_segment(struct script *script, struct mt_event *event)
{
    bool grows = script->sequence / 1000 % 2 == 1;
    event->kind = MT_EVENT_SEGMENT_MAP;
    script->segments += !grows;
    event->segment = (uint32_t)(script->segments - 1);
    event->offset = grows ? 1u << 30 : 0;
    event->segment_address = (uint64_t)event->segment << 40;
    event->block_bytes = 1u << 30;
    script->next_offset = grows ? script->next_offset : 0;
}

/* Fills in an event between allocations: of a span, a step or a phase. */
static inline void script_fill_mark(struct script *script, struct mt_event *event)
{
    static const mt_event_kind kinds[] = {MT_EVENT_SPAN_BEGIN, MT_EVENT_SPAN_END, MT_EVENT_PHASE, MT_EVENT_OOM};
    event->kind = (uint16_t)kinds[script_draw(script, 4)];
    if (event->kind == MT_EVENT_PHASE) {
        event->value = script_draw(script, MT_PHASE_COUNT);
        return;
    }
    event->span = script_span(script);
    if (event->kind != MT_EVENT_OOM)
        return;
    event->label = script_label(script, event->span);
    event->stack = script_stack(script);
    event->requested_bytes = 1 + script_draw(script, 1000);
}

/* The next event; its labels and spans go to the sink first. Steps are 1000 events long, from event 500 on. */
static inline struct mt_event script_next(struct script *script)
{
    struct mt_event event = {.sequence = script->sequence, .time_ns = script->sequence * 100};
    uint64_t place = script->sequence % 1000, what = script_draw(script, 100);
    if (place == 500 || (place == 499 && script->sequence > 1000)) {
        event.kind = place == 500 ? MT_EVENT_STEP_BEGIN : MT_EVENT_STEP_END;
        event.value = (script->sequence - 499) / 1000 - (place == 499);
    } else if (script->sequence == 0 || place == 700) {
        script_fill_segment(script, &event);
    } else if (what < 5) {
        script_fill_mark(script, &event);
    } else if (script->live_count > 0 && (script->live_count == FIXTURE_LIVE || what < 47)) {
        script_fill_free(script, &event);
    } else if (script->live_count > 0 && what < 52) {
        script_fill_relabel(script, &event);
    } else {
        script_fill_alloc(script, &event);
    }
    script->sequence++;
    return event;
}

/* Returns the use of the block whose alloc and free have these sequences. Every fifth is never used. */
static inline struct mt_use script_use(uint64_t alloc, uint64_t end)
{
    uint64_t random = mt_splitmix64(alloc), first = alloc + random % (end - alloc);
    uint64_t last = first + (random >> 20) % (end - first);
    struct mt_use use = {.block = alloc, .copied_from = random % 3 == 0 ? alloc / 2 : 0, .unread = random >> 63};
    if (random % 5 == 0)
        return use;
    use.reads = (uint32_t)(random >> 32);
    use.writes = 1 + (uint32_t)(random >> 50);
    use.first = first;
    use.last = last;
    use.idle_from = first + (last - first) / 3;
    use.idle_to = last;
    return use;
}

/* Emits the next `count` events of the script into its sink. */
static inline void script_emit(struct script *script, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        struct mt_event event = script_next(script);
        if (event.kind == MT_EVENT_FREE && script->sink->use != NULL) {
            const struct mt_use use = script_use(script->freed, event.sequence);
            script->sink->use(script->sink->context, &use);
        }
        script->sink->emit(script->sink->context, &event);
    }
}

/* A path in a new folder of the test's own; the folder is removed by fixture_remove. */
static inline void fixture_path(char *path)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, FIXTURE_PATH_BYTES, "%s/memtrace-test-XXXXXX", base != NULL ? base : "/tmp");
    if (mkdtemp(path) == NULL)
        fail_msg("no temporary folder");
    strncat(path, "/trace.db", FIXTURE_PATH_BYTES - strlen(path) - 1);
}

static inline void fixture_remove(const char *path)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal", "-ring", "-ring-damaged", "-ring-damaged-2"};
    char name[FIXTURE_PATH_BYTES + 16];
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        unlink(name);
    }
    snprintf(name, sizeof name, "%s", path);
    *strrchr(name, '/') = '\0';
    rmdir(name);
}

static inline bool fixture_exists(const char *path, const char *ending)
{
    char name[FIXTURE_PATH_BYTES + 16];
    snprintf(name, sizeof name, "%s%s", path, ending);
    return access(name, F_OK) == 0;
}

static inline struct mt_run_info fixture_info(uint64_t ring_records)
{
    static const struct mt_run_setting settings[] = {{"model", "tiny"}, {"batch", "4"}};
    return (struct mt_run_info){.name = "test",
                                .device = "sim:24GiB",
                                .capacity_bytes = 24ull << 30,
                                .settings = settings,
                                .setting_count = 2,
                                .ring_records = ring_records};
}

static inline struct mt_recorder *fixture_open(const char *path, uint64_t ring_records)
{
    const struct mt_run_info info = fixture_info(ring_records);
    struct mt_recorder *recorder = NULL;
    if (mt_recorder_open(path, &info, &recorder) != MT_OK)
        fail_msg("%s", mt_last_error());
    return recorder;
}

static inline void fixture_close(struct mt_recorder *recorder, mt_run_state state)
{
    if (mt_recorder_close(recorder, state) != MT_OK)
        fail_msg("%s", mt_last_error());
}

/* One run of a script, recorded from beginning to end. */
static inline void fixture_record(const char *path, uint64_t seed, uint64_t count)
{
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct script script = script_begin(seed, mt_recorder_sink(recorder));
    script_emit(&script, count);
    fixture_close(recorder, MT_RUN_DONE);
}

/* SQLite without anything of the project in between, so that the tests see what users see. */
static inline sqlite3 *sql_open(const char *path)
{
    sqlite3 *handle;
    if (sqlite3_open_v2(path, &handle, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK)
        fail_msg("%s: %s", path, sqlite3_errmsg(handle));
    return handle;
}

static inline sqlite3_stmt *sql_prepare(sqlite3 *handle, const char *sql)
{
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(handle, sql, -1, &statement, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(handle));
    return statement;
}

/* The first column of the first row, as text of static storage ("" if there is none). */
static inline const char *sql_text(const char *path, const char *sql)
{
    static char text[1 << 20];
    sqlite3 *handle = sql_open(path);
    sqlite3_stmt *statement = sql_prepare(handle, sql);
    text[0] = '\0';
    if (sqlite3_step(statement) == SQLITE_ROW && sqlite3_column_text(statement, 0) != NULL)
        snprintf(text, sizeof text, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
    sqlite3_close(handle);
    return text;
}

static inline int64_t sql_integer(const char *path, const char *sql)
{
    return strtoll(sql_text(path, sql), NULL, 10);
}

/* A row of the run's events with everything that its ids stand for. */
static const char FIXTURE_EVENTS[] =
    "SELECT e.id, e.time_ns, k.name, e.stream, l.category, l.role, l.op, l.phase, coalesce(l.layer, -1), l.dtype,"
    " l.shape, s.path, e.requested_bytes, e.block_bytes, e.segment, e.offset, e.allocation, g.address + e.offset,"
    " a.segment, a.offset, r.first_event, u.reads, u.writes, u.first_use, u.last_use, u.idle_from, u.idle_to,"
    " u.copied_from, u.unread, l.role_source, ifnull(e.stack, 0)"
    " FROM run r JOIN event e ON e.id >= r.first_event AND e.id < r.first_event + r.event_count"
    " JOIN event_kind k ON k.id = e.kind LEFT JOIN label l ON l.run = r.id AND l.id = e.label"
    " LEFT JOIN span s ON s.run = r.id AND s.id = coalesce(e.span, l.span)"
    " LEFT JOIN segment g ON g.run = r.id AND g.id = e.segment LEFT JOIN event a ON a.id = e.allocation"
    " LEFT JOIN block_use u ON u.allocation = e.allocation"
    " WHERE r.id = ? ORDER BY e.id";

static inline void check_text(sqlite3_stmt *row, int column, const char *expected)
{
    const char *stored = (const char *)sqlite3_column_text(row, column);
    if (stored == NULL)
        fail_msg("event %lld: column %s is NULL, not \"%s\"", (long long)sqlite3_column_int64(row, 0),
                 sqlite3_column_name(row, column), expected);
    else
        assert_string_equal(stored, expected);
}

static inline void check_integer(sqlite3_stmt *row, int column, uint64_t expected)
{
    if (sqlite3_column_type(row, column) != SQLITE_INTEGER || sqlite3_column_int64(row, column) != (int64_t)expected)
        fail_msg("event %lld: column %s is %s, not %lld", (long long)sqlite3_column_int64(row, 0),
                 sqlite3_column_name(row, column), (const char *)sqlite3_column_text(row, column), (long long)expected);
}

static inline void check_label(sqlite3_stmt *row, const struct mt_label *label, const struct mt_interner *interner)
{
    char shape[128] = "";
    for (int i = 0; i < label->dims; i++)
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), i == 0 ? "%d" : ",%d", (int)label->shape[i]);
    check_text(row, 4, mt_interner_category_name(interner, label->category));
    check_text(row, 5, mt_role_name(label->role));
    check_text(row, 29, mt_role_source_name(label->role_source));
    check_text(row, 6, label->op);
    check_text(row, 7, mt_phase_name(label->phase));
    assert_int_equal(sqlite3_column_int(row, 8), label->layer < 0 ? -1 : label->layer);
    check_text(row, 9, mt_dtype_name(label->dtype));
    check_text(row, 10, shape);
}

/* The event of a sequence, or NULL for what did not happen. */
static inline void check_moment(sqlite3_stmt *row, int column, uint64_t sequence, bool happened)
{
    if (happened)
        check_integer(row, column, (uint64_t)sqlite3_column_int64(row, 20) + sequence);
    else
        assert_int_equal(sqlite3_column_type(row, column), SQLITE_NULL);
}

/* Checks that the row of a free's block has the fields of the use. */
static inline void check_use(sqlite3_stmt *row, const struct mt_use *use)
{
    bool used = use->reads + (uint64_t)use->writes > 0, paused = use->idle_to > use->idle_from;
    check_integer(row, 21, use->reads);
    check_integer(row, 22, use->writes);
    check_moment(row, 23, use->first, used);
    check_moment(row, 24, use->last, used);
    check_moment(row, 25, use->idle_from, paused);
    check_moment(row, 26, use->idle_to, paused);
    check_moment(row, 27, use->copied_from, use->copied_from != 0);
    check_integer(row, 28, use->unread);
}

static inline bool has_span(const struct mt_event *event)
{
    return event->kind == MT_EVENT_ALLOC || event->kind == MT_EVENT_OOM || event->kind == MT_EVENT_SPAN_BEGIN ||
           event->kind == MT_EVENT_SPAN_END || event->kind == MT_EVENT_RELABEL;
}

/* Checks that the row has the fields of the event. */
static inline void check_row(sqlite3_stmt *row, const struct mt_event *event, const struct mt_interner *interner)
{
    check_integer(row, 1, event->time_ns);
    check_text(row, 2, mt_event_kind_name((mt_event_kind)event->kind));
    check_integer(row, 3, event->stream);
    if (event->label != 0)
        check_label(row, mt_interner_find_label(interner, event->label), interner);
    if (event->kind == MT_EVENT_ALLOC || event->kind == MT_EVENT_OOM)
        check_integer(row, 30, event->stack);
    if (has_span(event))
        check_text(row, 11, mt_interner_find_span(interner, event->span)->path);
    if (event->kind != MT_EVENT_SPAN_BEGIN && event->kind != MT_EVENT_SPAN_END && event->kind > MT_EVENT_SEGMENT_UNMAP)
        check_integer(row, 12, event->requested_bytes);
    if (event->kind <= MT_EVENT_FREE || event->kind == MT_EVENT_RELABEL)
        check_integer(row, 13, event->block_bytes);
    if (event->kind <= MT_EVENT_ALLOC) {
        check_integer(row, 14, event->segment);
        check_integer(row, 15, event->offset);
        check_integer(row, 17, ((uint64_t)event->segment << 40) + event->offset);
    }
    if (event->kind == MT_EVENT_FREE || event->kind == MT_EVENT_RELABEL) {
        check_integer(row, 18, event->segment);
        check_integer(row, 19, event->offset);
    }
}

/* Compares the run, and how its blocks were used, with what the script of this seed emits; returns how many events it
 * has. */
static inline uint64_t fixture_check_run(const char *path, int64_t run, uint64_t seed)
{
    struct mt_interner *interner = mt_interner_create();
    const struct mt_sink sink = mt_sink_discarding(interner);
    struct script script = script_begin(seed, &sink);
    sqlite3 *handle = sql_open(path);
    sqlite3_stmt *row = sql_prepare(handle, FIXTURE_EVENTS);
    sqlite3_bind_int64(row, 1, run);
    while (sqlite3_step(row) == SQLITE_ROW) {
        struct mt_event event = script_next(&script);
        check_row(row, &event, interner);
        if (event.kind == MT_EVENT_FREE) {
            const struct mt_use use = script_use(script.freed, event.sequence);
            check_use(row, &use);
        }
    }
    sqlite3_finalize(row);
    sqlite3_close(handle);
    mt_interner_destroy(interner);
    return script.sequence;
}
