/* SQL of users: what it answers, and what it is not let do. */
#include "random_runs.h"

static mt_status begin_sql(void *context, size_t columns, const char *const *names)
{
    (void)context;
    (void)columns;
    (void)names;
    return MT_OK;
}

static mt_status keep_integer(void *context, size_t columns, const struct mt_sql_value *values)
{
    assert_int_equal(columns, 1);
    assert_int_equal(values[0].type, MT_SQL_INTEGER);
    *(int64_t *)context = values[0].integer;
    return MT_OK;
}

static mt_status ask_sql(const struct fixture *fixture, const char *sql, int64_t *answer)
{
    const struct mt_run *run;
    assert_int_equal(mt_trace_find_run(fixture->trace, "1", &run), MT_OK);
    struct mt_sql_visitor visitor = {answer, begin_sql, keep_integer};
    return mt_trace_sql(fixture->trace, run, sql, &visitor);
}

static void sql_answers_and_knows_the_run(void **state)
{
    int64_t answer = 0;
    assert_int_equal(ask_sql(*state, "SELECT id + 41 FROM run WHERE id = :run", &answer), MT_OK);
    assert_int_equal(answer, 42);
    assert_int_equal(ask_sql(*state,
                             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9)"
                             " SELECT count(*) FROM n -- a comment",
                             &answer),
                     MT_OK);
    assert_int_equal(answer, 9);
}

static void sql_refuses_everything_but_reading(void **state)
{
    static const char *const statements[] = {"DELETE FROM event",
                                             "UPDATE run SET name = 'x'",
                                             "INSERT INTO event_kind VALUES (99, 'x')",
                                             "DROP TABLE event",
                                             "CREATE TABLE x (y)",
                                             "CREATE TEMP TABLE x (y)",
                                             "ATTACH 'other.db' AS other",
                                             "DETACH main",
                                             "VACUUM",
                                             "VACUUM INTO 'copy.db'",
                                             "PRAGMA user_version = 7",
                                             "PRAGMA journal_mode = DELETE",
                                             "PRAGMA writable_schema = ON",
                                             "PRAGMA query_only = OFF",
                                             "BEGIN",
                                             "COMMIT",
                                             "SAVEPOINT s",
                                             "REINDEX",
                                             "ANALYZE",
                                             "SELECT load_extension('x')",
                                             "SELECT 1; DELETE FROM event",
                                             "SELECT 1; -- note\n; SELECT 2",
                                             "SELECT 1; nonsense",
                                             "SELECT abs(-9223372036854775807 - 1)",
                                             "-- note",
                                             "SELEC 1",
                                             "",
                                             "SELECT name FROM setting ORDER BY name COLLATE french",
                                             "SELECT zeroblob(3000000000)",
                                             "SELECT 1 LIMIT 'many'",
                                             "SELECT nothing FROM nowhere"};
    int64_t answer;
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        mt_status status = ask_sql(*state, statements[i], &answer);
        if (status != MT_USAGE)
            fail_msg("\"%s\" gave %d (%s)", statements[i], (int)status, mt_last_error());
    }
    assert_int_equal(ask_sql(*state, "SELECT count(*) FROM run", &answer), MT_OK);
    assert_int_equal(answer, RUNS);
}

static void sql_may_end_in_comments(void **state)
{
    static const char *const statements[] = {"SELECT 7", "SELECT 7;", "SELECT 7 -- note", "SELECT 7; -- note",
                                             "SELECT 7; /* one */ ; -- two\n ;"};
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        int64_t answer = 0;
        if (ask_sql(*state, statements[i], &answer) != MT_OK)
            fail_msg("\"%s\": %s", statements[i], mt_last_error());
        assert_int_equal(answer, 7);
    }
}

static void sql_is_told_the_names_that_there_are(void **state)
{
    static const char *const cases[][2] = {
        {"SELECT id FROM events", "unknown table \"events\"; did you mean \"event\", \""},
        {"SELECT id FROM events", "event_kind, "},
        {"SELECT 1 FROM main.allocations", "unknown table \"allocations\""},
        {"SELECT nmae FROM run", "unknown column of run \"nmae\"; did you mean \"name\", "},
        {"SELECT r.nmae FROM RUN AS r, label", "unknown column of label, run \"nmae\"; did you mean \"name\", "},
        {"SELECT nmae FROM run", " id, name, state, started_at, "},
        {"SELECT runner", "no such column: runner"},
        {"SELECT nofunction(1) FROM run", "no such function"},
    };
    int64_t answer;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(ask_sql(*state, cases[i][0], &answer), MT_USAGE);
        if (strstr(mt_last_error(), cases[i][1]) == NULL)
            fail_msg("%s: %s", cases[i][0], mt_last_error());
    }
}

/* Asks for so many columns, to count their rows. */
static mt_status ask_columns(struct fixture *fixture, int columns)
{
    int64_t answer;
    struct mt_text sql = {0};
    mt_text_add(&sql, "SELECT count(*) FROM (SELECT 7");
    for (int i = 1; i < columns; i++)
        mt_text_add(&sql, ", 7");
    mt_text_add(&sql, ")");
    mt_status status = ask_sql(fixture, sql.data, &answer);
    mt_text_release(&sql);
    return status;
}

static void sql_has_at_most_2000_columns(void **state)
{
    assert_int_equal(ask_columns(*state, 2000), MT_OK);
    assert_int_equal(ask_columns(*state, 2001), MT_USAGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RANDOM_TEST(sql_answers_and_knows_the_run),        RANDOM_TEST(sql_refuses_everything_but_reading),
        RANDOM_TEST(sql_is_told_the_names_that_there_are), RANDOM_TEST(sql_may_end_in_comments),
        RANDOM_TEST(sql_has_at_most_2000_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
