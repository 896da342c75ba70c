/* What the driver that has loaded us is asked, by the functions that it exports: we are not linked against it.
 *
 * None of these may be called with a lock that a callback waits for: the driver may be waiting for that callback, in another
 * thread, with locks of its own. Finding the functions asks the driver nothing. */
#ifndef MT_RECORD_CUPTI_DRIVER_QUESTIONS_H
#define MT_RECORD_CUPTI_DRIVER_QUESTIONS_H

#include <cuda.h>
#include <stdint.h>

enum { MT_DRIVER_NAME_BYTES = 256 };

/* The name of a device, or one by its number, and its bytes, or 0. */
void mt_driver_describe(int device, char name[MT_DRIVER_NAME_BYTES], uint64_t *out_bytes);

/* The functions about pools; NULL where they can't be had: then nothing is said of pools. */
struct mt_pool_functions {
    CUresult (*of_device)(CUmemoryPool *out, CUdevice device); /* the one that it uses now */
    CUresult (*attribute)(CUmemoryPool pool, CUmemPool_attribute attribute, void *out);
};
void mt_driver_find_pools(struct mt_pool_functions *out);

#endif
