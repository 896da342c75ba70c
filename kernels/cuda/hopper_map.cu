/* Maps of heads and matrices for the copy engine. The driver creates them; its function is looked up by name, since the
 * module is not linked with the driver. */
#include "kernels/cuda/hopper.cuh"

namespace
{

using encode_function = decltype(&cuTensorMapEncodeTiled);

/* Returns the driver's function, or NULL. */
encode_function find_encode()
{
    constexpr unsigned SINCE = 12000; /* the first version with the function */
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    if (cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, SINCE, cudaEnableDefault, &found) !=
            cudaSuccess ||
        found != cudaDriverEntryPointSuccess)
        return nullptr;
    return reinterpret_cast<encode_function>(function);
}

} // namespace

mt_status mtk_hopper_map(mtk_tensor_map *map, const struct mtk_view *heads, int rows)
{
    static const encode_function encode = find_encode();
    const bool is_narrow = heads->dtype == MT_BF16;
    const cuuint64_t size = is_narrow ? sizeof(mtk_bf16) : sizeof(float);
    if (encode == nullptr)
        return mt_fail(MT_FAILED, "the driver has no cuTensorMapEncodeTiled");
    cuuint64_t shape[4], stride[3];
    const cuuint32_t columns = is_narrow ? MTK_CHUNK : (cuuint32_t)heads->shape[3];
    const cuuint32_t box[4] = {columns, (cuuint32_t)rows, 1, 1}, step[4] = {1, 1, 1, 1};
    for (int d = 0; d < 4; d++)
        shape[d] = (cuuint64_t)heads->shape[3 - d];
    for (int d = 0; d < 3; d++) /* the stride of a dimension of 1 is not used, but must be valid */
        stride[d] = (shape[d + 1] == 1 ? shape[0] : (cuuint64_t)heads->stride[2 - d]) * size;
    CUresult result =
        encode(map, is_narrow ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4,
               mtk_device_pointer(heads->address), shape, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
               is_narrow ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result == CUDA_SUCCESS)
        return MT_OK;
    return mt_fail(MT_FAILED, "the driver makes no map of heads (%lld,%lld,%lld,%lld): error %d",
                   (long long)heads->shape[0], (long long)heads->shape[1], (long long)heads->shape[2],
                   (long long)heads->shape[3], (int)result);
}
