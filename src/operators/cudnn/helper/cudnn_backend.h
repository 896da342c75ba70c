/* cuDNN's backend interface, loaded as the program runs: descriptors that are made, described by attributes and
 * finished. The numbers are from NVIDIA's reference of the cuDNN backend, and stable.
 *
 * One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef void *cudnn_descriptor; /* cuDNN's own, which has no other type */

enum cudnn_kind {
    CUDNN_POINTWISE = 0,
    CUDNN_CONVOLUTION = 1,
    CUDNN_ENGINE = 2,
    CUDNN_CONFIGURATION = 3,
    CUDNN_HEURISTICS = 4,
    CUDNN_PLAN = 5,
    CUDNN_KNOB_CHOICE = 7,
    CUDNN_FORWARD = 10,
    CUDNN_WEIGHT_GRADIENT = 11,
    CUDNN_INPUT_GRADIENT = 12,
    CUDNN_POINTWISE_OPERATION = 13,
    CUDNN_GRAPH = 15,
    CUDNN_TENSOR = 17,
    CUDNN_DEVICE = 38
};

enum cudnn_type {
    CUDNN_TYPE_DATA = 1,
    CUDNN_TYPE_BOOLEAN = 2,
    CUDNN_TYPE_INT64 = 3,
    CUDNN_TYPE_FLOAT = 4,
    CUDNN_TYPE_DOUBLE = 5,
    CUDNN_TYPE_CONVOLUTION_MODE = 7,
    CUDNN_TYPE_HEURISTICS_MODE = 8,
    CUDNN_TYPE_KNOB = 9,
    CUDNN_TYPE_NOTE = 11,
    CUDNN_TYPE_POINTWISE_MODE = 14,
    CUDNN_TYPE_DESCRIPTOR = 15,
    CUDNN_TYPE_CHAR = 24
};

/* cuDNN's functions, and the descriptors that were made for one question. Invariant: made[0 .. count) are alive. */
struct cudnn_backend {
    int (*create)(int kind, cudnn_descriptor *out);
    int (*set)(cudnn_descriptor descriptor, int attribute, int type, int64_t count, const void *values);
    int (*get)(cudnn_descriptor descriptor, int attribute, int type, int64_t most, int64_t *count, void *values);
    int (*finalize)(cudnn_descriptor descriptor);
    int (*destroy)(cudnn_descriptor descriptor);
    int (*set_callback)(unsigned mask, void *data, void (*hear)(int, void *, const void *, const char *));
    size_t (*version)(void);
    cudnn_descriptor *made;
    int64_t count;
    bool has_failed; /* a call for this question failed; later ones do nothing */
};

/* Loads the library at a path. Returns why not, or NULL. */
const char *cudnn_backend_load(const char *path, struct cudnn_backend *out);

/* Makes a descriptor, which lives until cudnn_release_to. */
cudnn_descriptor cudnn_make(struct cudnn_backend *backend, enum cudnn_kind kind);

/* Sets an attribute to a list of values. */
void cudnn_set(struct cudnn_backend *backend, cudnn_descriptor descriptor, int attribute, enum cudnn_type type,
               int64_t count, const void *values);
void cudnn_set_descriptor(struct cudnn_backend *backend, cudnn_descriptor descriptor, int attribute,
                          cudnn_descriptor value);

/* Finishes a descriptor, after which it has no further attributes. */
void cudnn_finish(struct cudnn_backend *backend, cudnn_descriptor descriptor);

/* Reads `most` values at most. Returns their count; 0 if it fails. */
int64_t cudnn_get(struct cudnn_backend *backend, cudnn_descriptor descriptor, int attribute, enum cudnn_type type,
                  int64_t most, void *values);
int64_t cudnn_get_number(struct cudnn_backend *backend, cudnn_descriptor descriptor, int attribute);

/* Frees the descriptors that were made after the first `count`, and forgets failures. */
void cudnn_release_to(struct cudnn_backend *backend, int64_t count);
