/* Operators that reduce, search, sort, transform and solve: what they take inside, as it was measured on an H200. */
#include "operator_made.h"

static void make_sum(struct made *made, int64_t rows, int64_t columns, const int64_t *dim)
{
    *made = (struct made){.call.name = "aten::sum"};
    add_tensor(made, "self", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){rows, columns});
    add_argument(made, "dim", (struct mt_argument){.kind = MT_ARGUMENT_INTEGERS, .integers = dim, .count = 1});
    add_output(made, MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){*dim == 0 ? columns : rows});
}

static void a_sum_over_rows_takes_what_was_measured(void **state)
{
    (void)state;
    static const struct {
        int64_t rows, columns, staging, counters;
    } measured[] = {{4096, 768, 25165824, 24},
                    {8192, 768, 50331648, 24},
                    {4096, 2304, 75497472, 72},
                    {4096, 3072, 100663296, 96},
                    {8192, 3072, 138412032, 96}};
    const int64_t first = 0;
    for (size_t i = 0; i < sizeof measured / sizeof measured[0]; i++) {
        struct made made;
        make_sum(&made, measured[i].rows, measured[i].columns, &first);
        assert_takes(&made, 2, (int64_t[]){measured[i].staging, measured[i].counters});
    }
}

static void a_sum_along_short_rows_takes_nothing(void **state)
{
    (void)state;
    const int64_t last = -1;
    struct made made;
    make_sum(&made, 8192, 768, &last);
    assert_takes(&made, 0, NULL);
}

static void a_sum_does_not_depend_on_how_its_dimensions_are_cut(void **state)
{
    (void)state;
    const int64_t first[] = {0, 1};
    struct made made = {.call.name = "aten::sum"};
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 3, (int64_t[]){16, 512, 768});
    add_argument(&made, "dim", (struct mt_argument){.kind = MT_ARGUMENT_INTEGERS, .integers = first, .count = 2});
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){768});
    assert_takes(&made, 2, (int64_t[]){50331648, 24});
}

static void the_least_and_greatest_travel_without_an_index(void **state)
{
    (void)state;
    static const char *const names[] = {"aten::aminmax", "aten::max"};
    for (int i = 0; i < 2; i++) {
        struct made made = {.call.name = names[i]};
        add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){100000000});
        add_output(&made, MT_SCALAR_FLOAT, FLOAT, 0, NULL);
        add_output(&made, i == 0 ? MT_SCALAR_FLOAT : MT_SCALAR_LONG, i == 0 ? FLOAT : LONG, 0, NULL);
        assert_takes(&made, 2, (int64_t[]){i == 0 ? 6104 : 12208, 4});
    }
}

static void a_sum_of_truths_casts_its_input(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::sum"};
    add_tensor(&made, "self", MT_SCALAR_BOOL, 1, 2, (int64_t[]){16, 16});
    add_argument(&made, "dtype", (struct mt_argument){0});
    add_output(&made, MT_SCALAR_LONG, LONG, 0, NULL);
    assert_takes(&made, 1, (int64_t[]){256 * LONG});
}

static void searches_take_what_was_measured(void **state)
{
    (void)state;
    const int64_t few = 4096, many = 50000000;
    struct made nonzero = {.call.name = "aten::nonzero"};
    add_tensor(&nonzero, "self", MT_SCALAR_BOOL, 1, 1, &few);
    add_output(&nonzero, MT_SCALAR_LONG, LONG, 2, (int64_t[]){few, 1});
    assert_takes(&nonzero, 3, (int64_t[]){4, 1, 1023});
    nonzero.tensors[0].elements = many;
    assert_takes(&nonzero, 3, (int64_t[]){4, 21503, 95487});
    struct made unique = {.call.name = "aten::_unique2"};
    add_tensor(&unique, "self", MT_SCALAR_FLOAT, FLOAT, 1, &many);
    add_integer(&unique, "return_counts", 1);
    add_output(&unique, MT_SCALAR_FLOAT, FLOAT, 1, &many);
    assert_takes(&unique, 4, (int64_t[]){many * FLOAT, 207416319, LONG, 1042687});
    struct made permutation = {.call.name = "aten::randperm"};
    add_integer(&permutation, "n", 20000);
    add_output(&permutation, MT_SCALAR_LONG, LONG, 1, (int64_t[]){20000});
    assert_takes(&permutation, 5, (int64_t[]){LONG, 160000, 80000, 80000, 252927});
}

static void make_embedding(struct made *made, int64_t indices, int64_t rows, int64_t width)
{
    *made = (struct made){.call.name = "aten::embedding_dense_backward"};
    add_tensor(made, "grad_output", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){indices, width});
    add_tensor(made, "indices", MT_SCALAR_LONG, LONG, 1, &indices);
    add_integer(made, "num_weights", rows);
    add_integer(made, "padding_idx", -1);
    add_integer(made, "scale_grad_by_freq", 0);
    add_output(made, MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){rows, width});
}

static void embedding_backward_takes_what_was_measured(void **state)
{
    (void)state;
    struct made made;
    make_embedding(&made, 4096, 50257, 768);
    assert_takes(
        &made, 14,
        (int64_t[]){32768, 32768, 32768, 83455, 32768, 8, 32768, 1279, 32768, 32768, 1279, 8, 36040, 13839360});
}

static void few_indices_are_not_sorted(void **state)
{
    (void)state;
    struct made made;
    make_embedding(&made, 3072, 50257, 768);
    assert_takes(&made, 0, NULL);
}

static void a_product_keeps_a_workspace_of_its_thread(void **state)
{
    (void)state;
    struct mt_inner plan[MT_INNER_MOST];
    struct made made = {.call.name = "aten::addmm"};
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){32});
    add_tensor(&made, "mat1", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){8, 16});
    add_tensor(&made, "mat2", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){16, 32});
    assert_int_equal(plan_of(&made, plan), 2);
    assert_int_equal(plan[0].kind, MT_INNER_KEEP);
    assert_int_equal(plan[0].bytes, 33554432);
    assert_int_equal(plan[1].number, MT_WORKSPACE_CUBLASLT);
    assert_int_equal(plan[1].bytes, 1 << 20);
}

static void a_scaled_product_keeps_both_workspaces(void **state)
{
    (void)state;
    struct mt_inner plan[MT_INNER_MOST];
    struct made made = {.call.name = "aten::_scaled_mm"};
    add_tensor(&made, "self", MT_SCALAR_BOOL, 1, 2, (int64_t[]){64, 32});
    add_tensor(&made, "mat2", MT_SCALAR_BOOL, 1, 2, (int64_t[]){32, 16});
    add_tensor(&made, "scale_a", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){64, 1});
    assert_int_equal(plan_of(&made, plan), 2);
    assert_int_equal(plan[0].bytes, 33554432);
    assert_int_equal(plan[1].number, MT_WORKSPACE_CUBLASLT);
}

/* Of 1,000 boxes: scores and their order, sorted boxes, 16 words of bits for each, and the indices that come from the
 * host. */
static void boxes_are_sorted_and_compared(void **state)
{
    (void)state;
    struct made made = {.call.name = "torchvision::nms"};
    add_tensor(&made, "dets", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){1000, 4});
    add_tensor(&made, "scores", MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){1000});
    add_output(&made, MT_SCALAR_LONG, LONG, 1, (int64_t[]){1000});
    assert_takes(&made, 6, (int64_t[]){4000, 8000, 8000, 16000, 128000, 8000});
}

/* 4,096 indices of a table of 2^20 rows, 64 wide: where they come from twice, both as they are and sorted, those that
 * differ, their counts, and what adds up rows that are there many times. */
static void tables_of_fbgemm_sort_their_indices(void **state)
{
    (void)state;
    struct made made = {.call.name = "fbgemm::split_embedding_backward_codegen_rowwise_adagrad_unweighted_exact_cuda"};
    add_tensor(&made, "grad_output", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){1024, 64});
    add_tensor(&made, "indices", MT_SCALAR_LONG, LONG, 1, (int64_t[]){4096});
    add_tensor(&made, "weights_placements", MT_SCALAR_LONG, FLOAT, 1, (int64_t[]){1});
    add_integer(&made, "total_hash_size_bits", 20);
    add_integer(&made, "max_D", 64);
    const int64_t n = 4096, sort = mt_cub_sort_bytes(n, LONG, FLOAT, 3), runs = mt_cub_run_length_bytes(n);
    assert_takes(&made, 18,
                 (int64_t[]){n * 4, n * 4, n * 8, n * 8, sort, n * 8, n * 4, 4, runs, (n + 1) * 4,
                             mt_cub_scan_bytes(n, FLOAT), 4, n * 4, 4, n * 4, 4, 4 * 4, 4 * 64 * 4});
}

static void a_running_sum_casts_truths_and_scans_one_dimension(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::cumsum"};
    add_tensor(&made, "self", MT_SCALAR_BOOL, 1, 2, (int64_t[]){4, 1024});
    add_integer(&made, "dim", -1);
    add_output(&made, MT_SCALAR_LONG, LONG, 2, (int64_t[]){4, 1024});
    assert_takes(&made, 1, (int64_t[]){32768});
    made = (struct made){.call.name = "aten::cumsum"};
    add_tensor(&made, "self", MT_SCALAR_LONG, LONG, 1, (int64_t[]){1024});
    add_integer(&made, "dim", 0);
    add_output(&made, MT_SCALAR_LONG, LONG, 1, (int64_t[]){1024});
    assert_takes(&made, 1, (int64_t[]){1279});
}

static void a_grouped_product_takes_what_was_measured(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::_grouped_mm"};
    add_tensor(&made, "self", MT_SCALAR_BF16, NARROW, 2, (int64_t[]){1024, 512});
    add_tensor(&made, "mat2", MT_SCALAR_BF16, NARROW, 3, (int64_t[]){8, 512, 1024});
    add_tensor(&made, "offs", MT_SCALAR_LONG, FLOAT, 1, (int64_t[]){8});
    add_output(&made, MT_SCALAR_BF16, NARROW, 2, (int64_t[]){1024, 1024});
    assert_takes(&made, 2, (int64_t[]){480, 67584});
}

static void counts_of_values_look_for_their_bounds_first(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::bincount"};
    add_tensor(&made, "self", MT_SCALAR_LONG, LONG, 1, (int64_t[]){2000000});
    assert_takes(&made, 6, (int64_t[]){8, 1960, 4, 8, 1960, 4});
}

static void the_largest_of_short_rows_take_nothing(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::topk"};
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){4096, 8});
    add_integer(&made, "k", 2);
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){4096, 2});
    assert_takes(&made, 0, NULL);
}

static void the_largest_of_long_rows_are_sought_by_several_blocks(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::topk"};
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){10000000});
    add_integer(&made, "k", 1000);
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){1000});
    assert_takes(&made, 9, (int64_t[]){4, 8, 8, 400384, 1024, 3128, 3128, 1279, 1279});
}

/* Makes a transform along the last dimensions. */
static void make_transform(struct made *made, const char *name, int dtype, int64_t item_bytes, int dims,
                           const int64_t *sizes, int transformed)
{
    static const int64_t last[] = {-2, -1};
    *made = (struct made){.call.name = name};
    add_tensor(made, "self", dtype, item_bytes, dims, sizes);
    add_argument(
        made, "dim",
        (struct mt_argument){.kind = MT_ARGUMENT_INTEGERS, .integers = last + 2 - transformed, .count = transformed});
    add_output(made, dtype, item_bytes, dims, sizes);
}

static void transforms_take_what_cufft_says(void **state)
{
    (void)state;
    enum { COMPLEX = 9 };
    struct made made;
    make_transform(&made, "aten::_fft_c2c", COMPLEX, LONG, 2, (int64_t[]){64, 1024}, 1);
    assert_takes(&made, 0, NULL);
    make_transform(&made, "aten::_fft_c2c", COMPLEX, LONG, 2, (int64_t[]){64, 111}, 1);
    assert_takes(&made, 1, (int64_t[]){56832});
    make_transform(&made, "aten::_fft_r2c", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){64, 298}, 1);
    assert_takes(&made, 1, (int64_t[]){76288});
    make_transform(&made, "aten::_fft_c2r", COMPLEX, LONG, 3, (int64_t[]){20, 64, 64}, 2);
    add_integer(&made, "last_dim_size", 126);
    assert_takes(&made, 1, (int64_t[]){655360});
}

static void matrices_take_what_was_measured(void **state)
{
    (void)state;
    static const struct {
        const char *name, *argument;
        int64_t n, bytes[2];
        int count;
    } lone[] = {{"aten::linalg_cholesky_ex", "self", 1000, {4224}, 1},
                {"aten::linalg_lu_factor_ex", "A", 513, {8704}, 1},
                {"aten::geqrf", "self", 1000, {4, 6193280}, 2},
                {"aten::linalg_ldl_factor_ex", "self", 1000, {256256}, 1}};
    for (size_t i = 0; i < sizeof lone / sizeof *lone; i++) {
        struct made made = {.call.name = lone[i].name};
        add_tensor(&made, lone[i].argument, MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){lone[i].n, lone[i].n});
        assert_takes(&made, lone[i].count, lone[i].bytes);
    }
}

static void is_in_compares_with_few_values(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::isin"};
    add_tensor(&made, "elements", MT_SCALAR_LONG, LONG, 1, (int64_t[]){8});
    add_tensor(&made, "test_elements", MT_SCALAR_LONG, LONG, 1, (int64_t[]){3});
    add_output(&made, MT_SCALAR_BOOL, 1, 1, (int64_t[]){8});
    assert_takes(&made, 2, (int64_t[]){24, 8});
}

/* A layer of a transformer of width 1,024 over two ranks: four square matrices, three of the feed-forward, two
 * norms. */
enum { LAYER_TENSORS = 9, RANKS = 2 };
static const int64_t layer_rows[LAYER_TENSORS] = {1024, 1024, 1024, 1024, 4096, 4096, 1024, 1024, 1024};
static const int64_t layer_columns[LAYER_TENSORS] = {1024, 1024, 1024, 1024, 1024, 1024, 4096, 1, 1};

static struct mt_argument list_of(const struct mt_operand *tensors, int64_t count)
{
    return (struct mt_argument){.kind = MT_ARGUMENT_TENSORS, .tensors = tensors, .count = count};
}

/* Copies the gathered shards of the layer, in bf16, apart. */
static void taking_shards_apart_takes_what_was_measured(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::split_with_sizes_copy"};
    struct mt_operand out[LAYER_TENSORS];
    int64_t sizes[LAYER_TENSORS], sum = 0, ones[DIMS] = {1, 1, 1, 1};
    for (int i = 0; i < LAYER_TENSORS; i++) {
        sizes[i] = layer_rows[i] * layer_columns[i] / RANKS;
        sum += sizes[i];
        out[i] = (struct mt_operand){.sizes = &sizes[i],
                                     .strides = ones,
                                     .dims = 1,
                                     .dtype = MT_SCALAR_BF16,
                                     .elements = sizes[i],
                                     .item_bytes = NARROW,
                                     .is_contiguous = true};
    }
    add_tensor(&made, "self", MT_SCALAR_BF16, NARROW, 2, (int64_t[]){RANKS, sum});
    add_argument(&made, "split_sizes",
                 (struct mt_argument){.kind = MT_ARGUMENT_INTEGERS, .integers = sizes, .count = LAYER_TENSORS});
    add_integer(&made, "dim", 1);
    add_argument(&made, "out", list_of(out, LAYER_TENSORS));
    assert_takes(&made, 1, (int64_t[]){33080});
}

/* Puts the layer's gradients, in bf16, together for a sum in fp32. */
static void putting_gradients_together_takes_what_was_measured(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::_chunk_cat"};
    struct mt_operand gradients[LAYER_TENSORS];
    int64_t sizes[LAYER_TENSORS][2], ones[DIMS] = {1, 1, 1, 1}, sum = 0;
    for (int i = 0; i < LAYER_TENSORS; i++) {
        sizes[i][0] = layer_rows[i];
        sizes[i][1] = layer_columns[i];
        sum += layer_rows[i] * layer_columns[i];
        gradients[i] = (struct mt_operand){.sizes = sizes[i],
                                           .strides = ones,
                                           .dims = layer_columns[i] > 1 ? 2 : 1,
                                           .dtype = MT_SCALAR_BF16,
                                           .elements = layer_rows[i] * layer_columns[i],
                                           .item_bytes = NARROW,
                                           .is_contiguous = true};
    }
    add_argument(&made, "tensors", list_of(gradients, LAYER_TENSORS));
    add_integer(&made, "dim", 0);
    add_integer(&made, "num_chunks", RANKS);
    add_tensor(&made, "out", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){RANKS, sum / RANKS});
    assert_takes(&made, 1, (int64_t[]){131536});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taking_shards_apart_takes_what_was_measured),
        cmocka_unit_test(putting_gradients_together_takes_what_was_measured),
        cmocka_unit_test(a_sum_over_rows_takes_what_was_measured),
        cmocka_unit_test(a_sum_along_short_rows_takes_nothing),
        cmocka_unit_test(a_sum_does_not_depend_on_how_its_dimensions_are_cut),
        cmocka_unit_test(the_least_and_greatest_travel_without_an_index),
        cmocka_unit_test(a_sum_of_truths_casts_its_input),
        cmocka_unit_test(searches_take_what_was_measured),
        cmocka_unit_test(embedding_backward_takes_what_was_measured),
        cmocka_unit_test(few_indices_are_not_sorted),
        cmocka_unit_test(a_product_keeps_a_workspace_of_its_thread),
        cmocka_unit_test(a_scaled_product_keeps_both_workspaces),
        cmocka_unit_test(boxes_are_sorted_and_compared),
        cmocka_unit_test(tables_of_fbgemm_sort_their_indices),
        cmocka_unit_test(a_running_sum_casts_truths_and_scans_one_dimension),
        cmocka_unit_test(is_in_compares_with_few_values),
        cmocka_unit_test(a_grouped_product_takes_what_was_measured),
        cmocka_unit_test(counts_of_values_look_for_their_bounds_first),
        cmocka_unit_test(the_largest_of_short_rows_take_nothing),
        cmocka_unit_test(the_largest_of_long_rows_are_sought_by_several_blocks),
        cmocka_unit_test(transforms_take_what_cufft_says),
        cmocka_unit_test(matrices_take_what_was_measured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
