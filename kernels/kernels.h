/* The ops that a device can execute. They are listed once, in MTK_OPS: the table of functions, the prototypes in
 * kernels/cpu and kernels/cuda and the test functions that observe launches are generated from that list. A new op
 * needs one row there and one kernel per device.
 *
 * Every op works on views. An op allocates nothing, waits for nothing and checks nothing: its wrapper in
 * src/producers/model has checked shapes, dtypes, liveness and aliasing, on every device. An op returns MT_OK or the
 * error of its launch.
 *
 * Numbers: an op computes in fp32 or higher precision and rounds once, to the dtype of its output. On the CPU it
 * computes in double. Operands of one op may have different dtypes.
 * double. Operands of one op may differ in dtype. */
#pragma once

#include "base/status.h"
#include "base/types.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A strided view of elements in device memory, always with 4 dimensions (leading ones are 1). A stride of 0 repeats
 * elements. Element (i, j, k, l) is number i*stride[0] + j*stride[1] + k*stride[2] + l*stride[3] from address. */
struct mtk_view {
    mt_addr address;
    mt_dtype dtype;
    int64_t shape[MT_MAX_DIMS];
    int64_t stride[MT_MAX_DIMS]; /* in elements */
};

/* The queue on which an op is launched, with the stream and the library handles that the backend needs. A device
 * creates its queues; they are opaque to all other parts. NULL on a device that runs an op immediately. */
struct mtk_queue;

/* The elementwise ops with their formulas. x, y and z are the elements of the operands, s and t scalars; a comparison
 * is 0 or 1. `out` may be the same view as any operand. */
/* clang-format off */
#define MTK_UNARY_OPS(X)                                                                                               \
    X(MTK_COPY, x) /* converted to the dtype of out */                                                                 \
    X(MTK_NEGATE, -x)                                                                                                  \
    X(MTK_ABS, fabs(x))                                                                                                \
    X(MTK_EXP, exp(x))                                                                                                 \
    X(MTK_SQRT, sqrt(x) + s)                                                                                           \
    X(MTK_RSQRT, 1 / sqrt(x))                                                                                          \
    X(MTK_SIGMOID, 1 / (1 + exp(-x)))                                                                                  \
    X(MTK_LOG, log(x))                                                                                                 \
    X(MTK_POWER, s == 2 ? x * x : pow(x, s))                                                                           \
    X(MTK_ADD_SCALAR, x + s)                                                                                           \
    X(MTK_MUL_SCALAR, x * s)                                                                                           \
    X(MTK_DIV_SCALAR, x / s)                                                                                           \
    X(MTK_EQUAL_SCALAR, x == s)

#define MTK_BINARY_OPS(X)                                                                                              \
    X(MTK_ADD, x + y)                                                                                                  \
    X(MTK_SUBTRACT, x - y)                                                                                             \
    X(MTK_MULTIPLY, x * y)                                                                                             \
    X(MTK_DIVIDE, x / y)                                                                                               \
    X(MTK_EQUAL, x == y)                                                                                               \
    X(MTK_SIGMOID_GRAD, x * y * (1 - y)) /* x the gradient, y the sigmoid */                                           \
    X(MTK_LERP, x + s * (y - x))                                                                                       \
    X(MTK_LERP_SQUARE, x + s * (y * y - x))

#define MTK_TERNARY_OPS(X)                                                                                             \
    X(MTK_SELECT, x != 0 ? y : z)                                                                                      \
    X(MTK_ADD_QUOTIENT, t * x + s * y / z)
/* clang-format on */

#define X(op, formula) op,
typedef enum mtk_unary_op { MTK_UNARY_OPS(X) } mtk_unary_op;
typedef enum mtk_binary_op { MTK_BINARY_OPS(X) } mtk_binary_op;
typedef enum mtk_ternary_op { MTK_TERNARY_OPS(X) } mtk_ternary_op;
#undef X

/* out = reduction of in over every dimension in which out has size 1 and in has not. */
typedef enum mtk_reduce_op { MTK_SUM, MTK_MEAN, MTK_MAX } mtk_reduce_op;

/* The keys (columns of a row) that are visible to a query (the number of the row). */
typedef enum mtk_keys { MTK_KEYS_ALL, MTK_KEYS_UP_TO_QUERY } mtk_keys;

/* The widest supported head of attention. */
enum { MTK_MOST_HEAD_FEATURES = 128 };

/* The precision in which products read fp32 operands: unrounded, or rounded to tf32 for a card's matrix units. With fp8
 * they are unrounded; a model casts the operands of some products itself. */
typedef enum mtk_math { MTK_MATH_FP32, MTK_MATH_TF32, MTK_MATH_FP8 } mtk_math;

/* The gradients of `attention` and their operands. All are (B,H,T,D) of one dtype with dense rows (a last stride of 1),
 * except lse and delta: these are (B,H,T,1) of F32, or of F64 if the others are F64. */
struct mtk_attention_grad {
    double scale;
    mtk_math math;
    struct mtk_view dq, dk, dv; /* written */
    struct mtk_view delta;      /* written: scratch */
    struct mtk_view grad;       /* the gradient of out */
    struct mtk_view q, k, v;    /* the operands of attention */
    struct mtk_view out, lse;   /* its results */
    mt_addr workspace;          /* of mtk_attention_grad_bytes (attention_plan.h) for the card */
    uint64_t workspace_bytes;
};

/* How the kernel of a product is chosen: by the library's heuristic, or by measuring the kernels that it offers when
 * sizes occur for the first time. Measuring waits for the kernels. Time decides only among equal results, unless
 * another order of sums is much faster. A library with only one kernel always uses the heuristic. */
typedef enum mtk_choosing { MTK_CHOOSING_GUESSES, MTK_CHOOSING_MEASURES } mtk_choosing;

/* Where the scale of a cast to fp8 comes from: it is found, or it is given, from another cast of the same tensor, which
 * saves one read of the tensor. */
typedef enum mtk_scale_origin { MTK_SCALE_IS_FOUND, MTK_SCALE_IS_GIVEN } mtk_scale_origin;

/* The settings of a product: out = alpha * product + beta * out. If beta is 0, out is not read. */
struct mtk_product {
    mtk_math math;
    double alpha, beta;
    mtk_choosing choosing;
    mt_addr a_scale, b_scale; /* for fp8 operands: a factor in fp32, in the device's memory; otherwise 0 */
};

/* The gradients of `rms_norm` and their operands. All except rstd are contiguous rows of C elements. */
struct mtk_norm_grad {
    struct mtk_view dx;          /* written: (n,C) */
    struct mtk_view before;      /* added to dx, may be dx itself; without an address: 0 */
    struct mtk_view cast;        /* written: dx in another dtype; without an address: not requested */
    struct mtk_view grad;        /* the gradient of out; then written: out, as rms_norm computed it */
    struct mtk_view dweight;     /* (C); added to if beta is 1, written if it is 0 */
    struct mtk_view x, rstd;     /* the operand of rms_norm (its sum if there is one), (n,C), and its rstd, (n,1) */
    struct mtk_view weight;      /* (C) */
    struct mtk_view partial_sum; /* scratch: (MTK_NORM_PARTS,C) of F32, F64 where x is */
    double beta;
};
enum { MTK_NORM_PARTS = 256 };

/* How AdamW stores the two moments of a parameter between steps. moments.h has the codes. */
typedef enum mtk_moments {
    MTK_MOMENTS_FULL, /* in the parameter's dtype */
    MTK_MOMENTS_BF16, /* in bf16, rounded stochastically */
    MTK_MOMENTS_8BIT, /* as codes of 8 bits, with scales */
} mtk_moments;

/* Elements that share a scale, counted from the first of a parameter; the last block may be shorter. */
enum { MTK_MOMENTS_BLOCK = 256 };

/* One parameter of AdamW: tensors of `count` contiguous elements; value and grad of one dtype (F32 or F64), mean and
 * square according to `moments`. Forms other than FULL require F32. */
struct mtk_adamw_item {
    int64_t count;
    mt_addr value, grad, mean, square;
    mt_addr cast;   /* bf16, or 0 */
    mt_addr scales; /* for 8BIT: F32, of the mean and of the square for each block of elements; otherwise 0 */
    mtk_moments moments;
    uint64_t generator; /* for BF16: different for each parameter and step, so that all round independently */
};
struct mtk_adamw {
    mt_dtype dtype;
    double beta1, beta2, epsilon;
    double step_size; /* the learning rate, corrected for moments that begin at 0 */
    double keep;      /* the factor of weight decay: 1 - learning rate * decay */
};

/* The ops. Indices are I64; the caller must check that they are in range when data arrives. An op that is called
 * optional is NULL in the table of a device without a kernel for it.
 *
 *   fill              out = value.
 *   unary, binary,    Elementwise, by the formulas above. All views have the shape of out; operands repeat by strides
 *   unary, binary,    Elementwise, by the formulas above. All views have the shape of out; operands repeat by strides
 *   ternary           of 0.
 *   reduce            As mtk_reduce_op has it.
 *   random            Element i, row-major, = center + (2 * unit(generator, i) - 1) * spread. unit is mt_random_unit.
 *                     out is contiguous.
 *   matmul            out[o,g,m,n] = alpha * sum over k of a[o,g,m,k] * b[o,g,k,n] + beta * out[o,g,m,n], one product
 *                     for each o and g. Views are strided; of each matrix one of the two last strides is 1. a and b
 *                     have one dtype (F32, BF16, F64). out has the same, or F32 where they are BF16. Sums are kept in
 *                     fp32 or better. The workspace may be used. Of operands in fp8, at most one of e5m2, the product
 *                     is multiplied by both scales: it is single, out is BF16 or F32 with dense rows, a has dense rows,
 *                     b dense columns, n and k are in sixteens and addresses
 *                     in 256 bytes (fp8.h).
 *   cast_fp8          With the scale s that follows from the largest |in| (fp8.h), or that is given as scale[0]: codes =
 *                     in / s, rounded and held to the range of their dtype, turned = codes transposed as one matrix, and
 *                     scale[0] = s. in (n,C), F32 or BF16, C in sixteens, codes (n,C), turned (C, n rounded up to
 *                     sixteens, zeros past n) and scale (MTK_FP8_NUMBERS) of F32, whose other numbers are scratch, are
 *                     contiguous, with addresses in sixteens. One of codes and turned may be NULL. Optional.
 *   lower_triangle    out(i, j, q, k) = k <= q ? in(i, j, q, k) : 0.
 *   rotate            Rotary embedding on interleaved pairs of the last dimension, with positions along the third:
 *                     (a, b) = (in[…,t,2i], in[…,t,2i+1]) becomes (a cos - b sin, a sin + b cos) of the angle
 *                     direction * t * theta^(-2i/d), d the last dimension. direction is 1 forward, -1 backward.
 *                     Su et al., "RoFormer", 2021.
 *   gather_rows       out[i,j,n,c] = table[0,0,index[i,j,n,0],c].
 *   scatter_add_rows  table[0,0,index[i,j,n,0],c] += in[i,j,n,c]. Deterministic: rows with the same index are added in
 *                     row-major order of (i,j,n).
 *   pick              out[i,j,n,0] = in[i,j,n,index[i,j,n,0]].
 *   place_add         out[i,j,n,index[i,j,n,0]] += in[i,j,n,0]. Other elements of out stay as they are.
 *   softmax           Of rows: out[i,j,q,k] = e^(scale in[i,j,q,k] - lse) for keys k that query q sees, 0 for others.
 *                     lse = ln of the sum of e^(scale in) over the keys that q sees. out may be the same view as in.
 *                     Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. Optional.
 *   softmax_grad      out = scale w (grad - sum over k of grad w), from the output w of softmax. out may be the same
 *                     view as grad. Optional.
 *   attention         Causal, and without storing anything of size T²: out[i,j,t,:] = sum over u <= t of
 *                     e^(scale q_t·k_u - lse_t) v_u, lse_t = ln of the sum over u <= t of e^(scale q_t·k_u). Views as at
 *                     mtk_attention_grad. lse is not written if it is NULL. Dao et al., "FlashAttention", 2022; Dao,
 *                     "FlashAttention-2", 2023. Optional.
 *   attention_grad    From weights that are computed again: with p = e^(scale q·k - lse), delta = sum of grad * out
 *                     along a row, and s = scale p (grad·v - delta): dv_u = sum over t >= u of p grad_t, dk_u = sum
 *                     over t >= u of s q_t, dq_t = sum over u <= t of s k_u. Deterministic. Optional.
 *   rms_norm          Of rows: sum = x + y, rstd = 1 / sqrt(mean of sum² + epsilon), out = sum * rstd * weight. If y is
 *                     NULL, so is sum, and x takes its place. Contiguous rows of C elements; rstd (n,1) may be NULL.
 *                     Zhang, Sennrich, 2019. Optional.
 *   rms_norm_grad     With u = x * rstd and g = grad * weight: dx = before + rstd (g - u * mean of g u), cast = dx,
 *                     dweight = beta * dweight + sum over rows of grad * u, and grad = u * weight. Deterministic.
 *                     Optional.
 *   swiglu            out (n,F) = silu(a) * b, silu(a) = a / (1 + e^-a). a is the left half of in (n,2F), b the right
 *                     half. Contiguous. Shazeer, "GLU variants improve transformer", 2020. Optional.
 *   swiglu_grad       In place: in becomes its gradient, da = g b s (1 + a (1 - s)) and db = g silu(a), where s = 1 /
 *                     (1 + e^-a) and g = grad; grad becomes out, silu(a) * b. Optional.
 *   swiglu_product    in = x weightᵀ, and out = swiglu of in, which is not written if it has no address. in (n,2F), out
 *                     (n,F), x (n,C) and weight (2F,C) are contiguous and of one dtype. Only for shapes that gate_plan.h
 *                     names for the card. Optional.
 *   swiglu_product_grad  As swiglu_grad, with grad weight for the gradient of out: in becomes its gradient, and out is
 *                     written. grad (n,C), weight (C,F). Only for the same shapes. Optional.
 *   cross_entropy     Of rows: loss = ln of the sum of e^logits - logits[target], and logits become their gradient,
 *                     scale * (e^logits / their sum - (1 at target)). logits (n,V) are contiguous; loss (n,1) and
 *                     target (n,1) have any strides. Optional.
 *   adamw             One step of AdamW over `count` parameters: mean += (1 - beta1) (grad - mean), square += (1 -
 *                     beta2) (grad² - square), value = keep * value - step_size * mean / (sqrt(square) + epsilon),
 *                     cast = value. Loshchilov, Hutter, 2019. Moments are rounded as they are stored, after the value
 *                     has been updated. Optional. */
#define MTK_OPS(X)                                                                                                     \
    MTK_VIEW_OPS(X)                                                                                                    \
    X(adamw, (const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items, struct mtk_queue *queue), ())

/* The ops whose operands are views, as X(name, parameters, views). Outputs come first among the views; one that is
 * NULL, or has no address, is absent. */
#define MTK_VIEW_OPS(X)                                                                                                \
    X(fill, (double value, const struct mtk_view *out, struct mtk_queue *queue), (out))                                \
    X(unary,                                                                                                           \
      (mtk_unary_op op, double s, const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue),     \
      (out, in))                                                                                                       \
    X(binary,                                                                                                          \
      (mtk_binary_op op, double s, const struct mtk_view *out, const struct mtk_view *a, const struct mtk_view *b,     \
       struct mtk_queue *queue),                                                                                       \
      (out, a, b))                                                                                                     \
    X(ternary,                                                                                                         \
      (mtk_ternary_op op, double s, double t, const struct mtk_view *out, const struct mtk_view *a,                    \
       const struct mtk_view *b, const struct mtk_view *c, struct mtk_queue *queue),                                   \
      (out, a, b, c))                                                                                                  \
    X(reduce, (mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue),      \
      (out, in))                                                                                                       \
    X(random, (uint64_t generator, double center, double spread, const struct mtk_view *out, struct mtk_queue *queue), \
      (out))                                                                                                           \
    X(matmul,                                                                                                          \
      (const struct mtk_product *product, const struct mtk_view *out, const struct mtk_view *a,                        \
       const struct mtk_view *b, mt_addr workspace, uint64_t workspace_bytes, struct mtk_queue *queue),                \
      (out, a, b, MTK_BYTES(workspace, workspace_bytes), MTK_BYTES(product->a_scale, sizeof(float)),                   \
       MTK_BYTES(product->b_scale, sizeof(float))))                                                                    \
    X(lower_triangle, (const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue), (out, in))     \
    X(rotate,                                                                                                          \
      (double theta, int direction, const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue),   \
      (out, in))                                                                                                       \
    X(gather_rows,                                                                                                     \
      (const struct mtk_view *out, const struct mtk_view *table, const struct mtk_view *index,                         \
       struct mtk_queue *queue),                                                                                       \
      (out, table, index))                                                                                             \
    X(scatter_add_rows,                                                                                                \
      (const struct mtk_view *table, const struct mtk_view *index, const struct mtk_view *in,                          \
       struct mtk_queue *queue),                                                                                       \
      (table, index, in))                                                                                              \
    X(pick,                                                                                                            \
      (const struct mtk_view *out, const struct mtk_view *in, const struct mtk_view *index, struct mtk_queue *queue),  \
      (out, in, index))                                                                                                \
    X(place_add,                                                                                                       \
      (const struct mtk_view *out, const struct mtk_view *index, const struct mtk_view *in, struct mtk_queue *queue),  \
      (out, index, in))                                                                                                \
    X(softmax,                                                                                                         \
      (double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue),   \
      (out, in))                                                                                                       \
    X(softmax_grad,                                                                                                    \
      (double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *grad,                           \
       const struct mtk_view *weights, struct mtk_queue *queue),                                                       \
      (out, grad, weights))                                                                                            \
    X(attention,                                                                                                       \
      (double scale, mtk_math math, const struct mtk_view *out, const struct mtk_view *lse, const struct mtk_view *q,  \
       const struct mtk_view *k, const struct mtk_view *v, struct mtk_queue *queue),                                   \
      (out, lse, q, k, v))                                                                                             \
    X(attention_grad, (const struct mtk_attention_grad *call, struct mtk_queue *queue),                                \
      (&call->dq, &call->dk, &call->dv, &call->delta, &call->grad, &call->q, &call->k, &call->v, &call->out,           \
       &call->lse, MTK_BYTES(call->workspace, call->workspace_bytes)))                                                 \
    X(rms_norm,                                                                                                        \
      (double epsilon, const struct mtk_view *out, const struct mtk_view *rstd, const struct mtk_view *sum,            \
       const struct mtk_view *x, const struct mtk_view *y, const struct mtk_view *weight, struct mtk_queue *queue),    \
      (out, rstd, sum, x, y, weight))                                                                                  \
    X(rms_norm_grad, (const struct mtk_norm_grad *call, struct mtk_queue *queue),                                      \
      (&call->dx, &call->before, &call->cast, &call->grad, &call->dweight, &call->x, &call->rstd, &call->weight,       \
       &call->partial_sum))                                                                                            \
    X(cast_fp8,                                                                                                        \
      (mtk_scale_origin origin, const struct mtk_view *scale, const struct mtk_view *codes,                            \
       const struct mtk_view *turned, const struct mtk_view *in, struct mtk_queue *queue),                             \
      (scale, codes, turned, in))                                                                                      \
    X(swiglu, (const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue), (out, in))             \
    X(swiglu_grad, (const struct mtk_view *in, const struct mtk_view *grad, struct mtk_queue *queue), (in, grad))      \
    X(swiglu_product,                                                                                                  \
      (const struct mtk_view *in, const struct mtk_view *out, const struct mtk_view *x, const struct mtk_view *weight, \
       struct mtk_queue *queue),                                                                                       \
      (in, out, x, weight))                                                                                            \
    X(swiglu_product_grad,                                                                                             \
      (const struct mtk_view *in, const struct mtk_view *out, const struct mtk_view *grad,                             \
       const struct mtk_view *weight, struct mtk_queue *queue),                                                        \
      (in, out, grad, weight))                                                                                         \
    X(cross_entropy,                                                                                                   \
      (double scale, const struct mtk_view *logits, const struct mtk_view *loss, const struct mtk_view *target,        \
       struct mtk_queue *queue),                                                                                       \
      (logits, loss, target))

/* `count` bytes of memory as a view, for a row of MTK_VIEW_OPS. */
#define MTK_BYTES(memory, count)                                                                                       \
    &(struct mtk_view)                                                                                                 \
    {                                                                                                                  \
        .address = memory, .dtype = MT_U8, .shape = {1, 1, 1, (int64_t)(count)}, .stride = { 0, 0, 0, 1 }              \
    }

/* The kernels of one device. */
struct mtk_table {
    const char *name;
#define X(op, parameters, views) mt_status(*op) parameters;
    MTK_OPS(X)
#undef X
};

/* The table of plain C and OpenBLAS, for addresses in host memory. */
extern const struct mtk_table mtk_cpu;

#ifdef __cplusplus
}
#endif
