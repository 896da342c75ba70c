/* The counter-based generator of the reference data: element i of stream t, from nothing but the two numbers, so that
 * any implementation, on any device, in any order, makes the same values.
 * splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
#ifndef MT_BASE_RANDOM_H
#define MT_BASE_RANDOM_H

#include <stdint.h>

/* Kernels make the same values. */
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

/* unit(t, i): uniform in [0, 1). */
MT_ON_DEVICE_TOO static inline double mt_random_unit(uint64_t stream, uint64_t index)
{
    return (double)(mt_splitmix64(index + (stream << 40)) >> 11) * 0x1p-53;
}

#endif
