/* Attention: the kernel that PyTorch would choose, and what it takes inside. */
#include "operator_made.h"

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

/* Two texts of 1,000 words, 8 heads of 64, and 2 heads of keys: row sums are a result; the query's gradient is gathered
 * in fp32, and keys and values have one for each head. */
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

/* The same texts under a causal mask: flash-attention 3 keeps sums of rows to base 2, gathers gradients of keys and
 * values in fp32 for their own heads, in tiles of 128 rows, and has a lock for each tile of the query. Its forward has
 * a schedule. */
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

/* Returns what attention by cuDNN allocates on the device in addition to its result and its two numbers: sums of rows,
 * and a workspace. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention_backward_takes_what_was_measured),
        cmocka_unit_test(the_librarys_flash_attention_gathers_gradients),
        cmocka_unit_test(flash_attention_3_gathers_gradients_in_tiles),
        cmocka_unit_test(attention_is_chosen_as_the_card_would),
        cmocka_unit_test(attention_without_gradient_keeps_no_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
