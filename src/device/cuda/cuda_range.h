/* Ranges of addresses on a card, and memory for parts of them, with the driver's virtual memory management.
 *
 * The driver unmaps only whole allocations, but any page may be released separately: so every page (MT_DEVICE_PAGE) is
 * an allocation. It takes 14 us to create and map one. Granting access takes 32 us for one page and hardly more for a
 * hundred, so it is done once for all pages of a call. The runtime provides the driver's functions; nothing is linked
 * with the driver.
 *
 * Threads: any, as for ranges in device/device.h. */
#pragma once

#include "base/status.h"
#include "base/types.h"

#include <cuda.h>
#include <stdbool.h>

/* The driver's functions. Invariant: if is_ready, the card supports pages of MT_DEVICE_PAGE and every function was
 * found. */
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

/* Finds the functions for card `ordinal`, whose context is current. If one is missing, is_ready remains false. */
void mt_cuda_range_start(struct mt_cuda_range *range, int ordinal);

/* Fails with MT_FAILED if the card or its driver does not support ranges. */
mt_status mt_cuda_range_open(const struct mt_cuda_range *range, uint64_t bytes, mt_addr *out_address);
void mt_cuda_range_close(const struct mt_cuda_range *range, mt_addr address, uint64_t bytes);

/* Fails with MT_OUT_OF_MEMORY if the card has no memory left; then nothing is mapped. */
mt_status mt_cuda_range_map(const struct mt_cuda_range *range, mt_addr address, uint64_t bytes);

/* Unmaps pages. The caller has waited for work that may use them. */
void mt_cuda_range_unmap(const struct mt_cuda_range *range, mt_addr address, uint64_t bytes);
