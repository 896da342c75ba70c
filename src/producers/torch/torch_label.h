/* The purpose of memory as the program states it: its names, and the label of each thread's allocations.
 *
 *   span of the innermost module, category   ◀── used if there is one (run/thread_spans.h)
 *   category of the phase                    ◀── used otherwise
 *
 * Forward calls nest. Backward runs through the same modules in another thread and another
 * order; torch_backward.h finds the current module.
 *
 * Threads: names may be used from any. Each thread has its own labels. The program has one phase. */
#pragma once

#include "base/category_set.h"
#include "base/label.h"
#include "base/lock.h"
#include "run/thread_spans.h"

#include <stdbool.h>

struct mt_interner;
struct mt_name_set;

/* ---- names ---- */

/* A span, by its number from 1. Number 0 is the root. */
struct mt_torch_span {
    mt_span_id parent;
    const char *name; /* "ffn" */
    const char *kind; /* its class: "FeedForward" */
    int layer;        /* its own or inherited number in a list of modules; -1: none */
};

/* Spans and categories, shared by all cards. The trace of a card numbers them differently (torch_memory.h).
 * Invariants: spans[1 .. span_count] are the interner's; spans[0] is unused. has_kernel[0 .. kernel_room) are of
 * operators by number; operators with higher numbers have no kernel. */
struct mt_torch_names {
    struct mt_lock lock;
    struct mt_interner *interner;
    struct mt_category_set categories;
    struct mt_name_set *operators;
    bool *has_kernel;
    size_t kernel_room;
    struct mt_torch_span *spans;
    uint32_t span_count;
};

void mt_torch_names_start(struct mt_torch_names *names);
void mt_torch_names_end(struct mt_torch_names *names);

/* Returns the number of the span `name` in `parent`. Equal spans have one number. Copies both strings. An unknown
 * parent means the root. */
mt_span_id mt_torch_names_span(struct mt_torch_names *names, mt_span_id parent, const char *name, const char *kind);

/* Finds a span. False, and *out untouched, for the root and for unknown numbers. Texts are valid as long as the
 * names. */
bool mt_torch_names_find(struct mt_torch_names *names, mt_span_id span, struct mt_torch_span *out);

/* Returns the category of a name, as mt_category_set_add. *is_new is true if it was added now. */
mt_category mt_torch_names_category(struct mt_torch_names *names, const char *name, bool *is_new);

/* Returns the name of a category; NULL for a number without one. Valid as long as the names. */
const char *mt_torch_names_category_name(struct mt_torch_names *names, mt_category category);

/* Returns the number of an operator, from 1; 0 once there are 65535. Equal names have one number. Copies the name. Sets
 * *has_kernel, unless that is NULL: whether the card has a kernel for the operator itself. */
uint16_t mt_torch_names_operator(struct mt_torch_names *names, const char *name, bool *has_kernel);

/* Notes that the card has a kernel for the operator itself. Copies the name. */
void mt_torch_names_add_kernel(struct mt_torch_names *names, const char *name);

/* Returns the name of an operator's number. Valid as long as the names. */
const char *mt_torch_names_operator_name(struct mt_torch_names *names, uint16_t number);

/* ---- labels ---- */

struct mt_torch_label {
    mt_span_id span; /* a number of mt_torch_names */
    mt_category category;
    mt_phase phase;
    bool without_grad;                        /* the module's call has gradients disabled: autograd saves nothing */
    uint16_t operator_number;                 /* of mt_torch_names; 0: not known */
    const struct memtrace_torch_shape *shape; /* of the tensor, valid while the request is served; NULL: not known */
};

/* Sets the function that returns a thread's grad mode, for labels that begin from now on; NULL: gradients are always
 * enabled. The mode at the call of a module is used, since PyTorch disables gradients inside custom autograd
 * functions. */
void mt_torch_label_grad_mode(bool (*is_enabled)(void));

/* Returns the calling thread's label now. */
struct mt_torch_label mt_torch_label_now(void);

/* Returns the spans of the program's threads; labels include their places. NULL if the process has no free
 * thread-specific key. */
struct mt_thread_spans *mt_torch_spans(void);

/* Sets the function that is called when a span ends. */
void mt_torch_label_on_end(void (*end)(mt_span_id span));

/* Returns the label of a workspace that belongs to a thread's handle of cuBLAS, whichever module requested it first. */
struct mt_torch_label mt_torch_label_of_cublas(struct mt_torch_names *names);

/* Begins a span and category for the thread's allocations. Returns the depth before, for mt_thread_spans_end: if a
 * call's end is skipped, the enclosing call's end ends it too. Begins nothing once host memory is exhausted. */
uint32_t mt_torch_label_begin(mt_span_id span, mt_category category);

/* Sets the program's phase, and the category of allocations outside all spans. True if the phase has changed. */
bool mt_torch_label_phase(mt_phase phase, mt_category category);

/* ---- in a trace ---- */

/* The class of a span whose blocks have the role kept: copies of the weights. */
#define MT_TORCH_COPY "copy of weights"

/* The class of a span whose blocks have the role gathered parameter (python/memtrace/recording/spread.py). */
#define MT_TORCH_GATHERED "gathered parameter"

/* The class of a span whose blocks have the role key-value cache (python/memtrace/recording/caches.py). */
#define MT_TORCH_CACHE "key-value cache"

/* Gives the blocks of a category the role workspace from now on. Any thread. */
void mt_torch_label_is_workspace(mt_category category);

/* Converts a number to a category; MT_CATEGORY_OTHER if it is out of range. */
static inline mt_category mt_torch_known(int category)
{
    return category >= 0 && category < MT_MOST_CATEGORIES ? (mt_category)category : MT_CATEGORY_OTHER;
}

/* Returns a hash of a label. */
uint64_t mt_torch_label_key(const struct mt_torch_label *label);

/* Returns the label as a trace stores it; `span` is the trace's number of its span. Borrows strings of the names. */
struct mt_label mt_torch_label_in_trace(struct mt_torch_names *names, const struct mt_torch_label *label,
                                        mt_span_id span);
