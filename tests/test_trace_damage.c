/* A file that is no trace, or a damaged one, ends in an error message. It crashes neither readers nor recovery. */
#include "recorder_fixture.h"
#include "trace_file_fixture.h"

#include "trace/store/ring.h"

#include <sys/wait.h>

/* Neither a reader nor a writer takes the file for a trace, and it stays as it is. */
static void check_refused(const char *words)
{
    size_t bytes, bytes_after;
    char *before = read_file(&bytes);
    assert_int_equal(open_for_reading(), MT_BAD_TRACE);
    check_error_says(words);
    assert_int_equal(open_for_writing(), MT_BAD_TRACE);
    check_error_says(words);
    char *after = read_file(&bytes_after);
    assert_int_equal(bytes, bytes_after);
    assert_memory_equal(before, after, bytes);
    assert_false(fixture_exists(path, "-ring"));
    free(before);
    free(after);
}

static void text_is_not_a_trace(void **state)
{
    (void)state;
    const char text[] = "once upon a time there was a file that was no database, and it was long enough to look at: "
                        "more than a hundred bytes, the size of SQLite's header.\n";
    write_file(text, sizeof text - 1);
    check_refused("not a trace");
    write_file(text, 10);
    check_refused("not a trace");
}

static void the_database_of_another_program_is_not_a_trace(void **state)
{
    (void)state;
    make_database("CREATE TABLE run (id INTEGER PRIMARY KEY); PRAGMA application_id = 77");
    check_refused("another program");
}

static void a_newer_format_is_named(void **state)
{
    (void)state;
    fixture_record(path, 1, 100);
    make_database("PRAGMA user_version = 99");
    check_refused("newer memtrace (format 99");
}

static void a_trace_without_its_tables_is_damaged(void **state)
{
    (void)state;
    make_database("CREATE TABLE t (a); PRAGMA application_id = 1836348003; PRAGMA user_version = 1");
    check_refused("damaged");
}

static void every_table_is_missed(void **state)
{
    (void)state;
    static const char *const tables[] = {"run",
                                         "setting",
                                         "measurement",
                                         "span",
                                         "label",
                                         "event",
                                         "kernel",
                                         "kernel_name",
                                         "event_kind",
                                         "segment",
                                         "segment_part",
                                         "step",
                                         "checkpoint",
                                         "summary_peak",
                                         "summary_category",
                                         "summary_peak_category",
                                         "summary_allocation",
                                         "block_use"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char sql[100];
        fixture_record(path, 1, 100);
        snprintf(sql, sizeof sql, "DROP TABLE %s", tables[i]);
        make_database(sql);
        check_refused("is damaged (");
        check_error_says(tables[i]);
        unlink(path);
    }
}

static void a_trace_that_was_cut_short_is_damaged(void **state)
{
    (void)state;
    fixture_record(path, 1, 20000);
    size_t bytes;
    free(read_file(&bytes));
    assert_int_equal(truncate(path, (off_t)(bytes / 2)), 0);
    check_refused("cut short");
    assert_int_equal(truncate(path, 5000), 0);
    check_refused("cut short");
    assert_int_equal(truncate(path, 60), 0);
    check_refused("cut short");
}

/* Any byte of the file may be wrong: opening and reading end in a status, never in a signal. */
static void damaged_bytes_never_crash_a_reader(void **state)
{
    (void)state;
    size_t bytes;
    fixture_record(path, 1, 3000);
    char *whole = read_file(&bytes);
    for (uint64_t seed = 0; seed < 200; seed++) {
        char *damaged = malloc(bytes);
        memcpy(damaged, whole, bytes);
        for (uint64_t i = 0; i < 20; i++)
            damaged[mt_splitmix64(seed * 100 + i) % bytes] ^= (char)(1 + mt_splitmix64(seed * 100 + 50 + i) % 255);
        write_file(damaged, bytes);
        free(damaged);
        struct mt_database *reader;
        int64_t sum;
        if (mt_store_open_reading(path, &reader) == MT_OK) {
            mt_status status = mt_database_integer(reader, "SELECT sum(block_bytes) FROM event", &sum);
            assert_true(status == MT_OK || status == MT_BAD_TRACE || status == MT_USAGE);
        }
        mt_database_close(reader);
    }
    free(whole);
}

/* A trace of a run that is said to be running, with damage: recovery refuses or repairs, and does not crash. */
static void damaged_rows_never_crash_recovery(void **state)
{
    (void)state;
    static const char *const damages[] = {
        "UPDATE label SET category = 'nonsense' WHERE id = 1",
        "UPDATE label SET phase = NULL WHERE 0; UPDATE label SET phase = 7 WHERE id = 2",
        "UPDATE event SET kind = 99 WHERE id = 50",
        "UPDATE event SET kind = -1 WHERE id = 50",
        "UPDATE event SET allocation = -1 WHERE kind = 3",
        "UPDATE event SET segment = 4000000000, offset = -1",
        "UPDATE event SET label = 1 << 40",
        "DELETE FROM label",
        "DELETE FROM segment",
        "UPDATE event SET kind = 1 WHERE kind = 0 AND offset > 0",
        "UPDATE event SET offset = offset + 5, block_bytes = -7 WHERE kind = 0",
        "DELETE FROM event WHERE id % 3 = 0",
        "UPDATE segment SET address = -1; UPDATE event SET offset = 0",
        "UPDATE run SET first_event = -5, event_count = 1 << 40, ring_position = -3",
        "UPDATE run SET first_event = 9223372036854775807",
        "INSERT INTO kernel SELECT id, 9223372036854775807, 0, 0, 1, NULL, NULL, 0 FROM run",
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        fixture_record(path, 1, 6000);
        make_database(damages[i]);
        make_database("UPDATE run SET state = 'running'");
        mt_status status = open_for_reading();
        assert_true(status == MT_OK || status == MT_BAD_TRACE);
        unlink(path);
        fixture_remove(path);
        fixture_path(path);
    }
}

/* A file may answer a change with statements of its own, or refuse it without a word: neither is carried out, nor waited
 * for. */
static void a_run_that_refuses_to_end_is_not_waited_for(void **state)
{
    (void)state;
    static const char *const schemas[] = {
        "CREATE TRIGGER stays BEFORE UPDATE ON run BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER forges AFTER UPDATE ON run BEGIN UPDATE run SET device = 'forged'; END",
        "CREATE UNIQUE INDEX one_of_a_kind ON run (state)",
    };
    for (size_t i = 0; i < sizeof schemas / sizeof schemas[0]; i++) {
        fixture_record(path, 1, 100);
        make_database("UPDATE run SET state = 'running'");
        make_database(schemas[i]);
        assert_int_equal(open_for_reading(), MT_OK);
        assert_string_equal(sql_text(path, "SELECT state FROM run"), "interrupted");
        assert_string_equal(sql_text(path, "SELECT device FROM run"), "sim:24GiB");
        unlink(path);
    }
    fixture_record(path, 1, 100);
    fixture_record(path, 2, 100);
    make_database(
        "UPDATE run SET state = iif(id = 1, 'interrupted', 'running'); CREATE TABLE copy AS SELECT * FROM run;"
        "DROP TABLE run; CREATE TABLE run (id INTEGER PRIMARY KEY, name, state UNIQUE ON CONFLICT IGNORE,"
        " started_at, device, capacity_bytes, first_event, event_count, ring_position, lost_events,"
        " stall_count, stall_ns, complete_from_bytes); INSERT INTO run SELECT * FROM copy");
    assert_int_equal(open_for_reading(), MT_OK);
    assert_string_equal(sql_text(path, "SELECT state FROM run WHERE id = 2"), "running");
}

/* A run of a process that ended without closing it: most of its events are in the ring only. */
static void leave_ring(uint64_t seed)
{
    int how;
    pid_t child = fork();
    if (child == 0) {
        struct script script = script_begin(seed, mt_recorder_sink(fixture_open(path, 1 << 14)));
        script_emit(&script, 6000);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* As a process leaves the file that is killed while it writes without a WAL, as the last step of closing does. */
static void leave_half_a_transaction(void)
{
    int how;
    pid_t child = fork();
    if (child == 0) {
        sqlite3 *handle;
        const char sql[] = "PRAGMA cache_size = 1; BEGIN; UPDATE event SET time_ns = -1";
        bool left =
            sqlite3_open(path, &handle) == SQLITE_OK && sqlite3_exec(handle, sql, NULL, NULL, NULL) == SQLITE_OK;
        _exit(left ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

static void half_a_transaction_is_undone(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        fixture_record(path, 1, 6000);
        leave_half_a_transaction();
        assert_true(fixture_exists(path, "-journal"));
        write_file_at(beside(".db-ring"), "", 0);
        assert_int_equal(i == 0 ? open_for_reading() : open_for_writing(), MT_OK);
        assert_int_equal(fixture_check_run(path, 1, 1), 6000);
        unlink(path);
    }
}

/* The ways of damaging a record. Returns whether it did. */
static bool same_place(union mt_record *record, uint64_t random)
{
    (void)random;
    record->event.offset = record->event.kind == MT_EVENT_ALLOC ? UINT64_MAX : record->event.offset;
    return record->event.kind == MT_EVENT_ALLOC;
}

static bool unknown_category(union mt_record *record, uint64_t random)
{
    record->event.label |= (mt_label_id)(random % 8 == 0 ? 0xF8 : 0) << MT_LABEL_NUMBER_BITS;
    return random % 8 == 0;
}

static bool any_byte(union mt_record *record, uint64_t random)
{
    if (random % 16 == 0)
        ((unsigned char *)record)[random / 16 % sizeof *record] ^= (unsigned char)(1 + random / 4096 % 255);
    return random % 16 == 0;
}

static void damage_ring(uint64_t seed, bool (*damage)(union mt_record *record, uint64_t random))
{
    union mt_record record;
    uint64_t damaged = 0;
    FILE *file = fopen(beside(".db-ring"), "r+");
    assert_non_null(file);
    for (long i = 0; i < 6000; i++) {
        long at = 4096 + i * (long)sizeof record;
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fread(&record, sizeof record, 1, file), 1);
        damaged += damage(&record, mt_splitmix64(seed * 10007 + (uint64_t)i));
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        assert_int_equal(fwrite(&record, sizeof record, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
    assert_true(damaged > 100);
}

static void damaged_records_never_crash_recovery(void **state)
{
    (void)state;
    bool (*const damages[])(union mt_record *, uint64_t) = {same_place, unknown_category, any_byte, any_byte, any_byte};
    for (uint64_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        leave_ring(i);
        damage_ring(i, damages[i]);
        mt_status status = open_for_reading();
        if (status != MT_OK)
            fail_msg("damage %d: status %d, %s", (int)i, status, mt_last_error());
        fixture_remove(path);
        fixture_path(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(text_is_not_a_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_database_of_another_program_is_not_a_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_newer_format_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trace_without_its_tables_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_table_is_missed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trace_that_was_cut_short_is_damaged, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_bytes_never_crash_a_reader, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_rows_never_crash_recovery, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_refuses_to_end_is_not_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(half_a_transaction_is_undone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_records_never_crash_recovery, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
