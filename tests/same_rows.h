/* Two traces side by side: whether statements of SQL say the same of both. */
#pragma once

#include "program.h"
#include "recorder_fixture.h"

static inline void expect_success(const struct said *said)
{
    if (said->code != 0)
        fail_msg("exit code %d: %s%s", said->code, said->err, said->out);
}

/* Checks that both rows are equal, column by column. */
static inline void expect_same_row(sqlite3_stmt *a, sqlite3_stmt *b, uint64_t number)
{
    for (int i = 0; i < sqlite3_column_count(a); i++) {
        const char *said = (const char *)sqlite3_column_text(a, i), *expected = (const char *)sqlite3_column_text(b, i);
        if (strcmp(said != NULL ? said : "", expected != NULL ? expected : "") != 0)
            fail_msg("row %llu, column %d: %s, and not %s", (unsigned long long)number, i, said, expected);
    }
}

/* Checks that both statements return equal rows. Returns how many. */
static inline uint64_t expect_same(const char *path_a, const char *sql_a, const char *path_b, const char *sql_b)
{
    sqlite3 *databases[] = {sql_open(path_a), sql_open(path_b)};
    sqlite3_stmt *a = sql_prepare(databases[0], sql_a), *b = sql_prepare(databases[1], sql_b);
    uint64_t rows = 0;
    for (;; rows++) {
        int more = sqlite3_step(a);
        assert_int_equal(sqlite3_step(b), more);
        if (more != SQLITE_ROW)
            break;
        expect_same_row(a, b, rows);
    }
    sqlite3_finalize(a);
    sqlite3_finalize(b);
    sqlite3_close(databases[0]);
    sqlite3_close(databases[1]);
    return rows;
}
