#include "base/memory.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mt_host_exhausted(const char *what)
{
    fprintf(stderr, "memtrace: out of %s\n", what);
    abort();
}

/* Returns `memory`; ends the process if it is NULL. */
static void *check(void *memory, size_t bytes)
{
    if (memory != NULL || bytes == 0)
        return memory;
    fprintf(stderr, "memtrace: out of host memory (%zu bytes)\n", bytes);
    abort();
}

void *mt_host_alloc(size_t bytes)
{
    return check(calloc(1, bytes), bytes);
}

void *mt_host_resize(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = SIZE_MAX;
    return check(realloc(old, bytes), bytes);
}

void *mt_host_room(void *items, size_t count, size_t item_bytes)
{
    bool is_full = (count & (count - 1)) == 0;
    assert(item_bytes > 0 && (items != NULL || count == 0));
    return is_full ? mt_host_resize(items, count == 0 ? 1 : count * 2, item_bytes) : items;
}

char *mt_host_strdup(const char *text)
{
    assert(text != NULL);
    size_t bytes = strlen(text) + 1;
    return memcpy(mt_host_alloc(bytes), text, bytes);
}
