/* What operators take inside: figures that were measured on an H200, and properties that hold for all. */
#include "operators/operator_plan.h"

#include "device/card.h"
#include "operators/cub_memory.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 8, DIMS = 4, FLOAT = 4, NARROW = 2, LONG = 8 };

/* A call that a test builds. */
struct made {
    struct mt_operator_call call;
    struct mt_argument arguments[16];
    struct mt_operand tensors[MOST], outputs[MOST];
    int64_t sizes[MOST][DIMS], strides[MOST][DIMS];
    int used;
};

static struct mt_operand operand(struct made *made, int dtype, int64_t item_bytes, int dims, const int64_t *sizes)
{
    const int at = made->used++;
    struct mt_operand tensor = {.sizes = made->sizes[at],
                                .strides = made->strides[at],
                                .dims = dims,
                                .dtype = dtype,
                                .elements = 1,
                                .item_bytes = item_bytes,
                                .is_contiguous = true};
    for (int i = dims - 1; i >= 0; i--) {
        made->sizes[at][i] = sizes[i];
        made->strides[at][i] = tensor.elements;
        tensor.elements *= sizes[i];
    }
    return tensor;
}

static void add_argument(struct made *made, const char *name, struct mt_argument argument)
{
    argument.name = name;
    made->arguments[made->call.argument_count++] = argument;
    made->call.arguments = made->arguments;
}

static void add_tensor(struct made *made, const char *name, int dtype, int64_t item_bytes, int dims,
                       const int64_t *sizes)
{
    struct mt_operand *place = &made->tensors[made->used];
    *place = operand(made, dtype, item_bytes, dims, sizes);
    add_argument(made, name, (struct mt_argument){.kind = MT_ARGUMENT_TENSORS, .tensors = place, .count = 1});
}

static void add_integer(struct made *made, const char *name, int64_t value)
{
    add_argument(made, name, (struct mt_argument){.kind = MT_ARGUMENT_INTEGER, .integer = value});
}

static void add_output(struct made *made, int dtype, int64_t item_bytes, int dims, const int64_t *sizes)
{
    made->outputs[made->call.output_count++] = operand(made, dtype, item_bytes, dims, sizes);
    made->call.outputs = made->outputs;
}

static int plan_of(const struct made *made, struct mt_inner *out)
{
    const struct mt_card card = mt_card_reference();
    return mt_operator_plan(&card, NULL, &made->call, out);
}

/* Checks what a plan takes, in order; what it takes it gives back. */
static void assert_takes(const struct made *made, int count, const int64_t *bytes)
{
    struct mt_inner plan[MT_INNER_MOST];
    int taken = 0, given = 0;
    const int actions = plan_of(made, plan);
    for (int i = 0; i < actions; i++) {
        if (plan[i].kind == MT_INNER_TAKE) {
            assert_true(taken < count);
            assert_int_equal(plan[i].bytes, bytes[taken++]);
        }
        given += plan[i].kind == MT_INNER_GIVE;
    }
    assert_int_equal(taken, count);
    assert_int_equal(given, count);
}

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

static void a_sum_of_truths_casts_its_input(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::sum"};
    add_tensor(&made, "self", MT_SCALAR_BOOL, 1, 2, (int64_t[]){16, 16});
    add_argument(&made, "dtype", (struct mt_argument){0});
    add_output(&made, MT_SCALAR_LONG, LONG, 0, NULL);
    assert_takes(&made, 1, (int64_t[]){256 * LONG});
}

/* Adds a tensor (B, H, S, D) that lies in memory as (B, S, H, D). */
static void add_rows(struct made *made, const char *name, int dtype, int64_t item_bytes, const int64_t *sizes)
{
    int64_t *strides = made->strides[made->used];
    add_tensor(made, name, dtype, item_bytes, DIMS, sizes);
    strides[1] = sizes[3];
    strides[2] = sizes[1] * sizes[3];
    made->tensors[made->used - 1].is_contiguous = false;
}

/* Makes the backward of attention: gradient, query, key, value, mask, out. */
static void make_attention(struct made *made, const char *name, int dtype, const int64_t *query, const int64_t *key)
{
    const int64_t item_bytes = dtype == MT_SCALAR_FLOAT ? FLOAT : NARROW;
    *made = (struct made){.call.name = name};
    add_rows(made, "grad_out", dtype, item_bytes, query);
    add_tensor(made, "query", dtype, item_bytes, DIMS, query);
    add_tensor(made, "key", dtype, item_bytes, DIMS, key);
    add_tensor(made, "value", dtype, item_bytes, DIMS, key);
    add_argument(made, "attn_bias", (struct mt_argument){0});
    add_rows(made, "out", dtype, item_bytes, query);
}

static void attention_backward_takes_what_was_measured(void **state)
{
    (void)state;
    struct made made;
    const int64_t gpt2[] = {4, 12, 1024, 64}, bert[] = {16, 12, 512, 64};
    const int64_t llama[] = {2, 32, 2048, 64}, llama_keys[] = {2, 8, 2048, 64};
    const char *cudnn = "aten::_scaled_dot_product_cudnn_attention_backward";
    make_attention(&made, cudnn, MT_SCALAR_BF16, gpt2, gpt2);
    assert_takes(&made, 1, (int64_t[]){12779776});
    make_attention(&made, cudnn, MT_SCALAR_BF16, bert, bert);
    assert_takes(&made, 1, (int64_t[]){25559296});
    make_attention(&made, cudnn, MT_SCALAR_BF16, llama, llama_keys);
    assert_takes(&made, 1, (int64_t[]){67633408});
    make_attention(&made, "aten::_scaled_dot_product_efficient_attention_backward", MT_SCALAR_FLOAT, gpt2, gpt2);
    assert_takes(&made, 4, (int64_t[]){12582912, 196608, 196608, 12595200});
    make_attention(&made, "aten::_scaled_dot_product_flash_attention_backward", MT_SCALAR_BF16, gpt2, gpt2);
    assert_takes(&made, 2, (int64_t[]){196608, 12582912});
}

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

/* addmm with and without out_dtype before beta, as overloads have it, and the other way round. */
static void arguments_are_found_by_their_names(void **state)
{
    (void)state;
    struct mt_inner plan[MT_INNER_MOST];
    struct made made = {.call.name = "aten::addmm"};
    add_integer(&made, "beta", 1);
    add_tensor(&made, "mat2", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){16, 32});
    add_integer(&made, "an_argument_of_tomorrow", 0);
    add_tensor(&made, "mat1", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){8, 16});
    add_integer(&made, "out_dtype", MT_SCALAR_FLOAT);
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){32});
    assert_int_equal(plan_of(&made, plan), 2);
    assert_int_equal(plan[1].number, MT_WORKSPACE_CUBLASLT);
    made.arguments[0].integer = 2;
    assert_int_equal(plan_of(&made, plan), 1);
}

static void a_workspace_is_what_is_configured(void **state)
{
    (void)state;
    assert_int_equal(mt_matmul_workspace(":4096:2:16:8", 1), 4096 * 2048 + 16 * 8192);
    assert_int_equal(mt_matmul_workspace(":16:8", 1), 16 * 8192);
    assert_int_equal(mt_matmul_workspace(NULL, 7), 7);
    assert_int_equal(mt_matmul_workspace(":nonsense", 7), 7);
    assert_int_equal(mt_matmul_workspace(":4096", 7), 7);
    assert_int_equal(mt_matmul_workspace(":99999999999999999:99999999", 7), 7);
}

static void an_operator_is_found_in_place_or_not(void **state)
{
    (void)state;
    assert_non_null(mt_operator_find("aten::add"));
    assert_ptr_equal(mt_operator_find("aten::add_"), mt_operator_find("aten::add"));
    assert_null(mt_operator_find("aten::ad"));
    assert_null(mt_operator_find("aten::"));
    assert_null(mt_operator_find("other::add"));
    assert_null(mt_operator_find("aten::no_such_operator"));
}

static void operators_of_other_libraries_have_their_namespace(void **state)
{
    (void)state;
    assert_non_null(mt_operator_find("torchvision::nms"));
    assert_null(mt_operator_find("nms"));
    assert_null(mt_operator_find("other::nms"));
}

/* Of 1,000 boxes: scores and their order, sorted boxes, 16 words of bits for each, and the indices that come from the host. */
static void boxes_are_sorted_and_compared(void **state)
{
    (void)state;
    struct made made = {.call.name = "torchvision::nms"};
    add_tensor(&made, "dets", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){1000, 4});
    add_tensor(&made, "scores", MT_SCALAR_FLOAT, FLOAT, 1, (int64_t[]){1000});
    add_output(&made, MT_SCALAR_LONG, LONG, 1, (int64_t[]){1000});
    assert_takes(&made, 6, (int64_t[]){4000, 8000, 8000, 16000, 128000, 8000});
}

/* Two texts of 1,000 words, 8 heads of 64, and 2 heads of keys: row sums are a result; the query's gradient is gathered in
 * fp32, and keys and values have one for each head. */
static void the_librarys_flash_attention_gathers_gradients(void **state)
{
    (void)state;
    struct made made = {.call.name = "flash_attn::_flash_attn_backward"};
    const int64_t gathered = 2 * 1024 * 8 * 64 * 4, expanded = 2 * 1000 * 8 * 64 * 2;
    add_tensor(&made, "q", MT_SCALAR_BF16, NARROW, 4, (int64_t[]){2, 1000, 8, 64});
    add_tensor(&made, "k", MT_SCALAR_BF16, NARROW, 4, (int64_t[]){2, 1000, 2, 64});
    add_tensor(&made, "dq", MT_SCALAR_BF16, NARROW, 4, (int64_t[]){2, 1000, 8, 64});
    add_tensor(&made, "dk", MT_SCALAR_BF16, NARROW, 4, (int64_t[]){2, 1000, 2, 64});
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 3, (int64_t[]){2, 8, 1024});
    assert_takes(&made, 3, (int64_t[]){gathered, expanded, expanded});
}

/* The same texts under a causal mask: flash-attention 3 keeps sums of rows to base 2, gathers gradients of keys and values in fp32
 * for their own heads, in tiles of 128 rows, and has a lock for each tile of the query. Its forward has a schedule. */
static void flash_attention_3_gathers_gradients_in_tiles(void **state)
{
    (void)state;
    struct made made = {.call.name = "flash_attn_3::_flash_attn_backward"};
    const int64_t rows = 2 * 1024, keys = rows * 2 * 64 * 4;
    add_tensor(&made, "q", MT_SCALAR_BF16, NARROW, 4, (int64_t[]){2, 1000, 8, 64});
    add_tensor(&made, "k", MT_SCALAR_BF16, NARROW, 4, (int64_t[]){2, 1000, 2, 64});
    add_tensor(&made, "v", MT_SCALAR_BF16, NARROW, 4, (int64_t[]){2, 1000, 2, 64});
    add_integer(&made, "is_causal", 1);
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 3, (int64_t[]){2, 8, 1024});
    assert_takes(&made, 8,
                 (int64_t[]){2 * 1000 * 8 * 64 * 2, 2 * 1000 * 2 * 64 * 2, 2 * 1000 * 2 * 64 * 2, rows * 8 * 4,
                             rows * 8 * 64 * 4, keys, keys, 8 * 2 * 8 * 4});
    made.call.name = "flash_attn_3::_flash_attn_forward";
    made.arguments[3].name = "causal";
    assert_takes(&made, 1, (int64_t[]){(4 * 2 + 1) * 4});
    made.arguments[3].integer = 0;
    assert_takes(&made, 0, NULL);
}

/* 4,096 indices of a table of 2^20 rows, 64 wide: where they come from twice, both as they are and sorted, those that differ, their
 * counts, and what adds up rows that are there many times. */
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

static void no_operator_stands_twice_in_the_table(void **state)
{
    (void)state;
    for (int i = 0; i < mt_operator_row_count; i++) {
        char names[2048], *rest = names, name[128];
        assert_true(strlen(mt_operator_rows[i].names) < sizeof names);
        strcpy(names, mt_operator_rows[i].names);
        for (char *word = strtok_r(rest, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
            snprintf(name, sizeof name, "aten::%s", word);
            assert_ptr_equal(mt_operator_find(name), &mt_operator_rows[i]);
        }
    }
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

static struct mt_attention_request request_of(struct made *made, int dtype, int64_t item_bytes, int64_t head)
{
    const int64_t sizes[] = {2, 8, 128, head};
    *made = (struct made){0};
    return (struct mt_attention_request){.query = operand(made, dtype, item_bytes, DIMS, sizes),
                                         .key = operand(made, dtype, item_bytes, DIMS, sizes),
                                         .value = operand(made, dtype, item_bytes, DIMS, sizes),
                                         .needs_gradient = true,
                                         .allows = {true, true, true, true}};
}

static enum mt_attention_kernel chosen(const char *name, const struct mt_attention_request *request)
{
    struct mt_card card;
    assert_true(mt_card_find(name, &card));
    return mt_attention_choose(&card, request);
}

static void attention_is_chosen_as_the_card_would(void **state)
{
    (void)state;
    struct made made, of_floats;
    struct mt_attention_request narrow = request_of(&made, MT_SCALAR_BF16, NARROW, 64);
    struct mt_attention_request wide = request_of(&of_floats, MT_SCALAR_FLOAT, FLOAT, 64);
    assert_int_equal(chosen("h100", &narrow), MT_ATTENTION_CUDNN);
    assert_int_equal(chosen("a100-80gb", &narrow), MT_ATTENTION_FLASH);
    assert_int_equal(chosen("h100", &wide), MT_ATTENTION_EFFICIENT);
    assert_int_equal(chosen("t4", &narrow), MT_ATTENTION_MATH);
    narrow.has_mask = true;
    assert_int_equal(chosen("a100-80gb", &narrow), MT_ATTENTION_EFFICIENT);
    narrow.allows[MT_ATTENTION_CUDNN] = false;
    assert_int_equal(chosen("h100", &narrow), MT_ATTENTION_EFFICIENT);
    narrow.has_strided_mask = true;
    assert_int_equal(chosen("h100", &narrow), MT_ATTENTION_MATH);
    wide = request_of(&of_floats, MT_SCALAR_FLOAT, FLOAT, 66);
    assert_int_equal(chosen("h100", &wide), MT_ATTENTION_MATH);
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

static void what_is_not_contiguous_is_copied(void **state)
{
    (void)state;
    const char *names[] = {"aten::native_layer_norm", "aten::_softmax", "aten::_log_softmax"};
    for (int i = 0; i < 3; i++) {
        struct made made = {.call.name = names[i]};
        add_tensor(&made, i == 0 ? "input" : "self", MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){16, 64});
        add_output(&made, MT_SCALAR_FLOAT, FLOAT, 2, (int64_t[]){16, 64});
        assert_takes(&made, 0, NULL);
        made.tensors[0].is_contiguous = false;
        assert_takes(&made, 1, (int64_t[]){4096});
    }
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

static void a_depthwise_convolution_copies_what_is_not_contiguous(void **state)
{
    (void)state;
    struct made made = {.call.name = "aten::_conv_depthwise2d"};
    add_tensor(&made, "self", MT_SCALAR_FLOAT, FLOAT, 4, (int64_t[]){2, 8, 4, 4});
    add_tensor(&made, "weight", MT_SCALAR_FLOAT, FLOAT, 4, (int64_t[]){8, 1, 3, 3});
    add_output(&made, MT_SCALAR_FLOAT, FLOAT, 4, (int64_t[]){2, 8, 4, 4});
    assert_takes(&made, 0, NULL);
    made.tensors[1].is_contiguous = false;
    assert_takes(&made, 1, (int64_t[]){288});
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

/* Gives a tensor (N, C, H, W) of a call the strides of channels last. */
static void put_channels_last(struct made *made, int tensor)
{
    const int64_t *sizes = made->sizes[tensor];
    const int64_t strides[DIMS] = {sizes[1] * sizes[2] * sizes[3], 1, sizes[3] * sizes[1], sizes[1]};
    memcpy(made->strides[tensor], strides, sizeof strides);
}

static void add_list(struct made *made, const char *name, const int64_t *values)
{
    add_argument(made, name, (struct mt_argument){.kind = MT_ARGUMENT_INTEGERS, .integers = values, .count = 2});
}

static const int64_t one_each[] = {1, 1};

/* A convolution of (8, 64, 56, 56) by (64, 64, 3, 3) in bf16, with padding; the input's gradient if `is_gradient`. */
static struct made convolution(bool is_gradient)
{
    enum { NARROW_DTYPE = MT_SCALAR_BF16 };
    const int64_t image[] = {8, 64, 56, 56}, filter[] = {64, 64, 3, 3};
    struct made made = {.call.name =
                            is_gradient ? "aten::cudnn_convolution_input_gradient" : "aten::cudnn_convolution"};
    add_tensor(&made, is_gradient ? "x" : "self", NARROW_DTYPE, NARROW, DIMS, image);
    add_tensor(&made, is_gradient ? "w" : "weight", NARROW_DTYPE, NARROW, DIMS, filter);
    if (is_gradient)
        add_tensor(&made, "y", NARROW_DTYPE, NARROW, DIMS, image);
    else
        add_output(&made, NARROW_DTYPE, NARROW, DIMS, image);
    add_list(&made, "padding", one_each);
    add_list(&made, "stride", one_each);
    add_list(&made, "dilation", one_each);
    return made;
}

/* A test's own answers to questions about convolutions. */
struct answers {
    bool has_answer;
    int asked;
    struct mt_convolution_question question; /* the last one */
};

static bool answer(void *state, const struct mt_card *card, const struct mt_convolution_question *question,
                   const struct mt_convolution_call *call, struct mt_convolution_run *out)
{
    struct answers *answers = state;
    (void)card, (void)call;
    answers->asked++;
    answers->question = *question;
    *out = (struct mt_convolution_run){.answer = {.count = 1, .workspace_bytes = {4242}}};
    return answers->has_answer;
}

/* Returns the bytes that a call takes, added up. `made` stays where it is, since the call points into it. */
static int64_t bytes_of_convolution(struct made *made, struct answers *answers)
{
    struct mt_inner plan[MT_INNER_MOST];
    const struct mt_card card = mt_card_reference();
    const struct mt_convolution_source source = {answer, answers};
    int64_t bytes = 0;
    made->call.arguments = made->arguments;
    made->call.outputs = made->outputs;
    for (int i = 0; i < made->call.argument_count; i++)
        if (made->arguments[i].kind == MT_ARGUMENT_TENSORS) {
            made->tensors[i].sizes = made->sizes[i];
            made->tensors[i].strides = made->strides[i];
            made->arguments[i].tensors = &made->tensors[i];
        }
    for (int i = 0; i < made->call.output_count; i++) {
        made->outputs[i].sizes = made->sizes[made->used - 1];
        made->outputs[i].strides = made->strides[made->used - 1];
    }
    const int count = mt_operator_plan(&card, answers != NULL ? &source : NULL, &made->call, plan);
    for (int i = 0; i < count; i++)
        bytes += plan[i].kind == MT_INNER_TAKE || plan[i].kind == MT_INNER_TRY ? plan[i].bytes : 0;
    return bytes;
}

enum { WEIGHT_BYTES = 64 * 64 * 9 * NARROW };

static void without_answers_a_convolution_copies_what_has_not_its_channels_last(void **state)
{
    struct made forward = convolution(false), gradient = convolution(true), last = convolution(false);
    struct answers none = {0};
    (void)state;
    put_channels_last(&last, 0);
    assert_int_equal(bytes_of_convolution(&forward, NULL), 6496272);
    assert_int_equal(bytes_of_convolution(&gradient, &none), 6496272);
    assert_int_equal(none.asked, 1);
    assert_int_equal(bytes_of_convolution(&last, NULL), WEIGHT_BYTES); /* of the weight's copy */
}

static void a_convolution_takes_the_workspace_of_the_answer(void **state)
{
    struct made forward = convolution(false), gradient = convolution(true);
    struct answers answers = {.has_answer = true};
    (void)state;
    assert_int_equal(bytes_of_convolution(&forward, &answers), 4242);
    assert_int_equal(answers.question.kind, MT_CONVOLUTION_FORWARD);
    assert_int_equal(bytes_of_convolution(&gradient, &answers), 4242);
    assert_int_equal(answers.question.kind, MT_CONVOLUTION_INPUT_GRADIENT);
}

/* If one tensor has its channels last, all are asked for with channels last, and the others are copied first. */
static void a_convolution_is_asked_for_in_one_memory_format(void **state)
{
    struct made mixed = convolution(false);
    struct answers answers = {.has_answer = true};
    (void)state;
    put_channels_last(&mixed, 0);
    assert_int_equal(bytes_of_convolution(&mixed, &answers), 4242 + WEIGHT_BYTES);
    const struct mt_convolution_question *question = &answers.question;
    assert_int_equal(question->x.strides[1], 1);
    assert_int_equal(question->w.strides[1], 1);
    assert_int_equal(question->w.strides[3], 64);
    assert_int_equal(question->y.strides[2], 56 * 64);
}

/* A weight that does not begin at the start of its block is aligned less; a copy of it begins there. */
static void a_convolution_names_the_alignment_of_its_tensors(void **state)
{
    struct made aligned = convolution(false), copied = convolution(false);
    struct answers answers = {.has_answer = true};
    (void)state;
    aligned.tensors[1].offset = copied.tensors[1].offset = 4;
    put_channels_last(&copied, 0);
    bytes_of_convolution(&aligned, &answers);
    assert_int_equal(answers.question.x.alignment_bytes, 32);
    assert_int_equal(answers.question.w.alignment_bytes, 4 * NARROW);
    bytes_of_convolution(&copied, &answers);
    assert_int_equal(answers.question.w.alignment_bytes, 32);
}

static void a_convolution_in_double_precision_never_has_its_channels_last(void **state)
{
    struct made made = convolution(false);
    struct answers answers = {.has_answer = true};
    (void)state;
    put_channels_last(&made, 0);
    for (int i = 0; i < 2; i++)
        made.tensors[i].dtype = MT_SCALAR_DOUBLE;
    bytes_of_convolution(&made, &answers);
    assert_int_equal(answers.question.x.strides[3], 1);
}

/* Returns what attention by cuDNN takes on the device beside its result and its two numbers: sums of rows, and a workspace. */
static void count_attention(int64_t queries, bool keeps_sums, int *out_sums, int64_t *out_workspace)
{
    struct made made = {.call.name = "aten::_scaled_dot_product_cudnn_attention"};
    struct mt_inner plan[MT_INNER_MOST];
    add_tensor(&made, "query", MT_SCALAR_BF16, NARROW, DIMS, (int64_t[]){2, 8, queries, 64});
    add_argument(&made, "compute_log_sumexp", (struct mt_argument){.kind = MT_ARGUMENT_BOOL, .integer = keeps_sums});
    made.call.outputs = made.outputs;
    made.call.output_count = 8;
    *out_sums = 0;
    *out_workspace = 0;
    const int count = plan_of(&made, plan);
    for (int i = 0; i < count; i++) {
        *out_sums += plan[i].kind == MT_INNER_OUTPUT && plan[i].number == 1;
        *out_workspace += plan[i].kind == MT_INNER_TAKE ? plan[i].bytes : 0;
    }
}

static void attention_without_gradient_keeps_no_sums(void **state)
{
    (void)state;
    int sums;
    int64_t workspace;
    count_attention(128, true, &sums, &workspace);
    assert_int_equal(sums, 1);
    assert_int_equal(workspace, 256);
    count_attention(1, false, &sums, &workspace);
    assert_int_equal(sums, 0);
    assert_int_equal(workspace, 0);
}

/* A layer of a transformer of width 1,024 over two ranks: four square matrices, three of the feed-forward, two norms. */
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
        cmocka_unit_test(a_sum_of_truths_casts_its_input),
        cmocka_unit_test(searches_take_what_was_measured),
        cmocka_unit_test(batch_norm_with_channels_last_takes_what_was_measured),
        cmocka_unit_test(batch_norm_by_cudnn_takes_what_was_measured),
        cmocka_unit_test(attention_backward_takes_what_was_measured),
        cmocka_unit_test(embedding_backward_takes_what_was_measured),
        cmocka_unit_test(few_indices_are_not_sorted),
        cmocka_unit_test(a_product_keeps_a_workspace_of_its_thread),
        cmocka_unit_test(arguments_are_found_by_their_names),
        cmocka_unit_test(a_workspace_is_what_is_configured),
        cmocka_unit_test(an_operator_is_found_in_place_or_not),
        cmocka_unit_test(operators_of_other_libraries_have_their_namespace),
        cmocka_unit_test(boxes_are_sorted_and_compared),
        cmocka_unit_test(the_librarys_flash_attention_gathers_gradients),
        cmocka_unit_test(flash_attention_3_gathers_gradients_in_tiles),
        cmocka_unit_test(tables_of_fbgemm_sort_their_indices),
        cmocka_unit_test(no_operator_stands_twice_in_the_table),
        cmocka_unit_test(a_running_sum_casts_truths_and_scans_one_dimension),
        cmocka_unit_test(attention_is_chosen_as_the_card_would),
        cmocka_unit_test(attention_without_gradient_keeps_no_sums),
        cmocka_unit_test(a_mean_loss_keeps_room_for_all_losses),
        cmocka_unit_test(is_in_compares_with_few_values),
        cmocka_unit_test(a_grouped_product_takes_what_was_measured),
        cmocka_unit_test(counts_of_values_look_for_their_bounds_first),
        cmocka_unit_test(the_largest_of_short_rows_take_nothing),
        cmocka_unit_test(the_largest_of_long_rows_are_sought_by_several_blocks),
        cmocka_unit_test(recurrent_nets_take_what_cudnn_says),
        cmocka_unit_test(backward_of_a_recurrent_net_takes_its_workspace_twice),
        cmocka_unit_test(transforms_take_what_cufft_says),
        cmocka_unit_test(losses_of_sequences_take_what_was_measured),
        cmocka_unit_test(matrices_take_what_was_measured),
        cmocka_unit_test(what_is_not_contiguous_is_copied),
        cmocka_unit_test(a_sample_takes_random_numbers),
        cmocka_unit_test(a_depthwise_convolution_copies_what_is_not_contiguous),
        cmocka_unit_test(a_masked_softmax_of_long_rows_masks_a_copy),
        cmocka_unit_test(without_answers_a_convolution_copies_what_has_not_its_channels_last),
        cmocka_unit_test(a_convolution_takes_the_workspace_of_the_answer),
        cmocka_unit_test(a_convolution_is_asked_for_in_one_memory_format),
        cmocka_unit_test(a_convolution_names_the_alignment_of_its_tensors),
        cmocka_unit_test(a_convolution_in_double_precision_never_has_its_channels_last),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
