/* fp8 in any device's table, against a list of its values: every code is the nearest to its value, scales follow from
 * the largest magnitude, the transposed copy is the same, and products are products of the values. The device may be
 * given as an argument (default: cpu). */
#include "gpu.h"
#include "kernel_bench.h"
#include "kernels/fp8.h"
#include "producers/model/ops.h"

static const mt_dtype formats[] = {MT_F8_E4M3FN, MT_F8_E5M2};

enum { FORMATS = 2, CODES = 256, LARGEST_CODES = 128 };

/* ---- the formats, from their definition ---- */

static bool is_e4m3(mt_dtype dtype)
{
    return dtype == MT_F8_E4M3FN;
}

static double compute_value(mt_dtype dtype, int code)
{
    int digits = is_e4m3(dtype) ? 3 : 2, bias = is_e4m3(dtype) ? 7 : 15;
    int exponent = (code & 0x7F) >> digits, fraction = code & ((1 << digits) - 1);
    double sign = code & 0x80 ? -1 : 1;
    if (is_e4m3(dtype) ? (code & 0x7F) == 0x7F : exponent == 31)
        return is_e4m3(dtype) || fraction > 0 ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - digits);
    return sign * ldexp(1 + ldexp(fraction, -digits), exponent - bias);
}

static double values_by_code[FORMATS][CODES];

static int compute_values(void **state)
{
    for (int f = 0; f < FORMATS; f++)
        for (int code = 0; code < CODES; code++)
            values_by_code[f][code] = compute_value(formats[f], code);
    return open_bench(state);
}

static double value_of(mt_dtype dtype, int code)
{
    return values_by_code[is_e4m3(dtype) ? 0 : 1][code % CODES];
}

static double most_of(mt_dtype dtype)
{
    return is_e4m3(dtype) ? 448 : 57344;
}

/* Returns the code of the value that is nearest to `value`: the even one of two, and the largest for values beyond
 * all. */
static int nearest_code(mt_dtype dtype, double value)
{
    int best = 0;
    double least = INFINITY;
    for (int code = 0; code < LARGEST_CODES && isfinite(value_of(dtype, code)); code++) {
        double away = fabs(fabs(value) - value_of(dtype, code));
        if (away < least || (away == least && code % 2 == 0)) {
            best = code;
            least = away;
        }
    }
    return signbit(value) ? best | 0x80 : best;
}

/* ---- memory of the device ---- */

static mt_addr place(uint64_t bytes)
{
    mt_addr at = bench.memory + bench.taken_bytes;
    bench.taken_bytes += (bytes + 255) / 256 * 256;
    assert_true(bench.taken_bytes <= ARENA_BYTES);
    return at;
}

static struct mtk_view place_view(mt_dtype dtype, int64_t rows, int64_t columns)
{
    return (struct mtk_view){.address = place((uint64_t)(rows * columns) * mt_dtype_bytes(dtype)),
                             .dtype = dtype,
                             .shape = {1, 1, rows, columns},
                             .stride = {rows * columns, rows * columns, columns, 1}};
}

static void write_to(const struct mtk_view *view, const void *from, size_t bytes)
{
    assert_int_equal(mt_device_write(bench.device, view->address, from, bytes, 0), MT_OK);
}

/* Returns the bytes of a view. The caller frees them. */
static void *read_from(const struct mtk_view *view)
{
    uint64_t bytes = (uint64_t)(view->shape[2] * view->shape[3]) * mt_dtype_bytes(view->dtype);
    void *raw = mt_host_alloc(bytes);
    assert_int_equal(mt_device_read(bench.device, raw, view->address, bytes, 0), MT_OK);
    return raw;
}

/* Returns a view of `values`, rounded to `dtype`; the rounded values are written back. */
static struct mtk_view upload_values(mt_dtype dtype, int64_t rows, int64_t columns, double *values)
{
    struct mtk_view view = place_view(dtype, rows, columns);
    size_t count = (size_t)(rows * columns), size = mt_dtype_bytes(dtype);
    unsigned char *raw = mt_host_alloc(count * size);
    for (size_t i = 0; i < count; i++) {
        values[i] = round_to_dtype(values[i], dtype);
        put(raw + i * size, dtype, values[i]);
    }
    write_to(&view, raw, count * size);
    free(raw);
    return view;
}

/* A cast, with all of its outputs read back. */
struct casting {
    struct mtk_view in, scale, codes, turned;
    float of_scale;
    uint8_t *as_it_is, *transposed;
};

static struct casting cast(mt_dtype dtype, const struct mtk_view *in)
{
    int64_t rows = in->shape[2], columns = in->shape[3];
    struct casting c = {.in = *in,
                        .scale = place_view(MT_F32, 1, MTK_FP8_NUMBERS),
                        .codes = place_view(dtype, rows, columns),
                        .turned = place_view(dtype, columns, mtk_fp8_padded(rows))};
    done(ops()->cast_fp8(MTK_SCALE_IS_FOUND, &c.scale, &c.codes, &c.turned, &c.in, queue()));
    float *numbers = read_from(&c.scale);
    c.of_scale = numbers[0];
    free(numbers);
    c.as_it_is = read_from(&c.codes);
    c.transposed = read_from(&c.turned);
    return c;
}

static void end_cast(struct casting *c)
{
    free(c->as_it_is);
    free(c->transposed);
}

/* ---- casts ---- */

/* Every value of a format, the midpoint to the next one, and numbers just above and below both, repeated until
 * they fill rows. The largest is among them, so that the scale is 1. */
static void every_number_becomes_the_nearest_code(void **state)
{
    (void)state;
    enum { KINDS = 5, COLUMNS = 2 * KINDS * MTK_FP8_UNIT, ROWS = CODES * KINDS / COLUMNS };
    for (int f = 0; f < FORMATS; f++) {
        double values[ROWS * COLUMNS] = {0};
        for (int code = 0; code < CODES; code++) {
            double value = value_of(formats[f], code), next = value_of(formats[f], code + 1);
            if (!isfinite(value))
                continue;
            double half = isfinite(next) ? (value + next) / 2 : value;
            const double kinds[KINDS] = {value, half, half * (1 + 0x1p-20), half * (1 - 0x1p-20), value * 0.9999};
            for (int kind = 0; kind < KINDS; kind++)
                values[code * KINDS + kind] = fmax(fmin(kinds[kind], most_of(formats[f])), -most_of(formats[f]));
        }
        struct mtk_view in = upload_values(MT_F32, ROWS, COLUMNS, values);
        struct casting c = cast(formats[f], &in);
        assert_true(c.of_scale == 1);
        for (int i = 0; i < ROWS * COLUMNS; i++)
            if (c.as_it_is[i] != nearest_code(formats[f], values[i]))
                fail_msg("%s: %.9g became code %d and not %d", mt_dtype_name(formats[f]), values[i], c.as_it_is[i],
                         nearest_code(formats[f], values[i]));
        end_cast(&c);
        bench.taken_bytes = 0;
    }
}

/* Checks the scale of a matrix whose largest magnitude is given. */
static void check_scale(mt_dtype dtype, double largest)
{
    enum { COLUMNS = 64 };
    double values[COLUMNS] = {0};
    values[37] = -largest;
    struct mtk_view in = upload_values(MT_F32, 1, COLUMNS, values);
    struct casting c = cast(dtype, &in);
    double scale = (double)c.of_scale, size = fabs(values[37]);
    int exponent;
    if (!isfinite(size)) {
        assert_true(isnan(scale));
    } else {
        assert_true(frexp(scale, &exponent) == 0.5 && size <= scale * most_of(dtype));
        assert_true(size > 0 ? scale == 0x1p-126 || size > scale / 2 * most_of(dtype) : scale == 1);
        assert_int_equal(c.as_it_is[37], nearest_code(dtype, values[37] / scale));
    }
    end_cast(&c);
    bench.taken_bytes = 0;
}

static void the_scale_is_the_least_power_of_two_that_holds_the_largest(void **state)
{
    (void)state;
    struct dice dice = dice_of_seed(SEED + 30);
    for (int f = 0; f < FORMATS; f++) {
        const double special[] = {0, 1, most_of(formats[f]), 2 * most_of(formats[f]), INFINITY, NAN, 0x1p-149, 0x1p127};
        for (size_t i = 0; i < sizeof special / sizeof special[0]; i++)
            check_scale(formats[f], special[i]);
        for (int exponent = -149; exponent <= 127; exponent += 3)
            check_scale(formats[f], ldexp(1 + (double)roll(&dice, 1 << 20) / (1 << 20), exponent));
    }
}

static void fill_values(struct dice *dice, double *values, int64_t count, double size)
{
    for (int64_t i = 0; i < count; i++)
        values[i] = size * roll_value(dice) * ldexp(1, -(int)roll(dice, 12));
}

/* Checks every code of both copies. */
static void expect_codes(const struct casting *c, const double *values)
{
    int64_t rows = c->in.shape[2], columns = c->in.shape[3], padded = c->turned.shape[3];
    for (int64_t column = 0; column < columns; column++)
        for (int64_t row = 0; row < padded; row++) {
            int turned = c->transposed[column * padded + row];
            int code = row < rows ? c->as_it_is[row * columns + column] : 0;
            if (turned != code)
                fail_msg("row %lld, column %lld: %d as it is, %d transposed", (long long)row, (long long)column, code,
                         turned);
            if (row < rows)
                assert_int_equal(code,
                                 nearest_code(c->codes.dtype, values[row * columns + column] / (double)c->of_scale));
        }
}

/* One copy alone equals the same copy made together with the other, and with a given scale. */
static void expect_same_alone(const struct casting *c)
{
    const struct mtk_view codes = place_view(c->codes.dtype, c->in.shape[2], c->in.shape[3]);
    const struct mtk_view turned = place_view(c->codes.dtype, c->turned.shape[2], c->turned.shape[3]);
    done(ops()->cast_fp8(MTK_SCALE_IS_FOUND, &c->scale, &codes, NULL, &c->in, queue()));
    done(ops()->cast_fp8(MTK_SCALE_IS_GIVEN, &c->scale, NULL, &turned, &c->in, queue()));
    uint8_t *as_it_is = read_from(&codes), *transposed = read_from(&turned);
    assert_memory_equal(as_it_is, c->as_it_is, (size_t)(c->in.shape[2] * c->in.shape[3]));
    assert_memory_equal(transposed, c->transposed, (size_t)(c->turned.shape[2] * c->turned.shape[3]));
    free(as_it_is);
    free(transposed);
}

static void casts_of_every_shape_are_their_formula(void **state)
{
    (void)state;
    static const int64_t rows[] = {1, 3, 16, 26, 127, 128, 300}, columns[] = {16, 48, 128, 144, 400};
    struct dice dice = dice_of_seed(SEED + 31);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = rows[roll(&dice, 7)], C = columns[roll(&dice, 5)];
        double *values = mt_host_alloc((size_t)(n * C) * sizeof *values);
        fill_values(&dice, values, n * C, ldexp(1, (int)roll(&dice, 40) - 20));
        struct mtk_view in = upload_values(roll(&dice, 2) == 0 ? MT_F32 : MT_BF16, n, C, values);
        struct casting c = cast(formats[roll(&dice, FORMATS)], &in);
        expect_codes(&c, values);
        expect_same_alone(&c);
        end_cast(&c);
        free(values);
        bench.taken_bytes = 0;
    }
}

/* ---- products ---- */

/* Sums of a card's matrix units are kept with fewer digits than fp32 has, for some terms at a time. */
static double slack_of_sums(void)
{
    return strncmp(test_device, "cpu", 3) == 0 ? 2e-6 : 1e-3;
}

static struct mtk_view transposed_view(const struct mtk_view *view)
{
    struct mtk_view turned = *view;
    turned.shape[2] = view->shape[3];
    turned.shape[3] = view->shape[2];
    turned.stride[2] = 1;
    turned.stride[3] = view->shape[3];
    return turned;
}

/* Checks out = a bᵀ + beta * before, each element's slack by the size of its terms. */
static void expect_product(const struct casting *a, const struct casting *b, const struct mtk_view *out, double beta,
                           const double *before)
{
    int64_t m = a->codes.shape[2], n = b->codes.shape[2], k = a->codes.shape[3];
    double both = (double)a->of_scale * (double)b->of_scale;
    unsigned char *got = read_from(out);
    for (int64_t i = 0; i < m * n; i++) {
        double sum = 0, size = 0;
        for (int64_t j = 0; j < k; j++) {
            double term = value_of(a->codes.dtype, a->as_it_is[i / n * k + j]) *
                          value_of(b->codes.dtype, b->as_it_is[i % n * k + j]) * both;
            sum += term;
            size += fabs(term);
        }
        double expected = sum + (beta != 0 ? beta * before[i] : 0);
        double value = decode(got + (size_t)i * mt_dtype_bytes(out->dtype), out->dtype);
        double rounding = out->dtype == MT_BF16 ? 0x1p-8 * fabs(expected) : 0;
        if (!(fabs(value - expected) <= rounding + slack_of_sums() * (size + fabs(expected))))
            fail_msg("%lld x %lld x %lld, element %lld: %.9g, expected %.9g", (long long)m, (long long)k, (long long)n,
                     (long long)i, value, expected);
    }
    free(got);
}

static struct casting cast_random(struct dice *dice, mt_dtype dtype, int64_t rows, int64_t columns)
{
    double *values = mt_host_alloc((size_t)(rows * columns) * sizeof *values);
    fill_values(dice, values, rows * columns, ldexp(1, (int)roll(dice, 20) - 10));
    struct mtk_view in = upload_values(MT_BF16, rows, columns, values);
    free(values);
    return cast(dtype, &in);
}

static mt_status multiply(const struct casting *a, const struct casting *b, const struct mtk_view *out, double beta,
                          mtk_choosing choosing)
{
    static const uint64_t workspace_bytes = (uint64_t)8 << 20;
    const struct mtk_view right = transposed_view(&b->codes);
    const struct mtk_product product = {
        .alpha = 1, .beta = beta, .choosing = choosing, .a_scale = a->scale.address, .b_scale = b->scale.address};
    return ops()->matmul(&product, out, &a->codes, &right, place(workspace_bytes), workspace_bytes, queue());
}

/* Either operand may be of e5m2, out of either dtype and added to. */
static void products_are_those_of_the_values(void **state)
{
    (void)state;
    static const int64_t sizes[] = {16, 48, 144, 256}, rows[] = {1, 7, 26, 128, 200};
    struct dice dice = dice_of_seed(SEED + 32);
    for (int round = 0; round < ROUNDS / 2; round++) {
        int64_t m = rows[roll(&dice, 5)], n = sizes[roll(&dice, 4)], k = sizes[roll(&dice, 4)];
        int kind = (int)roll(&dice, 3);
        mt_dtype dtype = roll(&dice, 2) == 0 ? MT_F32 : MT_BF16;
        struct casting a = cast_random(&dice, kind == 1 ? MT_F8_E5M2 : MT_F8_E4M3FN, m, k);
        struct casting b = cast_random(&dice, kind == 2 ? MT_F8_E5M2 : MT_F8_E4M3FN, n, k);
        double *before = mt_host_alloc((size_t)(m * n) * sizeof *before), beta = dtype == MT_F32 && kind > 0 ? 1 : 0;
        fill_values(&dice, before, m * n, 1);
        struct mtk_view out = upload_values(dtype, m, n, before);
        done(multiply(&a, &b, &out, beta, MTK_CHOOSING_GUESSES));
        expect_product(&a, &b, &out, beta, before);
        free(before);
        end_cast(&a);
        end_cast(&b);
        bench.taken_bytes = 0;
    }
}

/* A product that is large enough to be measured: added to before that, while it is measured, and after. */
static void a_product_whose_kernel_was_measured_is_the_same(void **state)
{
    (void)state;
    enum { M = 640, N = 768, K = 512, TIMES = 4 };
    struct dice dice = dice_of_seed(SEED + 33);
    struct casting a = cast_random(&dice, MT_F8_E5M2, M, K), b = cast_random(&dice, MT_F8_E4M3FN, N, K);
    double *before = mt_host_alloc((size_t)M * N * sizeof *before);
    for (int time = 0; time < TIMES; time++) {
        double beta = time == 0 || time == TIMES - 1 ? 1 : 0;
        fill_values(&dice, before, M * N, 1);
        struct mtk_view out = upload_values(MT_F32, M, N, before);
        done(multiply(&a, &b, &out, beta, MTK_CHOOSING_MEASURES));
        expect_product(&a, &b, &out, beta, before);
    }
    free(before);
    end_cast(&a);
    end_cast(&b);
    bench.taken_bytes = 0;
}

/* Non-finite values must not disappear in a cast that clamps values to a range. */
static void a_product_of_what_is_not_finite_is_nan(void **state)
{
    (void)state;
    enum { SIZE = 32 };
    static const double others[] = {INFINITY, -INFINITY, NAN};
    struct dice dice = dice_of_seed(SEED + 34);
    for (int i = 0; i < 3; i++) {
        double values[SIZE * SIZE];
        fill_values(&dice, values, SIZE * SIZE, 1);
        values[i * 7] = others[i];
        struct mtk_view in = upload_values(MT_BF16, SIZE, SIZE, values), out = place_view(MT_F32, SIZE, SIZE);
        struct casting a = cast(MT_F8_E4M3FN, &in), b = cast_random(&dice, MT_F8_E4M3FN, SIZE, SIZE);
        done(multiply(&a, &b, &out, 0, MTK_CHOOSING_GUESSES));
        float *got = read_from(&out);
        for (int j = 0; j < SIZE * SIZE; j++)
            assert_true(isnan(got[j]));
        free(got);
        end_cast(&a);
        end_cast(&b);
        bench.taken_bytes = 0;
    }
}

int main(int count, char **arguments)
{
    if (!take_device(count, arguments, &test_device) || !takes_fp8(test_device))
        return SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_becomes_the_nearest_code),
        cmocka_unit_test(the_scale_is_the_least_power_of_two_that_holds_the_largest),
        cmocka_unit_test(casts_of_every_shape_are_their_formula),
        cmocka_unit_test(products_are_those_of_the_values),
        cmocka_unit_test(a_product_whose_kernel_was_measured_is_the_same),
        cmocka_unit_test(a_product_of_what_is_not_finite_is_nan),
    };
    return cmocka_run_group_tests(tests, compute_values, close_bench);
}
