/* The kernel of every elementwise op, out = f(operands), and its launcher.
 *
 * The dimensions of the views are merged (layout.h). The elements are divided into units: of 4 neighbours, accessed
 * together, if the fastest dimension is a multiple of four and is dense (stride 1) or repeated (stride 0) in every
 * view; otherwise of one element.
 *
 * A thread processes one unit, number block * THREADS + thread. With more units per thread, a small tensor would leave
 * multiprocessors idle, and a large one has enough reads in flight anyway. A thread issues all its reads before it uses
 * the first value. `out` may be the same view as an operand, since a thread reads its elements before it writes
 * them. */
#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/layout.h"

constexpr int MTK_ELEMENTWISE_THREADS = 256, MTK_ELEMENTWISE_VEC = 4;

/* The position of a view in memory. */
struct mtk_operand {
    char *base;
    int dtype;
    bool repeats;                /* the fastest dimension has stride 0 */
    int64_t stride[MT_MAX_DIMS]; /* in bytes; for the fastest dimension: between units */
};

template <int VIEWS> struct mtk_elementwise {
    uint32_t units;
    int rank;
    struct mtk_divisor size[MT_MAX_DIMS]; /* for the fastest dimension: in units */
    struct mtk_operand view[VIEWS];       /* out, then the operands */
};

/* Sets the position of unit number n in each view, in bytes from its base. */
template <int VIEWS>
__device__ __forceinline__ void mtk_locate(const mtk_elementwise<VIEWS> &call, uint32_t n, int64_t *place)
{
#pragma unroll
    for (int v = 0; v < VIEWS; v++)
        place[v] = 0;
#pragma unroll
    for (int d = 0; d < MT_MAX_DIMS; d++) {
        if (d >= call.rank)
            break;
        uint32_t above = d + 1 < call.rank ? call.size[d].divide(n) : 0;
        uint32_t here = n - above * call.size[d].divisor;
#pragma unroll
        for (int v = 0; v < VIEWS; v++)
            place[v] += (int64_t)here * call.view[v].stride[d];
        n = above;
    }
}

template <typename T, int VEC>
__device__ __forceinline__ mtk_words<T, VEC> mtk_read_operand(const mtk_operand &view, int64_t place)
{
    if (VEC == 1 || !view.repeats)
        return mtk_read<T, VEC>(view.base + place, view.dtype);
    mtk_words<T, VEC> w;
    mtk_words<T, 1> one = mtk_read<T, 1>(view.base + place, view.dtype);
    w.word[0] = one.word[0];
    if constexpr (sizeof(T) == 8)
        w.word[1] = one.word[1];
    return w;
}

template <typename T, int VEC>
__device__ __forceinline__ void mtk_decode_operand(const mtk_operand &view, const mtk_words<T, VEC> &w, T *value)
{
    if (VEC == 1 || !view.repeats) {
        mtk_decode<T, VEC>(w, view.dtype, value);
        return;
    }
    mtk_words<T, 1> one;
    one.word[0] = w.word[0];
    if constexpr (sizeof(T) == 8)
        one.word[1] = w.word[1];
    mtk_decode<T, 1>(one, view.dtype, value);
#pragma unroll
    for (int e = 1; e < VEC; e++)
        value[e] = value[0];
}

/* out = function(operands). A thread processes one unit, a block THREADS units. Every element of out is written. */
template <typename T, int VEC, int VIEWS, class F>
__global__ void __launch_bounds__(MTK_ELEMENTWISE_THREADS)
    mtk_elementwise_kernel(const __grid_constant__ mtk_elementwise<VIEWS> call, F function)
{
    constexpr int OPERANDS = VIEWS - 1;
    mtk_await_turn();
    uint32_t n = blockIdx.x * (uint32_t)MTK_ELEMENTWISE_THREADS + threadIdx.x;
    if (n >= call.units)
        return;
    int64_t place[VIEWS];
    mtk_words<T, VEC> raw[OPERANDS > 0 ? OPERANDS : 1];
    T x[OPERANDS > 0 ? OPERANDS : 1][VEC], y[VEC];
    mtk_locate(call, n, place);
#pragma unroll
    for (int i = 0; i < OPERANDS; i++)
        raw[i] = mtk_read_operand<T, VEC>(call.view[1 + i], place[1 + i]);
#pragma unroll
    for (int i = 0; i < OPERANDS; i++)
        mtk_decode_operand<T, VEC>(call.view[1 + i], raw[i], x[i]);
#pragma unroll
    for (int e = 0; e < VEC; e++) {
        T argument[OPERANDS > 0 ? OPERANDS : 1];
#pragma unroll
        for (int i = 0; i < OPERANDS; i++)
            argument[i] = x[i][e];
        y[e] = function(argument);
    }
    mtk_write<T, VEC>(call.view[0].base + place[0], call.view[0].dtype, mtk_encode<T, VEC>(y, call.view[0].dtype));
}

/* True if four neighbours of every view can be accessed together: dense in `out`, dense or repeated in an operand, and
 * aligned for all indices of the other dimensions. */
static inline bool mtk_in_fours(const struct mtk_layout *layout, int views, const struct mtk_view *const *view)
{
    if (layout->shape[0] % MTK_ELEMENTWISE_VEC != 0 || layout->stride[0][0] != 1)
        return false;
    for (int v = 0; v < views; v++) {
        const int64_t *stride = layout->stride[v];
        if (stride[0] == 0)
            continue;
        if (stride[0] != 1 || view[v]->address % (MTK_ELEMENTWISE_VEC * mtk_size_of(view[v]->dtype)) != 0)
            return false;
        for (int d = 1; d < layout->rank; d++)
            if (stride[d] % MTK_ELEMENTWISE_VEC != 0)
                return false;
    }
    return true;
}

template <int VIEWS>
static mtk_elementwise<VIEWS> mtk_elementwise_of(const struct mtk_layout *layout, const struct mtk_view *const *view,
                                                 int vec)
{
    mtk_elementwise<VIEWS> call = {};
    call.units = (uint32_t)(layout->count / vec);
    call.rank = layout->rank;
    for (int d = 0; d < layout->rank; d++)
        call.size[d] = mtk_divisor_of(d == 0 ? layout->shape[0] / vec : layout->shape[d]);
    for (int v = 0; v < VIEWS; v++) {
        call.view[v].base = mtk_device_pointer(view[v]->address);
        call.view[v].dtype = view[v]->dtype;
        call.view[v].repeats = layout->stride[v][0] == 0;
        for (int d = 0; d < layout->rank; d++)
            call.view[v].stride[d] = layout->stride[v][d] * mtk_size_of(view[v]->dtype) * (d == 0 ? vec : 1);
    }
    return call;
}

template <typename T, int VEC, int VIEWS, class F>
static mt_status mtk_elementwise_queue(const char *name, const mtk_elementwise<VIEWS> &call, F function,
                                       struct mtk_queue *queue)
{
    int64_t blocks = mtk_ceiling(call.units, MTK_ELEMENTWISE_THREADS);
    return mtk_launch(name, mtk_elementwise_kernel<T, VEC, VIEWS, F>, (unsigned)blocks, MTK_ELEMENTWISE_THREADS, queue,
                      call, function);
}

/* Halves the views along the longest dimension of out, and launches both parts, if there are more elements than one
 * launch can number. `launch` is called with views. */
template <int VIEWS, class LAUNCH> static mt_status mtk_in_halves(const struct mtk_view *const *view, LAUNCH launch)
{
    struct mtk_view low[VIEWS], high[VIEWS];
    const struct mtk_view *low_part[VIEWS], *high_part[VIEWS];
    int longest = 0;
    for (int d = 1; d < MT_MAX_DIMS; d++)
        if (view[0]->shape[d] > view[0]->shape[longest])
            longest = d;
    /* A multiple of four, so that both halves can be accessed in fours if the whole can. */
    int64_t half = mtk_ceiling(view[0]->shape[longest] / 2, MTK_ELEMENTWISE_VEC) * MTK_ELEMENTWISE_VEC;
    for (int v = 0; v < VIEWS; v++) {
        low[v] = high[v] = *view[v];
        low[v].shape[longest] = half;
        high[v].shape[longest] -= half;
        high[v].address += (mt_addr)(half * view[v]->stride[longest] * mtk_size_of(view[v]->dtype));
        low_part[v] = &low[v];
        high_part[v] = &high[v];
    }
    mt_status status = launch(low_part);
    return status == MT_OK ? launch(high_part) : status;
}

/* Queues out = function(operands). view[0] is out, and all views have its shape. */
template <typename T, int VIEWS, class F>
static mt_status mtk_elementwise_launch(const char *name, F function, const struct mtk_view *const *view,
                                        struct mtk_queue *queue)
{
    struct mtk_layout layout;
    mtk_layout_plan(VIEWS, view, &layout);
    if (layout.count == 0)
        return MT_OK;
    bool in_fours = mtk_in_fours(&layout, VIEWS, view);
    int vec = in_fours ? MTK_ELEMENTWISE_VEC : 1;
    if (layout.count / vec > MTK_MOST_UNITS)
        return mtk_in_halves<VIEWS>(view, [&](const struct mtk_view *const *part) {
            return mtk_elementwise_launch<T, VIEWS>(name, function, part, queue);
        });
    mtk_elementwise<VIEWS> call = mtk_elementwise_of<VIEWS>(&layout, view, vec);
    return in_fours ? mtk_elementwise_queue<T, MTK_ELEMENTWISE_VEC, VIEWS>(name, call, function, queue)
                    : mtk_elementwise_queue<T, 1, VIEWS>(name, call, function, queue);
}
