/* The small types that every folder uses. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An address in a device's memory. A number, never a pointer, so that dereferencing it by mistake does not compile. */
typedef uint64_t mt_addr;

/* A queue of work of a device. 0 is the default one. */
typedef uint16_t mt_stream;

/* Element types, with their spelling in SQL, JSON and on the page, and the bytes of one element: first those that
 * kernels compute with, then the others of PyTorch, which labels name. fp4_e2m1x2 packs two numbers in an element. */
#define MT_COMPUTED_DTYPES(X)                                                                                          \
    X(NONE, "none", 0)                                                                                                 \
    X(F32, "fp32", 4)                                                                                                  \
    X(BF16, "bf16", 2)                                                                                                 \
    X(F64, "fp64", 8)                                                                                                  \
    X(I64, "int64", 8)                                                                                                 \
    X(BOOL, "bool", 1)                                                                                                 \
    X(U8, "uint8", 1)
#define MT_NAMED_DTYPES(X)                                                                                             \
    X(F16, "fp16", 2)                                                                                                  \
    X(F8_E4M3FN, "fp8_e4m3fn", 1)                                                                                      \
    X(F8_E4M3FNUZ, "fp8_e4m3fnuz", 1)                                                                                  \
    X(F8_E5M2, "fp8_e5m2", 1)                                                                                          \
    X(F8_E5M2FNUZ, "fp8_e5m2fnuz", 1)                                                                                  \
    X(F8_E8M0FNU, "fp8_e8m0fnu", 1)                                                                                    \
    X(F4_E2M1X2, "fp4_e2m1x2", 1)                                                                                      \
    X(I8, "int8", 1)                                                                                                   \
    X(I16, "int16", 2)                                                                                                 \
    X(I32, "int32", 4)                                                                                                 \
    X(U16, "uint16", 2)                                                                                                \
    X(U32, "uint32", 4)                                                                                                \
    X(U64, "uint64", 8)                                                                                                \
    X(C32, "complex32", 4)                                                                                             \
    X(C64, "complex64", 8)                                                                                             \
    X(C128, "complex128", 16)
#define MT_DTYPES(X) MT_COMPUTED_DTYPES(X) MT_NAMED_DTYPES(X)

#define X(name, text, bytes) MT_##name,
typedef enum mt_dtype { MT_DTYPES(X) MT_DTYPE_COUNT, MT_COMPUTED_DTYPE_COUNT = MT_U8 + 1 } mt_dtype;
#undef X

/* Return the name and the bytes of one element; "?" and 0 for a number that is no dtype. */
const char *mt_dtype_name(mt_dtype dtype);
size_t mt_dtype_bytes(mt_dtype dtype);

/* True if the matrix units of a card multiply numbers of this dtype as fp8. */
static inline bool mt_is_fp8(mt_dtype dtype)
{
    return dtype == MT_F8_E4M3FN || dtype == MT_F8_E5M2;
}

/* The most dimensions of a tensor that kernels compute with. */
enum { MT_MAX_DIMS = 4 };

#ifdef __cplusplus
}
#endif
