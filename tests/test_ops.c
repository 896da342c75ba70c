/* Operands that ops refuse, on a device that computes nothing: they do not fit, have the wrong dtype, share memory
 * with an output, or are NULL. Each case is an op that is accepted, and then the same op with one thing wrong. */
#include "kernels/fp8.h"
#include "laboratory.h"
#include "producers/model/ops.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_TENSORS = 9 };

static struct laboratory lab;

static int open_laboratory(void **state)
{
    (void)state;
    laboratory_open(&lab, "sim");
    return 0;
}

static int close_laboratory(void **state)
{
    (void)state;
    laboratory_close(&lab);
    return 0;
}

/* A tensor of a case. */
struct shape {
    mt_dtype dtype;
    int dims;
    int64_t shape[MT_MAX_DIMS];
};

/* The thing that is wrong in the second call: the tensor of that number has another shape or dtype, is NULL, or is the
 * first tensor of the list, either the same view or one with its dimensions exchanged. */
struct wrong {
    int tensor;
    enum { IS_ANOTHER, IS_MISSING, IS_TURNED, IS_FIRST } how;
    struct shape is;
};

struct op_case {
    const char *name;
    void (*call)(struct mt_tensor *const *t);
    struct shape tensors[MOST_TENSORS]; /* up to one without a dtype */
    struct wrong wrongs[8];
    int wrong_count;
};

static struct mt_tensor *make(const struct shape *shape)
{
    return mt_tensor_empty(&lab.rt, MT_ROLE_TEMPORARY, NULL, shape->dtype, shape->dims, shape->shape);
}

/* Returns a view of `of` with the last two dimensions exchanged. A square keeps its shape, but has other elements in
 * it. */
static struct mt_tensor *turn(struct mt_tensor *of)
{
    int64_t shape[MT_MAX_DIMS], stride[MT_MAX_DIMS];
    memcpy(shape, of->shape, sizeof shape);
    memcpy(stride, of->stride, sizeof stride);
    shape[of->dims - 1] = of->shape[of->dims - 2];
    shape[of->dims - 2] = of->shape[of->dims - 1];
    stride[of->dims - 1] = of->stride[of->dims - 2];
    stride[of->dims - 2] = of->stride[of->dims - 1];
    return mt_tensor_view(&lab.rt, of, of->dims, shape, stride, 0);
}

static mt_status call(const struct op_case *c, const struct wrong *wrong)
{
    struct mt_tensor *tensors[MOST_TENSORS] = {NULL};
    for (int i = 0; i < MOST_TENSORS && c->tensors[i].dtype != MT_NONE; i++) {
        bool is_wrong = wrong != NULL && wrong->tensor == i;
        if (is_wrong && wrong->how == IS_MISSING)
            continue;
        if (is_wrong && wrong->how == IS_TURNED)
            tensors[i] = turn(tensors[0]);
        else if (is_wrong && wrong->how == IS_FIRST)
            tensors[i] = mt_tensor_retain(tensors[0]);
        else
            tensors[i] = make(is_wrong ? &wrong->is : &c->tensors[i]);
    }
    c->call(tensors);
    mt_status status = lab.rt.status;
    lab.rt.status = MT_OK;
    for (int i = 0; i < MOST_TENSORS; i++)
        mt_tensor_release(&lab.rt, tensors[i]);
    return status;
}

static void call_add(struct mt_tensor *const *t)
{
    mt_op_binary(&lab.rt, MTK_ADD, 0, t[0], t[1], t[2]);
}

static void call_sum(struct mt_tensor *const *t)
{
    mt_op_reduce(&lab.rt, MTK_SUM, t[0], t[1]);
}

static void call_matmul(struct mt_tensor *const *t)
{
    mt_op_product(&lab.rt, 1, 0, t[0], t[1], t[2]);
}

static void call_product_fp8(struct mt_tensor *const *t)
{
    struct mt_tensor *right = turn(t[2]);
    mt_op_product_fp8(&lab.rt, 0, t[0], t[1], t[3], right, t[4]);
    mt_tensor_release(&lab.rt, right);
}

static void call_cast_fp8(struct mt_tensor *const *t)
{
    mt_op_cast_fp8(&lab.rt, MTK_SCALE_IS_FOUND, t[0], t[1], t[2], t[3]);
}

static void call_gather_rows(struct mt_tensor *const *t)
{
    mt_op_gather_rows(&lab.rt, t[0], t[1], t[2]);
}

static void call_pick(struct mt_tensor *const *t)
{
    mt_op_pick(&lab.rt, t[0], t[1], t[2]);
}

static void call_rotate(struct mt_tensor *const *t)
{
    mt_op_rotate(&lab.rt, 10000, 1, t[0], t[1]);
}

static void call_softmax(struct mt_tensor *const *t)
{
    mt_op_softmax(&lab.rt, 1, MTK_KEYS_ALL, t[0], t[1]);
}

static void call_attention(struct mt_tensor *const *t)
{
    const struct mt_attention attention = {.scale = 1, .out = t[0], .q = t[1], .k = t[2], .v = t[3], .lse = t[4]};
    mt_op_attention(&lab.rt, &attention);
}

static void call_rms_norm(struct mt_tensor *const *t)
{
    const struct mt_norm_tensors norm = {.out = t[0], .x = t[1], .y = t[2], .sum = t[3], .weight = t[4], .rstd = t[5]};
    mt_op_rms_norm(&lab.rt, &norm);
}

static void call_rms_norm_grad(struct mt_tensor *const *t)
{
    const struct mt_norm_grad_tensors norm = {.grad = t[0],
                                              .x = t[1],
                                              .dx = t[2],
                                              .cast = t[3],
                                              .weight = t[4],
                                              .dweight = t[5],
                                              .rstd = t[6],
                                              .partial_sum = t[7]};
    mt_op_rms_norm_grad(&lab.rt, &norm);
}

static void call_swiglu(struct mt_tensor *const *t)
{
    mt_op_swiglu(&lab.rt, t[0], t[1]);
}

static void call_swiglu_product(struct mt_tensor *const *t)
{
    mt_op_swiglu_product(&lab.rt, t[0], t[1], t[2], t[3]);
}

static void call_swiglu_product_grad(struct mt_tensor *const *t)
{
    mt_op_swiglu_product_grad(&lab.rt, t[0], t[1], t[2], t[3]);
}

static void call_cross_entropy(struct mt_tensor *const *t)
{
    mt_op_cross_entropy(&lab.rt, 1, t[0], t[1], t[2]);
}

static void call_adamw(struct mt_tensor *const *t)
{
    const struct mtk_adamw how = {.dtype = MT_F32};
    const struct mt_adamw_tensors parameter = {.value = t[0], .grad = t[1], .mean = t[2], .square = t[3], .cast = t[4]};
    mt_op_adamw(&lab.rt, &how, 1, &parameter);
}

static void call_adamw_in_8_bits(struct mt_tensor *const *t)
{
    const struct mtk_adamw how = {.dtype = MT_F32};
    const struct mt_adamw_tensors parameter = {
        .value = t[0], .grad = t[1], .mean = t[2], .square = t[3], .scales = t[4]};
    mt_op_adamw(&lab.rt, &how, 1, &parameter);
}

static const struct op_case cases[] = {
    {"add",
     call_add,
     {{MT_F32, 2, {4, 4}}, {MT_F32, 2, {4, 4}}, {MT_BF16, 1, {4}}},
     {{1, IS_ANOTHER, {MT_F32, 2, {4, 5}}},
      {2, IS_ANOTHER, {MT_F32, 3, {2, 4, 4}}},
      {2, IS_MISSING, {0}},
      {1, IS_TURNED, {0}}},
     4},
    {"reduce",
     call_sum,
     {{MT_F32, 2, {4, 1}}, {MT_F32, 2, {4, 5}}},
     {{0, IS_ANOTHER, {MT_F32, 2, {3, 1}}}, {1, IS_MISSING, {0}}},
     2},
    {"matmul",
     call_matmul,
     {{MT_F32, 3, {2, 4, 4}}, {MT_BF16, 3, {2, 4, 4}}, {MT_BF16, 3, {2, 4, 4}}},
     {{0, IS_ANOTHER, {MT_F32, 3, {2, 4, 5}}},
      {1, IS_ANOTHER, {MT_F32, 3, {2, 4, 4}}},
      {2, IS_ANOTHER, {MT_BF16, 3, {3, 4, 4}}},
      {0, IS_ANOTHER, {MT_F64, 3, {2, 4, 4}}},
      {1, IS_TURNED, {0}}},
     5},
    {"matmul",
     call_product_fp8,
     {{MT_BF16, 3, {1, 5, 16}},
      {MT_F8_E5M2, 3, {1, 5, 32}},
      {MT_F8_E4M3FN, 3, {1, 16, 32}},
      {MT_F32, 1, {MTK_FP8_NUMBERS}},
      {MT_F32, 1, {MTK_FP8_NUMBERS}}},
     {{0, IS_ANOTHER, {MT_F64, 3, {1, 5, 16}}},
      {0, IS_ANOTHER, {MT_F32, 3, {1, 5, 32}}},
      {1, IS_ANOTHER, {MT_BF16, 3, {1, 5, 32}}},
      {2, IS_ANOTHER, {MT_F8_E5M2, 3, {1, 16, 32}}},
      {3, IS_ANOTHER, {MT_F32, 1, {1}}},
      {4, IS_MISSING, {0}}},
     6},
    {"matmul", /* in sixteens */
     call_product_fp8,
     {{MT_F32, 3, {1, 16, 48}},
      {MT_F8_E4M3FN, 3, {1, 16, 16}},
      {MT_F8_E4M3FN, 3, {1, 48, 16}},
      {MT_F32, 1, {MTK_FP8_NUMBERS}},
      {MT_F32, 1, {MTK_FP8_NUMBERS}}},
     {{1, IS_ANOTHER, {MT_F8_E4M3FN, 3, {1, 16, 8}}}, {2, IS_ANOTHER, {MT_F8_E4M3FN, 3, {1, 40, 16}}}},
     2},
    {"cast_fp8",
     call_cast_fp8,
     {{MT_F32, 1, {MTK_FP8_NUMBERS}},
      {MT_F8_E4M3FN, 3, {2, 9, 32}},
      {MT_F8_E4M3FN, 2, {32, 32}},
      {MT_BF16, 3, {2, 9, 32}}},
     {{0, IS_ANOTHER, {MT_F32, 1, {2}}},
      {1, IS_ANOTHER, {MT_BF16, 3, {2, 9, 32}}},
      {2, IS_ANOTHER, {MT_F8_E4M3FN, 2, {32, 18}}},
      {2, IS_ANOTHER, {MT_F8_E5M2, 2, {32, 32}}},
      {3, IS_ANOTHER, {MT_F64, 3, {2, 9, 32}}},
      {3, IS_MISSING, {0}}},
     6},
    {"gather_rows",
     call_gather_rows,
     {{MT_F32, 3, {2, 3, 4}}, {MT_F32, 2, {9, 4}}, {MT_I64, 2, {2, 3}}},
     {{1, IS_ANOTHER, {MT_F32, 2, {9, 5}}},
      {2, IS_ANOTHER, {MT_I64, 2, {3, 3}}},
      {2, IS_ANOTHER, {MT_F32, 2, {2, 3}}},
      {2, IS_MISSING, {0}}},
     4},
    {"pick",
     call_pick,
     {{MT_F32, 2, {2, 3}}, {MT_F32, 3, {2, 3, 9}}, {MT_I64, 2, {2, 3}}},
     {{0, IS_ANOTHER, {MT_F32, 2, {3, 2}}}, {2, IS_ANOTHER, {MT_I64, 1, {2}}}},
     2},
    {"rotate",
     call_rotate,
     {{MT_F32, 3, {2, 4, 4}}, {MT_F32, 3, {2, 4, 4}}},
     {{0, IS_ANOTHER, {MT_F32, 3, {2, 4, 5}}}, {1, IS_ANOTHER, {MT_F32, 3, {3, 4, 4}}}, {1, IS_TURNED, {0}}},
     3},
    {"softmax",
     call_softmax,
     {{MT_BF16, 3, {2, 4, 4}}, {MT_BF16, 3, {2, 4, 4}}},
     {{1, IS_ANOTHER, {MT_BF16, 3, {2, 1, 4}}}, {1, IS_TURNED, {0}}},
     2},
    {"attention",
     call_attention,
     {{MT_F32, 4, {1, 2, 16, 16}},
      {MT_F32, 4, {1, 2, 16, 16}},
      {MT_F32, 4, {1, 2, 16, 16}},
      {MT_F32, 4, {1, 2, 16, 16}},
      {MT_F32, 4, {1, 2, 16, 1}}},
     {{1, IS_ANOTHER, {MT_BF16, 4, {1, 2, 16, 16}}},
      {2, IS_ANOTHER, {MT_F32, 4, {1, 2, 15, 16}}},
      {4, IS_ANOTHER, {MT_F32, 4, {1, 2, 15, 1}}},
      {3, IS_MISSING, {0}},
      {1, IS_TURNED, {0}}},
     5},
    {"rms_norm",
     call_rms_norm,
     {{MT_BF16, 3, {2, 4, 4}},
      {MT_F32, 3, {2, 4, 4}},
      {MT_BF16, 3, {2, 4, 4}},
      {MT_F32, 3, {2, 4, 4}},
      {MT_F32, 1, {4}},
      {MT_F32, 3, {2, 4, 1}}},
     {{0, IS_ANOTHER, {MT_I64, 3, {2, 4, 4}}},
      {2, IS_ANOTHER, {MT_BF16, 3, {2, 3, 4}}},
      {4, IS_ANOTHER, {MT_F32, 1, {5}}},
      {5, IS_ANOTHER, {MT_I64, 3, {2, 4, 1}}},
      {3, IS_MISSING, {0}},
      {1, IS_TURNED, {0}}},
     6},
    {"rms_norm_grad",
     call_rms_norm_grad,
     {{MT_BF16, 3, {2, 4, 4}},
      {MT_F32, 3, {2, 4, 4}},
      {MT_F32, 3, {2, 4, 4}},
      {MT_BF16, 3, {2, 4, 4}},
      {MT_F32, 1, {4}},
      {MT_F32, 1, {4}},
      {MT_F32, 3, {2, 4, 1}},
      {MT_F32, 2, {MTK_NORM_PARTS, 4}}},
     {{1, IS_FIRST, {0}},
      {2, IS_FIRST, {0}},
      {3, IS_ANOTHER, {MT_BF16, 3, {2, 3, 4}}},
      {5, IS_ANOTHER, {MT_F32, 1, {5}}},
      {6, IS_MISSING, {0}},
      {7, IS_ANOTHER, {MT_F32, 2, {MTK_NORM_PARTS - 1, 4}}}},
     6},
    {"swiglu",
     call_swiglu,
     {{MT_F32, 2, {4, 4}}, {MT_F32, 2, {4, 8}}},
     {{1, IS_ANOTHER, {MT_F32, 2, {4, 4}}}, {1, IS_ANOTHER, {MT_BF16, 2, {4, 8}}}},
     2},
    {"matmul",
     call_swiglu_product,
     {{MT_BF16, 3, {2, 3, 8}}, {MT_BF16, 3, {2, 3, 4}}, {MT_BF16, 3, {2, 3, 5}}, {MT_BF16, 2, {8, 5}}},
     {{1, IS_ANOTHER, {MT_BF16, 3, {2, 3, 8}}},
      {2, IS_ANOTHER, {MT_BF16, 3, {2, 2, 5}}},
      {2, IS_ANOTHER, {MT_F32, 3, {2, 3, 5}}},
      {3, IS_ANOTHER, {MT_BF16, 2, {8, 4}}},
      {3, IS_ANOTHER, {MT_BF16, 2, {4, 5}}}},
     5},
    {"matmul",
     call_swiglu_product_grad,
     {{MT_BF16, 3, {2, 3, 8}}, {MT_BF16, 3, {2, 3, 4}}, {MT_BF16, 3, {2, 3, 5}}, {MT_BF16, 2, {5, 4}}},
     {{0, IS_ANOTHER, {MT_BF16, 3, {2, 3, 4}}},
      {2, IS_ANOTHER, {MT_BF16, 3, {2, 2, 5}}},
      {3, IS_ANOTHER, {MT_BF16, 2, {5, 8}}},
      {3, IS_ANOTHER, {MT_F32, 2, {5, 4}}}},
     4},
    {"cross_entropy",
     call_cross_entropy,
     {{MT_BF16, 3, {2, 3, 9}}, {MT_F32, 2, {2, 3}}, {MT_I64, 2, {2, 3}}},
     {{1, IS_ANOTHER, {MT_F32, 2, {3, 2}}},
      {1, IS_ANOTHER, {MT_I64, 2, {2, 3}}},
      {2, IS_ANOTHER, {MT_F32, 2, {2, 3}}},
      {0, IS_ANOTHER, {MT_U8, 3, {2, 3, 9}}}},
     4},
    {"adamw",
     call_adamw,
     {{MT_F32, 2, {4, 4}}, {MT_F32, 2, {4, 4}}, {MT_F32, 2, {4, 4}}, {MT_F32, 2, {4, 4}}, {MT_BF16, 2, {4, 4}}},
     {{1, IS_ANOTHER, {MT_BF16, 2, {4, 4}}},
      {2, IS_ANOTHER, {MT_F32, 2, {4, 5}}},
      {4, IS_ANOTHER, {MT_F32, 2, {4, 4}}},
      {1, IS_TURNED, {0}},
      {1, IS_FIRST, {0}},
      {3, IS_FIRST, {0}},
      {2, IS_ANOTHER, {MT_BF16, 2, {4, 4}}},
      {3, IS_ANOTHER, {MT_U8, 2, {4, 4}}}},
     8},
    {"adamw",
     call_adamw_in_8_bits,
     {{MT_F32, 2, {4, 70}}, {MT_F32, 2, {4, 70}}, {MT_U8, 2, {4, 70}}, {MT_U8, 2, {4, 70}}, {MT_F32, 2, {2, 2}}},
     {{2, IS_ANOTHER, {MT_F32, 2, {4, 70}}},
      {3, IS_ANOTHER, {MT_BF16, 2, {4, 70}}},
      {4, IS_ANOTHER, {MT_F32, 2, {1, 2}}},
      {4, IS_ANOTHER, {MT_F32, 2, {2, 1}}},
      {4, IS_ANOTHER, {MT_BF16, 2, {2, 2}}}},
     5},
};

static void what_does_not_fit_is_refused_with_the_ops_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct op_case *c = &cases[i];
        if (call(c, NULL) != MT_OK)
            fail_msg("%s: %s", c->name, mt_last_error());
        for (int w = 0; w < c->wrong_count; w++) {
            if (call(c, &c->wrongs[w]) != MT_FAILED)
                fail_msg("%s, wrong %d: was accepted", c->name, w);
            if (strncmp(mt_last_error(), c->name, strlen(c->name)) != 0)
                fail_msg("%s, wrong %d: \"%s\"", c->name, w, mt_last_error());
        }
    }
}

/* The sum would be written twice, as itself and as its norm. */
static void a_norm_has_another_place_than_the_sum_that_it_is_of(void **state)
{
    (void)state;
    const struct shape rows = {MT_F32, 2, {4, 4}}, row = {MT_F32, 1, {4}};
    struct mt_tensor *x = make(&rows), *y = make(&rows), *weight = make(&row);
    const struct mt_norm_tensors norm = {.out = x, .x = x, .y = y, .sum = x, .weight = weight};
    mt_op_rms_norm(&lab.rt, &norm);
    assert_int_equal(lab.rt.status, MT_FAILED);
    lab.rt.status = MT_OK;
    const struct mt_norm_tensors in_place = {.out = x, .x = x, .weight = weight};
    mt_op_rms_norm(&lab.rt, &in_place);
    assert_int_equal(lab.rt.status, MT_OK);
    mt_tensor_release(&lab.rt, weight);
    mt_tensor_release(&lab.rt, y);
    mt_tensor_release(&lab.rt, x);
}

/* One row that is repeated four times. */
static void what_repeats_itself_is_read_and_never_written(void **state)
{
    (void)state;
    const struct shape row = {MT_F32, 2, {1, 4}}, rows = {MT_F32, 2, {4, 4}};
    struct mt_tensor *one = make(&row), *four = make(&rows);
    struct mt_tensor *repeated = mt_tensor_view(&lab.rt, one, 2, rows.shape, (const int64_t[]){0, 1}, 0);
    mt_op_unary(&lab.rt, MTK_EXP, 0, four, repeated);
    assert_int_equal(lab.rt.status, MT_OK);
    mt_op_unary(&lab.rt, MTK_EXP, 0, repeated, four);
    assert_int_equal(lab.rt.status, MT_FAILED);
    lab.rt.status = MT_OK;
    mt_op_fill(&lab.rt, repeated, 1);
    assert_int_equal(lab.rt.status, MT_FAILED);
    lab.rt.status = MT_OK;
    mt_tensor_release(&lab.rt, repeated);
    mt_tensor_release(&lab.rt, four);
    mt_tensor_release(&lab.rt, one);
}

/* Operands would be written over before they are read. */
static void a_gate_lies_elsewhere_than_its_operands(void **state)
{
    (void)state;
    const struct shape both = {MT_F32, 2, {4, 8}};
    struct mt_tensor *in = make(&both);
    struct mt_tensor *part = mt_tensor_view(&lab.rt, in, 2, (const int64_t[]){4, 4}, (const int64_t[]){4, 1}, 0);
    mt_op_swiglu(&lab.rt, part, in);
    assert_int_equal(lab.rt.status, MT_FAILED);
    lab.rt.status = MT_OK;
    mt_op_swiglu_grad(&lab.rt, in, part);
    assert_int_equal(lab.rt.status, MT_FAILED);
    lab.rt.status = MT_OK;
    mt_tensor_release(&lab.rt, part);
    mt_tensor_release(&lab.rt, in);
}

/* Returns two heads of 16 features from a column of a (1,16,96) on. */
static struct mt_tensor *heads_from(struct mt_tensor *rows, int64_t column)
{
    return mt_tensor_view(&lab.rt, rows, 4, (const int64_t[]){1, 2, 16, 16}, (const int64_t[]){16 * 96, 16, 96, 1},
                          column);
}

/* Calls the gradient of attention with q, k, v, out and its gradient, and the gradients of q, k and v. */
static struct mt_attention attention_of(struct mt_tensor **t, struct mt_tensor **grads, struct mt_tensor *lse,
                                        struct mt_tensor *delta)
{
    return (struct mt_attention){.scale = 1,
                                 .q = t[0],
                                 .k = t[1],
                                 .v = t[2],
                                 .out = t[3],
                                 .grad = t[4],
                                 .dq = grads[0],
                                 .dk = grads[1],
                                 .dv = grads[2],
                                 .lse = lse,
                                 .delta = delta};
}

/* Gradients may be columns of the same rows, but not the same columns. */
static void gradients_of_heads_may_lie_side_by_side(void **state)
{
    (void)state;
    const struct shape heads = {MT_F32, 4, {1, 2, 16, 16}}, column = {MT_F32, 4, {1, 2, 16, 1}},
                       projected = {MT_F32, 3, {1, 16, 96}};
    struct mt_tensor *t[5], *lse = make(&column), *delta = make(&column), *rows = make(&projected);
    struct mt_tensor *dq = heads_from(rows, 0), *dk = heads_from(rows, 32), *overlaps = heads_from(rows, 48);
    struct mt_tensor *dv = heads_from(rows, 64);
    for (int i = 0; i < 5; i++)
        t[i] = make(&heads);
    struct mt_attention attention = attention_of(t, (struct mt_tensor *[]){dq, dk, dv}, lse, delta);
    mt_op_attention_grad(&lab.rt, &attention);
    assert_int_equal(lab.rt.status, MT_OK);
    attention.dk = overlaps;
    mt_op_attention_grad(&lab.rt, &attention);
    assert_int_equal(lab.rt.status, MT_FAILED);
    lab.rt.status = MT_OK;
    struct mt_tensor *const all[] = {t[0], t[1], t[2], t[3], t[4], lse, delta, dq, dk, dv, overlaps, rows};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        mt_tensor_release(&lab.rt, all[i]);
}

/* It would be written over while it is read. */
static void scratch_of_attentions_gradient_is_not_its_log_sum_exp(void **state)
{
    (void)state;
    const struct shape heads = {MT_F32, 4, {1, 2, 16, 16}}, column = {MT_F32, 4, {1, 2, 16, 1}};
    struct mt_tensor *t[8], *lse = make(&column), *delta = make(&column);
    for (int i = 0; i < 8; i++)
        t[i] = make(&heads);
    struct mt_attention attention = attention_of(t, t + 5, lse, delta);
    mt_op_attention_grad(&lab.rt, &attention);
    assert_int_equal(lab.rt.status, MT_OK);
    attention.delta = lse;
    mt_op_attention_grad(&lab.rt, &attention);
    assert_int_equal(lab.rt.status, MT_FAILED);
    lab.rt.status = MT_OK;
    for (int i = 0; i < 8; i++)
        mt_tensor_release(&lab.rt, t[i]);
    mt_tensor_release(&lab.rt, delta);
    mt_tensor_release(&lab.rt, lse);
}

static void a_shape_without_elements_is_refused(void **state)
{
    (void)state;
    const struct shape empty = {MT_F32, 3, {2, 0, 4}}, endless = {MT_F32, 3, {INT64_MAX, INT64_MAX, 4}};
    assert_null(make(&empty));
    assert_int_equal(lab.rt.status, MT_USAGE);
    assert_string_equal(mt_last_error(), "a tensor has 0 elements in dimension 1; each needs one at least");
    lab.rt.status = MT_OK;
    assert_null(make(&endless));
    assert_int_equal(lab.rt.status, MT_USAGE);
    assert_non_null(strstr(mt_last_error(), "does not fit into 64 bits"));
    lab.rt.status = MT_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_fit_is_refused_with_the_ops_name),
        cmocka_unit_test(a_norm_has_another_place_than_the_sum_that_it_is_of),
        cmocka_unit_test(what_repeats_itself_is_read_and_never_written),
        cmocka_unit_test(scratch_of_attentions_gradient_is_not_its_log_sum_exp),
        cmocka_unit_test(a_gate_lies_elsewhere_than_its_operands),
        cmocka_unit_test(gradients_of_heads_may_lie_side_by_side),
        cmocka_unit_test(a_shape_without_elements_is_refused),
    };
    return cmocka_run_group_tests(tests, open_laboratory, close_laboratory);
}
