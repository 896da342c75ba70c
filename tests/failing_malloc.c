/* Preloaded into a program, refuses memory: the call of malloc, calloc or realloc whose number is MT_FAIL_AT, and with
 * MT_FAIL_ON all after it. With MT_FAIL_COUNT it writes the number of calls there when the program ends. */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);

static atomic_long calls;
static long fail_at = -1;
static bool fails_on;

__attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("MT_FAIL_AT");
    fails_on = getenv("MT_FAIL_ON") != NULL;
    atomic_store(&calls, 0);
    fail_at = at != NULL ? atol(at) : -1;
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("MT_FAIL_COUNT");
    const long count = atomic_load(&calls);
    FILE *file = path != NULL ? fopen(path, "w") : NULL;
    fail_at = -1;
    if (file == NULL)
        return;
    fprintf(file, "%ld\n", count);
    fclose(file);
}

static bool is_refused(void)
{
    const long call = atomic_fetch_add(&calls, 1) + 1;
    const bool refused = fail_at > 0 && (call == fail_at || (fails_on && call > fail_at));
    if (refused)
        errno = ENOMEM;
    return refused;
}

void *malloc(size_t bytes)
{
    return is_refused() ? NULL : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    return is_refused() ? NULL : __libc_calloc(count, bytes);
}

void *realloc(void *old, size_t bytes)
{
    return is_refused() ? NULL : __libc_realloc(old, bytes);
}
