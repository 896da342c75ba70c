/* The names that a program gives to its memory, the same for all cards: spans, with what each is and the layer it lies in, and
 * categories. A card's trace gives them numbers of its own (torch_memory.h).
 *
 * Threads: any. */
#ifndef MT_TORCH_TORCH_NAMES_H
#define MT_TORCH_TORCH_NAMES_H

#include "base/category_set.h"
#include "base/label.h"
#include "base/lock.h"

#include <stdbool.h>

struct mt_interner;

/* A span, by its number from 1. Number 0 is the root. */
struct mt_torch_span {
    mt_span_id parent;
    const char *name; /* "ffn" */
    const char *kind; /* its class: "FeedForward" */
    int layer;        /* the number nearest above that a list of modules gave; -1: none */
};

/* Invariant: spans[1 .. span_count] are the interner's; spans[0] is nobody's. */
struct mt_torch_names {
    struct mt_lock lock;
    struct mt_interner *interner;
    struct mt_category_set categories;
    struct mt_torch_span *spans;
    uint32_t span_count;
};

void mt_torch_names_start(struct mt_torch_names *names);
void mt_torch_names_end(struct mt_torch_names *names);

/* The number of the span `name` in `parent`, the same for equal ones; both texts are copied. An unknown parent is the root. */
mt_span_id mt_torch_names_span(struct mt_torch_names *names, mt_span_id parent, const char *name, const char *kind);

/* False, and *out untouched, for the root and numbers that were never given. Texts are valid as long as the names. */
bool mt_torch_names_find(struct mt_torch_names *names, mt_span_id span, struct mt_torch_span *out);

/* As mt_category_set_add. *is_new (may be NULL) tells whether this call made it. */
mt_category mt_torch_names_category(struct mt_torch_names *names, const char *name, bool *is_new);

/* NULL for a number that is no category's. Valid as long as the names. */
const char *mt_torch_names_category_name(struct mt_torch_names *names, mt_category category);

#endif
