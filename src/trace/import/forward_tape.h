/* What forward did, so that blocks of backward go to what they undo. Snapshots do not say which operator a node of autograd
 * belongs to. But nodes run backwards in the order in which operators ran:
 *
 *   forward    pow  rsqrt  mul │ bmm  sigmoid  mul          an entry each, with what its block is for
 *   backward                                  Mul ─▶ the last mul before, where we are
 *                              Sigmoid ◀──────┘      Bmm … Mul ─▶ the mul before that
 *
 * so the last operator before the one undone last that a node can undo is taken for its own. What runs in a row and is
 * alike is one entry, and one node. Forward again, of a checkpoint or of the next step, begins where backward stands.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_FORWARD_TAPE_H
#define MT_TRACE_IMPORT_FORWARD_TAPE_H

#include "base/label.h"

#include <stdbool.h>

/* What the block of an operator is for. */
struct mt_forward_op {
    const char *name; /* of the operator; borrowed, and the same pointer for equal ones */
    mt_category category;
    mt_span_id span;
    uint32_t caller; /* tells apart who asked */
};

struct mt_forward_tape;

struct mt_forward_tape *mt_forward_tape_create(void);
void mt_forward_tape_destroy(struct mt_forward_tape *tape); /* may be NULL */

/* An operator ran that may be undone later. Copies it. */
void mt_forward_tape_add(struct mt_forward_tape *tape, const struct mt_forward_op *op);

/* A node runs ("MulBackward0"; the same pointer for equal ones): makes the operator that it undoes the current one. False:
 * there is none, and the current one stays. */
bool mt_forward_tape_undo(struct mt_forward_tape *tape, const char *node);

/* The operator that is being undone; NULL: none yet. */
const struct mt_forward_op *mt_forward_tape_current(const struct mt_forward_tape *tape);

/* The one before it whose result it took: of those that ran just before, the last of another name, since what shares an
 * input runs in a row. NULL: none. */
const struct mt_forward_op *mt_forward_tape_source(const struct mt_forward_tape *tape);

/* The addition or subtraction whose node takes nothing, and so was not seen to run, if one is next to be undone; the current
 * one otherwise. */
const struct mt_forward_op *mt_forward_tape_passed(const struct mt_forward_tape *tape);

#endif
