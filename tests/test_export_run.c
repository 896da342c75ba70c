/* Runs as snapshots of PyTorch, read by Python's pickle, by a reader like a web page's, and against the trace; and the
 * common properties of the formats of whole runs. */
#include "exported_runs.h"
#include "trace_edit.h"

#include <sys/resource.h>

/* gcc has a macro for each sanitizer, clang a function-like one. */
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer)
static const bool is_sanitized = true;
#else
static const bool is_sanitized = false;
#endif

static bool has_program(const char *name)
{
    return shell("command -v %s", name)->code == 0;
}

static void python_reads_what_memtrace_says(void **state)
{
    (void)state;
    if (!has_program("python3"))
        skip();
    for (int i = 0; i < TRACE_COUNT; i++)
        expect_success(shell("python3 '%s/../read_snapshot.py' %s.pickle %s.torch %s.peak", MT_TEST_DATA, traces[i],
                             traces[i], traces[i]));
}

static void a_page_reads_the_pickle(void **state)
{
    (void)state;
    if (!has_program("node"))
        skip();
    for (int i = 0; i < TRACE_COUNT; i++)
        expect_success(shell("node '%s/../unpickle.mjs' %s.pickle %s.torch", MT_TEST_DATA, traces[i], traces[i]));
}

/* The trace, event by event, in SQL. */
static const char told[] =
    "SELECT event.kind, ifnull(event.requested_bytes, 0), ifnull(event.block_bytes, 0), event.stream, event.segment,"
    " event.offset, label.category, label.role, label.op, label.phase, own.path, label.layer, label.dtype, label.shape,"
    " asker.path, event.time_ns / 1000, event.stack, frame.function, frame.file, frame.line FROM event LEFT JOIN label "
    "ON label.id = event.label"
    " LEFT JOIN span AS own ON own.id = label.span"
    " LEFT JOIN span AS asker ON asker.id = coalesce(event.span, label.span)"
    " LEFT JOIN stack ON stack.id = event.stack LEFT JOIN frame ON frame.id = stack.frame ORDER BY event.id";
enum { KIND, REQUESTED, BLOCK, STREAM, SEGMENT, OFFSET, CATEGORY, ASKER = CATEGORY + 8, TIME_US, STACK, FUNCTION };

/* The time at which the run of the snapshot began. */
static int64_t start_us;

static int64_t column(sqlite3_stmt *row, int index)
{
    return sqlite3_column_int64(row, index);
}

/* Texts that are not UTF-8 are exported repaired, so only other texts can be compared. */
static void expect_text(const json_t *value, sqlite3_stmt *row, int index)
{
    const char *text = (const char *)sqlite3_column_text(row, index);
    json_t *expected = json_string(text != NULL ? text : "");
    if (expected != NULL)
        assert_true(json_equal(value, expected));
    json_decref(expected);
}

/* Checks the innermost frame of a call stack, and the innermost of its spans. */
static void expect_stack(const json_t *entry, sqlite3_stmt *row)
{
    const json_t *frame = json_array_get(json_object_get(entry, "frames"), 0), *spans = json_object_get(entry, "spans");
    expect_text(json_object_get(frame, "name"), row, FUNCTION);
    expect_text(json_object_get(frame, "filename"), row, FUNCTION + 1);
    assert_int_equal(integer_of(frame, "line"), column(row, FUNCTION + 2));
    expect_text(json_array_get(spans, json_array_size(spans) - 1), row, ASKER);
    expect_text(json_object_get(json_object_get(entry, "user_metadata"), "span"), row, CATEGORY + 4);
}

static void expect_label(const json_t *entry, sqlite3_stmt *row)
{
    static const char *const names[] = {"category", "role", "op", "phase", "span", "layer", "dtype", "shape"};
    const json_t *metadata = json_object_get(entry, "user_metadata"), *frames = json_object_get(entry, "frames");
    for (int i = 0; i < 8; i++) {
        const json_t *value = json_object_get(metadata, names[i]);
        if (i != 5)
            expect_text(value, row, CATEGORY + i);
        else if (sqlite3_column_type(row, CATEGORY + i) == SQLITE_NULL)
            assert_null(value);
        else
            assert_int_equal(json_integer_value(value), column(row, CATEGORY + i));
    }
    if (column(row, STACK) != 0) {
        expect_stack(entry, row);
        return;
    }
    expect_text(json_object_get(json_array_get(frames, 0), "name"), row, CATEGORY + 2);
    const json_t *innermost = json_array_get(frames, 1);
    if (innermost != NULL)
        expect_text(json_object_get(innermost, "filename"), row, ASKER);
}

static void expect_common(const json_t *entry, sqlite3_stmt *row, int64_t size)
{
    assert_int_equal(integer_of(entry, "size"), size);
    assert_int_equal(integer_of(entry, "stream"), column(row, STREAM));
    assert_int_equal(integer_of(entry, "time_us"), start_us + column(row, TIME_US));
    assert_true(json_is_array(json_object_get(entry, "frames")));
}

static void expect_action(const json_t *entry, const char *one, const char *or_other)
{
    const char *action = text_of(entry, "action");
    if (strcmp(action, one) != 0 && strcmp(action, or_other) != 0)
        fail_msg("%s where there is %s", action, one);
}

/* Checks the entries of an event; returns their number. */
static size_t expect_event(const json_t *entries, size_t at, sqlite3_stmt *row)
{
    const json_t *entry = json_array_get(entries, at);
    switch (column(row, KIND)) {
    case MT_EVENT_SEGMENT_MAP:
    case MT_EVENT_SEGMENT_UNMAP:
        expect_common(entry, row, column(row, BLOCK));
        assert_int_equal(integer_of(entry, "segment"), column(row, SEGMENT));
        assert_int_equal(integer_of(entry, "offset"), column(row, OFFSET));
        if (column(row, KIND) == MT_EVENT_SEGMENT_MAP)
            expect_action(entry, "segment_map", "segment_alloc");
        else
            expect_action(entry, "segment_unmap", "segment_free");
        return 1;
    case MT_EVENT_ALLOC:
        expect_action(entry, "alloc", "alloc");
        expect_common(entry, row, column(row, REQUESTED));
        assert_int_equal(integer_of(entry, "block_bytes"), column(row, BLOCK));
        expect_text(json_object_get(entry, "category"), row, CATEGORY);
        expect_label(entry, row);
        return 1;
    case MT_EVENT_RELABEL:
        expect_action(entry, "annotate", "annotate");
        expect_common(entry, row, column(row, REQUESTED));
        expect_label(entry, row);
        return 1;
    case MT_EVENT_FREE:
        expect_action(entry, "free_requested", "free_requested");
        assert_true(json_is_object(json_object_get(entry, "user_metadata")));
        expect_action(json_array_get(entries, at + 1), "free_completed", "free_completed");
        expect_common(entry, row, column(row, REQUESTED));
        return 2;
    case MT_EVENT_OOM:
        expect_action(entry, "oom", "oom");
        expect_common(entry, row, column(row, REQUESTED));
        assert_true(integer_of(entry, "device_free") >= 0);
        expect_label(entry, row);
        return 1;
    default:
        return 0;
    }
}

/* Checks the annotation of a mark and its place among the entries; returns their number. */
static size_t expect_annotation(const json_t *annotations, size_t at, size_t entries, sqlite3_stmt *row)
{
    if (column(row, KIND) < MT_EVENT_SPAN_BEGIN || column(row, KIND) == MT_EVENT_RELABEL)
        return 0;
    size_t ended = 0;
    const json_t *annotation = json_array_get(annotations, at);
    if (strcmp(text_of(annotation, "kind"), "phase_end") == 0)
        annotation = json_array_get(annotations, at + ++ended);
    assert_string_equal(text_of(annotation, "kind"), mt_event_kind_name((mt_event_kind)column(row, KIND)));
    assert_int_equal(integer_of(annotation, "entries"), entries);
    assert_int_equal(integer_of(annotation, "time_us"), start_us + column(row, TIME_US));
    if (column(row, KIND) <= MT_EVENT_SPAN_END)
        expect_text(json_object_get(annotation, "name"), row, ASKER);
    else if (column(row, KIND) <= MT_EVENT_STEP_END)
        assert_int_equal(integer_of(annotation, "step"), column(row, REQUESTED));
    else
        assert_string_equal(text_of(annotation, "name"), mt_phase_name((mt_phase)column(row, REQUESTED)));
    return 1 + ended;
}

static void a_snapshot_has_every_event(void **state)
{
    (void)state;
    for (int i = 0; i < TRACE_COUNT; i++) {
        json_t *snapshot = json_file(traces[i], "torch");
        const json_t *run = json_object_get(snapshot, "memtrace");
        json_t *entries = json_array_get(json_object_get(snapshot, "device_traces"), 0);
        const json_t *annotations = json_object_get(snapshot, "external_annotations");
        sqlite3 *database = open_database(traces[i]);
        sqlite3_stmt *row;
        size_t entry = 0, annotation = 0;
        assert_int_equal(json_array_extend(entries, json_object_get(run, "after")), 0);
        start_us = integer_of(run, "start_us");
        assert_int_equal(start_us / 1000000, number_of(traces[i], "SELECT unixepoch(started_at) FROM run"));
        assert_int_equal(sqlite3_prepare_v2(database, told, -1, &row, NULL), SQLITE_OK);
        while (sqlite3_step(row) == SQLITE_ROW) {
            annotation += expect_annotation(annotations, annotation, entry, row);
            entry += expect_event(entries, entry, row);
        }
        const json_t *last = json_array_get(annotations, annotation);
        annotation += last != NULL && strcmp(text_of(last, "kind"), "phase_end") == 0;
        assert_int_equal(entry, json_array_size(entries));
        assert_int_equal(annotation, json_array_size(annotations));
        sqlite3_finalize(row);
        sqlite3_close(database);
        json_decref(snapshot);
    }
}

/* Like a program that exits, with memory of its allocator or without. */
static void a_run_that_gives_all_back_shows_what_it_had(void **state)
{
    (void)state;
    struct synthetic run;
    assert_int_equal(synthetic_open(&run, "ended.db", NULL, 5, 40), MT_OK);
    synthetic_step(&run, 0, 300, 20);
    size_t held = run.live_count;
    assert_true(held > 5);
    while (run.live_count > 0)
        synthetic_give(&run);
    assert_int_equal(synthetic_close(&run), MT_OK);
    expect_success(MEMTRACE("export --format torch --trace ended.db -o ended.db.torch"));
    json_t *snapshot = json_file("ended.db", "torch");
    size_t i, live = 0;
    json_t *segment;
    json_array_foreach(json_object_get(snapshot, "segments"), i, segment) live +=
        integer_of(segment, "active_size") > 0;
    assert_true(live > 0);
    assert_int_equal(json_array_size(json_object_get(json_object_get(snapshot, "memtrace"), "after")), 2 * held);
    json_decref(snapshot);
}

static void names_and_options_say_the_format(void **state)
{
    (void)state;
    expect_success(MEMTRACE("export --trace odd.db -o a.pickle && cmp a.pickle odd.db.pickle"));
    expect_success(MEMTRACE("export run --trace odd.db --format torch -o b.pickle.gz && gzip -dc b.pickle.gz |"
                            " cmp - odd.db.pickle"));
    expect_success(MEMTRACE("export --trace odd.db --format pickle | cmp - odd.db.pickle"));
    expect_success(MEMTRACE("export --trace odd.db -o a.sqlite && cmp a.sqlite odd.db.nsys"));
    expect_success(MEMTRACE("export --trace odd.db --format perfetto -o a.json.gz && gzip -dc a.json.gz |"
                            " cmp - odd.db.perfetto"));
    static const char *const cases[][2] = {
        {"run", "say --format torch, pickle, perfetto, nsys or rmm"},
        {"run --format csv", "a run is torch, pickle"},
        {"blocks --format rmm", "tables are csv or json"},
        {"--format torch --step 1", "--step means nothing for run as torch"},
        {"--format perfetto --diff 1", "--diff means nothing"},
        {"--format rmm --merge-layers", "--merge-layers means nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct said *said = shell("\"$M\" export --trace odd.db %s", cases[i][0]);
        assert_int_equal(said->code, MT_USAGE);
        assert_says(said->err, cases[i][1]);
    }
}

static void a_write_that_fails_leaves_nothing(void **state)
{
    (void)state;
    static const char *const formats[] = {"torch", "pickle", "perfetto", "rmm", "nsys"};
    expect_success(shell("mkdir full temporary"));
    for (int i = 0; i < 5; i++) {
        const struct said *said = shell("trap '' XFSZ; ulimit -f 8; TMPDIR=temporary \"$M\" export --trace odd.db"
                                        " --format %s -o full/a",
                                        formats[i]);
        assert_int_equal(said->code, MT_NOT_WRITTEN);
        assert_string_equal(shell("ls -A full temporary | grep -v :")->out, "\n");
    }
    assert_int_equal(MEMTRACE("export --trace odd.db --format nsys -o /dev/full")->code, MT_NOT_WRITTEN);
    assert_int_equal(shell("TMPDIR=nowhere \"$M\" export --trace odd.db --format nsys")->code, MT_NOT_WRITTEN);
    expect_success(shell("{ \"$M\" export --trace odd.db --format torch; echo $? >code; } | head -n 1;"
                         " grep -qx 0 code"));
}

/* Returns the most memory that an export takes, in KiB. */
static long memory_of(const char *trace, const char *format)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (freopen("/dev/null", "w", stderr) != NULL)
            execl(MT_PROGRAM, "memtrace", "export", "--trace", trace, "--format", format, "-o", "/dev/null",
                  (char *)NULL);
        _exit(127);
    }
    int status;
    struct rusage usage;
    assert_int_equal(wait4(child, &status, 0, &usage), child);
    assert_int_equal(exit_code(status), 0);
    return usage.ru_maxrss;
}

/* Ten times the events with the same live blocks. Skipped under sanitizers, which keep freed memory. */
static void a_long_run_needs_no_more_memory(void **state)
{
    (void)state;
    static const char *const formats[] = {"torch", "pickle", "perfetto", "rmm", "nsys"};
    static const uint64_t moves[] = {20000, 200000};
    long kibibytes[2];
    if (is_sanitized)
        skip();
    for (int i = 0; i < 2; i++) {
        struct synthetic run;
        assert_int_equal(synthetic_open(&run, i == 0 ? "short.db" : "long.db", NULL, 3, 40), MT_OK);
        synthetic_move(&run, moves[i], 100);
        assert_int_equal(synthetic_close(&run), MT_OK);
    }
    for (int format = 0; format < 5; format++) {
        kibibytes[0] = memory_of("short.db", formats[format]);
        kibibytes[1] = memory_of("long.db", formats[format]);
        if (kibibytes[1] > kibibytes[0] + 2048)
            fail_msg("%s: %ld KiB for 20,000 events, %ld KiB for 200,000", formats[format], kibibytes[0], kibibytes[1]);
    }
}

/* Each kind of damage is refused, and none crashes. */
static void damaged_traces_are_refused(void **state)
{
    (void)state;
    static const char *const damages[] = {
        "UPDATE event SET label = 9999 WHERE kind = 2",
        "UPDATE event SET segment = 4000000 WHERE kind = 2",
        "UPDATE event SET kind = 77 WHERE kind = 5",
        "UPDATE event SET span = 99999 WHERE kind = 5",
        "UPDATE event SET block_bytes = -5 WHERE kind = 2",
        "UPDATE event SET stream = 70000 WHERE kind = 2",
        "DELETE FROM segment",
        "UPDATE span SET parent = id WHERE id = 2",
        "UPDATE event SET stack = 99 WHERE kind = 2",
        "UPDATE stack SET parent = id WHERE id = 2",
        "UPDATE frame SET line = -1",
        "DELETE FROM frame",
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        expect_success(shell("cp odd.db damaged.db"));
        edit_trace("damaged.db", damages[i]);
        for (int format = 0; format < 5; format++) {
            static const char *const formats[] = {"torch", "pickle", "perfetto", "rmm", "nsys"};
            const struct said *said =
                shell("\"$M\" export --trace damaged.db --format %s -o damaged.out", formats[format]);
            if (said->code != MT_BAD_TRACE)
                fail_msg("%s as %s: exit code %d", damages[i], formats[format], said->code);
            assert_says(said->err, "damaged");
        }
    }
    expect_success(shell("cp odd.db damaged.db; test ! -e damaged.out"));
    edit_trace("damaged.db", "UPDATE event SET offset = 0 WHERE kind = 2");
    assert_int_equal(MEMTRACE("export --trace damaged.db --format torch")->code, MT_BAD_TRACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_reads_what_memtrace_says),
        cmocka_unit_test(a_page_reads_the_pickle),
        cmocka_unit_test(a_snapshot_has_every_event),
        cmocka_unit_test(names_and_options_say_the_format),
        cmocka_unit_test(a_run_that_gives_all_back_shows_what_it_had),
        cmocka_unit_test(a_write_that_fails_leaves_nothing),
        cmocka_unit_test(a_long_run_needs_no_more_memory),
        cmocka_unit_test(damaged_traces_are_refused),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
