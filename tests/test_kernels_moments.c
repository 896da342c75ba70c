/* AdamW with moments of less than 32 bits: the codes of 8 bits and the random rounding to bf16 (kernels/moments.h), and
 * the op of any device's table against its formula in double. The device may be given as an argument (default: cpu). */
#include "gpu.h"
#include "kernel_bench.h"
#include "kernels/moments.h"

/* ---- codes ---- */

static struct mtk_codes mean_codes, square_codes;

static float number_of(const struct mtk_codes *codes, float x)
{
    return codes->number[mtk_code_of(codes, x)];
}

/* Returns the distance to the code that is nearest to x. */
static double least_distance(const struct mtk_codes *codes, float x)
{
    double least = INFINITY;
    for (int code = 0; code < 256; code++)
        least = fmin(least, fabs((double)codes->number[code] - (double)x));
    return least;
}

static void check_code(const struct mtk_codes *codes, float x)
{
    double distance = fabs((double)number_of(codes, x) - (double)x), least = least_distance(codes, x);
    if (!(distance <= least * 1.05 + 1e-8)) /* where two are about as near, rounding decides */
        fail_msg("%.9g becomes %.9g, %.3g away where %.3g is possible", (double)x, (double)number_of(codes, x),
                 distance, least);
}

static void every_number_becomes_the_nearest_code(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED);
    for (int i = 0; i < 20000; i++) {
        float x = (float)pow(10, -8 * mt_random_unit(1, roll(&dice, 1 << 20)));
        check_code(&mean_codes, roll(&dice, 2) == 0 ? x : -x);
        if (x > 4e-7F) /* below, the code of least is taken for 0 */
            check_code(&square_codes, x);
    }
}

static void every_code_is_that_of_its_number(void **state)
{
    (void)state;
    for (int code = 0; code < 256; code++) {
        assert_int_equal(mtk_code_of(&mean_codes, mean_codes.number[code]), code);
        assert_int_equal(mtk_code_of(&square_codes, square_codes.number[code]), code);
        for (int other = 0; other < code; other++) {
            assert_true(mean_codes.number[code] != mean_codes.number[other]);
            assert_true(square_codes.number[code] > square_codes.number[other]);
        }
    }
    assert_true(number_of(&mean_codes, 1) == 1 && number_of(&square_codes, 1) == 1);
    assert_true(number_of(&mean_codes, -1) < -0.99F);
}

/* Codes rise with their numbers, over borders of decades, too. A factor may make the largest a little more than 1. */
static void a_larger_number_has_no_smaller_code(void **state)
{
    (void)state;
    const float most = 1 + 0x1p-22F;
    for (float x = 1e-8F, before = 0; x <= most; before = x, x *= 1.00003F) {
        assert_true(number_of(&mean_codes, x) >= number_of(&mean_codes, before));
        assert_true(number_of(&mean_codes, -x) <= number_of(&mean_codes, -before));
        assert_true(number_of(&square_codes, x) >= number_of(&square_codes, before));
    }
    assert_true(number_of(&mean_codes, most) == 1 && number_of(&square_codes, most) == 1);
}

static void no_square_but_0_becomes_0(void **state)
{
    (void)state;
    assert_int_equal(mtk_code_of(&square_codes, 0), 0);
    for (float x = 1; x > 0; x *= 0.5F)
        assert_true(number_of(&square_codes, x) > 0);
}

static void what_is_no_number_becomes_0(void **state)
{
    (void)state;
    assert_int_equal(mtk_code_of(&mean_codes, NAN), 0);
    assert_int_equal(mtk_code_of(&mean_codes, -NAN), 0);
    assert_int_equal(mtk_code_of(&square_codes, NAN), 0);
    assert_int_equal(mtk_code_of(&mean_codes, -0.0F), 0);
}

/* ---- bf16 ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bf16_value(uint16_t bf16)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static void rounding_at_random_is_right_on_average(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 1);
    for (int i = 0; i < 40; i++) {
        float x = (float)roll_value(&dice) * 1.2345F;
        double sum = 0, step = fabs((double)bf16_value((uint16_t)((bits_of(x) >> 16) + 1)) -
                                    (double)bf16_value((uint16_t)(bits_of(x) >> 16)));
        for (uint32_t random = 0; random < 1 << 16; random++) {
            double rounded = (double)bf16_value(mtk_bf16_at_random(bits_of(x), random));
            assert_true(fabs(rounded - (double)x) < step || rounded == (double)x);
            sum += rounded;
        }
        assert_true(fabs(sum / (1 << 16) - (double)x) <= 1e-6 * fabs((double)x));
    }
    assert_true(isnan(bf16_value(mtk_bf16_at_random(0x7F800001, 0xFFFF))));
    assert_true(isinf(bf16_value(mtk_bf16_at_random(bits_of(INFINITY), 0xFFFF))));
}

/* ---- the op ---- */

static const struct mtk_adamw how = {
    .dtype = MT_F32, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8, .step_size = 0.01, .keep = 0.99};

enum { PARAMETERS = 70, MOST_UNEQUAL_SHARE = 100 };

/* A parameter: what the device has, and the moments before the update, as numbers. */
struct narrow_case {
    int64_t count;
    mtk_moments form;
    bool is_cast;
    uint64_t generator;
    struct buffer value, grad, mean, square, scales, cast;
    double *mean_before, *square_before;
};

static int64_t blocks_of(const struct narrow_case *c)
{
    return (c->count + MTK_MOMENTS_BLOCK - 1) / MTK_MOMENTS_BLOCK;
}

static mt_dtype dtype_of(mtk_moments form)
{
    return form == MTK_MOMENTS_FULL ? MT_F32 : form == MTK_MOMENTS_BF16 ? MT_BF16 : MT_U8;
}

/* Writes `bytes` to where a buffer begins. */
static void overwrite(const struct buffer *b, const void *values, size_t bytes)
{
    assert_int_equal(mt_device_write(bench.device, b->address, values, bytes, 0), MT_OK);
}

/* Draws codes and scales, of which one block is all 0. */
static void draw_codes(struct narrow_case *c, struct dice *dice)
{
    uint8_t *codes = mt_host_alloc((size_t)c->count * 2), *squares = codes + c->count;
    float *scales = mt_host_alloc((size_t)blocks_of(c) * 2 * sizeof *scales);
    for (int64_t b = 0; b < blocks_of(c); b++) {
        scales[2 * b] = b == 1 ? 0 : (float)(1 + roll(dice, 8)) / 4;
        scales[2 * b + 1] = b == 1 ? 0 : (float)(1 + roll(dice, 8)) / 16;
    }
    for (int64_t i = 0; i < c->count; i++) {
        codes[i] = (uint8_t)roll(dice, 256);
        squares[i] = (uint8_t)roll(dice, 256);
        c->mean_before[i] = (double)(mean_codes.number[codes[i]] * scales[i / MTK_MOMENTS_BLOCK * 2]);
        c->square_before[i] = (double)(square_codes.number[squares[i]] * scales[i / MTK_MOMENTS_BLOCK * 2 + 1]);
    }
    overwrite(&c->mean, codes, (size_t)c->count);
    overwrite(&c->square, squares, (size_t)c->count);
    overwrite(&c->scales, scales, (size_t)blocks_of(c) * 2 * sizeof *scales);
    free(codes);
    free(scales);
}

/* Moments of the other forms are what buffers were filled with; squares are 0. */
static void draw_numbers(struct narrow_case *c)
{
    memcpy(c->mean_before, c->mean.before, (size_t)c->count * sizeof(double));
    memcpy(c->square_before, c->square.before, (size_t)c->count * sizeof(double));
}

static struct narrow_case case_create(struct dice *dice, mtk_moments form, struct mtk_adamw_item *item)
{
    static const int64_t sizes[] = {1, 3, 48, 256, 258, 768, 4096, 4097, 20000};
    struct narrow_case c = {.count = sizes[roll(dice, 9)], .form = form, .is_cast = roll(dice, 2) == 0};
    c.generator = roll(dice, UINT64_C(1) << 40);
    c.value = buffer_create(dice, "value", MT_F32, 1, c.count, 1);
    c.grad = buffer_create(dice, "grad", MT_F32, 1, c.count, 1);
    c.mean = buffer_create(dice, "mean", dtype_of(form), 1, c.count, 1);
    c.square = buffer_create(dice, "square", dtype_of(form), 1, c.count, 0);
    c.scales = buffer_create(dice, "scales", MT_F32, blocks_of(&c), 2, 1);
    c.cast = buffer_create(dice, "cast", MT_BF16, 1, c.count, 1);
    c.mean_before = mt_host_alloc((size_t)c.count * sizeof(double));
    c.square_before = mt_host_alloc((size_t)c.count * sizeof(double));
    if (form == MTK_MOMENTS_8BIT)
        draw_codes(&c, dice);
    else
        draw_numbers(&c);
    *item = (struct mtk_adamw_item){.count = c.count,
                                    .value = c.value.address,
                                    .grad = c.grad.address,
                                    .mean = c.mean.address,
                                    .square = c.square.address,
                                    .cast = c.is_cast ? c.cast.address : 0,
                                    .scales = form == MTK_MOMENTS_8BIT ? c.scales.address : 0,
                                    .moments = form,
                                    .generator = c.generator};
    return c;
}

/* Computes the new moments, in double, in place of the old ones, and the value that they make. */
static void expect_update(struct narrow_case *c)
{
    for (int64_t i = 0; i < c->count; i++) {
        double g = c->grad.before[i], *m = &c->mean_before[i], *v = &c->square_before[i];
        *m += (1 - how.beta1) * (g - *m);
        *v += (1 - how.beta2) * (g * g - *v);
        c->value.expected[i] = how.keep * c->value.before[i] - how.step_size * *m / (sqrt(*v) + how.epsilon);
        if (c->is_cast)
            c->cast.expected[i] = c->value.expected[i];
    }
}

static unsigned char *read_raw(const struct buffer *b)
{
    size_t bytes = (size_t)count_of(b) * mt_dtype_bytes(b->dtype);
    unsigned char *raw = mt_host_alloc(bytes);
    assert_int_equal(mt_device_read(bench.device, raw, b->address, bytes, 0), MT_OK);
    return raw;
}

/* Checks that what is stored of a moment is what the shared functions make of it. A device computes in fp32, so that
 * one in some hundred may lie on the other side of a border. Leaves the stored numbers as what is expected. */
static void expect_bf16(struct narrow_case *c, struct buffer *b, const double *exact, int shift)
{
    unsigned char *raw = read_raw(b);
    int64_t unequal = 0;
    for (int64_t i = 0; i < c->count; i++) {
        uint64_t random = mtk_moment_bits(c->generator, i / 2) >> (32 * (i % 2) + shift);
        double stored = decode(raw + 2 * i, MT_BF16);
        unequal += stored != (double)bf16_value(mtk_bf16_at_random(bits_of((float)exact[i]), (uint32_t)random));
        b->expected[i] = exact[i];
    }
    assert_true(unequal <= 1 + c->count / MOST_UNEQUAL_SHARE);
    free(raw);
}

static void expect_codes(struct narrow_case *c, struct buffer *b, const double *exact, int which)
{
    unsigned char *raw = read_raw(b), *scales = read_raw(&c->scales);
    const struct mtk_codes *codes = which == 0 ? &mean_codes : &square_codes;
    int64_t unequal = 0;
    for (int64_t begin = 0; begin < c->count; begin += MTK_MOMENTS_BLOCK) {
        int64_t end = begin + MTK_MOMENTS_BLOCK < c->count ? begin + MTK_MOMENTS_BLOCK : c->count;
        int64_t at = begin / MTK_MOMENTS_BLOCK * 2 + which;
        double largest = 0, scale = decode(scales + 4 * at, MT_F32);
        for (int64_t i = begin; i < end; i++)
            largest = fmax(largest, fabs(exact[i]));
        assert_true(fabs(scale - largest) <= 4e-6 * largest);
        c->scales.expected[at] = scale;
        for (int64_t i = begin; i < end; i++) {
            double share = (double)codes->number[raw[i]], expected = largest > 0 ? exact[i] / largest : 0;
            unequal += raw[i] != mtk_code_of(codes, (float)expected);
            if (!(fabs(share - expected) <= 0.016 + 0.1 * fabs(expected)))
                fail_msg("%s[%lld] is %.4g of its largest, expected %.4g", b->name, (long long)i, share, expected);
            b->expected[i] = raw[i];
        }
    }
    assert_true(unequal <= 1 + c->count / MOST_UNEQUAL_SHARE);
    free(raw);
    free(scales);
}

/* Sets what is expected of the moments, after the op. */
static void expect_moments(struct narrow_case *c)
{
    switch (c->form) {
    case MTK_MOMENTS_FULL:
        memcpy(c->mean.expected, c->mean_before, (size_t)c->count * sizeof(double));
        memcpy(c->square.expected, c->square_before, (size_t)c->count * sizeof(double));
        break;
    case MTK_MOMENTS_BF16:
        expect_bf16(c, &c->mean, c->mean_before, 0);
        expect_bf16(c, &c->square, c->square_before, 16);
        break;
    case MTK_MOMENTS_8BIT:
        expect_codes(c, &c->mean, c->mean_before, 0);
        expect_codes(c, &c->square, c->square_before, 1);
        break;
    }
}

static void case_end(struct narrow_case *c)
{
    expect_update(c);
    expect_moments(c);
    expect(&c->value, 1);
    expect(&c->grad, 0);
    expect(&c->mean, 4);
    expect(&c->square, 1);
    expect(&c->scales, 0);
    expect(&c->cast, 1);
    free(c->mean_before);
    free(c->square_before);
}

/* More parameters than one launch takes, of all sizes and alignments; with 8-bit moments some have theirs in full. */
static void an_update_with_narrow_moments_is_its_formula(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 2);
    for (int round = 0; round < 4; round++) {
        mtk_moments form = round % 2 == 0 ? MTK_MOMENTS_BF16 : MTK_MOMENTS_8BIT;
        struct narrow_case cases[PARAMETERS];
        struct mtk_adamw_item items[PARAMETERS];
        for (int i = 0; i < PARAMETERS; i++)
            cases[i] = case_create(&dice, form == MTK_MOMENTS_8BIT && i % 3 == 0 ? MTK_MOMENTS_FULL : form, &items[i]);
        done(ops()->adamw(&how, PARAMETERS, items, queue()));
        for (int i = 0; i < PARAMETERS; i++)
            case_end(&cases[i]);
        bench.taken_bytes = 0;
    }
}

/* Checks that codes and scales are those that the shared functions make of the numbers, to the bit. */
static void expect_codes_of(const struct buffer *stored, const struct buffer *stored_scales, int which,
                            const struct mtk_codes *codes, const float *numbers)
{
    int64_t count = count_of(stored);
    unsigned char *raw = read_raw(stored), *scales = read_raw(stored_scales);
    for (int64_t begin = 0; begin < count; begin += MTK_MOMENTS_BLOCK) {
        int64_t end = begin + MTK_MOMENTS_BLOCK < count ? begin + MTK_MOMENTS_BLOCK : count;
        float largest = 0;
        for (int64_t i = begin; i < end; i++)
            largest = fmaxf(largest, fabsf(numbers[i]));
        assert_true(decode(scales + 4 * (begin / MTK_MOMENTS_BLOCK * 2 + which), MT_F32) == (double)largest);
        for (int64_t i = begin; i < end; i++)
            assert_int_equal(raw[i], mtk_code_of(codes, numbers[i] * mtk_code_factor(largest)));
    }
    free(raw);
    free(scales);
}

/* With betas of 0 and moments of 0 the mean becomes the gradient and the square its square, without rounding or rounded
 * once, so that a device must make the same codes. Gradients are of all decades, the last block is not whole, and
 * parameters are aligned or not. */
static void codes_of_a_device_are_the_shared_ones(void **state)
{
    (void)state;
    static const int64_t sizes[] = {20000, 20001, 100};
    static const struct mtk_adamw no_memory = {.dtype = MT_F32, .epsilon = 1e-8, .step_size = 0.01, .keep = 0.99};
    struct dice dice = dice_of_seed(SEED + 4);
    for (int round = 0; round < 3; round++) {
        int64_t count = sizes[round], blocks = (count + MTK_MOMENTS_BLOCK - 1) / MTK_MOMENTS_BLOCK;
        struct buffer value = buffer_create(&dice, "value", MT_F32, 1, count, 1);
        struct buffer grad = buffer_create(&dice, "grad", MT_F32, 1, count, 1);
        struct buffer mean = buffer_create(&dice, "mean", MT_U8, 1, count, 0);
        struct buffer square = buffer_create(&dice, "square", MT_U8, 1, count, 0);
        struct buffer scales = buffer_create(&dice, "scales", MT_F32, blocks, 2, 0);
        struct buffer *buffers[] = {&value, &grad, &mean, &square, &scales};
        float *numbers = mt_host_alloc((size_t)count * sizeof *numbers);
        for (int64_t i = 0; i < count; i++)
            numbers[i] =
                (float)(pow(10, -8 * mt_random_unit(2, roll(&dice, 1 << 20))) * (roll(&dice, 2) == 0 ? 1 : -1));
        overwrite(&grad, numbers, (size_t)count * sizeof *numbers);
        const struct mtk_adamw_item item = {.count = count,
                                            .value = value.address,
                                            .grad = grad.address,
                                            .mean = mean.address,
                                            .square = square.address,
                                            .scales = scales.address,
                                            .moments = MTK_MOMENTS_8BIT};
        done(ops()->adamw(&no_memory, 1, &item, queue()));
        expect_codes_of(&mean, &scales, 0, &mean_codes, numbers);
        for (int64_t i = 0; i < count; i++)
            numbers[i] *= numbers[i];
        expect_codes_of(&square, &scales, 1, &square_codes, numbers);
        free(numbers);
        for (int i = 0; i < 5; i++) {
            free(buffers[i]->before);
            free(buffers[i]->expected);
        }
        bench.taken_bytes = 0;
    }
}

/* Without gradients the square must fall by a thousandth a step, which is less than bf16 can tell apart. */
static void a_square_in_bf16_falls_as_it_should(void **state)
{
    (void)state;
    enum { COUNT = 4096, STEPS = 500 };
    struct dice dice = dice_of_seed(SEED + 3);
    struct buffer value = buffer_create(&dice, "value", MT_F32, 1, COUNT, 1);
    struct buffer grad = buffer_create(&dice, "grad", MT_F32, 1, COUNT, 0);
    struct buffer mean = buffer_create(&dice, "mean", MT_BF16, 1, COUNT, 0);
    struct buffer square = buffer_create(&dice, "square", MT_BF16, 1, COUNT, 1);
    struct buffer *buffers[] = {&value, &grad, &mean, &square};
    double sum = 0, expected = 0;
    uint16_t squares[COUNT];
    for (int64_t i = 0; i < COUNT; i++) {
        squares[i] = (uint16_t)(bits_of((float)fabs(square.before[i])) >> 16);
        expected += (double)bf16_value(squares[i]) * pow(how.beta2, STEPS);
    }
    overwrite(&square, squares, sizeof squares);
    for (uint64_t step = 0; step < STEPS; step++) {
        const struct mtk_adamw_item item = {.count = COUNT,
                                            .value = value.address,
                                            .grad = grad.address,
                                            .mean = mean.address,
                                            .square = square.address,
                                            .moments = MTK_MOMENTS_BF16,
                                            .generator = mt_splitmix64(step)};
        done(ops()->adamw(&how, 1, &item, queue()));
    }
    unsigned char *raw = read_raw(&square);
    for (int64_t i = 0; i < COUNT; i++)
        sum += decode(raw + 2 * i, MT_BF16);
    if (!(fabs(sum - expected) < 0.01 * expected))
        fail_msg("the squares fell to a sum of %.6g, expected %.6g", sum, expected);
    free(raw);
    for (int i = 0; i < 4; i++) {
        free(buffers[i]->before);
        free(buffers[i]->expected);
    }
    bench.taken_bytes = 0;
}

int main(int count, char **arguments)
{
    if (!take_device(count, arguments, &test_device))
        return SKIPPED;
    mean_codes = mtk_codes_of(MTK_MEAN_CELLS);
    square_codes = mtk_codes_of(MTK_SQUARE_CELLS);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_becomes_the_nearest_code),
        cmocka_unit_test(every_code_is_that_of_its_number),
        cmocka_unit_test(a_larger_number_has_no_smaller_code),
        cmocka_unit_test(no_square_but_0_becomes_0),
        cmocka_unit_test(what_is_no_number_becomes_0),
        cmocka_unit_test(rounding_at_random_is_right_on_average),
        cmocka_unit_test(an_update_with_narrow_moments_is_its_formula),
        cmocka_unit_test(codes_of_a_device_are_the_shared_ones),
        cmocka_unit_test(a_square_in_bf16_falls_as_it_should),
    };
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
