/* Runs the program from outside, as a shell does: for tests of commands. Each test runs in a folder of its own. */
#pragma once

#include "folder.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { OUTPUT_BYTES = 1 << 20 };

/* The exit code and the output of a command. */
struct said {
    int code; /* exit code, or 128 + the signal that ended it */
    char out[OUTPUT_BYTES], err[OUTPUT_BYTES];
};

static inline void read_file(const char *path, char *text)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, OUTPUT_BYTES - 1, file)] = '\0';
    fclose(file);
}

static inline int exit_code(int status)
{
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Runs a shell command in which $M is the program and $D the folder tests/data; the answer is valid until the next
 * call. */
static inline const struct said *shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline const struct said *shell(const char *format, ...)
{
    static struct said said;
    char *command, *whole;
    va_list arguments;
    va_start(arguments, format);
    assert_true(vasprintf(&command, format, arguments) >= 0);
    va_end(arguments);
    assert_true(asprintf(&whole, "M='%s'; D='%s'; { %s ; } >out.txt 2>err.txt </dev/null", MT_PROGRAM, MT_TEST_DATA,
                         command) >= 0);
    said.code = exit_code(system(whole));
    free(whole);
    free(command);
    read_file("out.txt", said.out);
    read_file("err.txt", said.err);
    return &said;
}

#define MEMTRACE(arguments) shell("\"$M\" " arguments)

static inline void assert_says(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" is not in: %s", part, text);
}

/* Parses what a command prints that must end with `code`; the caller's. */
static inline json_t *json_of_code(const struct said *said, int code)
{
    json_error_t error;
    if (said->code != code)
        fail_msg("exit code %d: %s", said->code, said->err);
    json_t *json = json_loads(said->out, 0, &error);
    if (json == NULL)
        fail_msg("line %d: %s", error.line, error.text);
    return json;
}

static inline json_t *json_of(const struct said *said)
{
    return json_of_code(said, 0);
}

static inline json_int_t integer_of(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_integer(value))
        fail_msg("%s is no integer", key);
    return json_integer_value(value);
}

static inline const char *text_of(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);
    if (!json_is_string(value))
        fail_msg("%s is no text", key);
    return json_string_value(value);
}

static inline void assert_schema(const json_t *object, const char *schema)
{
    assert_string_equal(text_of(object, "schema"), schema);
}
