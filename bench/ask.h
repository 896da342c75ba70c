/* Asking the program from outside, as a user would: a command line, what it printed, its exit code.
 *
 * Relies on a program and a folder of the benchmark's own, in which it is run; what it says on stderr passes
 * through. */
#pragma once

#include "base/memory.h"
#include "base/text.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

struct asker {
    const char *program;
};

/* Starts `memtrace ARGUMENTS`; read what it prints, then end it. NULL if there is no process to be had. */
static inline FILE *ask_begin(const struct asker *asker, const char *arguments)
{
    struct mt_text command = {0};
    mt_text_add(&command, "'%s' %s", asker->program, arguments);
    fflush(NULL);
    FILE *answer = popen(command.data, "r");
    mt_text_release(&command);
    return answer;
}

/* Its exit code, or -1 if it was ended by a signal. */
static inline int ask_end(FILE *answer)
{
    int status = answer != NULL ? pclose(answer) : -1;
    return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Runs it to its end. What it printed goes to *out, which the caller releases; NULL: it is not wanted. */
static inline int ask(const struct asker *asker, const char *arguments, struct mt_text *out)
{
    FILE *answer = ask_begin(asker, arguments);
    char line[4096];
    while (answer != NULL && fgets(line, sizeof line, answer) != NULL)
        if (out != NULL)
            mt_text_add(out, "%s", line);
    return ask_end(answer);
}

/* As ask, of arguments as printf formats them. */
static inline int ask_formatted(const struct asker *asker, struct mt_text *out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static inline int ask_formatted(const struct asker *asker, struct mt_text *out, const char *format, ...)
{
    char arguments[4096];
    va_list values;
    va_start(values, format);
    vsnprintf(arguments, sizeof arguments, format, values);
    va_end(values);
    return ask(asker, arguments, out);
}

/* The answer to a command with --json; NULL if it failed. The caller's. */
static inline json_t *ask_json(const struct asker *asker, const char *arguments)
{
    struct mt_text text = {0};
    int code = ask(asker, arguments, &text);
    json_t *answer = code == 0 && text.data != NULL ? json_loads(text.data, 0, NULL) : NULL;
    if (answer == NULL)
        fprintf(stderr, "memtrace %s: exit code %d\n", arguments, code);
    mt_text_release(&text);
    return answer;
}
