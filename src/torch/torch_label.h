/* What a thread's allocations are for, as the program says it.
 *
 *   depth 2   span of a module inside, category   ◀── counts, while there is one
 *   depth 1   span of a module, category
 *   place     where backward has come to          ◀── counts otherwise, until the program's next phase
 *   default   category of the phase               ◀── counts otherwise
 *
 * Forward calls nest, so they push and pop. Backward runs through the same modules in another thread and in another order,
 * and nobody tells where it leaves one: it only says where it has come to. What it said counts until the phase changes, for
 * the threads that run backward are there longer than a step.
 *
 * Threads: labels are each thread's own; the phase is the program's. */
#ifndef MT_TORCH_TORCH_LABEL_H
#define MT_TORCH_TORCH_LABEL_H

#include "base/label.h"

#include <stdbool.h>

/* What deeper calls say is not kept: there, what is above counts. */
enum { MT_TORCH_MOST_DEPTH = 128 };

struct mt_torch_label {
    mt_span_id span; /* torch_names.h's */
    mt_category category;
    mt_phase phase;
};

/* The calling thread's label now. */
struct mt_torch_label mt_torch_label_now(void);

/* Until the end, the thread's allocations are for this span and category. Returns the depth before, which the end takes: so
 * a call that was left without its end is ended with the one around it. */
uint32_t mt_torch_label_begin(mt_span_id span, mt_category category);

/* Goes back to that depth. A greater one than there is changes nothing. */
void mt_torch_label_end(uint32_t depth);

/* The span that was begun at `depth` - 1; 0 if none is. */
mt_span_id mt_torch_label_span_at(uint32_t depth);
uint32_t mt_torch_label_depth(void);

/* The thread has come to this span, until it comes to another or the phase changes. Returns where it was; 0: nowhere. */
mt_span_id mt_torch_label_place(mt_span_id span, mt_category category);

/* From now on the program is in this phase, where what nothing else covers is of that category. True if the phase is
 * another than before. */
bool mt_torch_label_phase(mt_phase phase, mt_category category);

#endif
