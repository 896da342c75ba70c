/* Who asked for a block, made ready to be looked at by rules: the frames that PyTorch recorded, innermost first.
 *
 *   at::_ops::bmm::call(at::Tensor const&, …)            ─▶ operator bmm
 *   torch::autograd::VariableType::…::bmm(…)             ─▶ and autograd keeps a node for it
 *   torch::autograd::generated::BmmBackward0::apply(…)   ─▶ node BmmBackward0
 *   forward  cs336_basics/blocks.py  50                  ─▶ a frame of Python
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_CALL_STACK_H
#define MT_TRACE_IMPORT_CALL_STACK_H

#include "base/interner.h"
#include "trace/import/value.h"

struct mt_call_frame {
    const char *name, *file; /* of the values; "" if unknown */
    int64_t line;
    bool is_python;
};

/* Names are of the name set, and so are there as long as it. */
struct mt_call_stack {
    struct mt_call_frame *frames;
    uint32_t frame_count;
    const char **operators; /* of PyTorch, innermost first */
    uint32_t operator_count;
    const char *node;         /* of autograd, the innermost: "BmmBackward0"; "" outside of one */
    const char *recorded;     /* the operator that autograd may undo later; "" if none */
    uint32_t recorded_number; /* of that name; 0: none */
    bool is_engine;           /* autograd's engine asked, for a node or between two */
    bool is_input_sum;        /* which adds what several nodes made for one */
    bool is_recomputed;       /* a checkpoint runs forward once more */
};

/* Whether it is an operator of forward that a node may undo later, and whether it undoes one. */
bool mt_call_stack_is_forward(const struct mt_call_stack *stack);
bool mt_call_stack_is_backward(const struct mt_call_stack *stack);

/* Whether autograd's engine asked after one node, and before the next. */
bool mt_call_stack_is_between(const struct mt_call_stack *stack);

/* Reads the frames, which must outlive it; what is no frame is passed over. Release it. */
void mt_call_stack_read(const struct mt_value *frames, struct mt_name_set *names, struct mt_call_stack *out);
void mt_call_stack_release(struct mt_call_stack *stack);

/* What to call what was done: the operator that autograd knows, or else the outermost one, without its overload ("mul" of
 * mul_Tensor); "" if none. Of the name set. */
const char *mt_call_stack_op(const struct mt_call_stack *stack, struct mt_name_set *names);

/* Whether the node undoes the operator: "MulBackward0" does mul_Tensor, "ToCopyBackward0" _to_copy. */
bool mt_node_undoes(const char *node, const char *operation);

#endif
