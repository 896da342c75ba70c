/* Casts to fp8, and their requirements on a device. */
#include "producers/model/op_rules.h"
#include "producers/model/ops.h"

#include "kernels/fp8.h"

mt_status mt_op_fp8_check(const struct mt_device *device)
{
    const int capability = device->card.capability, least = MT_LEAST_FP8_CAPABILITY;
    if (!mt_card_takes_fp8(&device->card))
        return mt_fail(MT_USAGE,
                       "%s is of compute capability %d.%d, and matrix units take fp8 from %d.%d on: use matmul fp32, "
                       "or a card such as sim:h100",
                       device->name, capability / 10, capability % 10, least / 10, least % 10);
    if (device->kernels == NULL || device->kernels->cast_fp8 != NULL)
        return MT_OK;
    return mt_fail(MT_USAGE, "the kernels of %s have no casts to fp8: use matmul fp32", device->name);
}

/* True if a copy of `in` in fp8 can be written to `copy`. */
static bool copy_fits(const struct mt_tensor *copy, const struct mt_tensor *in)
{
    return mt_is_fp8(copy->dtype) && mt_tensor_is_contiguous(copy) && copy->storage != in->storage &&
           copy->address % MTK_FP8_UNIT == 0;
}

/* True if `turned` is (C, n rounded up to a multiple of 16). */
static bool is_turned(const struct mt_tensor *turned, const struct mt_tensor *in)
{
    int64_t columns = in->shape[in->dims - 1];
    return turned->dims == 2 && turned->shape[0] == columns &&
           turned->shape[1] == mtk_fp8_padded(mt_tensor_count(in) / columns);
}

static bool cast_fits(struct mt_runtime *rt, const char *op, const struct mt_tensor *scale,
                      const struct mt_tensor *codes, const struct mt_tensor *turned, const struct mt_tensor *in)
{
    const struct mt_tensor *const tensors[] = {scale, in, codes != NULL ? codes : turned, turned};
    if (!mt_op_ready(rt, op, tensors, turned != NULL ? 4 : 3))
        return false;
    bool fits = (in->dtype == MT_F32 || in->dtype == MT_BF16) && in->dims >= 1 && mt_tensor_is_contiguous(in) &&
                in->shape[in->dims - 1] % MTK_FP8_UNIT == 0 && in->address % MTK_FP8_UNIT == 0 &&
                mt_op_fp8_scale_fits(scale);
    if (!mt_op_expect(rt, fits, op, scale, in))
        return false;
    if (codes != NULL && !mt_op_expect(rt, copy_fits(codes, in) && mt_tensor_same_shape(codes, in), op, codes, in))
        return false;
    bool is_one = codes == NULL || turned == NULL || codes->dtype == turned->dtype;
    return turned == NULL || mt_op_expect(rt, copy_fits(turned, in) && is_turned(turned, in) && is_one, op, turned, in);
}

/* Records a copy of `in` that the op writes. NULL is allowed. */
static void note_copy(struct mt_runtime *rt, const struct mt_tensor *copy, const struct mt_tensor *in)
{
    mt_use_write(rt, copy);
    if (copy != NULL)
        mt_use_copy(copy, in);
}

void mt_op_cast_fp8(struct mt_runtime *rt, mtk_scale_origin origin, struct mt_tensor *scale, struct mt_tensor *codes,
                    struct mt_tensor *turned, const struct mt_tensor *in)
{
    const int passes = origin == MTK_SCALE_IS_FOUND ? 2 : 1; /* one finds the largest magnitude, the other casts */
    if (!cast_fits(rt, "cast_fp8", scale, codes, turned, in))
        return;
    mt_use_read(rt, in);
    if (origin == MTK_SCALE_IS_FOUND)
        mt_use_write(rt, scale);
    else
        mt_use_read(rt, scale);
    note_copy(rt, codes, in);
    note_copy(rt, turned, in);
    mt_op_spend_work(rt, &(struct mt_work){.op = "cast_fp8",
                                           .operations = passes * (double)mt_tensor_count(in),
                                           .bytes = (uint64_t)passes * mt_tensor_bytes(in) +
                                                    (codes != NULL ? mt_tensor_bytes(codes) : 0) +
                                                    (turned != NULL ? mt_tensor_bytes(turned) : 0),
                                           .dtype = in->dtype,
                                           .launches = passes,
                                           .host_ns = (uint64_t)passes * rt->launch_ns});
    MT_OP_LAUNCH(rt, "cast_fp8", cast_fp8, origin, MT_OP_VIEW(scale), MT_OP_OPTIONAL_VIEW(codes),
                 MT_OP_OPTIONAL_VIEW(turned), MT_OP_VIEW(in));
}
