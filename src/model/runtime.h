/* The runtime: what every op of a run shares. Where memory comes from, which part of the model is running, and whether
 * anything has failed yet.
 *
 * Failure is sticky: the first failure is kept in `status`, every op after it does nothing and returns NULL, and
 * releasing NULL is allowed. So model code reads as the formulas do, and whoever runs a step asks once. */
#ifndef MT_MODEL_RUNTIME_H
#define MT_MODEL_RUNTIME_H

#include "model/tensor.h"

/* cuBLAS takes 32 MiB on a Hopper card, one for the thread that runs forward and one for backward's. */
#define MT_MATMUL_WORKSPACE_BYTES (32u << 20)

/* The longest name of an op in a label, its end included. */
enum { MT_OP_TEXT = 64 };

/* Which piece of model code is running: what the labels of its blocks say. */
struct mt_scope {
    mt_span_id span;
    mt_category category;
    const char *op; /* prefix of the ops' names ("softmax"); borrowed */
    int layer;      /* -1 outside of one */
};

struct mt_runtime {
    struct mt_device *device; /* borrowed */
    struct mt_alloc *alloc;   /* borrowed */
    mt_stream stream;
    mt_status status; /* first failure */
    mt_phase phase;
    struct mt_scope scope;
    mtk_math math;                   /* of matrix products of fp32 */
    mtk_choosing choosing;           /* of their kernels */
    bool grad_enabled;               /* ops record what backward needs */
    struct mt_cast_cache *casts;     /* of the autocast region that is open; NULL: none */
    struct mt_tensor *workspaces[2]; /* of matrix products: forward's and backward's, taken at their first use */
    uint64_t next_sequence;          /* of graph nodes */
};

/* Begins in phase init, outside of every span. Closing gives the workspaces back; everything else was released
 * before. */
void mt_runtime_open(struct mt_runtime *rt, struct mt_device *device, struct mt_alloc *alloc);
void mt_runtime_close(struct mt_runtime *rt);

/* Keeps the first failure. Its text is the thread's last error, so nothing that may fail is called after it. */
void mt_runtime_fail(struct mt_runtime *rt, mt_status status);

/* Calls `act` in any case, and keeps its failure if it is the first. Where it fails after another, the words stay
 * that one's. */
void mt_runtime_settle(struct mt_runtime *rt, mt_status (*act)(void *context), void *context);

/* Begins a phase: later blocks are labelled with it, and the trace is told. */
void mt_runtime_phase(struct mt_runtime *rt, mt_phase phase);

/* Enters a piece of the model: a span `name` inside of the current one. Returns the scope to go back to. */
struct mt_scope mt_scope_enter(struct mt_runtime *rt, const char *name, mt_category category, const char *op);
/* Enters block number `layer` of the model, a span of that name inside of the current one. */
struct mt_scope mt_scope_enter_layer(struct mt_runtime *rt, int64_t layer, mt_category category, const char *op);
/* Goes back to `outer`, which the entering returned; the trace is told. */
void mt_scope_leave(struct mt_runtime *rt, struct mt_scope outer);

/* Goes on in the same span as another category. Returns the scope to go back to, by assignment. */
struct mt_scope mt_scope_category(struct mt_runtime *rt, mt_category category, const char *op);

/* The workspace of matrix products of the current phase; NULL if it can't be had. Borrowed. */
struct mt_tensor *mt_runtime_workspace(struct mt_runtime *rt);

#endif
