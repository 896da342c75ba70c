/* The device that fit is asked about, and the part of its memory that a run may have.
 *
 *   memory_bytes = reserve_bytes (kept free) + what the simulated device has
 *
 * A process on a card holds more than the allocator reserves: CUDA's context, the modules and what the libraries take.
 * So of a card that much is kept free; of a size in bytes nothing is, unless it is asked for. */
#ifndef MT_ANALYSIS_FIT_DEVICE_H
#define MT_ANALYSIS_FIT_DEVICE_H

#include "base/text.h"

/* What they took on an H200, rounded up (the "context" and "library" of `used` in docs/measurements.md). */
#define MT_CARD_RESERVE_BYTES ((uint64_t)600 << 20)

/* No reserve was asked for. */
#define MT_RESERVE_UNSET UINT64_MAX

struct mt_fit_device {
    char name[64];      /* what is asked about: "sim:rtx4090" */
    char simulated[64]; /* as large as what a run may have, to run claims on: "sim:23976MiB" */
    uint64_t memory_bytes, reserve_bytes;
    uint64_t card_reserve_bytes; /* of other cards that are compared with it */
};

/* Whether there is a card behind a device, or it stands for one: none behind "sim:24GiB" and "cpu". */
bool mt_device_is_card(const char *spelling);

/* Opens the simulated device `spelling`, which stands for the one that is called `name`, to see how large it is.
 * MT_USAGE if it is none, or if the reserve leaves nothing. */
mt_status mt_fit_device_choose(const char *spelling, const char *name, uint64_t reserve_bytes,
                               struct mt_fit_device *out);

#endif
