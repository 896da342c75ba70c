/* Call stacks from a trace of torch.profiler: the events that were open on a thread when it allocated memory, as the
 * frames of a memory snapshot, so that the same rules read both.
 *
 *   "autograd::engine::evaluate_function: MmBackward0"  ▶ torch::autograd::Engine::evaluate_function(
 *   "MmBackward0"                                       ▶ torch::autograd::MmBackward0::apply(
 *   "aten::mm"                                          ▶ at::_ops::mm::call(
 *   "aten::mm" with a sequence number                   ▶ and torch::autograd::VariableType::mm(
 *   "model.py(12): forward"                             ▶ forward, model.py, 12
 *   "nn.Module: Linear_0"                               ▶ Linear_0, MT_MODULE_FILE
 *   "Optimizer.step#AdamW.step"                         ▶ step, torch/optim/optimizer.py
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/value.h"

/* The file of a frame for a module's call, and for other code of the program. */
#define MT_MODULE_FILE "<nn.Module>"
#define MT_PROGRAM_FILE "<program>"

/* Deeper calls are left out. */
enum { MT_PROFILE_MOST_OPEN = 256 };

typedef enum mt_profile_kind {
    MT_PROFILE_OTHER, /* says nothing about memory */
    MT_PROFILE_OPERATOR,
    MT_PROFILE_ENGINE,
    MT_PROFILE_NODE,
    MT_PROFILE_PYTHON,
    MT_PROFILE_MODULE,
    MT_PROFILE_ANNOTATION,
    MT_PROFILE_OPTIMIZER /* an annotation, too */
} mt_profile_kind;

/* Returns the kind of an event that lasts. */
mt_profile_kind mt_profile_kind_of(const struct mt_value *event);

/* An open event. A function of Python is open for many requests, so its frame is made once. */
struct mt_profile_call {
    const struct mt_value *event;
    mt_profile_kind kind;
    struct mt_value frame; /* of kind NONE: not made yet */
};

/* Makes the list of frames, innermost first, of calls[0 .. count), outermost first. Fails with MT_BAD_TRACE at a limit
 * of the store. */
mt_status mt_profile_frames(struct mt_value_store *store, struct mt_profile_call *calls, uint32_t count,
                            struct mt_value *out);

/* Makes a list of one frame. */
mt_status mt_profile_frame(struct mt_value_store *store, const char *name, const char *file, struct mt_value *out);
