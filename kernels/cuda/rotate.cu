/* Rotary position embedding. For the pair (a, b) = in[i,j,t,2p], in[i,j,t,2p+1] and its angle
 * direction * t * theta^(-2p/d), d the size of the last dimension:
 *
 *   out[i,j,t,2p] = a cos - b sin        out[i,j,t,2p+1] = a sin + b cos
 *
 * `out` may be the same view as `in`. */
#include "kernels/cuda/view.cuh"

constexpr int THREADS = 128, SHARERS = 8;

/* (a, b) becomes (a cos - b sin, a sin + b cos). A thread has one pair (t, p), and rotates it at SHARERS positions (i,
 * j) with sines that it computes once. A block has THREADS adjacent pairs. Sines are computed in double, since an angle
 * may have thousands of turns. Every element of out is written. */
__global__ void __launch_bounds__(THREADS)
    rotate_kernel(double theta, int direction, mtk_device_view out, mtk_device_view in, mtk_divisor pairs,
                  uint32_t turns, mtk_divisor heads, uint32_t places, int64_t dimension)
{
    mtk_await_turn();
    uint32_t n = blockIdx.x * THREADS + threadIdx.x;
    if (n >= turns)
        return;
    uint32_t t = pairs.divide(n), p = n - t * pairs.divisor;
    double sine, cosine;
    sincos((double)direction * t * pow(theta, -2.0 * p / (double)dimension), &sine, &cosine);
    for (uint32_t place = blockIdx.y * SHARERS; place < places && place < (blockIdx.y + 1) * SHARERS; place++) {
        uint32_t i = heads.divide(place), j = place - i * heads.divisor;
        double a = mtk_load<double>(in.at(i, j, t, 2 * p), in.dtype);
        double b = mtk_load<double>(in.at(i, j, t, 2 * p + 1), in.dtype);
        mtk_store<double>(out.at(i, j, t, 2 * p), out.dtype, a * cosine - b * sine);
        mtk_store<double>(out.at(i, j, t, 2 * p + 1), out.dtype, a * sine + b * cosine);
    }
}

/* Queues one launch with at most MOST_PLACES positions. */
static mt_status launch(double theta, int direction, const struct mtk_view *out, const struct mtk_view *in,
                        struct mtk_queue *queue)
{
    int64_t pairs = in->shape[3] / 2, turns = in->shape[2] * pairs, places = in->shape[0] * in->shape[1];
    int64_t blocks = mtk_ceiling(turns, THREADS), rows = mtk_ceiling(places, SHARERS);
    return mtk_launch("rotate", rotate_kernel, dim3((unsigned)blocks, (unsigned)rows), THREADS, queue, theta, direction,
                      mtk_device_view_of(out), mtk_device_view_of(in), mtk_divisor_of(pairs), (uint32_t)turns,
                      mtk_divisor_of(in->shape[1]), (uint32_t)places, in->shape[3]);
}

/* Returns the part [first, first + count) of the first dimension. */
static struct mtk_view slab_of(const struct mtk_view *view, int64_t first, int64_t count)
{
    struct mtk_view slab = *view;
    slab.address += (mt_addr)(first * view->stride[0] * mtk_size_of(view->dtype));
    slab.shape[0] = count;
    return slab;
}

mt_status mtk_cuda_rotate(double theta, int direction, const struct mtk_view *out, const struct mtk_view *in,
                          struct mtk_queue *queue)
{
    constexpr int64_t MOST_PLACES = (int64_t)UINT16_MAX * SHARERS;
    int64_t turns = in->shape[2] * (in->shape[3] / 2), heads = in->shape[1];
    if (turns == 0 || in->shape[0] * heads == 0)
        return MT_OK;
    if (turns > MTK_MOST_UNITS || heads > MOST_PLACES)
        return mt_fail(MT_FAILED, "rotate: %lld pairs at %lld places are more than a launch numbers", (long long)turns,
                       (long long)heads);
    mt_status status = MT_OK;
    int64_t most = MOST_PLACES / heads;
    for (int64_t first = 0; first < in->shape[0] && status == MT_OK; first += most) {
        int64_t count = in->shape[0] - first < most ? in->shape[0] - first : most;
        struct mtk_view to = slab_of(out, first, count), from = slab_of(in, first, count);
        status = launch(theta, direction, &to, &from, queue);
    }
    return status;
}
