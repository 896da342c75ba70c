/* The open spans of a program's threads. Each thread has its own nested spans, which end with the thread.
 *
 *   depth 2   span of an inner module   ◀── the place of the thread
 *   depth 1   span of a module
 *
 * Threads: any, each for itself, except for create and destroy. A forked child may also begin spans, and does not wait
 * for threads of its parent. The end of a thread of the child calls nothing. */
#pragma once

#include "base/label.h"
#include "base/status.h"

#include <stdbool.h>

/* A span, and its meaning for memory allocated inside. */
struct mt_place {
    mt_span_id span;      /* 0: no span of its own */
    int layer;            /* of this span or the nearest outer span with a layer; -1: none */
    mt_category category; /* of allocations there */
    bool without_grad;    /* autograd keeps nothing of the computations there */
};

struct mt_thread_spans;

/* Creates the spans of a program. `end` is called for each span that ends, innermost first. Fails with MT_FAILED if the
 * process has no thread-specific keys left. */
mt_status mt_thread_spans_create(void (*end)(void *context, mt_span_id span), void *context,
                                 struct mt_thread_spans **out);

/* In the functions below, `spans` may be NULL: then no thread has spans. */

/* Does not end spans. */
void mt_thread_spans_destroy(struct mt_thread_spans *spans);

/* Begins a span. Returns the previous depth, for mt_thread_spans_end. */
uint32_t mt_thread_spans_begin(struct mt_thread_spans *spans, const struct mt_place *place);

/* Ends the innermost spans down to a depth. Does nothing if the depth is not less than the current one. */
void mt_thread_spans_end(struct mt_thread_spans *spans, uint32_t depth);

/* Returns the number of the thread's open spans. */
uint32_t mt_thread_spans_depth(const struct mt_thread_spans *spans);

/* Returns the thread's innermost span; NULL if it has none. Valid until its next call. */
const struct mt_place *mt_thread_spans_now(const struct mt_thread_spans *spans);

/* Returns the layer of a span inside a span with layer `outer`: `outer` if it is a layer; otherwise the number that the
 * name consists of, or ends with after a dot; otherwise -1. So the outermost list of modules counts: expert 3 inside
 * layer 7 has layer 7. */
int mt_span_layer(const char *name, int outer);
