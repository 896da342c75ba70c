/* The ops that a device can execute, as one table: kernels/cpu fills it in C, a GPU's module fills it in its language.
 *
 * Every op works on views. An op allocates nothing, waits for nothing and checks nothing: shapes, dtypes, liveness and
 * aliasing were checked by the op's wrapper in src/model, on every device. An op returns MT_OK or the launch's error.
 *
 * Numbers: an op computes in fp32 or better and rounds once, to the dtype of its output; on the CPU it computes in
 * double. Operands of one op may differ in dtype. */
#ifndef MTK_KERNELS_H
#define MTK_KERNELS_H

#include "base/status.h"
#include "base/types.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A strided view of elements in device memory, always of 4 dimensions (leading ones are 1). A stride of 0 repeats.
 * Element (i, j, k, l) is number i*stride[0] + j*stride[1] + k*stride[2] + l*stride[3] from address. */
struct mtk_view {
    mt_addr address;
    mt_dtype dtype;
    int64_t shape[MT_MAX_DIMS];
    int64_t stride[MT_MAX_DIMS]; /* in elements */
};

/* Where an op is launched, with what the backend needs for it (a stream, a library's handle): the device makes it, and
 * nobody else looks inside. NULL on a device that runs an op as it is called. */
struct mtk_queue;

/* out = f(in), with a scalar s where the formula names it. */
typedef enum mtk_unary_op {
    MTK_COPY,         /* in, converted to out's dtype */
    MTK_NEGATE,       /* -in */
    MTK_ABS,          /* |in| */
    MTK_EXP,          /* e^in */
    MTK_SQRT,         /* sqrt(in) + s */
    MTK_RSQRT,        /* 1 / sqrt(in) */
    MTK_SIGMOID,      /* 1 / (1 + e^-in) */
    MTK_LOG,          /* ln(in) */
    MTK_POWER,        /* in^s */
    MTK_ADD_SCALAR,   /* in + s */
    MTK_MUL_SCALAR,   /* in * s */
    MTK_DIV_SCALAR,   /* in / s */
    MTK_EQUAL_SCALAR, /* in == s, as 0 or 1 */
} mtk_unary_op;

/* out = f(a, b). `out` may be the same view as either operand (in place). */
typedef enum mtk_binary_op {
    MTK_ADD,          /* a + b */
    MTK_SUBTRACT,     /* a - b */
    MTK_MULTIPLY,     /* a * b */
    MTK_DIVIDE,       /* a / b */
    MTK_EQUAL,        /* a == b, as 0 or 1 */
    MTK_SIGMOID_GRAD, /* a * b * (1 - b): a the gradient, b the sigmoid */
    MTK_LERP,         /* a + s (b - a) */
    MTK_LERP_SQUARE,  /* a + s (b² - a) */
} mtk_binary_op;

/* out = f(a, b, c), with scalars s and t. `out` may be the same view as any operand (in place). */
typedef enum mtk_ternary_op {
    MTK_SELECT,       /* a != 0 ? b : c */
    MTK_ADD_QUOTIENT, /* t * a + s * b / c */
} mtk_ternary_op;

/* out = reduction of in over every dimension in which out has size 1 and in has not. */
typedef enum mtk_reduce_op { MTK_SUM, MTK_MEAN, MTK_MAX } mtk_reduce_op;

/* Which keys (places in a row) a query (the row's number) sees. */
typedef enum mtk_keys { MTK_KEYS_ALL, MTK_KEYS_UP_TO_QUERY } mtk_keys;

/* The widest head of attention. */
enum { MTK_MOST_HEAD_FEATURES = 128 };

/* How products read fp32 operands: as they are, or rounded to tf32, as a card's matrix units want them. */
typedef enum mtk_math { MTK_MATH_FP32, MTK_MATH_TF32 } mtk_math;

/* The gradients of `attention`, and what they are made of: all (B,H,T,D) of one dtype with dense rows (a last stride of
 * 1), but lse and delta, which are (B,H,T,1) of F32 (F64 where the others are). */
struct mtk_attention_grad {
    double scale;
    mtk_math math;
    struct mtk_view dq, dk, dv; /* written */
    struct mtk_view delta;      /* written: scratch */
    struct mtk_view grad;       /* of out */
    struct mtk_view q, k, v;    /* as they were */
    struct mtk_view out, lse;   /* as attention made them */
};

/* How the kernel of a product is chosen: as the library guesses, or by measuring those that it offers when sizes come for the
 * first time, which waits for them; time decides only among equal results, unless another order of sums is much faster. Where
 * there is nothing to choose from, measuring is guessing. */
typedef enum mtk_choosing { MTK_CHOOSING_GUESSES, MTK_CHOOSING_MEASURES } mtk_choosing;

/* What becomes of a product: out = alpha * product + beta * out. With a beta of 0, out is not read. */
struct mtk_product {
    mtk_math math;
    double alpha, beta;
    mtk_choosing choosing;
};

/* What normalizing gives back: the gradients of rms_norm. All are contiguous rows of C elements, but rstd. */
struct mtk_norm_grad {
    struct mtk_view dx;          /* written: (n,C) */
    struct mtk_view before;      /* what dx begins with, dx itself allowed; no address: with 0 */
    struct mtk_view cast;        /* written: dx once more, in a dtype of its own; no address: not wanted */
    struct mtk_view grad;        /* of out; then written: out again, as rms_norm made it */
    struct mtk_view dweight;     /* (C); added to if beta is 1, written if it is 0 */
    struct mtk_view x, rstd;     /* what was normalized, (n,C), and what rms_norm made of it, (n,1) */
    struct mtk_view weight;      /* (C) */
    struct mtk_view partial_sum; /* scratch: (MTK_NORM_PARTS,C) of F32, F64 where x is */
    double beta;
};
enum { MTK_NORM_PARTS = 256 };

/* One parameter of AdamW: `count` elements each of one dtype (F32 or F64), contiguous. */
struct mtk_adamw_item {
    int64_t count;
    mt_addr value, grad, mean, square;
    mt_addr cast; /* bf16, or 0 */
};
struct mtk_adamw {
    mt_dtype dtype;
    double beta1, beta2, epsilon;
    double step_size; /* learning rate, corrected for the moments' beginning at 0 */
    double keep;      /* what weight decay leaves: 1 - learning rate * decay */
};

struct mtk_table {
    const char *name;

    /* Fills every element with `value`. */
    mt_status (*fill)(double value, const struct mtk_view *out, struct mtk_queue *queue);

    /* Elementwise; all views have out's shape (operands repeat by strides of 0). */
    mt_status (*unary)(mtk_unary_op op, double s, const struct mtk_view *out, const struct mtk_view *in,
                       struct mtk_queue *queue);
    mt_status (*binary)(mtk_binary_op op, double s, const struct mtk_view *out, const struct mtk_view *a,
                        const struct mtk_view *b, struct mtk_queue *queue);
    mt_status (*ternary)(mtk_ternary_op op, double s, double t, const struct mtk_view *out, const struct mtk_view *a,
                         const struct mtk_view *b, const struct mtk_view *c, struct mtk_queue *queue);

    mt_status (*reduce)(mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in,
                        struct mtk_queue *queue);

    /* Lower triangle: out(i, j, q, k) = k <= q ? in(i, j, q, k) : 0. */
    mt_status (*lower_triangle)(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue);

    /* out[o,g,m,n] = alpha * sum over k of a[o,g,m,k] * b[o,g,k,n] + beta * out[o,g,m,n], one product for each o and g.
     * Views are strided; of each matrix one of the two last strides is 1. a and b have one dtype (F32, BF16, F64), and
     * out the same, or F32 where they are BF16; accumulation in fp32 or better.
     * `workspace` of `workspace_bytes` may be used and need not be. */
    mt_status (*matmul)(const struct mtk_product *product, const struct mtk_view *out, const struct mtk_view *a,
                        const struct mtk_view *b, mt_addr workspace, uint64_t workspace_bytes, struct mtk_queue *queue);

    /* out[i,j,n,c] = table[0,0,index[i,j,n,0],c]; index is I64. An index outside of the table is the caller's error and
     * was checked where the data came in. */
    mt_status (*gather_rows)(const struct mtk_view *out, const struct mtk_view *table, const struct mtk_view *index,
                             struct mtk_queue *queue);

    /* table[0,0,index[i,j,n,0],c] += in[i,j,n,c], deterministic: rows that meet are added in row-major order of (i,j,n). */
    mt_status (*scatter_add_rows)(const struct mtk_view *table, const struct mtk_view *index, const struct mtk_view *in,
                                  struct mtk_queue *queue);

    /* out[i,j,n,0] = in[i,j,n,index[i,j,n,0]]. */
    mt_status (*pick)(const struct mtk_view *out, const struct mtk_view *in, const struct mtk_view *index,
                      struct mtk_queue *queue);

    /* out[i,j,n,index[i,j,n,0]] += in[i,j,n,0]; nothing else of out is touched. */
    mt_status (*place_add)(const struct mtk_view *out, const struct mtk_view *index, const struct mtk_view *in,
                           struct mtk_queue *queue);

    /* Rotary embedding on interleaved pairs of the last dimension, positions along the third:
     * (a, b) = (in[…,t,2i], in[…,t,2i+1]) becomes (a cos - b sin, a sin + b cos) of angle direction * t * theta^(-2i/d),
     * d the last dimension. direction is 1 forward, -1 backward. Su et al., "RoFormer", 2021. */
    mt_status (*rotate)(double theta, int direction, const struct mtk_view *out, const struct mtk_view *in,
                        struct mtk_queue *queue);

    /* Softmax of rows: out[i,j,q,k] = e^(scale in[i,j,q,k] - lse[i,j,q,0]) for keys k that query q sees, 0 for others;
     * lse = ln of the sum of e^(scale in) over the former. lse may be NULL: then it is not written. `out` may be the same
     * view as `in`. Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018. Optional. */
    mt_status (*softmax)(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *lse,
                         const struct mtk_view *in, struct mtk_queue *queue);

    /* Its gradient: out = scale w (grad - sum over k of grad w). w is `kept` if lse is NULL, which then holds what softmax
     * wrote; else `kept` holds what it read, and w = e^(scale kept - lse). `out` may be the same view as grad. Optional. */
    mt_status (*softmax_grad)(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *grad,
                              const struct mtk_view *kept, const struct mtk_view *lse, struct mtk_queue *queue);

    /* Causal attention, of which nothing of size T² is stored: out[i,j,t,:] = sum over u <= t of e^(scale q_t·k_u -
     * lse_t) v_u, lse_t = ln of the sum over u <= t of e^(scale q_t·k_u). Views as at mtk_attention_grad; lse may be
     * NULL: then it is not written. Dao et al., "FlashAttention", 2022; Dao, "FlashAttention-2", 2023. Optional. */
    mt_status (*attention)(double scale, mtk_math math, const struct mtk_view *out, const struct mtk_view *lse,
                           const struct mtk_view *q, const struct mtk_view *k, const struct mtk_view *v,
                           struct mtk_queue *queue);

    /* Its gradients, from weights that are computed anew: with p = e^(scale q·k - lse), delta = sum of grad * out along a
     * row, and s = scale p (grad·v - delta): dv_u = sum over t >= u of p grad_t, dk_u = of s q_t, dq_t = sum over u <= t
     * of s k_u. Deterministic. Optional. */
    mt_status (*attention_grad)(const struct mtk_attention_grad *call, struct mtk_queue *queue);

    /* RMSNorm of rows: sum = x + y (or x, where y is NULL: then sum is, too), rstd = 1 / sqrt(mean of sum² + epsilon),
     * out = sum * rstd * weight. Contiguous rows of C; rstd (n,1) may be NULL. Zhang, Sennrich, 2019. Optional. */
    mt_status (*rms_norm)(double epsilon, const struct mtk_view *out, const struct mtk_view *rstd,
                          const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y,
                          const struct mtk_view *weight, struct mtk_queue *queue);

    /* Its gradients. With u = x * rstd and g = grad * weight: dx = before + rstd (g - u * mean of g u), cast = dx,
     * dweight = beta * dweight + sum over rows of grad * u, and grad = u * weight. Deterministic. Optional. */
    mt_status (*rms_norm_grad)(const struct mtk_norm_grad *call, struct mtk_queue *queue);

    /* The gate of SwiGLU, out = silu(a) * b, silu(a) = a / (1 + e^-a), of a and b side by side: of in (n,2F) a is the
     * left half and b the right, out is (n,F). Contiguous. Shazeer, "GLU variants improve transformer", 2020. Optional. */
    mt_status (*swiglu)(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue);

    /* Its gradient, in place: in becomes its gradient, da = g b s (1 + a (1 - s)) and db = g silu(a), s = 1 / (1 + e^-a);
     * grad (g) becomes out again, silu(a) * b. Optional. */
    mt_status (*swiglu_grad)(const struct mtk_view *in, const struct mtk_view *grad, struct mtk_queue *queue);

    /* Cross entropy of rows and its gradient over them: loss = ln of the sum of e^logits - logits[target], and logits
     * become scale * (e^logits / their sum - (1 at target)). logits (n,V) contiguous, loss (n,1) and target (n,1) of I64
     * with any strides. Optional. */
    mt_status (*cross_entropy)(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                               const struct mtk_view *target, struct mtk_queue *queue);

    /* One step of AdamW over `count` parameters: mean += (1 - beta1) (grad - mean), square += (1 - beta2) (grad² - square),
     * value = keep * value - step_size * mean / (sqrt(square) + epsilon), cast = value. Loshchilov, Hutter, 2019.
     * Optional. */
    mt_status (*adamw)(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                       struct mtk_queue *queue);

    /* Element i, row-major, becomes center + (2 * unit(generator, i) - 1) * spread; unit is mt_random_unit. `out` is
     * contiguous. */
    mt_status (*random)(uint64_t generator, double center, double spread, const struct mtk_view *out,
                        struct mtk_queue *queue);
};

/* The table of plain C and OpenBLAS, for addresses that are host memory. */
extern const struct mtk_table mtk_cpu;

#ifdef __cplusplus
}
#endif

#endif
