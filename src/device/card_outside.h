/* What a process holds of a card beside its allocator, as far as it is known: CUDA's context, the code and handles of
 * libraries, the buffers of NCCL. Each figure has its range. NCCL's depend on the topology and the version besides, so a
 * range is of what was found, and no bound.
 *
 * A figure is of one program: others load other kernels.
 *
 * Sources. H200: drivers' counts of jobs of 2 and 4 cards over NVLink, PyTorch 2.11, CUDA 13.0, NCCL 2.28.9 without NVLS,
 * less what PyTorch's allocator took between them. The H100 stands for the H200's, with as many multiprocessors. A100:
 * github.com/NVIDIA/nccl/issues/964. Of a range: an H100's buffers for each of 7 peers, /issues/1685. */
#pragma once

#include "base/event.h"
#include "device/card.h"

/* The parts, with the name of the holder within its kind. */
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

/* Finds what a part takes, in a communicator of `ranks` where it is NCCL's, as an estimate with its range. The name is static.
 * False if that is not known of the card. */
bool mt_card_outside(const struct mt_card *card, mt_outside_part part, int ranks, struct mt_outside *out);
