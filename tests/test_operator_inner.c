/* Operators that copy their arguments, or sort, count and reduce tensors of their own. */
#include "operator_made.h"

enum { SUM = 1 };

static void add_text(struct made *made, const char *name, const char *text)
{
    add_argument(made, name, (struct mt_argument){.kind = MT_ARGUMENT_TEXT, .text = text});
}

/* Adds a tensor of fp32. */
static void add_floats(struct made *made, const char *name, int dims, const int64_t *sizes)
{
    add_tensor(made, name, MT_SCALAR_FLOAT, FLOAT, dims, sizes);
}

static void add_result(struct made *made, int dims, const int64_t *sizes)
{
    add_output(made, MT_SCALAR_FLOAT, FLOAT, dims, sizes);
}

/* Returns how many actions of a plan are of this kind. */
static int count_kind(const struct made *made, enum mt_inner_kind kind)
{
    struct mt_inner plan[MT_INNER_MOST];
    const int actions = plan_of(made, plan);
    int count = 0;
    for (int i = 0; i < actions; i++)
        count += plan[i].kind == kind;
    return count;
}

/* Gives images (N, C, H, W) the strides of channels last. */
static void set_channels_last(struct mt_operand *images, int64_t *strides)
{
    const int64_t c = images->sizes[1], w = images->sizes[3];
    strides[0] = images->elements / images->sizes[0];
    strides[1] = 1;
    strides[2] = c * w;
    strides[3] = c;
    images->is_contiguous = false;
}

static void kernels_of_contiguous_tensors_copy_others(void **state)
{
    (void)state;
    static const char *const calls[][2] = {{"aten::avg_pool3d", "self"},
                                           {"aten::reflection_pad2d", "self"},
                                           {"aten::_cummax_helper", "self"},
                                           {"aten::kthvalue", "self"},
                                           {"aten::max_unpool2d", "indices"},
                                           {"aten::avg_pool3d_backward", "grad_output"},
                                           {"aten::_upsample_bilinear2d_aa_backward", "grad_output"},
                                           {"aten::upsample_nearest3d", "self"},
                                           {"aten::_logcumsumexp", "self"},
                                           {"aten::multi_margin_loss_backward", "target"},
                                           {"aten::cudnn_grid_sampler", "grid"},
                                           {"aten::conv_depthwise3d", "weight"}};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        struct made made = {.call.name = calls[i][0]};
        add_floats(&made, calls[i][1], 2, (int64_t[]){16, 64});
        add_result(&made, 2, (int64_t[]){16, 64});
        assert_takes(&made, 0, NULL);
        made.tensors[0].is_contiguous = false;
        assert_takes(&made, 1, (int64_t[]){4096});
    }
}

static void a_result_that_is_not_contiguous_is_computed_in_a_copy(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::_upsample_bicubic2d_aa"};
    add_floats(&made, "self", 2, (int64_t[]){16, 64});
    add_result(&made, 2, (int64_t[]){16, 32});
    made.outputs[0].is_contiguous = false;
    assert_takes(&made, 1, (int64_t[]){2048});
}

static void adaptive_pools_copy_batches(void **state)
{
    (void)state;
    static const int64_t pooled[] = {2, 2};
    for (int dims = 3; dims <= 4; dims++) {
        struct made made = {.call.name = "aten::adaptive_max_pool2d"};
        add_floats(&made, "self", dims, (int64_t[]){2, 4, 8, 8});
        add_argument(&made, "output_size",
                     (struct mt_argument){.kind = MT_ARGUMENT_INTEGERS, .integers = pooled, .count = 2});
        made.tensors[0].is_contiguous = false;
        assert_takes(&made, dims == 4, (int64_t[]){2 * 4 * 8 * 8 * FLOAT});
    }
}

static void images_keep_channels_last_if_they_have_four(void **state)
{
    (void)state;
    for (int64_t channels = 3; channels <= 4; channels++) {
        struct made made = {.call.name = "aten::upsample_nearest2d"};
        add_floats(&made, "self", 4, (int64_t[]){2, channels, 8, 8});
        add_result(&made, 4, (int64_t[]){2, channels, 16, 16});
        assert_takes(&made, 0, NULL);
        set_channels_last(&made.tensors[0], made.strides[0]);
        set_channels_last(&made.outputs[0], made.strides[1]);
        assert_takes(&made, channels == 3 ? 2 : 0, (int64_t[]){6144, 1536});
    }
}

static void pooled_volumes_have_the_format_of_the_input(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::max_pool3d_with_indices_backward"};
    add_floats(&made, "self", 4, (int64_t[]){2, 4, 8, 8});
    add_floats(&made, "grad_output", 4, (int64_t[]){2, 4, 4, 4});
    assert_takes(&made, 0, NULL);
    set_channels_last(&made.tensors[0], made.strides[0]);
    assert_takes(&made, 1, (int64_t[]){512});
    set_channels_last(&made.tensors[1], made.strides[1]);
    assert_takes(&made, 0, NULL);
}

static void an_expanded_image_is_copied_for_cudnn(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::cudnn_grid_sampler_backward"};
    add_floats(&made, "grad_output", 2, (int64_t[]){16, 64});
    made.tensors[0].is_contiguous = false;
    assert_takes(&made, 0, NULL);
    made.strides[0][0] = 0;
    assert_takes(&made, 1, (int64_t[]){4096});
}

static void a_search_casts_to_the_common_dtype(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::bucketize"};
    add_tensor(&made, "self", MT_SCALAR_LONG, LONG, 1, (int64_t[]){100});
    add_floats(&made, "boundaries", 1, (int64_t[]){10});
    assert_takes(&made, 1, (int64_t[]){400});
    made.tensors[1].dtype = MT_SCALAR_LONG;
    made.tensors[1].item_bytes = LONG;
    assert_takes(&made, 0, NULL);
    made.tensors[1].dtype = MT_SCALAR_DOUBLE;
    assert_takes(&made, 1, (int64_t[]){800});
}

static void a_number_that_is_sought_becomes_a_tensor(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::searchsorted"};
    add_floats(&made, "sorted_sequence", 1, (int64_t[]){10});
    assert_takes(&made, 1, (int64_t[]){8});
}

static void means_of_scattered_elements_count_them(void **state)
{
    (void)state;
    struct made mean = {.call.name = "aten::scatter_reduce"}, greatest = {.call.name = "aten::scatter_reduce_"};
    struct made *both[] = {&mean, &greatest};
    for (int i = 0; i < 2; i++) {
        add_floats(both[i], "self", 1, (int64_t[]){100});
        add_floats(both[i], "src", 1, (int64_t[]){1000});
        add_text(both[i], "reduce", i == 0 ? "mean" : "amax");
    }
    assert_takes(&mean, 3, (int64_t[]){4000, 400, 100});
    assert_takes(&greatest, 0, NULL);
}

static void reduced_rows_need_indices_of_eight_bytes(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::index_reduce"};
    add_floats(&made, "self", 2, (int64_t[]){10, 4});
    add_tensor(&made, "index", MT_SCALAR_LONG - 1, 4, 1, (int64_t[]){20});
    add_floats(&made, "source", 2, (int64_t[]){20, 4});
    add_text(&made, "reduce", "mean");
    assert_takes(&made, 3, (int64_t[]){160, 320, 40});
    add_integer(&made, "include_self", 0);
    assert_takes(&made, 4, (int64_t[]){160, 160, 320, 40});
}

static void a_median_of_all_sorts(void **state)
{
    (void)state;
    struct made all = {.call.name = "aten::median"}, numbers = {.call.name = "aten::nanmedian"};
    add_floats(&all, "self", 1, (int64_t[]){100});
    assert_takes(&all, 4, (int64_t[]){400, 800, 800, 1});
    add_integer(&all, "dim", 0);
    assert_takes(&all, 0, NULL);
    add_floats(&numbers, "self", 1, (int64_t[]){100});
    assert_takes(&numbers, 9, (int64_t[]){400, 800, 800, 100, 8, 800, 8, 4, 8});
}

static void modes_of_long_rows_are_not_known(void **state)
{
    (void)state;
    for (int64_t row = 2048; row <= 2049; row++) {
        struct made made = {.call.name = "aten::mode"};
        add_floats(&made, "self", 2, (int64_t[]){4, row});
        assert_int_equal(count_kind(&made, MT_INNER_UNCOUNTED), row > 2048);
        assert_int_equal(count_kind(&made, MT_INNER_TAKE), row > 2048);
        add_integer(&made, "dim", 0);
        assert_takes(&made, 1, (int64_t[]){4 * row * FLOAT});
    }
}

static void renormed_rows_are_found_once(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::embedding_renorm_"};
    add_tensor(&made, "indices", MT_SCALAR_LONG, LONG, 1, (int64_t[]){100});
    assert_takes(&made, 6, (int64_t[]){800, 800, 800, 800, 8, 1023});
}

static void blocks_count_what_is_not_zero(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::nonzero_static"};
    add_floats(&made, "self", 1, (int64_t[]){1000000});
    add_output(&made, MT_SCALAR_LONG, LONG, 2, (int64_t[]){10, 1});
    assert_takes(&made, 2, (int64_t[]){123 * 4, 123 * 8});
    made.tensors[0].elements = 132 * 8192 + 1;
    assert_takes(&made, 2, (int64_t[]){67 * 4, 67 * 8});
}

static void losses_of_rows_are_summed(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::multi_margin_loss"};
    add_floats(&made, "self", 2, (int64_t[]){10, 5});
    assert_takes(&made, 0, NULL);
    add_integer(&made, "reduction", SUM);
    assert_takes(&made, 1, (int64_t[]){40});
}

static void gradients_of_distances_have_a_part_for_each_pair(void **state)
{
    (void)state;
    struct made pairs = {.call.name = "aten::_cdist_backward"}, own = {.call.name = "aten::_pdist_backward"};
    add_floats(&pairs, "x1", 3, (int64_t[]){2, 10, 3});
    add_floats(&pairs, "x2", 2, (int64_t[]){20, 3});
    add_floats(&pairs, "cdist", 3, (int64_t[]){2, 10, 20});
    assert_takes(&pairs, 2, (int64_t[]){2 * 20 * 3 * FLOAT, 2 * 20 * 10 * 3 * FLOAT});
    add_floats(&own, "self", 2, (int64_t[]){10, 3});
    assert_takes(&own, 1, (int64_t[]){9 * 10 * 3 * FLOAT});
}

static void euclidean_distances_of_many_rows_are_not_known(void **state)
{
    (void)state;
    for (int64_t rows = 25; rows <= 26; rows++) {
        struct made made = {.call.name = "aten::_cdist_forward"};
        add_floats(&made, "x1", 2, (int64_t[]){rows, 3});
        add_floats(&made, "x2", 2, (int64_t[]){20, 3});
        add_result(&made, 2, (int64_t[]){rows, 20});
        assert_int_equal(count_kind(&made, MT_INNER_UNCOUNTED), rows > 25);
        assert_takes(&made, 0, NULL);
    }
}

static void slices_are_renormed_by_factors(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::renorm"};
    add_tensor(&made, "self", MT_SCALAR_BF16, NARROW, 2, (int64_t[]){8, 64});
    add_integer(&made, "dim", 0);
    assert_takes(&made, 2, (int64_t[]){32, 16});
    made.tensors[0].dtype = MT_SCALAR_FLOAT;
    made.tensors[0].item_bytes = FLOAT;
    assert_takes(&made, 1, (int64_t[]){32});
}

static void whole_zero_points_have_bounds(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::fake_quantize_per_channel_affine_cachemask"};
    add_tensor(&made, "zero_point", MT_SCALAR_LONG - 1, 4, 1, (int64_t[]){64});
    assert_takes(&made, 2, (int64_t[]){4, 4});
    made.tensors[0].dtype = MT_SCALAR_FLOAT;
    assert_takes(&made, 0, NULL);
}

static void observed_channels_have_bounds(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::_fused_moving_avg_obs_fq_helper"};
    add_floats(&made, "self", 3, (int64_t[]){16, 4, 4});
    assert_takes(&made, 2, (int64_t[]){4, 4});
    add_integer(&made, "per_row_fake_quant", 1);
    assert_takes(&made, 2, (int64_t[]){64, 64});
    add_tensor(&made, "zero_point", MT_SCALAR_LONG - 1, 4, 1, (int64_t[]){4});
    add_integer(&made, "ch_axis", 1);
    assert_takes(&made, 5, (int64_t[]){1024, 16, 16, 4, 4});
}

static void a_trace_casts_the_diagonal(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::trace"};
    add_floats(&made, "self", 2, (int64_t[]){8, 64});
    add_output(&made, MT_SCALAR_LONG, LONG, 0, NULL);
    assert_takes(&made, 1, (int64_t[]){64});
    made.outputs[0].dtype = MT_SCALAR_FLOAT;
    assert_takes(&made, 0, NULL);
}

static void samples_of_dirichlet_are_divided_by_sums(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::_sample_dirichlet"};
    add_floats(&made, "self", 2, (int64_t[]){8, 64});
    add_result(&made, 2, (int64_t[]){8, 64});
    assert_takes(&made, 1, (int64_t[]){32});
}

static void slow_convolutions_have_columns_of_one_image(void **state)
{
    (void)state;
    const int64_t columns = 3 * 9 * 36 * FLOAT;
    struct made made = {.call.name = "aten::_slow_conv2d_forward"},
                turned = {.call.name = "aten::slow_conv_transpose2d"};
    struct made back = {.call.name = "aten::_slow_conv2d_backward"};
    struct made *all[] = {&made, &back, &turned};
    for (int i = 0; i < 3; i++)
        add_floats(all[i], "weight", 4, (int64_t[]){4, 3, 3, 3});
    add_floats(&made, "self", 4, (int64_t[]){2, 3, 8, 8});
    add_result(&made, 4, (int64_t[]){2, 4, 6, 6});
    assert_takes(&made, 1, &columns);
    assert_int_equal(count_kind(&made, MT_INNER_KEEP), 1);
    add_floats(&back, "grad_output", 4, (int64_t[]){2, 4, 6, 6});
    assert_takes(&back, 1, &columns);
    add_floats(&turned, "self", 4, (int64_t[]){2, 4, 6, 6});
    add_result(&turned, 4, (int64_t[]){2, 3, 8, 8});
    assert_takes(&turned, 1, &columns);
    add_floats(&turned, "bias", 1, (int64_t[]){3});
    assert_takes(&turned, 2, (int64_t[]){columns, 64 * FLOAT});
}

static void masked_rows_that_do_not_fit_are_copied(void **state)
{
    (void)state;
    for (int64_t columns = 1024; columns <= 1025; columns++) {
        struct made made = {.call.name = "aten::_masked_softmax_backward"};
        add_floats(&made, "grad_output", 2, (int64_t[]){2, columns});
        const int64_t bytes = 2 * columns * FLOAT;
        assert_takes(&made, columns > 1024 ? 3 : 1, (int64_t[]){bytes, bytes, bytes});
    }
}

static void maxima_of_lists_have_their_own_dtype(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::_foreach_max"};
    add_tensor(&made, "self", MT_SCALAR_BF16, NARROW, 1, (int64_t[]){65537});
    assert_takes(&made, 1, (int64_t[]){4});
    made.call.name = "aten::_foreach_norm";
    assert_takes(&made, 1, (int64_t[]){8});
}

static void products_of_a_batch_are_added_one_after_the_other(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::addbmm"};
    add_floats(&made, "batch1", 3, (int64_t[]){2, 8, 16});
    add_floats(&made, "batch2", 3, (int64_t[]){2, 16, 4});
    assert_takes(&made, 0, NULL);
    assert_int_equal(count_kind(&made, MT_INNER_KEEP), 1);
}

static void pivots_become_a_permutation(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::lu_unpack"};
    add_floats(&made, "LU_data", 3, (int64_t[]){5, 8, 6});
    assert_takes(&made, 2, (int64_t[]){64, 320});
    made.tensors[0].dims = 2;
    made.tensors[0].sizes++;
    made.tensors[0].elements = 48;
    assert_takes(&made, 1, (int64_t[]){64});
    add_integer(&made, "unpack_pivots", 0);
    assert_takes(&made, 0, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_contiguous_tensors_copy_others),
        cmocka_unit_test(a_result_that_is_not_contiguous_is_computed_in_a_copy),
        cmocka_unit_test(adaptive_pools_copy_batches),
        cmocka_unit_test(images_keep_channels_last_if_they_have_four),
        cmocka_unit_test(pooled_volumes_have_the_format_of_the_input),
        cmocka_unit_test(an_expanded_image_is_copied_for_cudnn),
        cmocka_unit_test(a_search_casts_to_the_common_dtype),
        cmocka_unit_test(a_number_that_is_sought_becomes_a_tensor),
        cmocka_unit_test(means_of_scattered_elements_count_them),
        cmocka_unit_test(reduced_rows_need_indices_of_eight_bytes),
        cmocka_unit_test(a_median_of_all_sorts),
        cmocka_unit_test(modes_of_long_rows_are_not_known),
        cmocka_unit_test(renormed_rows_are_found_once),
        cmocka_unit_test(blocks_count_what_is_not_zero),
        cmocka_unit_test(losses_of_rows_are_summed),
        cmocka_unit_test(gradients_of_distances_have_a_part_for_each_pair),
        cmocka_unit_test(euclidean_distances_of_many_rows_are_not_known),
        cmocka_unit_test(slices_are_renormed_by_factors),
        cmocka_unit_test(whole_zero_points_have_bounds),
        cmocka_unit_test(observed_channels_have_bounds),
        cmocka_unit_test(a_trace_casts_the_diagonal),
        cmocka_unit_test(samples_of_dirichlet_are_divided_by_sums),
        cmocka_unit_test(slow_convolutions_have_columns_of_one_image),
        cmocka_unit_test(masked_rows_that_do_not_fit_are_copied),
        cmocka_unit_test(maxima_of_lists_have_their_own_dtype),
        cmocka_unit_test(products_of_a_batch_are_added_one_after_the_other),
        cmocka_unit_test(pivots_become_a_permutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
