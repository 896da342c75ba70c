/* docs/schema.md is true: its queries run, give rows, and every table and column is explained. */
#include "recorder_fixture.h"

#ifndef MT_TEST_DATA
#error "MT_TEST_DATA is the folder tests/data"
#endif

static char path[FIXTURE_PATH_BYTES];
static char *document;

static int set_up(void **state)
{
    (void)state;
    size_t bytes;
    FILE *file = fopen(MT_TEST_DATA "/../../docs/schema.md", "r");
    FILE *copy = open_memstream(&document, &bytes);
    if (file == NULL || copy == NULL)
        return -1;
    for (int byte; (byte = getc(file)) != EOF;)
        putc(byte, copy);
    fclose(file);
    fclose(copy);
    fixture_path(path);
    fixture_record(path, 1, 2000);
    fixture_record(path, 2, 5000);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    free(document);
    fixture_remove(path);
    return 0;
}

/* The rows of a query, and the sum of their last column. */
static int run_query(const char *sql, double *sum)
{
    int rows = 0;
    sqlite3 *handle = sql_open(path);
    sqlite3_stmt *statement = sql_prepare(handle, sql);
    *sum = 0;
    for (; sqlite3_step(statement) == SQLITE_ROW; rows++)
        *sum += sqlite3_column_double(statement, sqlite3_column_count(statement) - 1);
    assert_int_equal(sqlite3_finalize(statement), SQLITE_OK);
    sqlite3_close(handle);
    return rows;
}

/* The n-th ```sql block of the document, from 0; NULL if there are not so many. Allocated. */
static char *query_of_document(int n)
{
    const char *at = document;
    for (int i = 0; at != NULL && i <= n; i++)
        at = strstr(at + (i > 0), "```sql\n");
    if (at == NULL)
        return NULL;
    at += strlen("```sql\n");
    return strndup(at, (size_t)(strstr(at, "```") - at));
}

static void every_query_of_the_document_gives_rows(void **state)
{
    (void)state;
    int queries = 0;
    double sum;
    for (char *sql; (sql = query_of_document(queries)) != NULL; queries++) {
        if (run_query(sql, &sum) == 0)
            fail_msg("no rows from: %s", sql);
        free(sql);
    }
    assert_int_equal(queries, 7);
}

static void the_events_by_kind_are_those_of_the_newest_run(void **state)
{
    (void)state;
    double events;
    char *sql = query_of_document(0);
    run_query(sql, &events);
    assert_int_equal((int)events, 5000);
    free(sql);
}

static void those_held_longest_after_their_last_use_are_ten(void **state)
{
    (void)state;
    double held_ns;
    char *sql = query_of_document(3);
    assert_int_equal(run_query(sql, &held_ns), 10);
    assert_true(held_ns > 0);
    free(sql);
}

static void the_longest_lived_are_ten(void **state)
{
    (void)state;
    double unused;
    char *sql = query_of_document(1);
    assert_int_equal(run_query(sql, &unused), 10);
    free(sql);
}

/* True if the section of the table, or the table of event kinds, names the column between backticks. */
static void check_explained(const char *table, const char *column)
{
    char heading[64], quoted[64];
    snprintf(heading, sizeof heading, "\n### %s\n", table);
    snprintf(quoted, sizeof quoted, "`%s`", column);
    const char *section = strstr(document, heading);
    if (section == NULL)
        fail_msg("no section for table %s", table);
    const char *end = strstr(section + 1, "\n### "), *found = strstr(section, quoted);
    if (found == NULL || (end != NULL && found > end))
        fail_msg("%s.%s is not explained", table, column);
}

static void every_column_is_explained(void **state)
{
    (void)state;
    int columns = 0;
    sqlite3 *handle = sql_open(path);
    sqlite3_stmt *row = sql_prepare(handle, "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c"
                                            " WHERE t.type = 'table'");
    for (; sqlite3_step(row) == SQLITE_ROW; columns++)
        check_explained((const char *)sqlite3_column_text(row, 0), (const char *)sqlite3_column_text(row, 1));
    sqlite3_finalize(row);
    sqlite3_close(handle);
    assert_true(columns > 60);
}

static void the_kinds_are_numbered_as_the_document_says(void **state)
{
    (void)state;
    assert_string_equal(sql_text(path, "SELECT group_concat(name) FROM (SELECT name FROM event_kind ORDER BY id)"),
                        "segment_map,segment_unmap,alloc,free,oom,span_begin,span_end,step_begin,step_end,phase,"
                        "relabel");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_query_of_the_document_gives_rows),
        cmocka_unit_test(the_events_by_kind_are_those_of_the_newest_run),
        cmocka_unit_test(the_longest_lived_are_ten),
        cmocka_unit_test(those_held_longest_after_their_last_use_are_ten),
        cmocka_unit_test(every_column_is_explained),
        cmocka_unit_test(the_kinds_are_numbered_as_the_document_says),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
