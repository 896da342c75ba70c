/* Casts to fp8: finds the largest magnitude, derives the scale, and writes the codes and their transpose. */
#include "kernels/fp8.h"
#include "kernels/cpu/cpu_ops.h"

#include <math.h>
#include <string.h>

/* Returns the largest magnitude of a contiguous view; nan if an element is nan. */
static float largest_of(const struct mtk_view *in)
{
    double tile[MTK_TILE], largest = 0;
    MTK_EACH_TILE (first, count, mtk_row_count(in) * in->shape[3]) {
        mtk_load(mtk_element(in, first), in->dtype, 1, count, tile);
        for (int64_t i = 0; i < count; i++)
            if (!(fabs(tile[i]) <= largest)) /* larger, or one of the two is nan */
                largest = tile[i] != tile[i] || largest != largest ? NAN : fabs(tile[i]);
    }
    return (float)largest;
}

/* Writes the scale of a tensor with this largest magnitude. */
static void write_scale(const struct mtk_view *scale, mt_dtype dtype, float largest)
{
    uint32_t bits;
    memcpy(&bits, &largest, sizeof bits);
    bits = mtk_fp8_scale_bits(dtype, bits & 0x7FFFFFFF);
    memcpy(mtk_pointer(scale->address), &bits, sizeof bits);
}

static double inverse_of(const struct mtk_view *scale)
{
    uint32_t bits;
    float inverse;
    memcpy(&bits, mtk_pointer(scale->address), sizeof bits);
    bits = mtk_fp8_inverse_bits(bits);
    memcpy(&inverse, &bits, sizeof inverse);
    return (double)inverse;
}

/* Writes one row of codes, and the same as a column of `turned`. */
static void cast_row(const struct mtk_view *codes, const struct mtk_view *turned, const struct mtk_view *in,
                     int64_t row, double inverse)
{
    double tile[MTK_TILE];
    int64_t columns = in->shape[3];
    MTK_EACH_TILE (first, count, columns) {
        mtk_load(mtk_element(in, row * columns + first), in->dtype, 1, count, tile);
        for (int64_t i = 0; i < count; i++)
            tile[i] *= inverse;
        if (codes != NULL)
            mtk_store(mtk_element(codes, row * columns + first), codes->dtype, 1, count, tile);
        if (turned != NULL)
            mtk_store(mtk_at(turned, 0, 0, first, row), turned->dtype, turned->shape[3], count, tile);
    }
}

/* Fills the columns of `turned` past its rows with zeros, whose code is 0. */
static void pad(const struct mtk_view *turned, int64_t rows)
{
    for (int64_t column = 0; column < turned->shape[2]; column++)
        memset(mtk_at(turned, 0, 0, column, rows), 0, (size_t)(turned->shape[3] - rows));
}

mt_status mtk_cpu_cast_fp8(mtk_scale_origin origin, const struct mtk_view *scale, const struct mtk_view *codes,
                           const struct mtk_view *turned, const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)queue;
    mt_dtype dtype = codes != NULL ? codes->dtype : turned->dtype;
    int64_t rows = mtk_row_count(in);
    assert(mt_is_fp8(dtype) && mtk_is_contiguous(in) && (codes == NULL || mtk_same_shape(codes, in)));
    assert(turned == NULL || (turned->shape[2] == in->shape[3] && turned->shape[3] == mtk_fp8_padded(rows)));
    if (origin == MTK_SCALE_IS_FOUND)
        write_scale(scale, dtype, largest_of(in));
    double inverse = inverse_of(scale);
    for (int64_t row = 0; row < rows; row++)
        cast_row(codes, turned, in, row, inverse);
    if (turned != NULL)
        pad(turned, rows);
    return MT_OK;
}
