/* The open spans of a program's threads. Each thread has its own, which nest; its end ends them.
 *
 *   depth 2   span of an inner module   ◀── the place of the thread
 *   depth 1   span of a module
 *
 * Threads: any, each about itself, except for create and destroy. A forked child may begin spans, too, and waits for no thread
 * of its parent; the end of a thread of the child calls nothing. */
#pragma once

#include "base/label.h"
#include "base/status.h"

#include <stdbool.h>

/* A span, and what it implies for memory that is requested inside. */
struct mt_place {
    mt_span_id span;      /* 0: no span of its own */
    int layer;            /* of this span or the nearest around it that has one; -1: none */
    mt_category category; /* of what the program does there */
    bool without_grad;    /* autograd keeps nothing of what is computed there */
};

struct mt_thread_spans;

/* Creates the spans of a program. `end` is called for each span that ends, innermost first. Fails with MT_FAILED if the process
 * has no thread-specific key left. */
mt_status mt_thread_spans_create(void (*end)(void *context, mt_span_id span), void *context,
                                 struct mt_thread_spans **out);

/* In the functions below, `spans` may be NULL: then no thread has spans. */

/* Ends nothing. */
void mt_thread_spans_destroy(struct mt_thread_spans *spans);

/* Begins a span. Returns the depth before, for mt_thread_spans_end. */
uint32_t mt_thread_spans_begin(struct mt_thread_spans *spans, const struct mt_place *place);

/* Ends the innermost spans down to a depth. A depth that is not less than the current one changes nothing. */
void mt_thread_spans_end(struct mt_thread_spans *spans, uint32_t depth);

/* Returns the number of spans that the thread has begun and not ended. */
uint32_t mt_thread_spans_depth(const struct mt_thread_spans *spans);

/* Returns the thread's innermost span; NULL if it has none. Valid until its next call. */
const struct mt_place *mt_thread_spans_now(const struct mt_thread_spans *spans);

/* Returns the layer of a span inside a span of layer `outer`: that layer, if there is one; else the number that the name is, or
 * ends with after a dot; else -1. So the outermost list of modules counts: expert 3 of layer 7 is of layer 7. */
int mt_span_layer(const char *name, int outer);
