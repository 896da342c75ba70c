/* Recurrent nets of cuDNN: what training keeps for backward. cuDNN says how much that is, as its calls run; the formula was
 * found from calls on an H200 under cuDNN 9.19. The workspace is not known. */
#include "operators/operator_plan.h"

enum { RESERVE_LEAST = 256, BITS_OF_BYTE = 8 };

/* Returns how many values a cell keeps for each of its elements: by cudnnRNNMode_t: RNN with ReLU or tanh, LSTM, GRU. */
static int64_t kept_values(int64_t mode)
{
    static const int64_t VALUES[] = {1, 1, 5, 6};
    return mode >= 0 && mode < 4 ? VALUES[mode] : 0;
}

/* Returns the bytes that are kept: values of each cell, the results between layers, and of dropout one bit for each of them. */
static int64_t reserve_bytes(const struct mt_operator_call *call, const struct mt_operand *input)
{
    const int64_t layers = mt_call_integer(call, "num_layers", 1);
    const int64_t directions = mt_call_number(call, "bidirectional", 0) != 0 ? 2 : 1;
    const int64_t words = input->elements / input->sizes[input->dims - 1];
    const int64_t elements = MT_PRODUCT(words, mt_call_integer(call, "hidden_size", 0), directions);
    const int64_t values = layers * kept_values(mt_call_integer(call, "mode", 0)) + layers - 1;
    const bool drops = mt_call_number(call, "dropout", 0) > 0;
    return MT_PRODUCT(elements, values, input->item_bytes) + (drops ? elements * (layers - 1) / BITS_OF_BYTE : 0) +
           RESERVE_LEAST;
}

/* _cudnn_rnn: output, last hidden state, last cell, reserve, weights. */
MT_RULE(recurrent)
{
    enum { RESERVE = 3 };
    const struct mt_operand *input = mt_call_tensor(call, "input");
    mt_inner_guess(plan);
    mt_inner_copy(plan, input);
    for (int i = 0; i < RESERVE && i < call->output_count; i++)
        mt_inner_output(plan, i);
    if (input != NULL && input->elements > 0 && call->output_count > RESERVE && mt_call_number(call, "train", 0) != 0)
        mt_inner_wide_output(plan, RESERVE, reserve_bytes(call, input));
}

/* Takes zeros for the gradient of a last state that was not used. */
static void take_zeros(struct mt_operator_plan *plan, const struct mt_operator_call *call, const char *state,
                       const char *gradient)
{
    if (mt_call_find(call, gradient) == NULL)
        mt_inner_take_like(plan, mt_call_tensor(call, state));
}

/* _cudnn_rnn_backward: gradients of input, hidden state and cell, then of the weights; the input is copied for each. */
MT_RULE(recurrent_backward)
{
    enum { WEIGHTS = 3 };
    const struct mt_operand *input = mt_call_tensor(call, "input");
    mt_inner_guess(plan);
    take_zeros(plan, call, "hx", "grad_hy");
    take_zeros(plan, call, "cx", "grad_cy");
    const int first = mt_inner_copy(plan, input);
    for (int i = 0; i < WEIGHTS && i < call->output_count; i++)
        mt_inner_output(plan, i);
    mt_inner_give(plan, first);
    mt_inner_copy(plan, input);
    mt_inner_outputs(plan, call, WEIGHTS);
}
