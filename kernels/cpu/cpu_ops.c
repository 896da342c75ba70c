/* The CPU's table, tiles of elements of any dtype, and walks through strided views. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/fp8.h"

#include <math.h>
#include <string.h>

#define X(op, parameters, views) .op = mtk_cpu_##op,
const struct mtk_table mtk_cpu = {.name = "cpu", MTK_OPS(X)};
#undef X

/* ---- tiles ---- */

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double double_of_bf16(uint16_t bits)
{
    return (double)float_of_bits((uint32_t)bits << 16);
}

/* Returns the nearest bf16, ties to even. Rounding to float first rounds twice, which is wrong only if the float is
 * exactly between two bf16 and the double is not. Then the float is moved by one unit in the last place towards the
 * double. */
static uint16_t bf16_of_double(double value)
{
    float near = (float)value;
    uint32_t bits = bits_of_float(near);
    if (value != value)
        return (uint16_t)(bits >> 16);
    if ((bits & 0xFFFF) == 0x8000 && (double)near != value)
        bits = (value > (double)near) == (value > 0) ? bits + 1 : bits - 1;
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

float mtk_round_to_tf32(float value)
{
    const uint32_t exponent = 0x7F800000, cut = 0x1FFF;
    uint32_t bits = bits_of_float(value);
    if ((bits & exponent) == exponent) /* infinite or nan */
        return value;
    return float_of_bits((bits + (cut + 1) / 2) & ~cut);
}

/* An fp8 format. `bias` is the exponent's; codes above `largest` are infinite or nan. */
struct fp8_format {
    int fraction_bits, bias;
    uint8_t largest;
    double most; /* the value of `largest` */
};
static const struct fp8_format e4m3 = {3, 7, 0x7E, 448}, e5m2 = {2, 15, 0x7B, 57344};
enum { FP8_SIGN = 0x80, FP8_NAN = 0x7F };

static double double_of_fp8(uint8_t code, const struct fp8_format *format)
{
    int size = code & FP8_NAN, exponent = size >> format->fraction_bits;
    int fraction = size & ((1 << format->fraction_bits) - 1);
    double value = exponent > 0 ? ldexp(fraction + (1 << format->fraction_bits), exponent - 1) : fraction;
    value = ldexp(value, 1 - format->bias - format->fraction_bits);
    if (size > format->largest) /* e4m3 has no infinity, and e5m2's has no fraction */
        value = format == &e5m2 && fraction == 0 ? INFINITY : NAN;
    return (code & FP8_SIGN) != 0 ? -value : value;
}

/* Returns the nearest code, ties to even; values beyond the range get the largest code. nan has one code. */
static uint8_t fp8_of_double(double value, const struct fp8_format *format)
{
    int exponent, sign = signbit(value) ? FP8_SIGN : 0;
    if (value != value)
        return FP8_NAN;
    if (value == 0)
        return (uint8_t)sign;
    if (fabs(value) >= format->most)
        return (uint8_t)(sign | format->largest);
    frexp(value, &exponent);
    int binade =
        exponent - 1 + format->bias > 1 ? exponent - 1 + format->bias : 1; /* subnormals have the lowest exponent */
    int units = (int)rint(ldexp(fabs(value), format->bias + format->fraction_bits - binade));
    return (uint8_t)(sign | (((binade - 1) << format->fraction_bits) + units));
}

static int64_t int64_of_double(double value)
{
    if (value != value)
        return 0;
    if (value >= 0x1p63)
        return INT64_MAX;
    return value <= -0x1p63 ? INT64_MIN : (int64_t)value;
}

static uint8_t uint8_of_double(double value)
{
    if (!(value > 0))
        return 0;
    return value >= 255 ? 255 : (uint8_t)value;
}

/* The dtypes: the type in memory, the conversion of an element e to a value, and of a value v to an element. */
#define DTYPES(X)                                                                                                      \
    X(MT_F32, float, (double)e, (float)v)                                                                              \
    X(MT_BF16, uint16_t, double_of_bf16(e), bf16_of_double(v))                                                         \
    X(MT_F64, double, e, v)                                                                                            \
    X(MT_I64, int64_t, (double)e, int64_of_double(v))                                                                  \
    X(MT_BOOL, uint8_t, e != 0 ? 1.0 : 0.0, v != 0)                                                                    \
    X(MT_U8, uint8_t, (double)e, uint8_of_double(v))                                                                   \
    X(MT_F8_E4M3FN, uint8_t, double_of_fp8(e, &e4m3), fp8_of_double(v, &e4m3))                                         \
    X(MT_F8_E5M2, uint8_t, double_of_fp8(e, &e5m2), fp8_of_double(v, &e5m2))

/* Runs `body` for each element, number i of the tile and number `at` in memory. A stride of 1 has a separate loop,
 * which the compiler can vectorize. */
#define EACH_ELEMENT(body)                                                                                             \
    if (stride == 1)                                                                                                   \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const int64_t at = i;                                                                                      \
            body;                                                                                                      \
        }                                                                                                              \
    else                                                                                                               \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            const int64_t at = i * stride;                                                                             \
            body;                                                                                                      \
        }

/* True if tiles support the dtype. A macro, since only asserts use it. */
#define HAS_TILES(dtype) (((dtype) > MT_NONE && (dtype) < MT_COMPUTED_DTYPE_COUNT) || mt_is_fp8(dtype))

void mtk_load(const char *from, mt_dtype dtype, int64_t stride, int64_t count, double *restrict tile)
{
    assert(HAS_TILES(dtype) && count >= 0 && count <= MTK_TILE);
    switch (dtype) {
#define X(name, type, value, stored)                                                                                   \
    case name: {                                                                                                       \
        const type *element = (const type *)(const void *)from;                                                        \
        EACH_ELEMENT(type e = element[at]; tile[i] = value)                                                            \
        return;                                                                                                        \
    }
        DTYPES(X)
#undef X
    default:
        return;
    }
}

void mtk_store(char *to, mt_dtype dtype, int64_t stride, int64_t count, const double *restrict tile)
{
    assert(HAS_TILES(dtype) && count >= 0 && count <= MTK_TILE);
    switch (dtype) {
#define X(name, type, value, stored)                                                                                   \
    case name: {                                                                                                       \
        type *element = (type *)(void *)to;                                                                            \
        EACH_ELEMENT(double v = tile[i]; element[at] = stored)                                                         \
        return;                                                                                                        \
    }
        DTYPES(X)
#undef X
    default:
        return;
    }
}

/* ---- walks ---- */

/* True if in every view, dimension d of `size` elements continues dimension `outer` of the walk without a gap. */
static bool continues(const struct mtk_walk *walk, int outer, const struct mtk_view *const *view, int d, int64_t size)
{
    for (int v = 0; v < walk->views; v++)
        if (walk->stride[v][outer] != size * view[v]->stride[d])
            return false;
    return true;
}

/* Puts the dimensions with more than one element last in the walk's shape, merged if possible. */
static void merge_dimensions(struct mtk_walk *walk, const struct mtk_view *const *view)
{
    int last = MT_MAX_DIMS - 1, used = 0;
    for (int d = 0; d < MT_MAX_DIMS; d++) {
        int64_t size = view[0]->shape[d];
        if (size == 1)
            continue;
        bool merges = used > 0 && continues(walk, last, view, d, size);
        if (!merges) {
            memmove(walk->shape, walk->shape + 1, last * sizeof walk->shape[0]);
            for (int v = 0; v < walk->views; v++)
                memmove(walk->stride[v], walk->stride[v] + 1, last * sizeof walk->stride[v][0]);
            used++;
        }
        walk->shape[last] = merges ? walk->shape[last] * size : size;
        for (int v = 0; v < walk->views; v++)
            walk->stride[v][last] = view[v]->stride[d];
    }
}

void mtk_walk_begin(struct mtk_walk *walk, int views, const struct mtk_view *const *view)
{
    assert(views >= 1 && views <= MTK_WALK_VIEWS);
    *walk = (struct mtk_walk){.views = views, .shape = {1, 1, 1, 1}};
    for (int v = 0; v < views; v++) {
        assert(mtk_same_shape(view[v], view[0]));
        walk->dtype[v] = view[v]->dtype;
        walk->base[v] = mtk_pointer(view[v]->address);
    }
    merge_dimensions(walk, view);
    walk->length = walk->shape[3];
    assert(walk->shape[0] * walk->shape[1] * walk->shape[2] * walk->length ==
           mtk_row_count(view[0]) * view[0]->shape[3]);
    walk->rows = walk->length > 0 ? walk->shape[0] * walk->shape[1] * walk->shape[2] : 0;
    walk->row = -1;
    walk->column = walk->length;
}

/* Sets `at` to the current column of the current row. */
static void locate(struct mtk_walk *walk)
{
    int64_t k = walk->row % walk->shape[2], above = walk->row / walk->shape[2];
    int64_t j = above % walk->shape[1], i = above / walk->shape[1];
    for (int v = 0; v < walk->views; v++) {
        const int64_t *stride = walk->stride[v];
        int64_t number = i * stride[0] + j * stride[1] + k * stride[2] + walk->column * stride[3];
        walk->at[v] = walk->base[v] + number * (int64_t)mt_dtype_bytes(walk->dtype[v]);
    }
}

bool mtk_walk_next(struct mtk_walk *walk)
{
    walk->column += walk->count;
    if (walk->column >= walk->length) {
        if (++walk->row >= walk->rows)
            return false;
        walk->column = 0;
    }
    walk->count = mtk_tile_count(walk->length - walk->column);
    assert(walk->row >= 0 && walk->column + walk->count <= walk->length);
    locate(walk);
    return true;
}

void mtk_walk_load(const struct mtk_walk *walk, int v, double *tile)
{
    mtk_load(walk->at[v], walk->dtype[v], walk->stride[v][3], walk->count, tile);
}

void mtk_walk_store(const struct mtk_walk *walk, int v, const double *tile)
{
    mtk_store(walk->at[v], walk->dtype[v], walk->stride[v][3], walk->count, tile);
}
