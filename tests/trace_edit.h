/* Changing a trace behind the program's back, as a foreign hand or damage would. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>

/* Executes statements of SQL on the database at `path`, which is there; the test fails if they do. */
static inline void edit_trace(const char *path, const char *sql)
{
    sqlite3 *database;
    char *error = NULL;
    assert_int_equal(sqlite3_open(path, &database), SQLITE_OK);
    if (sqlite3_exec(database, sql, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", sql, error);
    sqlite3_close(database);
}
