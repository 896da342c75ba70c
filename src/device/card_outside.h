/* A process's memory on a card outside its allocator, as far as known: CUDA's context, code and handles of libraries,
 * buffers of NCCL. Each figure has a range. NCCL's also depend on the topology and the version, so a range covers known
 * values and is not a bound.
 *
 * A figure is from one program: others load other kernels.
 *
 * Sources. H200: drivers' counts of jobs of 2 and 4 cards over NVLink, PyTorch 2.11, CUDA 13.0, NCCL 2.28.9 without
 * NVLS, minus the memory that PyTorch's allocator reserved in the meantime. The H200's values are also used for the
 * H100, which has as many multiprocessors. A100: github.com/NVIDIA/nccl/issues/964. For a range: an H100's buffers for
 * each of 7 peers, /issues/1685. */
#pragma once

#include "base/event.h"
#include "device/card.h"

/* The parts, with the holder's name within its kind. */
#define MT_OUTSIDE_PARTS(X)                                                                                            \
    X(PROCESS, CONTEXT, "")                     /* of memtrace's own model: context and libraries */                   \
    X(CONTEXT, CONTEXT, "CUDA")                 /* of a PyTorch program: where LIBRARIES is not known, with them */    \
    X(LIBRARIES, LIBRARY, "kernels and cuBLAS") /* likewise: code that is loaded as it runs, handles */                \
    X(NCCL_FIRST, NCCL, "first communicator")   /* as the first one begins, with code that is loaded once */           \
    X(NCCL_RING, NCCL, "rings")                 /* of each communicator, from its first collective on */               \
    X(NCCL_PEER, NCCL, "send and receive")      /* of each communicator and peer, from the first message on */

typedef enum mt_outside_part {
#define X(part, kind, name) MT_PART_##part,
    MT_OUTSIDE_PARTS(X)
#undef X
        MT_OUTSIDE_PART_COUNT
} mt_outside_part;

/* Estimates the memory of a part, with its range. For NCCL, `ranks` is the size of the communicator. The name is
 * static. False if it is unknown for the card. */
bool mt_card_outside(const struct mt_card *card, mt_outside_part part, int ranks, struct mt_outside *out);
