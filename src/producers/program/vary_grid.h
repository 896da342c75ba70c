/* The varying arguments of a program: named lists of values, and the program's words with values instead of names.
 *
 *   batch=2,4 seq=128,256   train.py --batch @batch --seq=@seq   ──▶   4 cells
 *
 * Threads: one at a time for an object. */
#pragma once

#include "base/status.h"

#include <stddef.h>

enum { MT_MOST_VARIED = 16 };

/* A list of values. */
struct mt_varied {
    char *text;    /* "batch", then its values, each ended by NUL; owned */
    char **values; /* in text; owned */
    size_t count;
};

/* Owns its lists. Invariant: cell_count is the product of the lists' counts. */
struct mt_vary_grid {
    struct mt_varied lists[MT_MOST_VARIED];
    size_t count, cell_count;
};

/* Makes the grid of `count` lists, "batch=2,4", for the words of a program. Fails with MT_USAGE for a list without a
 * name or values, a name or value given twice, a name in the words without a list, and a list that no word uses.
 * Release in any case. */
mt_status mt_vary_grid_create(const char *const *lists, size_t count, char *const *words, struct mt_vary_grid *out);
void mt_vary_grid_release(struct mt_vary_grid *grid);

/* Returns the value of a list in a cell. The last list changes fastest. */
const char *mt_vary_grid_value(const struct mt_vary_grid *grid, size_t cell, size_t list);

/* Returns the words with the cell's values instead of names, ending with NULL. The caller frees each, and the array. */
char **mt_vary_grid_words(const struct mt_vary_grid *grid, size_t cell, char *const *words);
