/* Elements in memory and their values, on the card. VEC neighbours of any dtype are read as raw words, decoded to type
 * T of the computation (float or double), and encoded again, rounding once.
 *
 *   memory ──read (one access of up to 16 bytes, two for fp64)──▶ words ──decode──▶ T[VEC] ──encode, write──▶ memory
 *
 * Kernels check the dtype at run time. It is the same for all threads, and the check costs little, since these kernels
 * are limited by memory bandwidth. Reading is separate from decoding, so that a thread issues all its reads before it
 * uses the first. */
#pragma once

#include "base/types.h"

#include <cuda_bf16.h>

/* The raw bits of VEC elements of at most sizeof(T) bytes each. */
template <typename T, int VEC> struct mtk_words {
    uint32_t word[VEC * sizeof(T) / sizeof(uint32_t)];
};

__host__ __device__ constexpr int mtk_size_of(int dtype)
{
    return dtype == MT_F64 || dtype == MT_I64 ? 8 : dtype == MT_F32 ? 4 : dtype == MT_BF16 ? 2 : 1;
}

/* Read and write BYTES of memory that is aligned to them, up to 16 at once. */
template <int BYTES> __device__ __forceinline__ void mtk_read_bytes(const char *from, uint32_t *word)
{
    if constexpr (BYTES == 1)
        *word = *reinterpret_cast<const uint8_t *>(from);
    else if constexpr (BYTES == 2)
        *word = *reinterpret_cast<const uint16_t *>(from);
    else if constexpr (BYTES == 4)
        *word = *reinterpret_cast<const uint32_t *>(from);
    else if constexpr (BYTES == 8) {
        uint2 two = *reinterpret_cast<const uint2 *>(from);
        word[0] = two.x, word[1] = two.y;
    } else {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++) {
            uint4 four = reinterpret_cast<const uint4 *>(from)[i];
            word[4 * i] = four.x, word[4 * i + 1] = four.y, word[4 * i + 2] = four.z, word[4 * i + 3] = four.w;
        }
    }
}

template <int BYTES> __device__ __forceinline__ void mtk_write_bytes(char *to, const uint32_t *word)
{
    if constexpr (BYTES == 1)
        *reinterpret_cast<uint8_t *>(to) = (uint8_t)*word;
    else if constexpr (BYTES == 2)
        *reinterpret_cast<uint16_t *>(to) = (uint16_t)*word;
    else if constexpr (BYTES == 4)
        *reinterpret_cast<uint32_t *>(to) = *word;
    else if constexpr (BYTES == 8)
        *reinterpret_cast<uint2 *>(to) = make_uint2(word[0], word[1]);
    else {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++)
            reinterpret_cast<uint4 *>(to)[i] =
                make_uint4(word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]);
    }
}

/* Read and write VEC neighbours in memory that is aligned to all of them. */
template <typename T, int VEC> __device__ __forceinline__ mtk_words<T, VEC> mtk_read(const char *from, int dtype)
{
    mtk_words<T, VEC> w;
    switch (mtk_size_of(dtype)) {
    case 1:
        mtk_read_bytes<VEC>(from, w.word);
        break;
    case 2:
        mtk_read_bytes<2 * VEC>(from, w.word);
        break;
    case 4:
        mtk_read_bytes<4 * VEC>(from, w.word);
        break;
    default:
        if constexpr (sizeof(T) == 8)
            mtk_read_bytes<8 * VEC>(from, w.word);
    }
    return w;
}

template <typename T, int VEC>
__device__ __forceinline__ void mtk_write(char *to, int dtype, const mtk_words<T, VEC> &w)
{
    switch (mtk_size_of(dtype)) {
    case 1:
        mtk_write_bytes<VEC>(to, w.word);
        break;
    case 2:
        mtk_write_bytes<2 * VEC>(to, w.word);
        break;
    case 4:
        mtk_write_bytes<4 * VEC>(to, w.word);
        break;
    default:
        if constexpr (sizeof(T) == 8)
            mtk_write_bytes<8 * VEC>(to, w.word);
    }
}

__device__ __forceinline__ uint64_t mtk_joined(uint32_t low, uint32_t high)
{
    return (uint64_t)high << 32 | low;
}

/* Decodes VEC elements to their values. */
template <typename T, int VEC>
__device__ __forceinline__ void mtk_decode(const mtk_words<T, VEC> &w, int dtype, T *value)
{
#pragma unroll
    for (int e = 0; e < VEC; e++) {
        uint32_t byte = w.word[0] >> 8 * e & 0xFF;
        switch (dtype) {
        case MT_F32:
            value[e] = __uint_as_float(w.word[e]);
            break;
        case MT_BF16:
            value[e] = __uint_as_float(e % 2 == 0 ? w.word[e / 2] << 16 : w.word[e / 2] & 0xFFFF0000u);
            break;
        case MT_BOOL:
            value[e] = byte != 0 ? 1 : 0;
            break;
        case MT_U8:
            value[e] = (T)byte;
            break;
        case MT_F64:
            if constexpr (sizeof(T) == 8)
                value[e] = __longlong_as_double((int64_t)mtk_joined(w.word[2 * e], w.word[2 * e + 1]));
            break;
        case MT_I64:
            if constexpr (sizeof(T) == 8)
                value[e] = (T)(int64_t)mtk_joined(w.word[2 * e], w.word[2 * e + 1]);
            break;
        }
    }
}

/* Returns the nearest bf16, ties to even. */
__device__ __forceinline__ uint32_t mtk_bf16_bits(float value)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(value));
}

/* Rounding to float first rounds twice, which is wrong only if the float is exactly between two bf16 and the double is
 * not. Then the float is moved by one unit in the last place towards the double. */
__device__ __forceinline__ uint32_t mtk_bf16_bits(double value)
{
    float near = (float)value;
    uint32_t bits = __float_as_uint(near);
    if ((bits & 0xFFFF) == 0x8000 && (double)near != value && value == value)
        near = __uint_as_float((value > (double)near) == (value > 0) ? bits + 1 : bits - 1);
    return mtk_bf16_bits(near);
}

/* Returns the value without its fraction, or the nearest one in range. nan becomes 0. */
template <typename T> __device__ __forceinline__ uint32_t mtk_u8_bits(T value)
{
    return !(value > 0) ? 0 : value >= 255 ? 255 : (uint32_t)value;
}

__device__ __forceinline__ uint64_t mtk_i64_bits(double value)
{
    return value != value ? 0 : (uint64_t)__double2ll_rz(value);
}

/* Encodes VEC values, each rounded once to dtype. */
template <typename T, int VEC> __device__ __forceinline__ mtk_words<T, VEC> mtk_encode(const T *value, int dtype)
{
    mtk_words<T, VEC> w = {};
#pragma unroll
    for (int e = 0; e < VEC; e++) {
        uint64_t wide = 0;
        switch (dtype) {
        case MT_F32:
            w.word[e] = __float_as_uint((float)value[e]);
            break;
        case MT_BF16:
            w.word[e / 2] |= mtk_bf16_bits(value[e]) << 16 * (e % 2);
            break;
        case MT_BOOL:
            w.word[0] |= (value[e] != 0 ? 1u : 0u) << 8 * e;
            break;
        case MT_U8:
            w.word[0] |= mtk_u8_bits(value[e]) << 8 * e;
            break;
        default:
            if constexpr (sizeof(T) == 8) {
                wide = dtype == MT_F64 ? (uint64_t)__double_as_longlong(value[e]) : mtk_i64_bits(value[e]);
                w.word[2 * e] = (uint32_t)wide;
                w.word[2 * e + 1] = (uint32_t)(wide >> 32);
            }
        }
    }
    return w;
}

/* Load and store one element. */
template <typename T> __device__ __forceinline__ T mtk_load(const char *from, int dtype)
{
    T value = 0;
    mtk_decode<T, 1>(mtk_read<T, 1>(from, dtype), dtype, &value);
    return value;
}

template <typename T> __device__ __forceinline__ void mtk_store(char *to, int dtype, T value)
{
    mtk_write<T, 1>(to, dtype, mtk_encode<T, 1>(&value, dtype));
}

/* True if ops on views of this dtype compute in double. */
static inline bool mtk_is_wide(mt_dtype dtype)
{
    return dtype == MT_F64 || dtype == MT_I64;
}
