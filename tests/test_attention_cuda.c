/* Softmax and attention on a card against the CPU's table: random shapes, strides and dtypes, every width of heads,
 * lengths around the edges of tiles; nothing but the outputs' elements may change, and the same call gives the same
 * bits again. */
#include "card_twins.h"
#include "gpu.h"

enum { SEED = 9100 };

/* Of an element, and of the largest of all: what is small may be a difference. */
static struct slack share_of(mt_dtype dtype)
{
    return dtype == MT_F64    ? (struct slack){1e-12, 1e-12}
           : dtype == MT_BF16 ? (struct slack){0x1p-7, 0x1p-7}
                              : (struct slack){1e-5, 1e-5};
}

static double largest(const struct strided *s)
{
    struct place place = {{0}};
    double largest = 0;
    do
        largest = fmax(largest, fabs(element(s, place)));
    while (place_next(&place, s->view.shape));
    return largest;
}

static void expect_near(const char *name, const struct strided *twin, const struct mtk_view *on_card,
                        struct slack share)
{
    expect_twin(name, twin, 1, on_card, (struct slack){share.relative, share.size * largest(twin)});
}

/* ---- softmax ---- */

static void roll_shape(struct dice *dice, int64_t *shape)
{
    static const int64_t sizes[] = {1, 2, 3, 5},
                         lengths[] = {1, 3, 4, 7, 31, 32, 33, 64, 100, 129, 256, 1000, 1025, 2048};
    for (int d = 0; d < 3; d++)
        shape[d] = sizes[roll(dice, 4)];
    shape[3] = lengths[roll(dice, sizeof lengths / sizeof lengths[0])];
    if (roll(dice, 3) == 0)
        shape[2] = 70 + (int64_t)roll(dice, 3);
}

/* A number for each row, in fp32, or fp64 where the rows are. */
static struct strided create_column(struct dice *dice, mt_dtype dtype, const int64_t *shape)
{
    int64_t rows[MT_MAX_DIMS] = {shape[0], shape[1], shape[2], 1};
    return strided_create(dice, dtype == MT_F64 ? MT_F64 : MT_F32, rows);
}

static void softmax_is_its_twin(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 0);
    for (int round = 0; round < 300; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        mt_dtype dtype = roll_float_dtype(&dice);
        mtk_keys keys = roll(&dice, 2) == 0 ? MTK_KEYS_ALL : MTK_KEYS_UP_TO_QUERY;
        int from = roll(&dice, 4) == 0 ? 0 : 1; /* in place, now and then */
        struct strided all[] = {strided_create(&dice, dtype, shape), strided_create(&dice, dtype, shape)};
        struct mtk_view v[2];
        upload_all(all, 2, v);
        expect_done("softmax", mtk_cpu.softmax(0.75, keys, &all[0].view, &all[from].view, NULL));
        expect_done("softmax", ops()->softmax(0.75, keys, &v[0], &v[from], queue()));
        expect_near("softmax", &all[0], &v[0], share_of(dtype));
        destroy_all(all, 2);
    }
}

static void softmax_grad_is_its_twin(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 1);
    for (int round = 0; round < 300; round++) {
        int64_t shape[MT_MAX_DIMS];
        roll_shape(&dice, shape);
        mt_dtype dtype = roll_float_dtype(&dice);
        mtk_keys keys = roll(&dice, 2) == 0 ? MTK_KEYS_ALL : MTK_KEYS_UP_TO_QUERY;
        struct strided all[] = {strided_create(&dice, dtype, shape), strided_create(&dice, dtype, shape),
                                strided_create(&dice, dtype, shape)};
        struct mtk_view v[3];
        upload_all(all, 3, v);
        expect_done("softmax_grad", mtk_cpu.softmax_grad(0.75, keys, &all[0].view, &all[1].view, &all[2].view, NULL));
        expect_done("softmax_grad", ops()->softmax_grad(0.75, keys, &v[0], &v[1], &v[2], queue()));
        struct slack share = share_of(dtype);
        share.relative *= 4; /* a difference of a gradient and a sum of many */
        expect_near("softmax_grad", &all[0], &v[0], share);
        destroy_all(all, 3);
    }
}

/* ---- attention ---- */

/* Heads (B,H,T,D) of dense rows, in memory by position or by head, with gaps that keep rows aligned. */
static struct strided create_heads(struct dice *dice, mt_dtype dtype, const int64_t *shape)
{
    struct strided s = {.view.dtype = dtype};
    bool by_position = roll(dice, 2) == 0;
    int inner = by_position ? 1 : 2, outer = by_position ? 2 : 1;
    int64_t *stride = s.view.stride;
    memcpy(s.view.shape, shape, sizeof s.view.shape);
    stride[3] = 1;
    stride[inner] = shape[3] + 8 * (int64_t)roll(dice, 2);
    stride[outer] = stride[inner] * shape[inner] + 8 * (int64_t)roll(dice, 2);
    stride[0] = stride[outer] * shape[outer];
    strided_allocate(&s, stride[0] * shape[0]);
    struct place place = {{0}};
    do
        element_set(&s, place, ((double)roll(dice, 255) - 127) / 64); /* of 8 bits, which bf16 holds */
    while (place_next(&place, shape));
    memcpy(s.before, s.buffer, s.bytes);
    return s;
}

/* One call forward and backward: all that they read and write. */
enum { Q, K, V, OUT, LSE, GRAD, DELTA, DQ, DK, DV, VIEWS };

struct attention {
    struct strided host[VIEWS];
    struct mtk_view card[VIEWS];
    double scale;
};

static void attention_create(struct attention *a, struct dice *dice, mt_dtype dtype, const int64_t *shape)
{
    a->scale = 1 / sqrt((double)shape[3]);
    for (int i = 0; i < VIEWS; i++) {
        a->host[i] = i == LSE || i == DELTA ? create_column(dice, dtype, shape) : create_heads(dice, dtype, shape);
        a->card[i] = upload(&a->host[i]);
    }
}

static mt_status forward(const struct mtk_table *table, double scale, mtk_math math, const struct mtk_view *const *v,
                         bool wants_lse, struct mtk_queue *on)
{
    return table->attention(scale, math, v[OUT], wants_lse ? v[LSE] : NULL, v[Q], v[K], v[V], on);
}

static mt_status backward(const struct mtk_table *table, double scale, mtk_math math, const struct mtk_view *const *v,
                          struct mtk_queue *on)
{
    const struct mtk_attention_grad call = {.scale = scale,
                                            .math = math,
                                            .dq = *v[DQ],
                                            .dk = *v[DK],
                                            .dv = *v[DV],
                                            .delta = *v[DELTA],
                                            .grad = *v[GRAD],
                                            .q = *v[Q],
                                            .k = *v[K],
                                            .v = *v[V],
                                            .out = *v[OUT],
                                            .lse = *v[LSE],
                                            .workspace = workspace(),
                                            .workspace_bytes = CARD_WORKSPACE_BYTES};
    return table->attention_grad(&call, on);
}

/* tf32 has 10 bits of mantissa, and what is multiplied is rounded to it. */
static struct slack share_of_view(int view, mt_dtype dtype, mtk_math math, const struct strided *host)
{
    bool is_delta = view == DELTA && dtype == MT_BF16; /* made of rounded rows */
    if (math == MTK_MATH_TF32)
        return (struct slack){0x1p-9, 0x1p-9};
    return share_of(is_delta ? MT_BF16 : host->view.dtype);
}

static void check_attention(struct dice *dice, mt_dtype dtype, mtk_math math, const int64_t *shape)
{
    static const char *const names[VIEWS] = {"q", "k", "v", "out", "lse", "grad", "delta", "dq", "dk", "dv"};
    struct attention a;
    const struct mtk_view *host[VIEWS], *on_card[VIEWS];
    attention_create(&a, dice, dtype, shape);
    for (int i = 0; i < VIEWS; i++) {
        host[i] = &a.host[i].view;
        on_card[i] = &a.card[i];
    }
    expect_done("attention", forward(&mtk_cpu, a.scale, math, host, true, NULL));
    expect_done("attention", forward(ops(), a.scale, math, on_card, true, queue()));
    expect_done("attention_grad", backward(&mtk_cpu, a.scale, math, host, NULL));
    expect_done("attention_grad", backward(ops(), a.scale, math, on_card, queue()));
    for (int i = 0; i < VIEWS; i++)
        expect_near(names[i], &a.host[i], &a.card[i], share_of_view(i, dtype, math, &a.host[i]));
    destroy_all(a.host, VIEWS);
}

static const struct {
    mt_dtype dtype;
    mtk_math math;
} kinds[] = {{MT_F32, MTK_MATH_FP32}, {MT_BF16, MTK_MATH_FP32}, {MT_F32, MTK_MATH_TF32}};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static void attention_of_every_width_is_its_twin(void **state)
{
    (void)state;
    static const int64_t widths[] = {8, 16, 24, 32, 40, 64, 72, 80, 96, 128};
    struct dice dice = dice_of_seed(SEED + 2);
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (int kind = 0; kind < KINDS; kind++) {
            check_attention(&dice, kinds[kind].dtype, kinds[kind].math,
                            (int64_t[]){2, 3, 70 + (int64_t)roll(&dice, 20), widths[i]});
            check_attention(&dice, kinds[kind].dtype, kinds[kind].math,
                            (int64_t[]){1, 2, 150 + (int64_t)roll(&dice, 150), widths[i]});
        }
}

static void attention_of_every_length_is_its_twin(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1,  2,   15,  16,  17,  31,  32,  33,  63,  64,
                                      65, 127, 128, 129, 191, 192, 193, 256, 300, 513};
    static const int64_t widths[] = {16, 64, 80, 128};
    struct dice dice = dice_of_seed(SEED + 3);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        for (int kind = 0; kind < KINDS; kind++)
            check_attention(&dice, kinds[kind].dtype, kinds[kind].math,
                            (int64_t[]){1, 2, lengths[i], widths[roll(&dice, 4)]});
}

static void the_same_call_gives_the_same_bits(void **state)
{
    (void)state;
    static const int64_t widths[] = {64, 80, 128};
    struct dice dice = dice_of_seed(SEED + 4);
    for (int i = 0; i < KINDS * 3; i++) {
        int kind = i % KINDS;
        struct attention a;
        struct strided first[VIEWS];
        const struct mtk_view *on_card[VIEWS];
        attention_create(&a, &dice, kinds[kind].dtype, (int64_t[]){2, 4, 700, widths[i / KINDS]});
        for (int v = 0; v < VIEWS; v++)
            on_card[v] = &a.card[v];
        for (int round = 0; round < 8; round++) {
            expect_done("attention", forward(ops(), a.scale, kinds[kind].math, on_card, true, queue()));
            expect_done("attention_grad", backward(ops(), a.scale, kinds[kind].math, on_card, queue()));
            for (int v = 0; v < VIEWS; v++) {
                struct strided got = download(&a.host[v], &a.card[v]);
                if (round == 0)
                    first[v] = got;
                assert_memory_equal(got.buffer, first[v].buffer, got.bytes);
                if (round > 0)
                    strided_destroy(&got);
            }
        }
        for (int v = 0; v < VIEWS; v++)
            strided_destroy(&first[v]);
        destroy_all(a.host, VIEWS);
    }
}

static void without_lse_the_output_is_the_same(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 5);
    struct attention a;
    const struct mtk_view *on_card[VIEWS], *host[VIEWS];
    attention_create(&a, &dice, MT_BF16, (int64_t[]){1, 2, 90, 64});
    for (int i = 0; i < VIEWS; i++) {
        on_card[i] = &a.card[i];
        host[i] = &a.host[i].view;
    }
    expect_done("attention", forward(&mtk_cpu, a.scale, MTK_MATH_FP32, host, false, NULL));
    expect_done("attention", forward(ops(), a.scale, MTK_MATH_FP32, on_card, false, queue()));
    expect_near("out", &a.host[OUT], &a.card[OUT], share_of(MT_BF16));
    expect_near("lse", &a.host[LSE], &a.card[LSE], share_of(MT_F32));
    destroy_all(a.host, VIEWS);
}

static void what_kernels_do_not_take_is_refused(void **state)
{
    (void)state;
    static const struct {
        mt_dtype dtype;
        int64_t features, row;
        const char *says;
    } cases[] = {{MT_F64, 16, 16, "none for fp64"},
                 {MT_F32, 12, 12, "heads of 12 features"},
                 {MT_BF16, 16, 20, "multiples of 16"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mtk_view view = {.address = card.memory,
                                .dtype = cases[i].dtype,
                                .shape = {1, 1, 4, cases[i].features},
                                .stride = {4 * cases[i].row, 4 * cases[i].row, cases[i].row, 1}};
        assert_int_equal(ops()->attention(1, MTK_MATH_FP32, &view, NULL, &view, &view, &view, queue()), MT_FAILED);
        if (strstr(mt_last_error(), cases[i].says) == NULL)
            fail_msg("%s does not say \"%s\"", mt_last_error(), cases[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(softmax_is_its_twin),
        cmocka_unit_test(softmax_grad_is_its_twin),
        cmocka_unit_test(attention_of_every_width_is_its_twin),
        cmocka_unit_test(attention_of_every_length_is_its_twin),
        cmocka_unit_test(the_same_call_gives_the_same_bits),
        cmocka_unit_test(without_lse_the_output_is_the_same),
        cmocka_unit_test(what_kernels_do_not_take_is_refused),
    };
    return gpu_is_there() ? cmocka_run_group_tests(tests, open_card, close_card) : SKIPPED;
}
