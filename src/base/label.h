/* Labels: the purpose of a block. Every block carries one.
 *
 * A label is a value. The sink interns it once; the block and all its events carry a 32-bit id. */
#pragma once

#include "base/types.h"

#include <stdbool.h>

/* The kinds of tensor that a block may hold, with the spelling that users see. docs/categories.md explains each. Other
 * is for allocations of other programs that have no label. */
#define MT_CATEGORIES(X)                                                                                               \
    X(PARAM, "Param")                                                                                                  \
    X(GRADIENT, "Gradient")                                                                                            \
    X(OPT_STATE, "Opt State")                                                                                          \
    X(OPTIMIZER, "Optimizer")                                                                                          \
    X(EMBED, "Embed")                                                                                                  \
    X(NORM, "Norm")                                                                                                    \
    X(ATTN, "Attn")                                                                                                    \
    X(ATTN_SCORES, "AttnScores")                                                                                       \
    X(ATTN_OUT, "AttnOut")                                                                                             \
    X(SOFTMAX, "Softmax")                                                                                              \
    X(FFN, "FFN")                                                                                                      \
    X(EINSUM, "einsum")                                                                                                \
    X(BLOCK, "Block")                                                                                                  \
    X(LOSS, "Loss")                                                                                                    \
    X(DATA, "Data")                                                                                                    \
    X(WORKSPACE, "Workspace")                                                                                          \
    X(OTHER, "Other")

/* The purposes of a block in the training step, whatever it holds. An activation was taken in forward and kept for
 * backward. Other is for blocks of other programs about which nothing is known. Kept lives to the end of the run and
 * has no other role. The role of an unknown block was looked for and not found. Numbers stay the same: rings of killed
 * processes have them. */
#define MT_ROLES(X)                                                                                                    \
    X(PARAMETER, "parameter")                                                                                          \
    X(GRADIENT, "gradient")                                                                                            \
    X(OPTIMIZER_STATE, "optimizer state")                                                                              \
    X(ACTIVATION, "activation")                                                                                        \
    X(TEMPORARY, "temporary")                                                                                          \
    X(WEIGHT_CAST, "weight cast")                                                                                      \
    X(WORKSPACE, "workspace")                                                                                          \
    X(INPUT, "input")                                                                                                  \
    X(OTHER, "other")                                                                                                  \
    X(BUFFER, "buffer")                                                                                                \
    X(KEY_VALUE_CACHE, "key-value cache")                                                                              \
    X(KEPT, "kept")                                                                                                    \
    X(GATHERED_PARAMETER, "gathered parameter")                                                                        \
    X(UNKNOWN, "unknown")

/* The phases of a step, in one of which the block was requested. */
#define MT_PHASES(X)                                                                                                   \
    X(INIT, "init")                                                                                                    \
    X(FORWARD, "forward")                                                                                              \
    X(LOSS, "loss")                                                                                                    \
    X(BACKWARD, "backward")                                                                                            \
    X(OPTIMIZER, "optimizer")

/* The ways in which the role of a block was found: the program said it, a hook in the program saw it, or rules guessed
 * it from names and order. */
#define MT_ROLE_SOURCES(X)                                                                                             \
    X(DECLARED, "declared")                                                                                            \
    X(OBSERVED, "observed")                                                                                            \
    X(INFERRED, "inferred")

#define X(name, text) MT_CATEGORY_##name,
/* The numbers of categories that a program names come after the built-in categories; arrays by category have room
 * for MT_MOST_CATEGORIES. */
typedef enum mt_category { MT_CATEGORIES(X) MT_CATEGORY_COUNT, MT_MOST_CATEGORIES = 64 } mt_category;
#undef X
#define X(name, text) MT_ROLE_##name,
typedef enum mt_role { MT_ROLES(X) MT_ROLE_COUNT } mt_role;
#undef X
#define X(name, text) MT_ROLE_SOURCE_##name,
typedef enum mt_role_source { MT_ROLE_SOURCES(X) MT_ROLE_SOURCE_COUNT } mt_role_source;
#undef X
#define X(name, text) MT_PHASE_##name,
typedef enum mt_phase { MT_PHASES(X) MT_PHASE_COUNT } mt_phase;
#undef X

/* Return the name of a built-in category, a role, its source or a phase; "?" for any other number. The sink knows the
 * names of the other categories. */
const char *mt_category_name(mt_category category);
const char *mt_role_name(mt_role role);
const char *mt_role_source_name(mt_role_source source);
const char *mt_phase_name(mt_phase phase);

/* Finds the role of a name: as above, with "_" or "-" for a space or a hyphen, or as formats 1 to 3 of the trace had it
 * ("param", "grad", "opt_state", "saved", "data"). False if there is none. */
bool mt_role_find(const char *name, mt_role *out);

/* A place in the program ("model.layers.7.ffn.w1"), interned. 0 is the root, whose path is "". */
typedef uint32_t mt_span_id;

/* An interned label: the category in the upper 8 bits and a dense number from 1 below it, so that counting by category
 * needs no table. 0 is no label, as in events that are not about a block. */
typedef uint32_t mt_label_id;

/* A block's label and span, by their numbers. */
struct mt_block_label {
    mt_label_id label;
    mt_span_id span;
};

/* Returns the label that a live block has from now on. `own` is the one it has; `order` grows from block to block. */
typedef struct mt_block_label (*mt_label_choice)(void *context, struct mt_block_label own, uint64_t order);

enum { MT_LABEL_NUMBER_BITS = 24 };

static inline mt_category mt_label_category(mt_label_id id)
{
    return (mt_category)(id >> MT_LABEL_NUMBER_BITS);
}

static inline uint32_t mt_label_number(mt_label_id id)
{
    return id & ((1u << MT_LABEL_NUMBER_BITS) - 1);
}

/* The most dimensions of a label's shape. */
enum { MT_LABEL_MAX_DIMS = 16 };

/* Invariant: 0 <= dims <= MT_LABEL_MAX_DIMS. */
struct mt_label {
    mt_category category;
    mt_role role;
    mt_role_source role_source;
    mt_phase phase;
    mt_dtype dtype;
    const char *op;  /* the operation ("einsum", "softmax.exp"); borrowed while interning, then owned by the interner */
    mt_span_id span; /* the module that made the request */
    int layer;       /* of the transformer; -1 outside of one */
    int dims;        /* 0 for a scalar */
    int64_t shape[MT_LABEL_MAX_DIMS];
};

/* A span: a node in the tree of modules. */
struct mt_span {
    mt_span_id parent;
    const char *name; /* "w1" */
    const char *path; /* "model.layers.7.ffn.w1" */
};

/* Numbers of interned frames and stacks, from 1. Stack 0: none is known, or nothing called the frame. */
typedef uint32_t mt_frame_id;
typedef uint32_t mt_stack_id;

/* A frame of a call stack: a place in a program's code. */
struct mt_frame {
    const char *function, *file; /* "" where not known */
    uint32_t line;               /* 0: not known */
};

/* A call stack: its innermost frame, and the stack of the caller. So stacks that begin alike share what they begin
 * with. */
struct mt_stack {
    mt_stack_id parent; /* 0: nothing called the frame */
    mt_frame_id frame;
};
