#include "base/memory.h"

#include "base/status.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Memory that is given up when the rest is refused. From malloc, since it is freed as any other is. NULL: none, or
 * used. */
static void *_Atomic reserve;
static atomic_bool exhausted;

void mt_host_keep_reserve(size_t bytes)
{
    void *kept = malloc(bytes), *before = NULL;
    if (!atomic_compare_exchange_strong(&reserve, &before, kept))
        free(kept);
}

bool mt_host_is_exhausted(void)
{
    return atomic_load_explicit(&exhausted, memory_order_relaxed);
}

/* Gives up the reserve. False if there is none. */
static bool give_up_reserve(size_t bytes)
{
    void *kept = atomic_exchange(&reserve, NULL);
    if (kept == NULL)
        return false;
    free(kept);
    atomic_store(&exhausted, true);
    fprintf(stderr, "memtrace: out of host memory (%zu bytes were requested): nothing is recorded from here on\n",
            bytes);
    return true;
}

static _Noreturn void end_without_memory(size_t bytes)
{
    fprintf(stderr, "memtrace: out of host memory (%zu bytes were requested)\n", bytes);
    _exit(MT_NO_HOST_MEMORY);
}

void mt_host_exhausted(const char *what)
{
    fprintf(stderr, "memtrace: out of %s\n", what);
    _exit(MT_NO_HOST_MEMORY);
}

void *mt_host_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory == NULL && bytes > 0 && give_up_reserve(bytes))
        memory = calloc(1, bytes);
    if (memory == NULL && bytes > 0)
        end_without_memory(bytes);
    return memory;
}

void *mt_host_resize(void *old, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = PTRDIFF_MAX; /* which is refused */
    void *memory = realloc(old, bytes);
    if (memory == NULL && bytes > 0 && give_up_reserve(bytes))
        memory = realloc(old, bytes);
    if (memory == NULL && bytes > 0)
        end_without_memory(bytes);
    return memory;
}

void *mt_host_zlib_alloc(void *unused, unsigned count, unsigned size)
{
    (void)unused;
    return mt_host_resize(NULL, count, size);
}

void mt_host_zlib_free(void *unused, void *memory)
{
    (void)unused;
    free(memory);
}

void *mt_host_room(void *items, size_t count, size_t item_bytes)
{
    bool is_full = (count & (count - 1)) == 0;
    assert(item_bytes > 0 && (items != NULL || count <= 1)); /* 1: of items that are numbered from 1 */
    return is_full ? mt_host_resize(items, count == 0 ? 1 : count * 2, item_bytes) : items;
}

char *mt_host_strdup(const char *text)
{
    assert(text != NULL);
    size_t bytes = strlen(text) + 1;
    return memcpy(mt_host_alloc(bytes), text, bytes);
}
