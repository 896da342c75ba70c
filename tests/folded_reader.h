/* Reads folded stacks, with one or two columns, for tests of their writers. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LINE_BYTES = 4096 };

/* A line of folded stacks, split into its columns. */
struct line {
    char stack[LINE_BYTES];
    uint64_t bytes[2];
};

/* Cuts a column of digits off the end. */
static inline uint64_t cut_column(char *line)
{
    char *blank = strrchr(line, ' ');
    assert_non_null(blank);
    assert_true(blank[1] != '\0' && blank[1 + strspn(blank + 1, "0123456789")] == '\0');
    *blank = '\0';
    return strtoull(blank + 1, NULL, 10);
}

/* Returns the next line of *text; false at the end. */
static inline bool next_line(char **text, int columns, struct line *out)
{
    size_t length = strcspn(*text, "\n");
    if (**text == '\0')
        return false;
    assert_true(length < LINE_BYTES);
    snprintf(out->stack, sizeof out->stack, "%.*s", (int)length, *text);
    for (int column = columns - 1; column >= 0; column--)
        out->bytes[column] = cut_column(out->stack);
    *text += length + 1;
    return true;
}

static inline uint64_t sum_of_column(char *text, int columns, int column)
{
    struct line line;
    uint64_t sum = 0;
    while (next_line(&text, columns, &line))
        sum += line.bytes[column];
    return sum;
}

static inline size_t count_of_lines(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += *text == '\n';
    return count;
}
