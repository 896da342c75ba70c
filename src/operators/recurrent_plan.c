/* Recurrent nets of cuDNN: their weights, what training keeps for backward, and workspaces. cuDNN says these sizes only
 * where there is a card; the formulas were found from what cuDNN 9.19 said on an H200 (tests/data/operators). */
#include "operators/operator_plan.h"

#include <stddef.h>

enum {
    RELU,
    TANH,
    LSTM,
    GRU,
    KINDS, /* numbers of cudnnRNNMode_t */
    ALIGNMENT = 32,
    LEAST = 256,             /* of each size, whatever else it holds */
    PRODUCT_BYTES = 8 << 20, /* of a layer's matrix products */
    PACE_BYTES = 8,          /* of a sequence: where it begins and ends */
    MOST_STEPS = 256,        /* whose gates are computed at once */
    BITS_OF_BYTE = 8
};

/* A call's net. `words` are those of all sequences; of a packed input, fewer than length * batch. */
struct net {
    int64_t kind, input, hidden, projection, layers, directions, length, batch, words, item_bytes;
    int32_t dtype;
    bool is_packed, drops;
    bool is_persistent, has_tiles; /* a kernel keeps the weights on the multiprocessors; of whole tiles */
};

static const int64_t GATES[KINDS] = {1, 1, 4, 3};

static int64_t aligned(int64_t bytes)
{
    return mt_round_up(bytes, ALIGNMENT);
}

static bool is_gated(const struct net *net)
{
    return net->kind == LSTM || net->kind == GRU;
}

/* Returns the width of what a layer hands on in one direction. */
static int64_t width_of(const struct net *net)
{
    return net->projection > 0 ? net->projection : net->hidden;
}

static int64_t cells_of(const struct net *net)
{
    return net->layers * net->directions;
}

/* Returns the bytes of `width` numbers for each word, or for each sequence. */
static int64_t word_bytes(const struct net *net, int64_t width)
{
    return MT_PRODUCT(net->words, width, net->item_bytes);
}

static int64_t state_bytes(const struct net *net, int64_t width)
{
    return MT_PRODUCT(net->batch, width, net->item_bytes);
}

/* Returns the elements of all matrices, and of two biases for each gate. */
static int64_t matrix_elements(const struct net *net)
{
    const int64_t width = width_of(net), gates = GATES[net->kind] * net->hidden;
    const int64_t first = gates * (net->input + width) + net->projection * net->hidden;
    const int64_t other = gates * (width * net->directions + width) + net->projection * net->hidden;
    return net->directions * (first + (net->layers - 1) * other);
}

static int64_t weight_bytes(const struct net *net)
{
    const int64_t biases = 2 * cells_of(net) * GATES[net->kind] * net->hidden;
    return MT_PRODUCT(matrix_elements(net) + biases, net->item_bytes);
}

/* ---- which kernel PyTorch asks for (aten/src/ATen/native/cudnn/RNN.cpp, get_algo) ---- */

static bool has_small_state(const struct net *net, bool is_forward)
{
    return net->hidden <= (is_forward ? is_gated(net) ? 192 : 384 : is_gated(net) ? 128 : 256);
}

static bool has_whole_tiles(const struct mt_card *card, const struct net *net)
{
    enum { TILE = 128, MOST_HIDDEN = 1024, MOST_BATCH = 128, WIDE_BATCH = 96, WIDE_HIDDEN = 896, LEAST_CARD = 98 };
    if (net->layers * net->directions != 1 || net->hidden > MOST_HIDDEN || net->hidden % TILE != 0 ||
        net->input % TILE != 0)
        return false;
    if (card->capability < 80 || card->capability % 10 == 6 || card->multiprocessors < LEAST_CARD)
        return false;
    if (net->kind == GRU || net->batch % 8 != 0 || net->batch > MOST_BATCH)
        return false;
    return net->kind == LSTM || net->batch < WIDE_BATCH || net->hidden < WIDE_HIDDEN;
}

/* Sets the kernel of a forward or a backward pass. */
static void choose_kernel(struct net *net, const struct mt_card *card, bool is_forward)
{
    const bool is_half = net->dtype == MT_SCALAR_HALF;
    if (net->projection > 0 || net->is_packed || (!is_half && net->dtype != MT_SCALAR_FLOAT))
        return;
    const bool is_small = has_small_state(net, is_forward);
    net->has_tiles = !is_small && is_half && has_whole_tiles(card, net);
    net->is_persistent = is_small || net->has_tiles;
}

/* ---- the call ---- */

static void read_sequences(struct net *net, const struct mt_operator_call *call, const struct mt_operand *input)
{
    const struct mt_argument *sizes = mt_call_list(call, "batch_sizes", MT_ARGUMENT_INTEGERS);
    const bool has_batch_first = mt_call_integer(call, "batch_first", 0) != 0;
    net->words = input->elements / net->input;
    net->is_packed = sizes != NULL && sizes->count > 0;
    net->length = net->is_packed ? sizes->count : input->sizes[has_batch_first ? 1 : 0];
    net->batch = net->is_packed ? sizes->integers[0] : net->words / net->length;
}

/* Reads the call. False if it has no words, or is none that a net of cuDNN has. */
static bool read_net(const struct mt_card *card, const struct mt_operator_call *call, bool is_forward, struct net *out)
{
    const struct mt_operand *input = mt_call_tensor(call, "input");
    if (input == NULL || input->dims < 2 || input->elements == 0)
        return false;
    *out = (struct net){.kind = mt_call_integer(call, "mode", 0),
                        .input = input->sizes[input->dims - 1],
                        .hidden = mt_call_integer(call, "hidden_size", 0),
                        .projection = mt_call_integer(call, "proj_size", 0),
                        .layers = mt_call_integer(call, "num_layers", 1),
                        .directions = mt_call_integer(call, "bidirectional", 0) != 0 ? 2 : 1,
                        .item_bytes = input->item_bytes,
                        .dtype = input->dtype,
                        .drops = mt_call_integer(call, "train", 0) != 0 && mt_call_number(call, "dropout", 0) > 0};
    if (out->kind < 0 || out->kind >= KINDS || out->hidden <= 0 || out->layers <= 0)
        return false;
    read_sequences(out, call, input);
    choose_kernel(out, card, is_forward);
    return true;
}

/* ---- sizes ---- */

/* Returns what is kept of a word in a layer: a part for each of these multiples of the state's width. */
static int64_t kept_bytes(const struct net *net)
{
    static const int64_t PARTS[KINDS][2] = {{1, 0}, {1, 0}, {4, 1}, {6, 0}};
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += aligned(word_bytes(net, cells_of(net) * PARTS[net->kind][i] * net->hidden));
    if (net->projection > 0)
        bytes += aligned(word_bytes(net, cells_of(net) * net->hidden)) +
                 aligned(word_bytes(net, cells_of(net) * net->projection));
    return bytes;
}

/* Returns the bytes that training keeps for backward: also the results between layers, and of dropout a bit for each of
 * them. */
static int64_t reserve_bytes(const struct net *net)
{
    const int64_t between = net->layers - 1;
    const int64_t results = net->length * net->batch * net->directions * width_of(net);
    const int64_t masks = net->drops ? between * net->directions * aligned(mt_divide_up(results, BITS_OF_BYTE)) : 0;
    return LEAST + kept_bytes(net) + aligned(word_bytes(net, between * net->directions * net->hidden)) + masks;
}

/* Returns the bytes of copies of an input that is not packed, of its results, and of the states, each `times`. */
static int64_t padded_bytes(const struct net *net, int64_t times)
{
    if (net->is_packed)
        return 0;
    const int64_t states = 2 * (aligned(state_bytes(net, cells_of(net) * width_of(net))) +
                                (net->kind == LSTM ? aligned(state_bytes(net, cells_of(net) * net->hidden)) : 0));
    return aligned(net->batch * PACE_BYTES) +
           times * (aligned(word_bytes(net, net->input)) + aligned(word_bytes(net, width_of(net) * net->directions)) +
                    states);
}

/* Returns the bytes of the products and of the matrices as they are laid out for them. */
static int64_t common_bytes(const struct net *net)
{
    return LEAST + cells_of(net) * PRODUCT_BYTES + aligned(MT_PRODUCT(matrix_elements(net), net->item_bytes));
}

/* Returns the bytes of the cells' numbers for each sequence: parts of these multiples of the state's width. */
static int64_t cell_bytes(const struct net *net, const int64_t parts[2])
{
    int64_t bytes = 0;
    for (int i = 0; i < 2; i++)
        bytes += aligned(state_bytes(net, cells_of(net) * parts[i] * net->hidden));
    if (net->directions == 2)
        bytes += aligned(state_bytes(net, (net->is_persistent ? 2 : 4) * net->layers * net->hidden));
    return bytes;
}

static const int64_t PERSISTENT[KINDS][2] = {{2, 0}, {2, 0}, {2, 2}, {2, 0}};

/* Returns the bytes of results of cells before they are projected. */
static int64_t unprojected_bytes(const struct net *net)
{
    return net->projection > 0 ? aligned(word_bytes(net, net->directions * net->hidden)) : 0;
}

/* Returns the bytes of the gates of as many words as are computed at once. */
static int64_t gate_bytes(const struct net *net)
{
    const int64_t gates = GATES[net->kind] * net->hidden;
    const bool has_all = net->directions == 2 || net->is_persistent;
    const int64_t words = has_all ? net->words : mt_smaller(net->words, MOST_STEPS * net->batch);
    return aligned(MT_PRODUCT(words, net->directions * gates, net->item_bytes)) +
           (net->is_persistent ? aligned(word_bytes(net, 4 * gates)) : 0);
}

static int64_t forward_bytes(const struct net *net)
{
    static const int64_t STANDARD[KINDS][2] = {{1, 0}, {1, 0}, {4, 2}, {3, 0}};
    const int64_t more = net->directions == 2 ? 4 : net->drops ? 1 : 0; /* both directions' results; dropped ones */
    return common_bytes(net) + padded_bytes(net, 1) + unprojected_bytes(net) + gate_bytes(net) +
           cell_bytes(net, (net->is_persistent ? PERSISTENT : STANDARD)[net->kind]) +
           aligned(word_bytes(net, more * net->hidden));
}

/* Returns how many steps of all layers are under way at once, the layers one behind the other. */
static int64_t steps_under_way(const struct net *net)
{
    enum { LONG = 128, LEAST_STEPS = 8 };
    int64_t steps = net->batch == 1 ? 32 : net->batch <= 8 ? 16 : 8;
    if (net->length < LONG && net->batch > 16)
        steps = net->batch <= 96 ? 4 : 2;
    return steps * net->layers + mt_greater(steps, LEAST_STEPS);
}

/* Returns the bytes of gradients between layers. */
static int64_t gradient_bytes(const struct net *net)
{
    const int64_t all = net->directions * (net->layers > 1 ? 2 : 1);
    if (net->directions == 2 || net->is_persistent || net->layers == 1)
        return aligned(word_bytes(net, all * net->hidden));
    const int64_t words = mt_smaller(net->words, steps_under_way(net) * net->batch);
    return aligned(MT_PRODUCT(words, net->hidden, net->item_bytes));
}

/* Returns what backward by a persistent kernel takes in addition. */
static int64_t persistent_bytes(const struct net *net)
{
    enum { FIRST = 8, LEAST_ROWS = 2432 };
    static const int64_t SECOND[KINDS] = {1, 1, 4, 6};
    const int64_t rows = net->has_tiles ? LEAST_ROWS + net->batch : 0;
    return aligned(MT_PRODUCT(mt_greater(FIRST * net->words, rows), net->hidden, net->item_bytes)) +
           aligned(word_bytes(net, SECOND[net->kind] * net->hidden));
}

static int64_t backward_bytes(const struct net *net)
{
    static const int64_t STANDARD[KINDS][2] = {{1, 0}, {1, 0}, {2, 1}, {1, 0}};
    const int64_t widest = mt_greater(net->input, net->hidden) * (net->directions == 2 ? 4 : 1);
    return common_bytes(net) + padded_bytes(net, 2) + unprojected_bytes(net) + gradient_bytes(net) +
           cell_bytes(net, (net->is_persistent ? PERSISTENT : STANDARD)[net->kind]) + aligned(word_bytes(net, widest)) +
           (net->is_persistent ? persistent_bytes(net) : 0);
}

/* Returns the workspace of each pass of training, or of a forward pass without it. */
static int64_t workspace_bytes(const struct net *net, bool trains)
{
    return trains ? mt_greater(forward_bytes(net), backward_bytes(net)) : forward_bytes(net);
}

/* ---- rules ---- */

/* _cudnn_rnn: output, last hidden state, last cell, reserve, weights. Weights that do not lie in one buffer are copied
 * into one. */
MT_RULE(recurrent)
{
    enum { RESERVE = 3, WEIGHTS = 4 };
    const bool trains = mt_call_integer(call, "train", 0) != 0;
    struct net net;
    mt_inner_copy(plan, mt_call_tensor(call, "input"));
    for (int i = 0; i < RESERVE && i < call->output_count; i++)
        mt_inner_output(plan, i);
    if (call->output_count <= RESERVE || !read_net(plan->card, call, true, &net))
        return;
    if (mt_call_find(call, "weight_buf") == NULL)
        mt_inner_wide_output(plan, WEIGHTS, weight_bytes(&net));
    const int workspace = mt_inner_take(plan, workspace_bytes(&net, trains));
    if (trains)
        mt_inner_wide_output(plan, RESERVE, reserve_bytes(&net));
    mt_inner_give(plan, workspace);
}

/* Takes zeros for the gradient of a last state that was not used. */
static void take_zeros(struct mt_operator_plan *plan, const struct mt_operator_call *call, const char *state,
                       const char *gradient)
{
    if (mt_call_find(call, gradient) == NULL)
        mt_inner_take_like(plan, mt_call_tensor(call, state));
}

/* Takes the gradients of the weights, in one buffer. cuDNN's nets have biases; without them each weight is copied from
 * there. */
static void take_weights(struct mt_operator_plan *plan, const struct mt_operator_call *call, const struct net *net,
                         int first)
{
    const int64_t matrices = 2 + (net->projection > 0 ? 1 : 0);
    const int copy = mt_inner_copy(plan, mt_call_tensor(call, "input"));
    const bool has_biases = mt_call_integer(call, "weight_stride0", 0) != matrices;
    const int buffer = has_biases ? -1 : mt_inner_take(plan, weight_bytes(net));
    if (has_biases)
        mt_inner_outputs(plan, call, first);
    const int workspace = mt_inner_take(plan, workspace_bytes(net, true));
    if (!has_biases)
        mt_inner_outputs(plan, call, first);
    mt_inner_give(plan, workspace);
    mt_inner_give(plan, buffer);
    mt_inner_give(plan, copy);
}

/* _cudnn_rnn_backward: gradients of input, hidden state and cell, then of the weights; the input is copied for each. */
MT_RULE(recurrent_backward)
{
    enum { WEIGHTS = 3 };
    struct net net;
    if (!read_net(plan->card, call, false, &net))
        return;
    take_zeros(plan, call, "hx", "grad_hy");
    take_zeros(plan, call, "cx", "grad_cy");
    const int input = mt_inner_copy(plan, mt_call_tensor(call, "input"));
    const int gradient = mt_inner_copy(plan, mt_call_tensor(call, "grad_output"));
    for (int i = 0; i < WEIGHTS && i < call->output_count; i++)
        mt_inner_output(plan, i);
    mt_inner_use(plan, workspace_bytes(&net, true));
    mt_inner_give(plan, gradient);
    mt_inner_give(plan, input);
    if (call->output_count > WEIGHTS)
        take_weights(plan, call, &net, WEIGHTS);
}

/* _cudnn_init_dropout_state: a state of random numbers for each thread that a card may have at once. */
MT_RULE(dropout_state)
{
    enum { STATE_BYTES = 24 };
    if (call->output_count == 0)
        return;
    mt_inner_wide_output(plan, 0,
                         MT_PRODUCT(plan->card->multiprocessors, plan->card->threads_per_multiprocessor, STATE_BYTES));
}

/* _thnn_fused_lstm_cell, _thnn_fused_gru_cell: what backward needs, the last result, comes first. */
MT_RULE(cell)
{
    if (call->output_count > 0)
        mt_inner_output(plan, call->output_count - 1);
    mt_inner_outputs(plan, call, 0);
}
