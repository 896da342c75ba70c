/* A call of one of PyTorch's operators, and its scratch memory on a card: the words between the table
 * (operator_plan.h) and those who run the operators. C11 and C++, with nothing but numbers, since it also stands
 * between two libraries.
 *
 *   sum(x)      OUTPUT 0, TAKE 0 (staging), TAKE 1 (counters), GIVE 1, GIVE 0
 *
 * Blocks are taken in this order, which is the order in which the card's operator asks for them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of c10::ScalarType that the rules know apart. */
enum {
    MT_SCALAR_LONG = 4,
    MT_SCALAR_HALF = 5,
    MT_SCALAR_FLOAT = 6,
    MT_SCALAR_DOUBLE = 7,
    MT_SCALAR_COMPLEX_FLOAT = 9,
    MT_SCALAR_COMPLEX_DOUBLE = 10,
    MT_SCALAR_BOOL = 11,
    MT_SCALAR_BF16 = 15
};

/* A tensor: sizes and strides in elements; `offset` is that of its first element in its storage. */
struct mt_operand {
    const int64_t *sizes, *strides;
    int32_t dims, dtype; /* dtype: a c10::ScalarType's number */
    int64_t offset, elements, item_bytes;
    bool is_contiguous;
};

enum mt_argument_kind {
    MT_ARGUMENT_NONE, /* absent, or of a kind that no rule reads */
    MT_ARGUMENT_INTEGER,
    MT_ARGUMENT_NUMBER,
    MT_ARGUMENT_BOOL,
    MT_ARGUMENT_INTEGERS,
    MT_ARGUMENT_TENSORS,
    MT_ARGUMENT_TEXT
};

/* `count` is the length of the list, 1 for a tensor alone, else 0. `name` is the one in the operator's schema: rules
 * find arguments by it, since versions of PyTorch and overloads of an operator have them in other places. */
struct mt_argument {
    enum mt_argument_kind kind;
    int64_t integer; /* also a bool */
    double number;
    const int64_t *integers;
    const struct mt_operand *tensors;
    int64_t count;
    const char *name;
    const char *text;
};

/* Borrows all. */
struct mt_operator_call {
    const char *name; /* "aten::sum", without the overload */
    const struct mt_argument *arguments;
    const struct mt_operand *outputs;
    int32_t argument_count, output_count;
    bool is_short; /* planned again, since memory was not enough for the first of several MT_INNER_TRY */
};

enum mt_inner_kind {
    MT_INNER_TAKE,   /* take `bytes`, as block `number` of this call */
    MT_INNER_GIVE,   /* give block `number` back */
    MT_INNER_OUTPUT, /* take result `number` now, in a block of at least `bytes`; those that are not named come last */
    MT_INNER_HOST,   /* result `number` lies on the host */
    MT_INNER_TRIAL, /* take the most bytes of the actions MT_INNER_TRY that memory is enough for; give them back; empty the cache */
    MT_INNER_TRY, /* take `bytes` and give them back; if memory is not enough, go on with the next one, which is way `number` */
    MT_INNER_KEEP,  /* take `bytes` unless this thread has taken workspace `number` for this stream; never given back */
    MT_INNER_GUESS, /* what follows is the usual choice of a library that chooses as it runs */
    MT_INNER_UNCOUNTED /* the call takes more, and how much is not known */
};

enum { MT_WORKSPACE_CUBLAS, MT_WORKSPACE_CUBLASLT, MT_WORKSPACE_COUNT };

/* The range of an estimate. Both are 0 if the bytes are exact. */
struct mt_byte_range {
    int64_t low, high;
};

/* Invariant: range.low <= bytes <= range.high unless the range is 0. */
struct mt_inner {
    enum mt_inner_kind kind;
    int32_t number;
    int64_t bytes;
    struct mt_byte_range range; /* of MT_INNER_TAKE and MT_INNER_TRY */
};

enum { MT_INNER_MOST = 96, MT_INNER_UNKNOWN = -1 };

/* The kernel of scaled_dot_product_attention: numbers of sdp::SDPBackend. */
enum mt_attention_kernel {
    MT_ATTENTION_MATH = 0,
    MT_ATTENTION_FLASH = 1,
    MT_ATTENTION_EFFICIENT = 2,
    MT_ATTENTION_CUDNN = 3
};

/* What decides between them. Sizes are (batch, heads, sequence, head). */
struct mt_attention_request {
    struct mt_operand query, key, value;
    bool has_mask, has_strided_mask; /* strided: its last dimension does not have stride 1 */
    bool needs_gradient, mask_needs_gradient, is_causal, is_grouped, is_deterministic;
    double dropout;
    bool allows[4]; /* by enum mt_attention_kernel: what the program has not switched off */
};

#ifdef __cplusplus
}
#endif
