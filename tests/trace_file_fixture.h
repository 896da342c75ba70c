/* The fixture of tests of a trace's file: one path for each test, opening it, and the files there. */
#pragma once

#include "trace_path.h"

#include "trace/store/database.h"
#include "trace/store/store.h"

static inline mt_status open_for_writing(void)
{
    const struct mt_run_info info = {.device = "sim", .capacity_bytes = 1};
    struct mt_recorder *recorder;
    mt_status status = mt_recorder_open(path, &info, &recorder);
    mt_recorder_close(recorder, MT_RUN_DONE);
    return status;
}

static inline mt_status open_for_reading(void)
{
    struct mt_database *reader;
    mt_status status = mt_store_open_reading(path, &reader);
    mt_database_close(reader);
    return status;
}

static inline void check_error_says(const char *words)
{
    if (strstr(mt_last_error(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", mt_last_error(), words);
}

static inline void write_file_at(const char *name, const char *content, size_t bytes)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static inline void write_file(const char *content, size_t bytes)
{
    write_file_at(path, content, bytes);
}

static inline char *read_file_at(const char *name, size_t *bytes)
{
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    char *content = NULL;
    FILE *copy = open_memstream(&content, bytes);
    for (int byte; (byte = getc(file)) != EOF;)
        putc(byte, copy);
    fclose(copy);
    fclose(file);
    return content;
}

static inline char *read_file(size_t *bytes)
{
    return read_file_at(path, bytes);
}

/* The trace's path with `ending` in place of ".db". */
static inline const char *beside(const char *ending)
{
    static char name[FIXTURE_PATH_BYTES + 16];
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(path) - strlen(".db")), path, ending);
    return name;
}

/* Runs SQL on the file, of which it makes a database if there is none. */
static inline void make_database(const char *sql)
{
    sqlite3 *handle;
    assert_int_equal(sqlite3_open(path, &handle), SQLITE_OK);
    assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(handle);
}
