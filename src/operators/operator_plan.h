/* Scratch memory of operators of PyTorch and of well-known libraries on a card: one table, whose
 * rows are pure functions of the call's shapes and of the card. */
#pragma once

#include "device/card.h"
#include "operators/convolution.h"
#include "operators/operator_call.h"

#include <stddef.h>

enum { MT_FLOAT_BYTES = 4 };

struct mt_reduction;

/* A plan that a rule writes. Invariant: count <= MT_INNER_MOST. */
struct mt_operator_plan {
    const struct mt_card *card;
    const struct mt_convolution_source *convolutions; /* NULL: none */
    int count, taken;                                 /* actions so far; blocks that they take */
    bool is_given[MT_INNER_MOST];                     /* by the number of the block */
    struct mt_inner actions[MT_INNER_MOST];
};

typedef void mt_operator_rule(struct mt_operator_plan *plan, const struct mt_operator_call *call);

/* A row of the table. `names` are operators between blanks: PyTorch's without "aten::", others with their namespace.
 * The rule of those that take nothing is NULL. */
struct mt_operator_row {
    const char *names;
    mt_operator_rule *rule;
    const char *takes; /* in words */
    const char
        *source; /* in PyTorch's tree, 2.7 unless it says so; in the library's, of 2026, for another's operator */
    const char *checked; /* on what; "": not measured */
};

extern const struct mt_operator_row mt_operator_rows[];
extern const int mt_operator_row_count;

/* Returns the row of an operator ("aten::add_"), in place or not; NULL if the table does not have it. */
const struct mt_operator_row *mt_operator_find(const char *name);

/* Writes the actions that allocate a call's scratch memory, at most MT_INNER_MOST. Returns their count;
 * MT_INNER_UNKNOWN if the table does not have the operator. `convolutions` answers questions about convolutions; NULL:
 * they are estimated. */
int mt_operator_plan(const struct mt_card *card, const struct mt_convolution_source *convolutions,
                     const struct mt_operator_call *call, struct mt_inner *out);

/* Adds docs/operators.md, the table as a page. */
struct mt_text;
void mt_operator_page_add(struct mt_text *out);

/* Bytes of cublasLt's workspace: PyTorch's default of CUBLASLT_WORKSPACE_SIZE. */
enum { MT_CUBLASLT_WORKSPACE_BYTES = 1 << 20 };

/* Returns the bytes of the workspace that CUBLAS_WORKSPACE_CONFIG asks for (":4096:2:16:8"); `otherwise` if the text is
 * NULL or is none. */
uint64_t mt_matmul_workspace(const char *configuration, uint64_t otherwise);

/* Returns the kernel of scaled_dot_product_attention on a card. */
enum mt_attention_kernel mt_attention_choose(const struct mt_card *card, const struct mt_attention_request *request);

/* ---- for rules ---- */

/* Add an action. Blocks that a rule takes and does not give back go when it ends, last taken first, as C++ destroys the
 * tensors of a function. Taking returns the number of the block; giving -1 does nothing; using takes and gives back. */
int mt_inner_take(struct mt_operator_plan *plan, int64_t bytes);
void mt_inner_give(struct mt_operator_plan *plan, int block);
void mt_inner_use(struct mt_operator_plan *plan, int64_t bytes);
void mt_inner_trial(struct mt_operator_plan *plan);
void mt_inner_try(struct mt_operator_plan *plan, int way, int64_t bytes);
/* Do the same with bytes that are an estimate. */
void mt_inner_use_about(struct mt_operator_plan *plan, int64_t bytes, struct mt_byte_range range);
void mt_inner_try_about(struct mt_operator_plan *plan, int way, int64_t bytes, struct mt_byte_range range);
/* Takes as many bytes as a tensor has. With mt_inner_copy only if it is not contiguous, else returns -1, as without
 * one. */
int mt_inner_take_like(struct mt_operator_plan *plan, const struct mt_operand *tensor);
int mt_inner_copy(struct mt_operator_plan *plan, const struct mt_operand *tensor);
/* Does so for each of the named arguments. The list ends with NULL. */
void mt_inner_copy_each(struct mt_operator_plan *plan, const struct mt_operator_call *call, const char *const *names);
void mt_inner_output(struct mt_operator_plan *plan, int output);
void mt_inner_wide_output(struct mt_operator_plan *plan, int output, int64_t bytes);
void mt_inner_host(struct mt_operator_plan *plan, int output);
void mt_inner_keep(struct mt_operator_plan *plan, int workspace, int64_t bytes);
void mt_inner_guess(struct mt_operator_plan *plan);
void mt_inner_uncounted(struct mt_operator_plan *plan);

/* Adds the partial results and counters of a reduction (operator_memory.h), which are there while its kernel runs. */
void mt_inner_stage(struct mt_operator_plan *plan, const struct mt_reduction *reduction);

/* Adds what a reduction of these dimensions keeps while its kernel runs; of all dimensions if `dims` is NULL.
 * `accumulator`: bytes of a partial result. */
void mt_inner_reduce(struct mt_operator_plan *plan, const struct mt_operand *input, const struct mt_argument *dims,
                     int64_t accumulator);

/* Adds the reduction of `count` truth values to one: all or any of a contiguous tensor. */
void mt_inner_stage_truth(struct mt_operator_plan *plan, int64_t count);

/* Adds what sorting takes along a dimension of `row` elements: rows of up to 4,096 have their places alone; longer ones
 * are sorted by CUB. The tensor is not empty. */
void mt_inner_sort(struct mt_operator_plan *plan, const struct mt_operand *tensor, int64_t row);

/* Adds OUTPUT for the results from `first` on. */
void mt_inner_outputs(struct mt_operator_plan *plan, const struct mt_operator_call *call, int first);

/* Adds OUTPUT for all results. Returns the argument "self", NULL if it has no elements. */
const struct mt_operand *mt_inner_results(struct mt_operator_plan *plan, const struct mt_operator_call *call);

/* Return an argument by its name: NULL, 0 or `otherwise` if the call has none, it is not set, or is of another kind. */
const struct mt_argument *mt_call_find(const struct mt_operator_call *call, const char *name);
const struct mt_argument *mt_call_list(const struct mt_operator_call *call, const char *name,
                                       enum mt_argument_kind kind);
const struct mt_operand *mt_call_tensor(const struct mt_operator_call *call, const char *name);
double mt_call_number(const struct mt_operator_call *call, const char *name, double otherwise);
int64_t mt_call_integer(const struct mt_operator_call *call, const char *name, int64_t otherwise);

/* True if an argument is this text. */
bool mt_call_is_text(const struct mt_operator_call *call, const char *name, const char *text);

/* Returns the dimension of a tensor that the argument "dim" names, from the end if it is negative. */
int64_t mt_call_dimension(const struct mt_operator_call *call, const struct mt_operand *tensor, int64_t otherwise);

/* Returns a product of sizes; INT64_MAX if it overflows, which no card has. */
int64_t mt_product_of(const int64_t *factors, size_t count);
#define MT_PRODUCT(...)                                                                                                \
    mt_product_of((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static inline int64_t mt_divide_up(int64_t value, int64_t by)
{
    return (value + by - 1) / by;
}

static inline int64_t mt_round_up(int64_t value, int64_t unit)
{
    return mt_divide_up(value, unit) * unit;
}

static inline int64_t mt_smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t mt_greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the bytes of a tensor's elements; 0 without one. */
static inline int64_t mt_operand_bytes(const struct mt_operand *tensor)
{
    return tensor != NULL ? MT_PRODUCT(tensor->elements, tensor->item_bytes) : 0;
}

/* True if a tensor has elements of 16 bits. */
static inline bool mt_operand_is_narrow(const struct mt_operand *tensor)
{
    return tensor->dtype == MT_SCALAR_HALF || tensor->dtype == MT_SCALAR_BF16;
}

/* Returns the bytes of an element as kernels add them up: of fp32 at least. */
static inline int64_t mt_operand_sum_bytes(const struct mt_operand *tensor)
{
    return tensor->item_bytes < MT_FLOAT_BYTES ? MT_FLOAT_BYTES : tensor->item_bytes;
}

/* Begins the definition of a rule. A row of operator_table.c names it. */
#define MT_RULE(name)                                                                                                  \
    mt_operator_rule mt_rule_##name;                                                                                   \
    void mt_rule_##name(struct mt_operator_plan *plan, const struct mt_operator_call *call)
