/* Rotary position embedding. For the pair (a, b) = in[i,j,t,2p], in[i,j,t,2p+1] and its angle
 * direction * t * theta^(-2p/d), d the size of the last dimension:
 *
 *   out[i,j,t,2p] = a cos - b sin        out[i,j,t,2p+1] = a sin + b cos
 *
 * The sines of a position are computed once for all that stand there. `out` may be the same view as `in`. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/element.h"

#include <math.h>

enum { PAIRS = MTK_TILE / 2 };

/* The turns of pairs [first, first + count) at one position. */
struct turns {
    int64_t first, count;
    double cosine[PAIRS], sine[PAIRS];
};

static void turns_compute(struct turns *turns, double theta, double position, int64_t dimension)
{
    for (int64_t p = 0; p < turns->count; p++) {
        double angle = position * pow(theta, -2.0 * (double)(turns->first + p) / (double)dimension);
        turns->cosine[p] = cos(angle);
        turns->sine[p] = sin(angle);
    }
}

/* Turns those pairs of row (i, j, t). */
static void turn_row(const struct turns *turns, const struct mtk_view *out, const struct mtk_view *in, int64_t i,
                     int64_t j, int64_t t)
{
    double tile[MTK_TILE];
    int64_t column = 2 * turns->first, count = 2 * turns->count;
    mtk_load(mtk_at(in, i, j, t, column), in->dtype, in->stride[3], count, tile);
    for (int64_t p = 0; p < turns->count; p++) {
        double a = tile[2 * p], b = tile[2 * p + 1];
        tile[2 * p] = a * turns->cosine[p] - b * turns->sine[p];
        tile[2 * p + 1] = a * turns->sine[p] + b * turns->cosine[p];
    }
    mtk_store(mtk_at(out, i, j, t, column), out->dtype, out->stride[3], count, tile);
}

mt_status mtk_cpu_rotate(double theta, int direction, const struct mtk_view *out, const struct mtk_view *in,
                         struct mtk_queue *queue)
{
    (void)queue;
    int64_t pairs = in->shape[3] / 2;
    for (int64_t t = 0; t < in->shape[2]; t++)
        for (int64_t first = 0; first < pairs; first += PAIRS) {
            struct turns turns = {.first = first, .count = pairs - first < PAIRS ? pairs - first : PAIRS};
            turns_compute(&turns, theta, (double)(direction * t), in->shape[3]);
            for (int64_t i = 0; i < in->shape[0]; i++)
                for (int64_t j = 0; j < in->shape[1]; j++)
                    turn_row(&turns, out, in, i, j, t);
        }
    return MT_OK;
}
