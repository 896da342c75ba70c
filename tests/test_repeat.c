/* A run repeated on the simulated device gives the same trace, row by row and byte by byte, but for when and by which
 * process it was recorded, how long its writer made it wait, and how many events each of the writer's commits had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sqlite3.h>

#include <cmocka.h>

enum { QUERY_TEXT = 1024 };

static void record(const char *path, const char *arguments)
{
    char command[QUERY_TEXT];
    snprintf(command, sizeof command, "'%s' run --model small --seq 64 --device sim --trace %s %s >/dev/null",
             MT_PROGRAM, path, arguments);
    assert_int_equal(system(command), 0);
}

/* The columns of a table that must repeat, as SQL: all but the recording's own. */
static void columns_of(sqlite3 *db, const char *table, char *out)
{
    sqlite3_stmt *statement;
    char query[QUERY_TEXT];
    snprintf(query, sizeof query,
             "SELECT group_concat('quote(' || name || ')', '||'',''||') FROM pragma_table_info('%s') WHERE name NOT IN "
             "('started_at', 'stall_count', 'stall_ns', 'host', 'pid')",
             table);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &statement, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    snprintf(out, QUERY_TEXT, "%s", (const char *)sqlite3_column_text(statement, 0));
    sqlite3_finalize(statement);
}

static sqlite3_stmt *rows_of(sqlite3 *db, const char *table, const char *columns)
{
    sqlite3_stmt *statement;
    char query[2 * QUERY_TEXT];
    snprintf(query, sizeof query, "SELECT %s FROM \"%s\"", columns, table);
    assert_int_equal(sqlite3_prepare_v2(db, query, -1, &statement, NULL), SQLITE_OK);
    return statement;
}

/* Compares a table of both traces in the order of its rows; returns how many there are. */
static size_t compare_table(sqlite3 *a, sqlite3 *b, const char *table)
{
    char columns[QUERY_TEXT];
    size_t count = 0;
    columns_of(a, table, columns);
    sqlite3_stmt *rows_a = rows_of(a, table, columns), *rows_b = rows_of(b, table, columns);
    for (;; count++) {
        int more = sqlite3_step(rows_a);
        assert_int_equal(sqlite3_step(rows_b), more);
        if (more != SQLITE_ROW)
            break;
        assert_string_equal((const char *)sqlite3_column_text(rows_a, 0), (const char *)sqlite3_column_text(rows_b, 0));
    }
    sqlite3_finalize(rows_a);
    sqlite3_finalize(rows_b);
    return count;
}

static void compare(const char *path_a, const char *path_b)
{
    sqlite3 *a, *b;
    sqlite3_stmt *tables;
    size_t rows = 0;
    assert_int_equal(sqlite3_open_v2(path_a, &a, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_open_v2(path_b, &b, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(a, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name <> 'batch'",
                                        -1, &tables, NULL),
                     SQLITE_OK);
    while (sqlite3_step(tables) == SQLITE_ROW)
        rows += compare_table(a, b, (const char *)sqlite3_column_text(tables, 0));
    print_message("%zu rows are equal\n", rows);
    assert_true(rows > 10000);
    sqlite3_finalize(tables);
    sqlite3_close(a);
    sqlite3_close(b);
}

static void a_repeated_run_gives_the_same_trace(void **state)
{
    (void)state;
    static const char *const settings[] = {"", "--autocast bf16 --alloc policy=torch --rope on --seed 7"};
    char folder[] = "/tmp/memtrace-repeat-XXXXXX";
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        record("a.db", settings[i]);
        record("b.db", settings[i]);
        compare("a.db", "b.db");
        assert_int_equal(unlink("a.db"), 0);
        assert_int_equal(unlink("b.db"), 0);
    }
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_repeated_run_gives_the_same_trace)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
