/* A call stack, as rules see it: its frames, innermost first, and the facts they show together.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/call_frame.h"

/* Frames and names belong to the frames object that read them, and live as long. Invariant: recorded_number is 0
 * exactly if `recorded` is "". */
struct mt_call_stack {
    const struct mt_call_frame **frames;
    uint32_t frame_count;
    const char *operation;    /* the outermost operator of PyTorch; "" if none */
    const char *node;         /* the innermost node of autograd: "BmmBackward0"; "" if none */
    const char *recorded;     /* the operator for which autograd keeps a node; "" if none */
    uint32_t recorded_number; /* the number of `recorded`; 0: none */
    bool is_engine;           /* autograd's engine made the request, for a node or between two */
    bool is_input_sum;        /* the engine adds up gradients that several nodes made for one input */
    bool is_recomputed;       /* a checkpoint repeats forward */
    bool has_python;          /* some frame is of Python */
};

/* True for an operator of forward that a node may undo later, and for a request of backward. */
bool mt_call_stack_is_forward(const struct mt_call_stack *stack);
bool mt_call_stack_is_backward(const struct mt_call_stack *stack);

/* True for a request of the engine after one node and before the next. */
bool mt_call_stack_is_between(const struct mt_call_stack *stack);

/* Reads a list of frames, or of texts in the format of Python's tracebacks. The list must outlive the stack. Other
 * values are ignored. Release the stack. */
void mt_call_stack_read(const struct mt_value *list, struct mt_call_frames *frames, struct mt_call_stack *out);
void mt_call_stack_release(struct mt_call_stack *stack);

/* Returns a name for the operation: the operator that autograd recorded, or else the outermost one, without its
 * overload ("mul" for mul_Tensor); "" if there is none. Belongs to the name set. */
const char *mt_call_stack_op(const struct mt_call_stack *stack, struct mt_name_set *names);

/* True if the node undoes the operator: "MulBackward0" does mul_Tensor, "ToCopyBackward0" _to_copy. */
bool mt_node_undoes(const char *node, const char *operation);
