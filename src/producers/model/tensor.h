/* Tensors and nodes of the tape. They are counted by reference, so a block lives exactly as long as it is in use.
 *
 *   tensor ──▶ storage ──▶ block of the allocator
 *   view ───────▲
 *
 *   tensor ──▶ node that made it ──▶ nodes of its inputs
 *                     └──▶ views that its backward needs
 *
 * A tensor has a shape and a node, and shares its storage with its views. A node holds tensors and a tensor holds its
 * node, so both are released here; graph.h adds nodes and runs them. Lifetimes match an eager framework: only the
 * release of the last reference ends them.
 *
 * Threads: the one that runs the model. */
#pragma once

#include "producers/model/runtime.h"

/* A block and its tensors. The release of the last tensor reports how the block was used (use.h) and frees it.
 * Invariants: references > 0; `block` is not NULL. */
struct mt_storage {
    int references;
    struct mt_block *block;
    struct mt_use use;
};

/* Invariants: references > 0; 0 <= dims <= MT_MAX_DIMS; sizes are positive, strides are not negative; the elements are
 * inside the storage's block. */
struct mt_tensor {
    int references;
    mt_dtype dtype;
    int dims;
    int64_t shape[MT_MAX_DIMS];
    int64_t stride[MT_MAX_DIMS]; /* in elements */
    mt_addr address;             /* of the first element */
    struct mt_storage *storage;  /* one reference held */
    bool is_view;                /* made from another tensor of the same storage */

    struct mt_node *node; /* of the op that made it, held; of a leaf its accumulator. NULL: it needs no gradient */
};

enum { MT_NODE_EDGES = 3, MT_NODE_SAVED = 5 };

/* The way of a gradient to one input, and its required form there. */
struct mt_edge {
    struct mt_node *node; /* held; NULL: that input needs no gradient */
    mt_dtype dtype;
    int dims;
    int64_t shape[MT_MAX_DIMS];
};

/* Computes the gradients of the inputs: out[i] for edges[i] if that has a node, owned by the caller. `grad` has the
 * shape of the op's output and is borrowed. out[i] may have the op's broadcast shape and dtype: the tape sums and
 * casts it to the input's. */
typedef void mt_backward_function(struct mt_runtime *rt, const struct mt_node *node, struct mt_tensor *grad,
                                  struct mt_tensor **out);

/* An op on the tape, or the accumulator of a leaf's gradient. Invariants: references > 0; `waiting` >= 0; for an op,
 * `backward` is not NULL and its inputs' ops have smaller sequences; for an accumulator, `leaf` is not NULL. */
struct mt_node {
    int references;
    uint64_t sequence;              /* order on the tape; of accumulators UINT64_MAX */
    mt_backward_function *backward; /* NULL: of an accumulator */
    struct mt_edge edges[MT_NODE_EDGES];
    struct mt_tensor *saved[MT_NODE_SAVED]; /* held until backward has run; released in this order */
    double scalar;                          /* of the op, if it has one */
    int order[MT_MAX_DIMS];                 /* of a permutation */
    struct mt_scope scope;                  /* of the op; its `op` points to op_text */
    char op_text[MT_OP_TEXT];

    const struct mt_tensor *leaf; /* of an accumulator, borrowed */
    struct mt_tensor **leaf_grad; /* the place of the leaf's gradient, borrowed */

    /* While backward runs: */
    struct mt_tensor *grad; /* sum of the gradients that arrived, held */
    int waiting;            /* gradients that have not arrived yet */
    bool reached;
    bool has_run; /* and released what it kept: a graph runs once */
};

/* Allocates memory of `shape` for the runtime's current scope, uninitialized. `name` is appended to the scope's op
 * ("softmax" and "exp" make "softmax.exp"; NULL leaves the op unchanged). Returns NULL if the runtime has failed, or
 * fails now. */
struct mt_tensor *mt_tensor_empty(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype, int dims,
                                  const int64_t *shape);

/* Allocates memory with the shape of `like`. It has the strides of `like` if these cover a block without gaps,
 * otherwise row-major strides. NULL if `like` is NULL. */
struct mt_tensor *mt_tensor_empty_like(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype,
                                       const struct mt_tensor *like);

/* Allocates a temporary with the shape, layout and dtype of `like`. NULL if `like` is NULL. */
static inline struct mt_tensor *mt_tensor_temporary_like(struct mt_runtime *rt, const char *name,
                                                         const struct mt_tensor *like)
{
    return like == NULL ? NULL : mt_tensor_empty_like(rt, MT_ROLE_TEMPORARY, name, like->dtype, like);
}

/* Returns another view of the memory of `tensor`, `offset` elements on; no gradient flows through it. */
struct mt_tensor *mt_tensor_view(struct mt_runtime *rt, struct mt_tensor *tensor, int dims, const int64_t *shape,
                                 const int64_t *stride, int64_t offset);

/* Takes one more reference and returns `tensor`. NULL is allowed. */
struct mt_tensor *mt_tensor_retain(struct mt_tensor *tensor);

/* Releases one reference. The last one of a storage frees the block. NULL is allowed. */
void mt_tensor_release(struct mt_runtime *rt, struct mt_tensor *tensor);

/* Releases one reference to each of several tensors, in their order. */
#define MT_RELEASE(rt, ...)                                                                                            \
    mt_tensors_release((rt), (struct mt_tensor *const[]){__VA_ARGS__},                                                 \
                       sizeof((struct mt_tensor *const[]){__VA_ARGS__}) / sizeof(struct mt_tensor *))
void mt_tensors_release(struct mt_runtime *rt, struct mt_tensor *const *tensors, size_t count);

/* Releases *tensor and sets it to NULL. */
void mt_tensor_drop(struct mt_runtime *rt, struct mt_tensor **tensor);

/* Releases one reference to a node; the last one releases everything that the node keeps. NULL is allowed. */
void mt_node_release(struct mt_runtime *rt, struct mt_node *node);

/* Releases the tensors that a node saved for its backward. */
void mt_node_release_saved(struct mt_runtime *rt, struct mt_node *node);

/* True if the invariants of struct mt_tensor hold; for asserts. */
bool mt_tensor_is_sound(const struct mt_tensor *tensor);

/* True for floating-point dtypes. Masks and indices have none. */
static inline bool mt_is_floating(mt_dtype dtype)
{
    return dtype == MT_F32 || dtype == MT_BF16 || dtype == MT_F16 || dtype == MT_F64;
}

/* Returns the dtype of sums over elements of a dtype. */
static inline mt_dtype mt_sum_dtype(mt_dtype dtype)
{
    return dtype == MT_F64 ? MT_F64 : MT_F32;
}

/* Counts the elements, and the bytes that hold them without repetition. */
int64_t mt_tensor_count(const struct mt_tensor *tensor);
uint64_t mt_tensor_bytes(const struct mt_tensor *tensor);

bool mt_tensor_is_contiguous(const struct mt_tensor *tensor);

/* True if only this reference can see the memory, so that it may be overwritten. Never true for a view: in
 * PyTorch it keeps its base alive. */
bool mt_tensor_is_exclusive(const struct mt_tensor *tensor);

bool mt_tensor_same_shape(const struct mt_tensor *a, const struct mt_tensor *b);

/* True if the first `dims` dimensions of two tensors are equal. Both must have at least `dims`. */
bool mt_tensor_same_leading(const struct mt_tensor *a, const struct mt_tensor *b, int dims);

/* True if two tensors with the same number of dimensions have equal strides. */
bool mt_tensor_same_strides(const struct mt_tensor *a, const struct mt_tensor *b);

/* Computes the strides of `shape` over the elements of `tensor` in row-major order. False if that needs a copy. */
bool mt_tensor_view_strides(const struct mt_tensor *tensor, int dims, const int64_t *shape, int64_t *out_stride);
