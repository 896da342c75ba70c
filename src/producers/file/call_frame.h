/* The frames of PyTorch's call stacks, each parsed once: stacks differ in a few frames and share most.
 *
 *   at::_ops::bmm::call(at::Tensor const&, …)            ─▶ operator bmm
 *   torch::autograd::VariableType::…::bmm(…)             ─▶ and autograd keeps a node for it
 *   torch::autograd::generated::BmmBackward0::apply(…)   ─▶ node BmmBackward0
 *   forward  cs336_basics/blocks.py  50                  ─▶ a frame of Python
 *   "  File \"blocks.py\", line 50, in forward\n    …"     ─▶ the same, as Python's traceback prints it
 *
 * Threads: one at a time. */
#pragma once

#include "base/interner.h"
#include "producers/file/value.h"

/* The owner of a frame's code, as far as spans need it. */
typedef enum mt_frame_owner {
    MT_FRAME_OF_OTHERS,  /* C++, PyTorch, Python, and functions of libraries that only call others */
    MT_FRAME_OF_PROGRAM, /* the user's */
    MT_FRAME_OF_LIBRARY, /* such as the forward of a library's model */
    MT_FRAME_OF_PROFILE  /* a module or annotation that a profiler named */
} mt_frame_owner;

/* Texts are "" if the frame lacks them. They belong to the frames or to the values. Invariant: recorded_number is 0
 * exactly if `recorded` is "". */
struct mt_call_frame {
    const char *name, *file; /* the file's path has "/" between its parts */
    int64_t line;
    bool is_python;
    mt_frame_owner owner;
    bool is_module_call;      /* PyTorch's function that calls a module */
    bool is_engine;           /* of autograd's engine */
    bool is_input_sum;        /* where the engine adds up gradients that several nodes made for one input */
    bool is_checkpoint;       /* where a checkpoint repeats forward */
    const char *operation;    /* the operator of PyTorch that it calls */
    const char *node;         /* the node of autograd that it runs */
    const char *recorded;     /* the operator for which autograd keeps a node */
    uint32_t recorded_number; /* the number of `recorded` */
    uint32_t number;          /* of the frame, from 0 */
};

struct mt_call_frames;

struct mt_call_frames *mt_call_frames_create(void);
void mt_call_frames_destroy(struct mt_call_frames *frames); /* may be NULL */

/* Returns the names that frames share. Callers may add other names. */
struct mt_name_set *mt_call_frames_names(struct mt_call_frames *frames);

/* Returns the frame of a value; a value of another kind gives a frame without texts. Equal values give one frame. It
 * lives as long as the frames, and so must the value. */
const struct mt_call_frame *mt_call_frames_read(struct mt_call_frames *frames, const struct mt_value *value);

/* Adds the first `length` characters as a name to the set. Sets *out to the name and returns its number. */
uint32_t mt_call_frame_keep(struct mt_name_set *names, const char *name, size_t length, const char **out);
