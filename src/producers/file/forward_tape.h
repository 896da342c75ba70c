/* The operators of forward, so that a block of backward goes to the operator that its node undoes. Snapshots do not
 * name that operator. But nodes run in the reverse order of operators:
 *
 *   forward    pow  rsqrt  mul │ bmm  sigmoid  mul          an entry each, with the category and span of its block
 *   backward                                  Mul ─▶ the last mul before the position
 *                              Sigmoid ◀──────┘      Bmm … Mul ─▶ the mul before that
 *
 * So a node undoes the last operator before the position that it can undo. Equal operators in a row are one entry,
 * and one node. When forward runs again, for a checkpoint or the next step, it begins at backward's position.
 *
 * Threads: one at a time. */
#pragma once

#include "base/label.h"

#include <stdbool.h>

/* An operator and the label of its block. */
struct mt_forward_op {
    const char *name; /* of the operator; borrowed, and the same pointer for equal ones */
    mt_category category;
    mt_span_id span;
    uint32_t caller; /* number of the call stack */
    uint64_t bytes;  /* of its block */
};

struct mt_forward_tape;

struct mt_forward_tape *mt_forward_tape_create(void);
void mt_forward_tape_destroy(struct mt_forward_tape *tape); /* may be NULL */

/* Adds an operator that may be undone later. Copies it. */
void mt_forward_tape_add(struct mt_forward_tape *tape, const struct mt_forward_op *op);

/* Records that a node ("MulBackward0"; the same pointer for equal names) runs and allocates `bytes`. Makes the operator
 * that it undoes the current one. False if there is none; then the current one does not change. The first nodes, which
 * allocate scalars, undo operators that made scalars: a loss may be scaled in place, without an allocation. */
bool mt_forward_tape_undo(struct mt_forward_tape *tape, const char *node, uint64_t bytes);

/* Returns the operator that is being undone; NULL: none yet. */
const struct mt_forward_op *mt_forward_tape_current(const struct mt_forward_tape *tape);

/* Returns the operator that made the current one's input: the last before it with another name, since operators that
 * share an input run in a row. NULL: none. */
const struct mt_forward_op *mt_forward_tape_source(const struct mt_forward_tape *tape);

/* Returns the addition or subtraction that is undone next, if it is one: its node allocates nothing, so it is not
 * seen to run. Otherwise returns the current operator. */
const struct mt_forward_op *mt_forward_tape_passed(const struct mt_forward_tape *tape);
