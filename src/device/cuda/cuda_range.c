#include "device/cuda/cuda_range.h"

#include "device/device.h"

#include <assert.h>
#include <cuda_runtime_api.h>
#include <inttypes.h>

enum { DRIVER_VERSION = 12000 }; /* 12.0, the first version with these functions */

static bool find(const char *name, void *out_function)
{
    enum cudaDriverEntryPointQueryResult found;
    void **place = out_function;
    cudaError_t error = cudaGetDriverEntryPointByVersion(name, place, DRIVER_VERSION, cudaEnableDefault, &found);
    if (error == cudaSuccess && found == cudaDriverEntryPointSuccess && *place != NULL)
        return true;
    (void)cudaGetLastError(); /* otherwise it would be the next launch's error */
    return false;
}

static bool find_all(struct mt_cuda_range *range)
{
    return find("cuMemAddressReserve", &range->address_reserve) && find("cuMemAddressFree", &range->address_free) &&
           find("cuMemCreate", &range->create) && find("cuMemRelease", &range->release) &&
           find("cuMemMap", &range->map) && find("cuMemUnmap", &range->unmap) &&
           find("cuMemSetAccess", &range->set_access) && find("cuMemGetAllocationGranularity", &range->granularity) &&
           find("cuGetErrorName", &range->name_of);
}

static bool maps_pages(const struct mt_cuda_range *range)
{
    size_t unit = 0;
    return range->granularity(&unit, &range->memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM) == CUDA_SUCCESS && unit > 0 &&
           MT_DEVICE_PAGE % unit == 0;
}

void mt_cuda_range_start(struct mt_cuda_range *range, int ordinal)
{
    const CUmemLocation card = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = ordinal};
    *range = (struct mt_cuda_range){.memory = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = card},
                                    .access = {.location = card, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
    range->is_ready = find_all(range) && maps_pages(range);
}

static mt_status fail_call(const struct mt_cuda_range *range, CUresult result, const char *call, uint64_t bytes)
{
    const char *name = NULL;
    if (range->name_of(result, &name) != CUDA_SUCCESS)
        name = "an unknown error";
    return mt_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? MT_OUT_OF_MEMORY : MT_FAILED,
                   "%s of %" PRIu64 " bytes: %s (%d)", call, bytes, name, (int)result);
}

mt_status mt_cuda_range_open(const struct mt_cuda_range *range, uint64_t bytes, mt_addr *out_address)
{
    CUdeviceptr address = 0;
    if (!range->is_ready)
        return mt_fail(MT_FAILED, "the card or its driver can't map memory page by page");
    CUresult result = range->address_reserve(&address, bytes, MT_DEVICE_PAGE, 0, 0);
    if (result != CUDA_SUCCESS)
        return fail_call(range, result, "cuMemAddressReserve", bytes);
    *out_address = address;
    return MT_OK;
}

void mt_cuda_range_close(const struct mt_cuda_range *range, mt_addr address, uint64_t bytes)
{
    (void)range->address_free(address, bytes);
}

/* Maps a page. Only the mapping holds it, so unmapping returns it to the card. */
static CUresult map_page(const struct mt_cuda_range *range, mt_addr address)
{
    CUmemGenericAllocationHandle page;
    CUresult result = range->create(&page, MT_DEVICE_PAGE, &range->memory, 0);
    if (result != CUDA_SUCCESS)
        return result;
    result = range->map(address, MT_DEVICE_PAGE, 0, page, 0);
    (void)range->release(page);
    return result;
}

mt_status mt_cuda_range_map(const struct mt_cuda_range *range, mt_addr address, uint64_t bytes)
{
    assert(range->is_ready && bytes % MT_DEVICE_PAGE == 0);
    uint64_t mapped = 0;
    CUresult result = CUDA_SUCCESS;
    while (mapped < bytes && result == CUDA_SUCCESS) {
        result = map_page(range, address + mapped);
        mapped += result == CUDA_SUCCESS ? MT_DEVICE_PAGE : 0;
    }
    if (result == CUDA_SUCCESS)
        result = range->set_access(address, bytes, &range->access, 1);
    if (result == CUDA_SUCCESS)
        return MT_OK;
    mt_cuda_range_unmap(range, address, mapped);
    return fail_call(range, result, "mapping", bytes);
}

/* The driver unmaps several whole pieces in one call. */
void mt_cuda_range_unmap(const struct mt_cuda_range *range, mt_addr address, uint64_t bytes)
{
    if (bytes > 0)
        (void)range->unmap(address, bytes);
}
