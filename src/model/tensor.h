/* Tensors: strided views of blocks, counted by reference, so that a block lives exactly as long as something uses it.
 *
 *   tensor ──▶ storage ──▶ block of the allocator
 *   view ───────▲
 *
 * A tensor knows what it looks like and where its gradient goes; its storage is shared with its views. Lifetimes are
 * those of an eager framework: who holds a reference decides, nothing else.
 *
 * Threads: the one that runs the model. */
#ifndef MT_MODEL_TENSOR_H
#define MT_MODEL_TENSOR_H

#include "alloc/alloc.h"

#include <stdbool.h>

struct mt_runtime;
struct mt_node;

/* A block and how many tensors look at it; the last one tells how it was used (use.h) and gives it back. */
struct mt_storage {
    int references;
    struct mt_block *block;
    struct mt_use use;
};

/* Invariants: references > 0; the elements lie inside the storage's block. */
struct mt_tensor {
    int references;
    mt_dtype dtype;
    int dims;
    int64_t shape[MT_MAX_DIMS];
    int64_t stride[MT_MAX_DIMS]; /* in elements */
    mt_addr address;             /* of the first element */
    struct mt_storage *storage;  /* one reference held */
    bool is_view;                /* made from another tensor of the same storage */

    struct mt_node *node; /* what made it, held; NULL: no gradient flows through it. Of a parameter: its accumulator */
};

/* Memory of `shape` for the runtime's current scope, uninitialized. `name` is appended to the scope's op ("softmax" and
 * "exp" make "softmax.exp"; NULL leaves the op as it is). NULL if the runtime has failed, or fails now. */
struct mt_tensor *mt_tensor_empty(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype, int dims,
                                  const int64_t *shape);

/* The same with the shape of `like`; strided as `like` where that covers a block without holes, else row-major. */
struct mt_tensor *mt_tensor_empty_like(struct mt_runtime *rt, mt_role role, const char *name, mt_dtype dtype,
                                       const struct mt_tensor *like);

/* Another view of the memory of `tensor`, `offset` elements on; without gradient. */
struct mt_tensor *mt_tensor_view(struct mt_runtime *rt, struct mt_tensor *tensor, int dims, const int64_t *shape,
                                 const int64_t *stride, int64_t offset);

/* One more reference; returns `tensor`. NULL is allowed in both. The last release gives the block back. */
struct mt_tensor *mt_tensor_retain(struct mt_tensor *tensor);
void mt_tensor_release(struct mt_runtime *rt, struct mt_tensor *tensor);

/* Whether numbers of a dtype have a precision: a mask or an index has none. */
static inline bool mt_is_floating(mt_dtype dtype)
{
    return dtype == MT_F32 || dtype == MT_BF16 || dtype == MT_F64;
}

/* What sums over elements of a dtype are kept in. */
static inline mt_dtype mt_sum_dtype(mt_dtype dtype)
{
    return dtype == MT_F64 ? MT_F64 : MT_F32;
}

/* Elements, and the bytes that hold them without repetition. */
int64_t mt_tensor_count(const struct mt_tensor *tensor);
uint64_t mt_tensor_bytes(const struct mt_tensor *tensor);

bool mt_tensor_is_contiguous(const struct mt_tensor *tensor);

/* Whether nobody but the holder of this one reference can see the memory, so that it may be written over. A view never
 * is: in the framework that we follow it keeps its base alive. */
bool mt_tensor_is_exclusive(const struct mt_tensor *tensor);

bool mt_tensor_same_shape(const struct mt_tensor *a, const struct mt_tensor *b);

/* The strides of `shape` over the elements of `tensor` in row-major order, if it can be seen so without a copy. */
bool mt_tensor_view_strides(const struct mt_tensor *tensor, int dims, const int64_t *shape, int64_t *out_stride);

#endif
