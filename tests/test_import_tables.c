/* Imports of tables: Nsight Systems' databases and RMM's logs, in all forms that their writers and later tools may
 * give them. */
#include "same_rows.h"

#include "base/status.h"

/* Nsight's export has tables and columns only where something was recorded, and may have others. */
static void tables_of_nsight_may_be_absent(void **state)
{
    (void)state;
    expect_success(shell("rm -f b.db* few.sqlite; python3 -c \"import sqlite3; d = sqlite3.connect('few.sqlite');"
                         " d.execute('CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start, address, bytes, memKind,"
                         " memoryOperationType)'); d.executemany('INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES"
                         " (?,?,?,?,?)', [(5, 4096, 100, 2, 0), (6, 8192, 50, 1, 0), (7, 4096, 100, 2, 1),"
                         " (9, 4096, 300, 4, 0)]); d.execute('CREATE VIEW NVTX_EVENTS AS WITH RECURSIVE n(start) AS"
                         " (SELECT 1 UNION ALL SELECT start + 1 FROM n) SELECT start, start AS end, 59 AS eventType"
                         " FROM n'); d.commit()\" && \"$M\" import few.sqlite --trace b.db"));
    static const char both[] = "SELECT requested_bytes FROM event WHERE kind = 2 ORDER BY id";
    static const char expected[] = "SELECT bytes FROM CUDA_GPU_MEMORY_USAGE_EVENTS WHERE memKind <> 1 AND"
                                   " memoryOperationType = 0 ORDER BY start";
    assert_int_equal(expect_same("b.db", both, "few.sqlite", expected), 2);
}

/* Makes a database like Nsight's with Python, and imports it. */
static const struct said *import_database(const char *python, const char *options)
{
    return shell("rm -f b.db* x.sqlite; python3 -c \"import sqlite3; d = sqlite3.connect('x.sqlite'); p = 0x1000000\n"
                 "def table(name, columns, rows):\n"
                 " d.execute('CREATE TABLE %%s (%%s)' %% (name, columns))\n"
                 " d.executemany('INSERT INTO %%s VALUES (%%s)' %% (name, ','.join('?' * len(rows[0]))), rows)\n"
                 "%s\nd.commit()\" && \"$M\" import x.sqlite --trace b.db %s",
                 python, options);
}

/* In a report about several processes, the run has the events, ranges and kernels of the chosen one alone. */
static void ranges_and_kernels_are_those_of_the_process(void **state)
{
    (void)state;
    static const char two_ranks[] =
        "table('CUDA_GPU_MEMORY_USAGE_EVENTS', 'start, globalPid, deviceId, address, bytes, memKind, "
        "memoryOperationType',"
        " [(10, 7 * p, 1, 4096, 100, 2, 0), (11, 8 * p, 0, 4096, 50, 2, 0), (12, 7 * p, 1, 8192, 100, 2, 0),"
        " (13, 7 * p, 0, 4096, 1, 2, 0)])\n"
        "table('NVTX_EVENTS', 'start, end, eventType, text, globalTid',"
        " [(1, 90, 59, 'step 0', 7 * p + 5), (1, 90, 59, 'step 0', 8 * p + 5), (2, 80, 59, 'theirs', 8 * p + 5)])\n"
        "table('StringIds', 'id, value', [(1, 'k')])\n"
        "table('CUPTI_ACTIVITY_KIND_KERNEL', 'start, end, deviceId, streamId, globalPid, demangledName',"
        " [(20, 30, 1, 7, 7 * p, 1), (20, 31, 0, 7, 8 * p, 1), (20, 32, 0, 7, 7 * p, 1)])";
    const struct said *said = import_database(two_ranks, "--json >said.json");
    expect_success(said);
    assert_string_equal(sql_text("b.db", "SELECT group_concat(requested_bytes) FROM event WHERE kind = 2"), "100,100");
    assert_int_equal(sql_integer("b.db", "SELECT count(*) FROM step"), 1);
    assert_int_equal(sql_integer("b.db", "SELECT count(*) FROM span"), 0);
    assert_string_equal(sql_text("b.db", "SELECT group_concat(duration_ns) FROM kernel"), "10");
    json_t *json = json_load_file("said.json", 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(json, "device")), 1);
    assert_int_equal(json_integer_value(json_object_get(json, "elsewhere")), 2);
    json_decref(json);
    assert_says(import_database(two_ranks, "--device 0")->out, "That is device 0 alone: 3 more events");
}

/* Ranges of one thread nest, the longest outside where several begin at once; ranges of another thread are apart. A
 * name that repeats the one around it has it once, and names may be numbers of texts. */
static void ranges_lie_in_each_other_by_thread(void **state)
{
    (void)state;
    expect_success(import_database(
        "table('CUDA_GPU_MEMORY_USAGE_EVENTS', 'start, globalPid, address, bytes, memKind, memoryOperationType',"
        " [(50, p, 4096, 1, 2, 0), (70, p, 8192, 2, 2, 0)])\n"
        "table('NVTX_EVENTS', 'start, end, eventType, text, textId, globalTid',"
        " [(10, 60, 59, 'model.inner', None, p + 1), (10, 90, 59, 'model', None, p + 1), (10, 61, 59, None, 3, p + 1),"
        " (20, 55, 59, 'model.text.model.inner.deep', None, p + 1),"
        " (65, 80, 59, 'other', None, p + 2)])\n"
        "table('StringIds', 'id, value', [(3, 'text'), (4, 'k')])\n"
        "table('CUPTI_ACTIVITY_KIND_KERNEL', 'start, end, demangledName', [(60, 50, 4), (60, 75, 4)])",
        ""));
    assert_string_equal(sql_text("b.db", "SELECT group_concat(path, ' ') FROM (SELECT path FROM event JOIN label ON"
                                         " label.id = label JOIN span ON span.id = label.span WHERE kind = 2)"),
                        "model.text.model.inner.deep other");
    assert_string_equal(sql_text("b.db", "SELECT group_concat(path, ' ') FROM span ORDER BY id"),
                        "model model.text model.text.model model.text.model.inner model.text.model.inner.deep other");
    assert_string_equal(sql_text("b.db", "SELECT group_concat(duration_ns) FROM kernel"), "15");
}

/* A column that no export can lack is named when it is missing. */
static void a_column_that_is_needed_is_named(void **state)
{
    (void)state;
    static const char *const columns[] = {"start", "address", "bytes"};
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        char python[300];
        snprintf(
            python, sizeof python,
            "table('CUDA_GPU_MEMORY_USAGE_EVENTS', 'start, address, bytes, memoryOperationType'.replace('%s', 'x'),"
            " [(1, 2, 3, 0)])",
            columns[i]);
        const struct said *said = import_database(python, "");
        assert_int_equal(said->code, MT_BAD_TRACE);
        assert_says(said->err, "has no column ");
        assert_says(said->err, columns[i]);
    }
    json_t *json = json_of(import_database("table('CUDA_GPU_MEMORY_USAGE_EVENTS', 'start, address, bytes,"
                                           " memoryOperationType', [(1, 2, 3, 0)])",
                                           "--json"));
    assert_true(json_is_null(json_object_get(json, "device"))); /* the table has no column for it */
    assert_int_equal(integer_of(json, "elsewhere"), 0);
    json_decref(json);
}

#define HEADER "Thread,Time,Action,Pointer,Size,Stream"

/* Lines of a log, with \
 * and the like as in printf. */
static const struct said *import_log(const char *lines)
{
    return shell("rm -f b.db*; printf '%s' >x.csv && \"$M\" import x.csv --trace b.db", lines);
}

/* Quoted fields, line ends and marks as spreadsheets write them. */
static void a_log_may_have_gone_through_other_programs(void **state)
{
    (void)state;
    static const char *const logs[] = {
        HEADER "\\n1,10:00:01.5,allocate,0x1000,700,0x0\\n1,10:00:01.6,free,0x1000,700,0x0\\n",
        HEADER "\\r\\n1,10:00:01.5,allocate,0x1000,700,0x0\\r\\n1,10:00:01.6,free,0x1000,700,0x0",
        "\\357\\273\\277Time,Action,Pointer,Size,Stream\\n10:00:01.5,allocate,0x1000,700,0x0\\n"
        "10:00:01.6,free,0x1000,700,0x0\\n",
        "\"Note\",\"Time\",Action,Pointer,Size,Stream\\n\"a, "
        "\"\"b\"\"\\nc\",\"10:00:01.5\",allocate,0x1000,\"700\",0x0\\n"
        ",10:00:01.6,free,0x1000,700,0x0\\n",
        HEADER "\\n1,10:00:01.5,allocate,0x1000,700,0x0\\n1,10:00:01.5,allocate,(nil),0,(nil)\\n"
               "1,10:00:01.6,free,0x1000,700,0x0\\n",
        HEADER "\\n1,10:00:01.5,allocate,0x1000,700,0x0\\n1,10:00:01.6,free,0x1000,700,\"0x0\""};
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        expect_success(import_log(logs[i]));
        assert_string_equal(sql_text("b.db", "SELECT group_concat(kind || ' ' || requested_bytes || ' ' || time_ns)"
                                             " FROM event WHERE kind IN (2, 3)"),
                            "2 700 0,3 700 100000000");
    }
}

/* A log has no dates: a time that goes back a little is out of order, and one that goes far back is of the next day. */
static void a_log_goes_on_after_midnight(void **state)
{
    (void)state;
    expect_success(import_log(HEADER "\\n1,23:59:59.5,allocate,0x1000,1,0\\n1,23:59:59.4,allocate,0x2000,2,0\\n"
                                     "1,00:00:01.5,allocate,0x3000,3,0\\n1,00:00:02.5,allocate,0x4000,4,0\\n"));
    assert_string_equal(sql_text("b.db", "SELECT group_concat(time_ns / 1000000) FROM event WHERE kind = 2"),
                        "0,0,2000,3000");
}

/* Nothing is known of a block but its size. */
static void a_log_says_nothing_of_roles(void **state)
{
    (void)state;
    expect_success(import_log(HEADER "\\n1,10:00:01.5,allocate,0x1000,700,0x0\\n"));
    const struct said *said = shell("\"$M\" events --trace b.db --csv");
    expect_success(said);
    assert_says(said->out, "Other,unknown");
}

/* A quote without an end takes the rest; the error has the line where it begins. */
static void a_damaged_line_is_told_by_its_number(void **state)
{
    (void)state;
    static const char *const logs[][2] = {
        {HEADER "\\n1,10:00:01.5,allocate,0x1000,700,0x0\\n1,10:00:01.6,\"free,0x1000,700,0x0\\n", "line 3"},
        {"Note," HEADER "\\n\"a\\nb\",1,10:00:01.5,allocate,0x1000,700,0x0\\n,1,10:00:01.6,free,0x1000,-5,0x0\\n",
         "line 4 of the log has no size, but \"-5\""}};
    for (size_t i = 0; i < sizeof logs / sizeof logs[0]; i++) {
        const struct said *said = import_log(logs[i][0]);
        assert_int_equal(said->code, MT_BAD_TRACE);
        assert_says(said->err, logs[i][1]);
    }
}

/* A program that is killed leaves a part of a line. */
static void a_log_may_end_within_a_line(void **state)
{
    (void)state;
    static const char line[] = "1,10:00:01.6,allocate,0x2000,512,0x0";
    static const int lengths[] = {1, 7, 16, 25, 33};
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        char log[200];
        snprintf(log, sizeof log, HEADER "\\n1,10:00:01.5,allocate,0x1000,700,0x0\\n%.*s", lengths[i], line);
        const struct said *said = import_log(log);
        expect_success(said);
        assert_says(said->out, "The file ends within a line, which was left out");
        assert_string_equal(sql_text("b.db", "SELECT group_concat(requested_bytes) FROM event WHERE kind = 2"), "700");
    }
}

/* The manual of RMM shows seconds since 1970 and the action "deallocate". */
static void a_log_may_be_as_the_manual_has_it(void **state)
{
    (void)state;
    expect_success(import_log(HEADER "\\n14057,1634567890.123456,allocate,0x7f8a40000000,1024,0x7f8a38001020\\n"
                                     "14057,1634567890.234567,allocate,0x7f8a40000400,2048,0x7f8a38001020\\n"
                                     "14057,1634654291.345678,deallocate,0x7f8a40000000,1024,0x7f8a38001020\\n"));
    assert_string_equal(sql_text("b.db",
                                 "SELECT group_concat(kind || ' ' || requested_bytes || ' ' || time_ns) FROM event"
                                 " WHERE kind IN (2, 3)"),
                        "2 1024 0,2 2048 111111000,3 1024 86401222222000");
}

static int set_up(void **state)
{
    *state = enter_folder("test_import_tables");
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_nsight_may_be_absent),
        cmocka_unit_test(ranges_and_kernels_are_those_of_the_process),
        cmocka_unit_test(ranges_lie_in_each_other_by_thread),
        cmocka_unit_test(a_column_that_is_needed_is_named),
        cmocka_unit_test(a_log_may_have_gone_through_other_programs),
        cmocka_unit_test(a_log_goes_on_after_midnight),
        cmocka_unit_test(a_log_says_nothing_of_roles),
        cmocka_unit_test(a_damaged_line_is_told_by_its_number),
        cmocka_unit_test(a_log_may_end_within_a_line),
        cmocka_unit_test(a_log_may_be_as_the_manual_has_it),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
