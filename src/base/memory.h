/* Host memory that is never refused, for bookkeeping without which the program could not go on. Running out ends the
 * process, with a message and the exit code MT_NO_HOST_MEMORY. A size that a user chooses is checked before it comes
 * here.
 *
 * A process that is only watched must not end because of us. There, a reserve is kept from the beginning. When memory
 * runs out the reserve is given up for what is under way, and from then on nothing more is begun
 * (mt_host_is_exhausted). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Keeps so many bytes for the moment when there are none: enough for what a recorder has begun. Called again, it does
 * nothing. From any thread. */
enum { MT_HOST_RESERVE_BYTES = 16 << 20 };
void mt_host_keep_reserve(size_t bytes);

/* True once the reserve was given up. From any thread. */
bool mt_host_is_exhausted(void);

/* Returns zeroed memory. The caller frees it with free(). */
void *mt_host_alloc(size_t bytes);

/* As realloc to count * size bytes, with the product checked; what is new is not zeroed. */
void *mt_host_resize(void *old, size_t count, size_t size);

/* Returns `items`, moved if need be, with room for one more after `count` of them: for arrays that grow one by one.
 * Such an array stores no capacity, since it is full whenever the count is a power of two; an empty one is NULL. What
 * is new is not zeroed. */
void *mt_host_room(void *items, size_t count, size_t item_bytes);

/* Adds an item to such an array, which `items` and `count` are, and yields its address: *MT_HOST_ADD(list, count) =
 * item. Evaluates both more than once. */
#define MT_HOST_ADD(items, count)                                                                                      \
    ((items) = mt_host_room((items), (size_t)(count), sizeof *(items)), &(items)[(count)++])

/* Returns a copy of `text`, which the caller frees. */
char *mt_host_strdup(const char *text);

/* The same for zlib, as zalloc and zfree of a stream. */
void *mt_host_zlib_alloc(void *unused, unsigned count, unsigned size);
void mt_host_zlib_free(void *unused, void *memory);

/* Ends the process with a message that it is out of `what`, something other than memory. */
_Noreturn void mt_host_exhausted(const char *what);
