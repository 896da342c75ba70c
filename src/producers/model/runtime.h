/* The runtime: the state that all ops of a run share. It knows the allocator, the running part of the model, and
 * whether anything has failed yet.
 *
 * Failure is sticky: the first failure is kept in `status`, every op after it does nothing and returns NULL, and
 * releasing NULL is allowed. So model code reads like the formulas, and the caller of a step checks once.
 *
 * The files of this folder depend on each other in this order, and include only earlier ones:
 *
 *   runtime ← tensor ← use ← op_rules ← ops ← graph (the tape) ← parameter ← autocast ← functions ← einsum
 *           ← attention_layer ← transformer ← optimizer ← eager_implementation, fused_* ← training
 *
 * config and token_source are outside this order. */
#pragma once

#include "alloc/alloc.h"
#include "kernels/kernels.h"

#include <stdbool.h>

struct mt_tensor;

/* The longest name of an op in a label, its end included. */
enum { MT_OP_TEXT = 64 };

/* The piece of model code that is running. Labels of blocks repeat it. */
struct mt_scope {
    mt_span_id span;
    mt_category category;
    const char *op; /* prefix of the ops' names ("softmax"); borrowed */
    int layer;      /* -1 outside of one */
};

/* Invariants: scope_depth >= 0; a status other than MT_OK is never replaced. */
struct mt_runtime {
    struct mt_device *device; /* borrowed */
    struct mt_alloc *alloc;   /* borrowed */
    mt_stream stream;
    mt_status status; /* first failure */
    mt_phase phase;
    struct mt_scope scope;
    int scope_depth;                 /* scopes that were entered and not left yet */
    mtk_math math;                   /* of fp32 matrix products; fp8 selects the fused model's fp8 products */
    mtk_choosing choosing;           /* how their kernels are chosen */
    bool grad_enabled;               /* ops add nodes to the tape and keep what backward needs */
    struct mt_cast_cache *casts;     /* of the open autocast region; NULL: none */
    struct mt_tensor *workspaces[2]; /* of matrix products, forward's and backward's; NULL before their first use */
    uint64_t next_sequence;          /* of nodes of the tape */
    uint64_t launch_ns;              /* the program's time on the host to launch a kernel */
};

/* Begins in phase init, outside every span. Borrows `device` and `alloc`. A runtime ends with
 * mt_op_workspaces_release, after everything else was released. */
void mt_runtime_open(struct mt_runtime *rt, struct mt_device *device, struct mt_alloc *alloc);

/* Keeps `status` if it is the first failure. Its text is the thread's last error, so call nothing that may fail after
 * it. */
void mt_runtime_fail(struct mt_runtime *rt, mt_status status);

/* Calls `act` even after a failure, and keeps its failure if it is the first. Otherwise a failure of `act` does not
 * change the text of the first one. */
void mt_runtime_settle(struct mt_runtime *rt, mt_status (*act)(void *context), void *context);

/* Marks a place in the stream of the device's work. The mark of a phase has the phase's number; the mark of a step's
 * end is MT_STEP_END_MARK. This function and the next two do nothing after a failure, and keep their own failures. */
void mt_runtime_mark(struct mt_runtime *rt, int number);
enum { MT_STEP_END_MARK = MT_PHASE_COUNT };

/* Waits until the device has done all queued work. */
void mt_runtime_synchronize(struct mt_runtime *rt);

/* Returns the device's time between two marks; 0 after a failure. */
double mt_runtime_elapsed_ms(struct mt_runtime *rt, int from, int to);

/* Begins a phase. Labels of later blocks name it. It is reported to the trace and the device. */
void mt_runtime_phase(struct mt_runtime *rt, mt_phase phase);

/* Enters a piece of the model: a span `name` inside the current one. Returns the scope for mt_scope_leave. */
struct mt_scope mt_scope_enter(struct mt_runtime *rt, const char *name, mt_category category, const char *op);
/* Enters block number `layer` of the model, a span of that name inside the current one. */
struct mt_scope mt_scope_enter_layer(struct mt_runtime *rt, int64_t layer, mt_category category, const char *op);
/* Returns to `outer`, the result of the matching enter. Reports it to the trace. */
void mt_scope_leave(struct mt_runtime *rt, struct mt_scope outer);

/* Continues in the same span with another category. Returns the scope to restore, by assignment. */
struct mt_scope mt_scope_category(struct mt_runtime *rt, mt_category category, const char *op);

/* Returns the role of an output. Without gradients nothing is saved, so an activation becomes temporary. */
static inline mt_role mt_effective_role(const struct mt_runtime *rt, mt_role role)
{
    return role == MT_ROLE_ACTIVATION && !rt->grad_enabled ? MT_ROLE_TEMPORARY : role;
}
