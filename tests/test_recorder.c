/* Events that are emitted into a recorder come back from the trace, whatever the size of the ring, and the trace is
 * left in order. */
#include "seed.h"
#include "trace/query/trace.h"
#include "trace/store/recorder.h"
#include "trace/store/store.h"
#include "trace_path.h"

#include <math.h>
#include <sys/stat.h>

static uint64_t fresh_seed(void)
{
    uint64_t seed = take_seed();
    return seed;
}

static void events_labels_and_spans_come_back_identical(void **state)
{
    (void)state;
    uint64_t seed = fresh_seed();
    fixture_record(path, seed, 30000);
    assert_int_equal(fixture_check_run(path, 1, seed), 30000);
    assert_int_equal(sql_integer(path, "SELECT event_count FROM run"), 30000);
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "done");
    assert_string_equal(sql_text(path, "PRAGMA integrity_check"), "ok");
}

static void a_burst_larger_than_the_ring_stalls_and_loses_nothing(void **state)
{
    (void)state;
    uint64_t seed = fresh_seed();
    struct mt_recorder *recorder = fixture_open(path, 1);
    struct script script = script_begin(seed, mt_recorder_sink(recorder));
    script_emit(&script, 50000);
    fixture_close(recorder, MT_RUN_DONE);
    assert_int_equal(fixture_check_run(path, 1, seed), 50000);
    assert_true(sql_integer(path, "SELECT stall_count FROM run") > 0);
    assert_true(sql_integer(path, "SELECT stall_ns FROM run") > 0);
    assert_int_equal(sql_integer(path, "SELECT lost_events FROM run"), 0);
}

static void runs_of_one_file_do_not_mix(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++)
        fixture_record(path, seed, 1000 * seed);
    for (uint64_t seed = 1; seed <= 4; seed++)
        assert_int_equal(fixture_check_run(path, (int64_t)seed, seed), 1000 * seed);
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM event"), 10000);
}

static void measurements_and_settings_are_kept(void **state)
{
    (void)state;
    struct mt_recorder *recorder = fixture_open(path, 0);
    mt_recorder_measure(recorder, "loss", 0, 9.5);
    mt_recorder_measure(recorder, "loss", 1, NAN);
    mt_recorder_measure(recorder, "grad_norm:ln1.weight", -1, 0.125);
    fixture_close(recorder, MT_RUN_OOM);
    assert_string_equal(sql_text(path, "SELECT value FROM measurement WHERE name = 'loss' AND step = 0"), "9.5");
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM measurement WHERE value IS NULL"), 1);
    assert_string_equal(sql_text(path, "SELECT value FROM measurement WHERE step = -1"), "0.125");
    assert_string_equal(sql_text(path, "SELECT value FROM setting WHERE run = 1 AND name = 'batch'"), "4");
    assert_string_equal(sql_text(path, "SELECT state FROM run"), "oom");
}

static void a_text_longer_than_a_record_may_be_is_cut(void **state)
{
    (void)state;
    enum { LENGTH = 100000, KEPT = 8191 };
    char *name = malloc(LENGTH + 1);
    memset(name, 'x', LENGTH);
    name[LENGTH] = '\0';
    struct mt_recorder *recorder = fixture_open(path, 1);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    sink->intern_span(sink->context, 0, name);
    free(name);
    fixture_close(recorder, MT_RUN_DONE);
    assert_int_equal(sql_integer(path, "SELECT length(path) FROM span"), KEPT);
}

static void a_closed_trace_is_one_file(void **state)
{
    (void)state;
    fixture_record(path, 3, 5000);
    assert_true(fixture_exists(path, ""));
    assert_false(fixture_exists(path, "-ring"));
    assert_false(fixture_exists(path, "-wal"));
    assert_false(fixture_exists(path, "-shm"));
    assert_false(fixture_exists(path, "-journal"));
}

/* Everything but when it was recorded and how long the producer waited. */
static char *dump(const char *file)
{
    static const char *const queries[] = {
        ("SELECT id, name, state, device, capacity_bytes, first_event, event_count, ring_position, lost_events,"
         " complete_from_bytes FROM run"),
        "SELECT * FROM setting",
        "SELECT * FROM measurement",
        "SELECT * FROM span",
        "SELECT * FROM label",
        "SELECT * FROM frame",
        "SELECT * FROM stack",
        "SELECT * FROM event",
        "SELECT * FROM block_use",
        "SELECT * FROM event_kind",
        "SELECT * FROM segment",
        "SELECT * FROM segment_part",
        "SELECT * FROM step",
        "SELECT run, event, hex(live) FROM checkpoint",
        "SELECT * FROM summary_peak",
        "SELECT * FROM summary_peak_category",
        "SELECT * FROM summary_peak_role",
        "SELECT * FROM summary_category",
        "SELECT * FROM summary_allocation",
    };
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    sqlite3 *handle = sql_open(file);
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        sqlite3_stmt *row = sql_prepare(handle, queries[i]);
        while (sqlite3_step(row) == SQLITE_ROW)
            for (int c = 0; c < sqlite3_column_count(row); c++)
                fprintf(stream, "%s%c", (const char *)sqlite3_column_text(row, c),
                        c + 1 == sqlite3_column_count(row) ? '\n' : '|');
        sqlite3_finalize(row);
    }
    sqlite3_close(handle);
    fclose(stream);
    return text;
}

static void the_same_events_make_the_same_tables(void **state)
{
    (void)state;
    uint64_t seed = fresh_seed();
    fixture_record(path, seed, 20000);
    char *first = dump(path);
    unlink(path);
    struct mt_recorder *recorder = fixture_open(path, 1); /* other batches, other transactions */
    struct script script = script_begin(seed, mt_recorder_sink(recorder));
    script_emit(&script, 20000);
    fixture_close(recorder, MT_RUN_DONE);
    char *second = dump(path);
    assert_true(strlen(first) > 100000);
    assert_string_equal(first, second);
    free(first);
    free(second);
}

/* Returns the first column of a query's only row, through a reader's connection. */
static int64_t read_integer(struct mt_database *database, const char *sql)
{
    int64_t value;
    if (mt_database_integer(database, sql, &value) != MT_OK)
        fail_msg("%s: %s", sql, mt_last_error());
    return value;
}

static void one_recorder_makes_the_tables_of_several(void **state)
{
    (void)state;
    static const uint64_t rings[] = {0, 1, 1 << 16};
    for (uint64_t seed = 1; seed <= 3; seed++)
        fixture_record(path, seed, 3000);
    char *several = dump(path);
    unlink(path);
    struct mt_recorder *recorder = fixture_open(path, rings[0]);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        const struct mt_run_info info = fixture_info(rings[seed - 1]);
        if (seed > 1)
            assert_int_equal(mt_recorder_begin(recorder, &info), MT_OK);
        assert_int_equal(mt_recorder_run(recorder), seed);
        struct script script = script_begin(seed, mt_recorder_sink(recorder));
        script_emit(&script, 3000);
        assert_int_equal(mt_recorder_end(recorder, MT_RUN_DONE), MT_OK);
    }
    fixture_close(recorder, MT_RUN_FAILED); /* of no run */
    char *one = dump(path);
    assert_string_equal(one, several);
    assert_false(fixture_exists(path, "-ring"));
    free(one);
    free(several);
}

static void a_live_run_can_be_read_with_its_summaries(void **state)
{
    (void)state;
    struct mt_recorder *recorder = fixture_open(path, 0);
    struct script script = script_begin(8, mt_recorder_sink(recorder));
    struct mt_database *reader;
    script_emit(&script, 12000);
    assert_int_equal(mt_recorder_flush(script.sink->context), MT_OK);
    if (mt_store_open_reading(path, &reader) != MT_OK)
        fail_msg("%s", mt_last_error());
    script_emit(&script, 3000);
    assert_int_equal(read_integer(reader, "SELECT count(*) FROM event"), 12000);
    assert_int_equal(read_integer(reader, "SELECT sum(count) FROM summary_category"),
                     read_integer(reader, "SELECT count(*) FROM event WHERE kind IN (2, 10)"));
    assert_int_equal(
        read_integer(reader, "SELECT bytes FROM summary_peak WHERE run = 1 AND step = -2 AND measure = 'allocated'"),
        read_integer(reader, "SELECT max(total) FROM (SELECT sum(iif(kind = 2, block_bytes, -block_bytes)) OVER (ORDER"
                             " BY id) AS total FROM event WHERE kind IN (2, 3))"));
    assert_int_equal(read_integer(reader, "SELECT count(*) FROM main.summary_peak WHERE step = -2"), 0);
    mt_database_close(reader);
    fixture_close(recorder, MT_RUN_DONE);
    assert_int_equal(fixture_check_run(path, 1, 8), 15000);
}

static void recording_goes_on_below_a_reader_that_stays(void **state)
{
    (void)state;
    fixture_record(path, 1, 1000);
    struct mt_database *reader;
    assert_int_equal(mt_store_open_reading(path, &reader), MT_OK);
    assert_int_equal(read_integer(reader, "SELECT count(*) FROM run"), 1);
    fixture_record(path, 2, 1000);
    assert_int_equal(read_integer(reader, "SELECT count(*) FROM run"), 2);
    mt_database_close(reader);
    assert_int_equal(fixture_check_run(path, 2, 2), 1000);
}

static void a_closed_trace_in_a_folder_is_not_changed_by_reading(void **state)
{
    (void)state;
    struct stat before, after;
    struct mt_database *reader;
    fixture_record(path, 1, 1000);
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(mt_store_open_reading(path, &reader), MT_OK);
    assert_int_equal(read_integer(reader, "SELECT count(*) FROM event"), 1000);
    assert_int_equal(mt_database_execute(reader, "DELETE FROM run"), MT_FAILED);
    mt_database_close(reader);
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
    assert_false(fixture_exists(path, "-wal"));
}

static void a_stack_is_stored_from_its_innermost_frame_outwards(void **state)
{
    (void)state;
    struct mt_recorder *recorder = fixture_open(path, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    static const struct mt_frame frames[] = {{"main", "train.py", 9}, {"step", "train.py", 5}, {"forward", "", 0}};
    mt_stack_id stack = 0;
    for (int i = 0; i < 3; i++)
        stack = mt_sink_stack(sink, stack, &frames[i]);
    assert_int_equal(mt_sink_stack(sink, 1, &frames[1]), 2); /* known */
    const struct mt_label label = {.op = "x", .layer = -1};
    const struct mt_event event = {.kind = MT_EVENT_ALLOC,
                                   .label = sink->intern_label(sink->context, &label),
                                   .requested_bytes = 1,
                                   .block_bytes = 1,
                                   .stack = stack};
    sink->emit(sink->context, &event);
    fixture_close(recorder, MT_RUN_DONE);
    assert_string_equal(
        sql_text(path,
                 "WITH RECURSIVE s(id, depth) AS (SELECT stack, 0 FROM event UNION ALL SELECT parent, depth + 1"
                 " FROM s JOIN stack USING (id)) SELECT group_concat(text) FROM (SELECT function || ' ' || file ||"
                 " ':' || line AS text FROM s JOIN stack USING (id) JOIN frame ON frame.id = stack.frame"
                 " ORDER BY depth)"),
        "forward :0,step train.py:5,main train.py:9");
    assert_int_equal(sql_integer(path, "SELECT count(*) FROM stack"), 3);
}

static void memory_outside_of_the_allocator_is_told_by_moment(void **state)
{
    (void)state;
    struct mt_recorder *recorder = fixture_open(path, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    const struct mt_outside context = {.kind = MT_OUTSIDE_CONTEXT, .name = "", .bytes = 500};
    struct mt_outside nccl = {.kind = MT_OUTSIDE_NCCL, .name = "ring", .bytes = 70};
    sink->outside(sink->context, &context);
    for (uint64_t i = 0; i < 3; i++) {
        const struct mt_event event = {.sequence = i, .time_ns = 100 * i, .kind = MT_EVENT_PHASE};
        sink->emit(sink->context, &event);
        nccl.bytes++;
        sink->outside(sink->context, &nccl);
    }
    fixture_close(recorder, MT_RUN_DONE);
    assert_string_equal(sql_text(path,
                                 "SELECT group_concat(event || ' ' || time_ns || ' ' || kind || ' ' || name || ' '"
                                 " || bytes) FROM outside"),
                        "0 0 context  500,1 0 nccl ring 71,2 100 nccl ring 72,3 200 nccl ring 73");
}

static void an_estimate_outside_has_its_range_and_a_measurement_none(void **state)
{
    (void)state;
    struct mt_recorder *recorder = fixture_open(path, 0);
    const struct mt_sink *sink = mt_recorder_sink(recorder);
    const struct mt_outside measured = {.kind = MT_OUTSIDE_CONTEXT, .name = "", .bytes = 500};
    const struct mt_outside estimate = {MT_OUTSIDE_NCCL, "rings", 70, 0, 90};
    sink->outside(sink->context, &measured);
    sink->outside(sink->context, &estimate);
    fixture_close(recorder, MT_RUN_DONE);
    assert_string_equal(sql_text(path,
                                 "SELECT group_concat(name || ' ' || CAST(value AS INTEGER)) FROM (SELECT name, value"
                                 " FROM measurement WHERE name LIKE 'outside%' ORDER BY name)"),
                        "outside_high:nccl:rings 90,outside_low:nccl:rings 0");
    assert_string_equal(sql_text(path, "SELECT group_concat(kind || ' ' || bytes) FROM outside"),
                        "context 500,nccl 70");
}

static void expect_place(const struct mt_run *run, const struct mt_run_rank *rank, const char *job, int64_t pid)
{
    assert_int_equal(run->rank, rank->rank);
    assert_int_equal(run->local_rank, rank->local_rank);
    assert_int_equal(run->world_size, rank->world_size);
    assert_true(job == NULL ? run->job == NULL : strcmp(run->job, job) == 0);
    assert_int_equal(run->pid, pid);
    assert_true((run->host != NULL) == (pid != 0));
}

static void a_run_knows_its_job_and_the_process_that_recorded_it(void **state)
{
    (void)state;
    char host[256] = "";
    struct mt_recorder *recorder;
    struct mt_trace *trace;
    size_t count;
    const struct mt_run_rank rank = {.rank = 5, .local_rank = 1, .world_size = 8}, none = {-1, -1, -1};
    const struct mt_run_info of_job = {.device = "sim", .rank = &rank, .job = "nightly"};
    const struct mt_run_info imported = {.device = "sim", .origin = MT_RUN_IMPORTED};
    const struct mt_run_info live = {.device = "sim"};
    const struct mt_run_info *const infos[] = {&of_job, &imported, &live};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mt_recorder_open(path, infos[i], &recorder), MT_OK);
        assert_int_equal(mt_recorder_close(recorder, MT_RUN_DONE), MT_OK);
    }
    assert_int_equal(mt_trace_open(path, &trace), MT_OK);
    const struct mt_run *runs = mt_trace_runs(trace, &count);
    assert_int_equal(count, 3);
    expect_place(&runs[0], &rank, "nightly", getpid());
    expect_place(&runs[1], &none, NULL, 0);
    expect_place(&runs[2], &none, NULL, getpid());
    assert_int_equal(gethostname(host, sizeof host), 0);
    assert_string_equal(runs[0].host, host);
    mt_trace_close(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(events_labels_and_spans_come_back_identical, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_burst_larger_than_the_ring_stalls_and_loses_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_of_one_file_do_not_mix, set_up, tear_down),
        cmocka_unit_test_setup_teardown(measurements_and_settings_are_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_text_longer_than_a_record_may_be_is_cut, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_closed_trace_is_one_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_events_make_the_same_tables, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_recorder_makes_the_tables_of_several, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_live_run_can_be_read_with_its_summaries, set_up, tear_down),
        cmocka_unit_test_setup_teardown(recording_goes_on_below_a_reader_that_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_closed_trace_in_a_folder_is_not_changed_by_reading, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stack_is_stored_from_its_innermost_frame_outwards, set_up, tear_down),
        cmocka_unit_test_setup_teardown(memory_outside_of_the_allocator_is_told_by_moment, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_estimate_outside_has_its_range_and_a_measurement_none, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_knows_its_job_and_the_process_that_recorded_it, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
