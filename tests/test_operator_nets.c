/* Operators of recurrent nets, norms, losses and samples: what they take inside, as it was measured on an H200. */
#include "operator_made.h"

/* Adds a tensor (N, C, H, W) with its channels last. */
static void add_image(struct made *made, const char *name, int dtype, int64_t item_bytes, const int64_t *sizes)
{
    int64_t *strides = made->strides[made->used];
    add_tensor(made, name, dtype, item_bytes, DIMS, sizes);
    strides[1] = 1;
    strides[3] = sizes[1];
    strides[2] = strides[3] * sizes[3];
    strides[0] = strides[2] * sizes[2];
    made->tensors[made->used - 1].is_contiguous = false;
}

static void batch_norm_with_channels_last_takes_what_was_measured(void **state)
{
    (void)state;
    static const struct {
        int64_t sizes[DIMS], forward, backward, counters; /* 0: one block of threads does all */
    } measured[] = {
        {{4, 64, 64, 64}, 65536, 32768, 8}, {{2, 320, 64, 64}, 163840, 81920, 40}, {{8, 128, 7, 7}, 0, 0, 0}};
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        struct made forward = {.call.name = "aten::native_batch_norm"};
        add_image(&forward, "input", MT_SCALAR_BF16, NARROW, measured[i].sizes);
        add_integer(&forward, "training", 1);
        assert_takes(&forward, measured[i].forward > 0 ? 2 : 0, (int64_t[]){measured[i].forward, measured[i].counters});
        const int64_t channel_bytes = measured[i].sizes[1] * FLOAT;
        struct made backward = {.call.name = "aten::native_batch_norm_backward"};
        add_image(&backward, "input", MT_SCALAR_BF16, NARROW, measured[i].sizes);
        add_tensor(&backward, "save_invstd", MT_SCALAR_FLOAT, FLOAT, 1, &measured[i].sizes[1]);
        assert_takes(&backward, measured[i].backward > 0 ? 4 : 2,
                     (int64_t[]){channel_bytes, channel_bytes, measured[i].backward, measured[i].counters});
    }
}

static void batch_norm_by_cudnn_takes_what_was_measured(void **state)
{
    (void)state;
    static const struct {
        int64_t sizes[DIMS], single, half, backward; /* single, half: forward in fp32 and fp16 */
    } measured[] = {{{1, 64, 14, 14}, 3140, 2108, 2596},
                    {{32, 64, 56, 56}, 810164, 325124, 536612},
                    {{16, 3, 112, 112}, 29300, 12380, 17796},
                    {{8, 2048, 1, 1}, 0, 0, 0}};
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        const int blocks = measured[i].single > 0;
        struct made single = {.call.name = "aten::cudnn_batch_norm"}, half = single;
        struct made backward = {.call.name = "aten::cudnn_batch_norm_backward"};
        add_image(&single, "input", MT_SCALAR_FLOAT, FLOAT, measured[i].sizes);
        add_image(&half, "input", MT_SCALAR_HALF, NARROW, measured[i].sizes);
        add_image(&backward, "input", MT_SCALAR_HALF, NARROW, measured[i].sizes);
        assert_takes(&single, blocks, &measured[i].single);
        assert_takes(&half, blocks, &measured[i].half);
        assert_takes(&backward, blocks, &measured[i].backward);
    }
    struct made evaluation = {.call.name = "aten::cudnn_batch_norm"};
    add_image(&evaluation, "input", MT_SCALAR_FLOAT, FLOAT, measured[0].sizes);
    add_integer(&evaluation, "training", 0);
    assert_takes(&evaluation, 0, NULL);
}

/* The losses of a diffusion model, (4, 4, 128, 192) in fp32. */
static void a_mean_loss_keeps_room_for_all_losses(void **state)
{
    (void)state;
    const int64_t sizes[] = {4, 4, 128, 192}, bytes = 1572864;
    struct made made = {.call.name = "aten::mse_loss"};
    struct mt_inner plan[MT_INNER_MOST];
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, DIMS, sizes);
    add_tensor(&made, "target", MT_SCALAR_FLOAT, FLOAT, DIMS, sizes);
    add_integer(&made, "reduction", 1);
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 0, NULL);
    assert_takes(&made, 3, (int64_t[]){bytes, 192, 4});
    plan_of(&made, plan);
    assert_int_equal(plan[0].kind, MT_INNER_OUTPUT);
    assert_int_equal(plan[0].bytes, bytes);
    made.arguments[2].integer = 0;
    assert_takes(&made, 0, NULL);
}

/* A net, and what cuDNN says of it: a line of tests/data/operators/recurrent.txt. */
struct recorded_net {
    int64_t mode, dtype, input, hidden, projection, layers, directions, length, batch, words, drops;
    int64_t workspace, reserve, inference, weights;
};

static bool read_recorded_net(FILE *file, struct recorded_net *out)
{
    int64_t *const numbers[] = {&out->mode,   &out->dtype,      &out->input,   &out->hidden,    &out->projection,
                                &out->layers, &out->directions, &out->length,  &out->batch,     &out->words,
                                &out->drops,  &out->workspace,  &out->reserve, &out->inference, &out->weights};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (fscanf(file, "%" SCNd64, numbers[i]) != 1)
            return false;
    return true;
}

/* Makes the call of a net whose weights do not lie in one buffer. `sizes` has room for each step's sequences. */
static void make_net(struct made *made, const struct recorded_net *net, bool trains, int64_t *sizes)
{
    enum { OUTPUTS = 5 };
    const int64_t item_bytes = net->dtype == MT_SCALAR_DOUBLE ? LONG : net->dtype == MT_SCALAR_FLOAT ? FLOAT : NARROW;
    *made = (struct made){.call.name = "aten::_cudnn_rnn"};
    if (net->words > 0)
        add_tensor(made, "input", (int)net->dtype, item_bytes, 2, (int64_t[]){net->words, net->input});
    else
        add_tensor(made, "input", (int)net->dtype, item_bytes, 3, (int64_t[]){net->length, net->batch, net->input});
    add_integer(made, "mode", net->mode);
    add_integer(made, "hidden_size", net->hidden);
    add_integer(made, "proj_size", net->projection);
    add_integer(made, "num_layers", net->layers);
    add_integer(made, "bidirectional", net->directions == 2);
    add_integer(made, "train", trains);
    add_argument(made, "dropout", (struct mt_argument){.kind = MT_ARGUMENT_NUMBER, .number = net->drops ? 0.5 : 0});
    sizes[0] = net->batch;
    add_argument(made, "batch_sizes",
                 (struct mt_argument){
                     .kind = MT_ARGUMENT_INTEGERS, .integers = sizes, .count = net->words > 0 ? net->length : 0});
    made->call.outputs = made->outputs;
    made->call.output_count = OUTPUTS;
}

/* Returns the bytes of the only block that is taken, or of a result. */
static int64_t bytes_of(const struct made *made, enum mt_inner_kind kind, int number)
{
    struct mt_inner plan[MT_INNER_MOST];
    const int actions = plan_of(made, plan);
    for (int i = 0; i < actions; i++)
        if (plan[i].kind == kind && plan[i].number == number)
            return plan[i].bytes;
    return -1;
}

static void recurrent_nets_take_what_cudnn_says(void **state)
{
    (void)state;
    enum { RESERVE = 3, WEIGHTS = 4, MOST_STEPS = 4096 };
    static int64_t sizes[MOST_STEPS];
    FILE *file = fopen(MT_TEST_DATA "/operators/recurrent.txt", "r");
    struct recorded_net net;
    struct made made;
    int nets = 0;
    assert_non_null(file);
    for (; read_recorded_net(file, &net); nets++) {
        assert_true(net.length <= MOST_STEPS);
        make_net(&made, &net, true, sizes);
        assert_int_equal(bytes_of(&made, MT_INNER_TAKE, 0), net.workspace);
        assert_int_equal(bytes_of(&made, MT_INNER_OUTPUT, RESERVE), net.reserve);
        assert_int_equal(bytes_of(&made, MT_INNER_OUTPUT, WEIGHTS), net.weights);
        make_net(&made, &net, false, sizes);
        if (net.drops == 0)
            assert_int_equal(bytes_of(&made, MT_INNER_TAKE, 0), net.inference);
    }
    assert_true(nets > 400);
    fclose(file);
}

static void backward_of_a_recurrent_net_takes_its_workspace_twice(void **state)
{
    (void)state;
    const struct recorded_net net = {2, MT_SCALAR_FLOAT, 128, 256, 0, 1, 1, 50, 16, 0, 0, 0, 0, 0, 0};
    struct made made;
    int64_t sizes[1];
    make_net(&made, &net, true, sizes);
    made.call.name = "aten::_cudnn_rnn_backward";
    add_integer(&made, "weight_stride0", 4);
    made.call.output_count = 4;
    assert_takes(&made, 2, (int64_t[]){14631296, 14631296});
    made.arguments[made.call.argument_count - 1].integer = 2; /* no biases */
    assert_takes(&made, 3, (int64_t[]){14631296, 1581056, 14631296});
}

static void a_sample_takes_random_numbers(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::multinomial"};
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){8, 50});
    add_integer(&made, "num_samples", 1);
    add_integer(&made, "replacement", 0);
    add_output(&made, MT_SCALAR_LONG, LONG, 2, (int64_t[]){8, 1});
    assert_takes(&made, 10, (int64_t[]){4, 1, 4, 1, 1, 32, 8, 1, 1, 1600});
    made.arguments[2].integer = 1;
    assert_takes(&made, 10, (int64_t[]){4, 1, 4, 1, 1, 32, 8, 1, 1, 1600});
    made.arguments[1].integer = 3;
    assert_takes(&made, 3, (int64_t[]){1600, 1600, 1600});
}

static void a_masked_softmax_of_long_rows_masks_a_copy(void **state)
{
    (void)state;
    for (int64_t columns = 1024; columns <= 1025; columns++) {
        struct made made = {.call.name = "aten::_masked_softmax"};
        add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){16, columns});
        add_output(&made, MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){16, columns});
        assert_takes(&made, columns == 1024 ? 0 : 2, (int64_t[]){65600, 65600});
    }
}

static void losses_of_sequences_take_what_was_measured(void **state)
{
    (void)state;
    const int64_t scores[] = {50, 4, 20}, losses[] = {4}, prefixes[] = {4, 50, 25};
    struct made made = {.call.name = "aten::_cudnn_ctc_loss"};
    add_tensor(&made, "log_probs", MT_SCALAR_FLOAT, FLOAT, 3, scores);
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 1, losses);
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 3, scores);
    assert_takes(&made, 1, (int64_t[]){841808});
    made.call.name = "aten::_ctc_loss";
    assert_takes(&made, 3, (int64_t[]){32, 32, 32});
    made.call.name = "aten::_ctc_loss_backward";
    add_tensor(&made, "log_alpha", MT_SCALAR_FLOAT, FLOAT, 3, prefixes);
    assert_takes(&made, 4, (int64_t[]){32, 32, 32, 20000});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_norm_with_channels_last_takes_what_was_measured),
        cmocka_unit_test(batch_norm_by_cudnn_takes_what_was_measured),
        cmocka_unit_test(a_mean_loss_keeps_room_for_all_losses),
        cmocka_unit_test(recurrent_nets_take_what_cudnn_says),
        cmocka_unit_test(backward_of_a_recurrent_net_takes_its_workspace_twice),
        cmocka_unit_test(losses_of_sequences_take_what_was_measured),
        cmocka_unit_test(a_sample_takes_random_numbers),
        cmocka_unit_test(a_masked_softmax_of_long_rows_masks_a_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
