/* Host memory that is never refused: for small bookkeeping, where a program that could go on without it does not
 * exist. Running out ends the process with a message; anything whose size a user chooses is checked instead. */
#ifndef MT_BASE_MEMORY_H
#define MT_BASE_MEMORY_H

#include <stddef.h>

/* Zeroed. Release with free(). */
void *mt_host_alloc(size_t bytes);

/* realloc of count * size, checked; what is new is not zeroed. */
void *mt_host_resize(void *old, size_t count, size_t size);

/* `items`, moved if need be, with room for one more after `count` of them: for arrays that grow one by one. Such an
 * array keeps no capacity, since it is full whenever the count is a power of two; an empty one is NULL. What is new is
 * not zeroed. */
void *mt_host_room(void *items, size_t count, size_t item_bytes);

char *mt_host_strdup(const char *text);

/* Ends the process as running out of memory does, for what else can be used up. */
_Noreturn void mt_host_exhausted(const char *what);

#endif
