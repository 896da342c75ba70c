/* CTC loss, by PyTorch's own kernels and by cuDNN. */
#include "operators/operator_plan.h"

#include <stddef.h>

enum { INDEX_BYTES = 8, LONGEST_TARGET = 255, LARGE_PROBLEM = 450 };

/* Takes lengths of inputs and targets, and where each target begins. */
static void take_lengths(struct mt_operator_plan *plan, int64_t batch)
{
    for (int i = 0; i < 3; i++)
        mt_inner_take(plan, MT_PRODUCT(batch, INDEX_BYTES));
}

/* _ctc_loss: the likelihoods of all prefixes come before the losses. */
MT_RULE(ctc_loss)
{
    const struct mt_operand *scores = mt_call_tensor(call, "log_probs");
    if (scores == NULL || scores->dims != 3 || call->output_count != 2)
        return;
    take_lengths(plan, scores->sizes[1]);
    mt_inner_output(plan, 1);
    mt_inner_output(plan, 0);
}

/* Adds a sum of exponentials over the blanks between `length` characters. */
static void sum_blanks(struct mt_operator_plan *plan, int64_t rows, int64_t length, int64_t item_bytes)
{
    const int64_t all = MT_PRODUCT(rows, length, item_bytes), one = MT_PRODUCT(rows, item_bytes);
    const int products = mt_inner_take(plan, all), greatest = mt_inner_take(plan, one),
              absolute = mt_inner_take(plan, one);
    mt_inner_use(plan, rows);
    mt_inner_give(plan, absolute);
    const int exponentials = mt_inner_take(plan, all), sums = mt_inner_take(plan, one);
    mt_inner_give(plan, exponentials);
    mt_inner_give(plan, greatest);
    mt_inner_give(plan, sums);
    mt_inner_give(plan, products);
}

/* _ctc_loss_backward: the likelihoods of all suffixes. Large problems sum the blanks apart. */
MT_RULE(ctc_loss_backward)
{
    const struct mt_operand *scores = mt_call_tensor(call, "log_probs"), *prefixes = mt_call_tensor(call, "log_alpha");
    if (scores == NULL || scores->dims != 3 || prefixes == NULL || prefixes->dims != 3)
        return;
    const int64_t length = scores->sizes[0], batch = scores->sizes[1], characters = scores->sizes[2];
    take_lengths(plan, batch);
    mt_inner_take_like(plan, prefixes);
    mt_inner_output(plan, 0);
    if (2 * length + 24 * batch / 10 + 2 * characters / 10 > LARGE_PROBLEM)
        sum_blanks(plan, length * batch, prefixes->sizes[2] / 2 + 1, scores->item_bytes);
}

/* _cudnn_ctc_loss: the gradient is computed with the loss. The formula was found from what cuDNN 9.19 said. */
MT_RULE(cudnn_ctc_loss)
{
    const struct mt_operand *scores = mt_call_tensor(call, "log_probs");
    if (scores == NULL || scores->dims != 3 || call->output_count != 2)
        return;
    const int64_t length = scores->sizes[0], batch = scores->sizes[1], places = 2 * LONGEST_TARGET + 1;
    mt_inner_output(plan, 1);
    const int workspace = mt_inner_take(plan, MT_PRODUCT(2 * length + 1, batch, places, MT_FLOAT_BYTES) +
                                                  mt_operand_bytes(scores) + MT_PRODUCT(batch, INDEX_BYTES));
    mt_inner_output(plan, 0);
    mt_inner_give(plan, workspace);
}
