/* What PyTorch's operators take inside on a card, beside their results: one table, whose rows are pure functions of the call's
 * shapes and of the card. */
#ifndef MT_OPERATORS_OPERATOR_PLAN_H
#define MT_OPERATORS_OPERATOR_PLAN_H

#include "device/card.h"
#include "operators/operator_call.h"

#include <stddef.h>

/* A plan that a rule writes. Invariant: count <= MT_INNER_MOST. */
struct mt_operator_plan {
    const struct mt_card *card;
    int count, taken; /* actions so far; blocks that they take */
    struct mt_inner actions[MT_INNER_MOST];
};

typedef void mt_operator_rule(struct mt_operator_plan *plan, const struct mt_operator_call *call);

/* A row of the table. `names` are operators without "aten::", between blanks. The rule of those that take nothing is NULL. */
struct mt_operator_row {
    const char *names;
    mt_operator_rule *rule;
    const char *takes;   /* in words */
    const char *source;  /* in PyTorch's tree, 2.7 unless it says so */
    const char *checked; /* on what; "": not measured */
};

extern const struct mt_operator_row mt_operator_rows[];
extern const int mt_operator_row_count;

/* Returns the row of an operator ("aten::add_"), in place or not; NULL if the table does not have it. */
const struct mt_operator_row *mt_operator_find(const char *name);

/* Writes what a call takes inside, of at most MT_INNER_MOST actions. Returns their count; MT_INNER_UNKNOWN if the table does not
 * have the operator. */
int mt_operator_plan(const struct mt_card *card, const struct mt_operator_call *call, struct mt_inner *out);

/* Returns the bytes of the workspace that CUBLAS_WORKSPACE_CONFIG asks for (":4096:2:16:8"); `otherwise` if the text is NULL or
 * is none. */
uint64_t mt_matmul_workspace(const char *configuration, uint64_t otherwise);

/* Returns the kernel of scaled_dot_product_attention on a card. */
enum mt_attention_kernel mt_attention_choose(const struct mt_card *card, const struct mt_attention_request *request);

/* ---- for rules ---- */

/* Add an action. Taking returns the number of the block; giving -1 does nothing. */
int mt_inner_take(struct mt_operator_plan *plan, int64_t bytes);
/* Takes a copy of a tensor that is not contiguous. Returns the block; -1 if there is none. */
int mt_inner_copy(struct mt_operator_plan *plan, const struct mt_operand *tensor);
void mt_inner_give(struct mt_operator_plan *plan, int block);
void mt_inner_output(struct mt_operator_plan *plan, int output);
void mt_inner_wide_output(struct mt_operator_plan *plan, int output, int64_t bytes);
void mt_inner_host(struct mt_operator_plan *plan, int output);
void mt_inner_keep(struct mt_operator_plan *plan, int workspace, int64_t bytes);
void mt_inner_guess(struct mt_operator_plan *plan);

/* Adds OUTPUT for the results from `first` on. */
void mt_inner_outputs(struct mt_operator_plan *plan, const struct mt_operator_call *call, int first);

/* Return an argument: NULL, 0 or `otherwise` if it is absent or of another kind. */
const struct mt_operand *mt_call_tensor(const struct mt_operator_call *call, int argument);
bool mt_call_is_set(const struct mt_operator_call *call, int argument);
double mt_call_number(const struct mt_operator_call *call, int argument, double otherwise);

/* Returns a product of sizes; INT64_MAX if it overflows, which no card has. */
int64_t mt_inner_bytes(const int64_t *factors, size_t count);
#define MT_BYTES(...)                                                                                                  \
    mt_inner_bytes((const int64_t[]){__VA_ARGS__}, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

/* The rules of attention, of embeddings and of norms. */
mt_operator_rule mt_rule_cudnn_forward, mt_rule_cudnn_backward, mt_rule_flash_forward, mt_rule_flash_backward,
    mt_rule_efficient_forward, mt_rule_efficient_backward, mt_rule_embedding_backward, mt_rule_layer_norm,
    mt_rule_layer_norm_backward, mt_rule_rms_norm_backward, mt_rule_group_norm, mt_rule_group_norm_backward,
    mt_rule_foreach_norm, mt_rule_dropout, mt_rule_running_sum, mt_rule_softmax, mt_rule_softmax_backward,
    mt_rule_index_put, mt_rule_sort;

/* The rules of cuDNN's convolutions and recurrent nets. */
mt_operator_rule mt_rule_convolution, mt_rule_convolution_backward, mt_rule_recurrent, mt_rule_recurrent_backward;

/* The rules of shards. */
mt_operator_rule mt_rule_split_copy, mt_rule_chunk_cat;

/* The rules of products and of reductions. */
mt_operator_rule mt_rule_matmul, mt_rule_addmm, mt_rule_sum, mt_rule_reduce, mt_rule_extreme, mt_rule_count,
    mt_rule_reduce_pair, mt_rule_truth, mt_rule_variance, mt_rule_loss, mt_rule_huber_loss, mt_rule_entropy_loss,
    mt_rule_is_in, mt_rule_histogram, mt_rule_bin_count, mt_rule_grouped_matmul, mt_rule_bag, mt_rule_bag_backward,
    mt_rule_top;

#endif
