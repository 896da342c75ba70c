/* The common parts of the attention kernels: the layout of heads, and the launch.
 *
 * A block has some rows of one head, and streams other rows of the head in tiles. Blocks are numbered tile by tile, and
 * within a tile head by head, so that those with the most work come first. */
#pragma once

#include "kernels/cuda/element.cuh"
#include "kernels/cuda/launch.cuh"

#include <type_traits>

typedef __nv_bfloat16 mtk_bf16;

constexpr float MTK_LOG2_E = 1.4426950408889634f, MTK_LN_2 = 0.6931471805599453f;

/* Heads (B,H,T,D) of dense rows. Strides in elements. */
template <class E> struct mtk_heads {
    E *base;
    int64_t batch, head, row;
};

/* One head. */
template <class E> struct mtk_head {
    E *base;
    int64_t row;
};

/* The parameters of a launch. In a forward call, grad and later fields are empty. */
template <class E> struct mtk_flash {
    int total, heads, length, features; /* B*H, H, T, D */
    float scale;
    mtk_heads<E> q, k, v, out;
    mtk_heads<float> lse; /* without a base: not requested */
    mtk_heads<E> grad, dq, dk, dv;
    mtk_heads<float> delta;
};

/* A block's part of the work. */
struct mtk_part {
    int tile, batch, head;
};

template <class E> __device__ __forceinline__ mtk_part mtk_part_of(const mtk_flash<E> &call)
{
    int n = (int)(blockIdx.x % (unsigned)call.total);
    return {(int)(blockIdx.x / (unsigned)call.total), n / call.heads, n % call.heads};
}

template <class E> __device__ __forceinline__ mtk_head<E> mtk_head_of(const mtk_heads<E> &heads, const mtk_part &part)
{
    return {heads.base + part.batch * heads.batch + part.head * heads.head, heads.row};
}

template <class E> static mtk_heads<E> mtk_heads_of(const struct mtk_view *view)
{
    return {reinterpret_cast<E *>(mtk_device_pointer(view->address)), view->stride[0], view->stride[1],
            view->stride[2]};
}

/* Returns the number of blocks of a call with `rows` rows per block. */
template <class E> static int64_t mtk_flash_blocks(const mtk_flash<E> &call, int rows)
{
    return mtk_ceiling(call.length, rows) * call.total;
}

/* Fails with MT_FAILED unless there is a kernel for the dtype and the size of the heads, rows can be read in units of
 * 16 bytes, and a launch can number them. */
static inline mt_status mtk_flash_check(const char *op, const struct mtk_view *const *views, int count)
{
    enum { LEAST = 8, BYTES = 16 };
    const struct mtk_view *q = views[0];
    if (q->dtype != MT_F32 && q->dtype != MT_BF16)
        return mt_fail(MT_FAILED, "%s: there are kernels for fp32 and bf16, none for %s", op, mt_dtype_name(q->dtype));
    if (q->shape[3] % LEAST != 0 || q->shape[3] > MTK_MOST_HEAD_FEATURES)
        return mt_fail(MT_FAILED, "%s: heads of %lld features; kernels take up to %d, in eights", op,
                       (long long)q->shape[3], MTK_MOST_HEAD_FEATURES);
    if (q->shape[0] * q->shape[1] * q->shape[2] > MTK_MOST_UNITS)
        return mt_fail(MT_FAILED, "%s: %lld x %lld x %lld rows are more than a launch numbers", op,
                       (long long)q->shape[0], (long long)q->shape[1], (long long)q->shape[2]);
    for (int i = 0; i < count; i++) {
        bool aligned = views[i]->address % BYTES == 0;
        for (int d = 0; d < 3; d++)
            aligned &= views[i]->stride[d] * mtk_size_of(views[i]->dtype) % BYTES == 0;
        if (!aligned)
            return mt_fail(MT_FAILED, "%s: rows of operand %d do not begin at multiples of %d bytes", op, i, BYTES);
    }
    return MT_OK;
}

template <class E> static mtk_flash<E> mtk_flash_of(double scale, const struct mtk_view *q)
{
    mtk_flash<E> call = {};
    call.total = (int)(q->shape[0] * q->shape[1]);
    call.heads = (int)q->shape[1];
    call.length = (int)q->shape[2];
    call.features = (int)q->shape[3];
    call.scale = (float)scale;
    return call;
}

/* Queues delta, dk and dv, and dq of an fp32 call whose operands may not be rounded, with kernels that do not use
 * matrix units. */
mt_status mtk_flash_backward_fp32(const mtk_flash<float> &call, struct mtk_queue *queue);

/* Queue attention and its gradients in bf16 with the kernels for Hopper, if mtk_attention_on_hopper is true. q, k and v
 * are the call's. Fail with MT_FAILED if the workspace is too small, or the driver can't create the tensor maps. */
mt_status mtk_hopper_attention(const mtk_flash<mtk_bf16> &call, const struct mtk_view *q, const struct mtk_view *k,
                               const struct mtk_view *v, struct mtk_queue *queue);
mt_status mtk_hopper_attention_grad(const mtk_flash<mtk_bf16> &call, const struct mtk_attention_grad *grad,
                                    struct mtk_queue *queue);

/* Calls `run` with the smallest compiled width that is sufficient for the features, as a compile-time number. */
template <class RUN> static mt_status mtk_with_width(int features, RUN run)
{
    if (features <= 16)
        return run(std::integral_constant<int, 16>());
    if (features <= 32)
        return run(std::integral_constant<int, 32>());
    if (features <= 64)
        return run(std::integral_constant<int, 64>());
    if (features <= 80)
        return run(std::integral_constant<int, 80>());
    return run(std::integral_constant<int, 128>());
}
