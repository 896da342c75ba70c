/* The random numbers of the reference data. Element i of stream t depends on these two numbers alone, so any
 * implementation, on any device and in any order, makes the same values.
 * splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
#pragma once

#include <stdint.h>

/* Kernels call these functions, too. */
#ifdef __CUDACC__
#define MT_ON_DEVICE_TOO __host__ __device__
#else
#define MT_ON_DEVICE_TOO
#endif

MT_ON_DEVICE_TOO static inline uint64_t mt_splitmix64(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Returns element `index` of `stream`, uniform in [0, 1). */
MT_ON_DEVICE_TOO static inline double mt_random_unit(uint64_t stream, uint64_t index)
{
    return (double)(mt_splitmix64(index + (stream << 40)) >> 11) * 0x1p-53;
}
