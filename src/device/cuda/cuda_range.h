/* Ranges of addresses on a card, and memory under parts of them, by the driver's virtual memory management.
 *
 * Every page is a piece of memory of its own (MT_DEVICE_PAGE), since the driver unmaps only whole pieces and any page may
 * be given back alone. Pieces cost 14 us each to make and map, but what dominates is granting access, 32 us for a page and
 * hardly more for a hundred: so that is done once for all pages of a call. The runtime hands out the driver's functions,
 * and nothing is linked against the driver.
 *
 * Threads: as the functions of struct mt_device_table that these are. */
#ifndef MT_DEVICE_CUDA_RANGE_H
#define MT_DEVICE_CUDA_RANGE_H

#include "base/status.h"
#include "base/types.h"

#include <cuda.h>
#include <stdbool.h>

/* Invariant: is_ready says that the card maps pages of MT_DEVICE_PAGE and that every function was found. */
struct mt_cuda_range {
    CUresult (*address_reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
    CUresult (*address_free)(CUdeviceptr, size_t);
    CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *, unsigned long long);
    CUresult (*release)(CUmemGenericAllocationHandle);
    CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long);
    CUresult (*unmap)(CUdeviceptr, size_t);
    CUresult (*set_access)(CUdeviceptr, size_t, const CUmemAccessDesc *, size_t);
    CUresult (*granularity)(size_t *, const CUmemAllocationProp *, CUmemAllocationGranularity_flags);
    CUresult (*name_of)(CUresult, const char **);
    CUmemAllocationProp memory;
    CUmemAccessDesc access;
    bool is_ready;
};

/* Looks for what ranges take on card `ordinal`, whose context is current. Where something is missing, opening fails. */
void mt_cuda_range_start(struct mt_cuda_range *range, int ordinal);

/* MT_FAILED where the card or its driver has no ranges. */
mt_status mt_cuda_range_open(const struct mt_cuda_range *range, uint64_t bytes, mt_addr *out_address);
void mt_cuda_range_close(const struct mt_cuda_range *range, mt_addr address, uint64_t bytes);

/* MT_OUT_OF_MEMORY if the card has none left; then nothing of it is mapped. */
mt_status mt_cuda_range_map(const struct mt_cuda_range *range, mt_addr address, uint64_t bytes);

/* The caller has waited for the work that may use it. */
void mt_cuda_range_unmap(const struct mt_cuda_range *range, mt_addr address, uint64_t bytes);

#endif
