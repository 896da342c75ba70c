/* The small types that every folder uses. */
#ifndef MT_BASE_TYPES_H
#define MT_BASE_TYPES_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An address in a device's memory. A number, never a pointer, so that dereferencing it by mistake does not compile. */
typedef uint64_t mt_addr;

/* A queue of work of a device. 0 is the default one. */
typedef uint16_t mt_stream;

/* Element types, with their spelling in SQL, JSON and on the page, and the bytes of one element. */
#define MT_DTYPES(X)                                                                                                   \
    X(NONE, "none", 0)                                                                                                 \
    X(F32, "fp32", 4)                                                                                                  \
    X(BF16, "bf16", 2)                                                                                                 \
    X(F64, "fp64", 8)                                                                                                  \
    X(I64, "int64", 8)                                                                                                 \
    X(BOOL, "bool", 1)                                                                                                 \
    X(U8, "uint8", 1)

typedef enum mt_dtype {
#define X(name, text, bytes) MT_##name,
    MT_DTYPES(X)
#undef X
        MT_DTYPE_COUNT
} mt_dtype;

/* Return the name and the bytes of one element; "?" and 0 for a number that is no dtype. */
const char *mt_dtype_name(mt_dtype dtype);
size_t mt_dtype_bytes(mt_dtype dtype);

enum { MT_MAX_DIMS = 4 };

#ifdef __cplusplus
}
#endif

#endif
