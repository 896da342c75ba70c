/* Recurrent nets of cuDNN: what training keeps for backward. cuDNN says how much that is, as its calls run; the formula was
 * found from calls on an H200 under cuDNN 9.19. The workspace is not known. */
#include "operators/operator_plan.h"

enum { RESERVE_LEAST = 256, BITS_OF_BYTE = 8 };

/* Arguments of _cudnn_rnn. */
enum { INPUT = 0, MODE = 6, CELL_SIZE, PROJECTION, LAYERS, IS_BATCH_FIRST, DROPOUT, IS_TRAINING, IS_BIDIRECTIONAL };

/* Arguments of _cudnn_rnn_backward. */
enum { HIDDEN = 4, CELL, LAST_GRADIENT = 8, LAST_CELL_GRADIENT };

/* Returns how many values a cell keeps for each of its elements: by cudnnRNNMode_t: RNN with ReLU or tanh, LSTM, GRU. */
static int64_t kept_values(int mode)
{
    static const int64_t VALUES[] = {1, 1, 5, 6};
    return mode >= 0 && mode < 4 ? VALUES[mode] : 0;
}

/* Returns the bytes that are kept: values of each cell, the results between layers, and of dropout one bit for each of them. */
static int64_t reserve_bytes(const struct mt_operator_call *call, const struct mt_operand *input)
{
    const int64_t layers = (int64_t)mt_call_number(call, LAYERS, 1);
    const int64_t directions = mt_call_number(call, IS_BIDIRECTIONAL, 0) != 0 ? 2 : 1;
    const int64_t words = input->elements / input->sizes[input->dims - 1];
    const int64_t elements = MT_BYTES(words, (int64_t)mt_call_number(call, CELL_SIZE, 0), directions);
    const int64_t values = layers * kept_values((int)mt_call_number(call, MODE, 0)) + layers - 1;
    const bool drops = mt_call_number(call, DROPOUT, 0) > 0;
    return MT_BYTES(elements, values, input->item_bytes) + (drops ? elements * (layers - 1) / BITS_OF_BYTE : 0) +
           RESERVE_LEAST;
}

/* _cudnn_rnn: output, last hidden state, last cell, reserve, weights. */
void mt_rule_recurrent(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    enum { RESERVE = 3 };
    const struct mt_operand *input = mt_call_tensor(call, INPUT);
    mt_inner_guess(plan);
    const int copy = mt_inner_copy(plan, input);
    for (int i = 0; i < RESERVE && i < call->output_count; i++)
        mt_inner_output(plan, i);
    if (input != NULL && input->elements > 0 && call->output_count > RESERVE &&
        mt_call_number(call, IS_TRAINING, 0) != 0)
        mt_inner_wide_output(plan, RESERVE, reserve_bytes(call, input));
    mt_inner_give(plan, copy);
}

/* Takes zeros for the gradient of a last state that was not used; -1 if there is no such state, or it was. */
static int take_zeros(struct mt_operator_plan *plan, const struct mt_operator_call *call, int state, int gradient)
{
    const struct mt_operand *like = mt_call_tensor(call, state);
    return like == NULL || mt_call_is_set(call, gradient)
               ? -1
               : mt_inner_take(plan, MT_BYTES(like->elements, like->item_bytes));
}

/* _cudnn_rnn_backward: gradients of input, hidden state and cell, then of the weights; the input is copied for each. */
void mt_rule_recurrent_backward(struct mt_operator_plan *plan, const struct mt_operator_call *call)
{
    enum { WEIGHTS = 3 };
    const struct mt_operand *input = mt_call_tensor(call, INPUT);
    mt_inner_guess(plan);
    const int hidden = take_zeros(plan, call, HIDDEN, LAST_GRADIENT);
    const int cell = take_zeros(plan, call, CELL, LAST_CELL_GRADIENT);
    const int first = mt_inner_copy(plan, input);
    for (int i = 0; i < WEIGHTS && i < call->output_count; i++)
        mt_inner_output(plan, i);
    mt_inner_give(plan, first);
    const int second = mt_inner_copy(plan, input);
    mt_inner_outputs(plan, call, WEIGHTS);
    mt_inner_give(plan, second);
    mt_inner_give(plan, cell);
    mt_inner_give(plan, hidden);
}
