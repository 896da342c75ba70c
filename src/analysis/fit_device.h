/* The device that a fit is about, and the part of its memory that a run may take.
 *
 *   memory_bytes = reserve_bytes (kept free) + what the simulated device has
 *
 * A process on a card holds more than the allocator reserves: CUDA's context, the modules and what the libraries take.
 * So of a card that much is kept free; of a size in bytes nothing is, unless asked for. */
#ifndef MT_ANALYSIS_FIT_DEVICE_H
#define MT_ANALYSIS_FIT_DEVICE_H

#include "base/text.h"

/* The bytes that these took on an H200, rounded up ("context" and "library" of `used` in docs/measurements.md). */
#define MT_CARD_RESERVE_BYTES ((uint64_t)600 << 20)

/* No reserve was asked for. */
#define MT_RESERVE_UNSET UINT64_MAX

struct mt_fit_device {
    char name[64];      /* of the device: "sim:rtx4090" */
    char simulated[64]; /* of the size that a run may take: "sim:23976MiB" */
    uint64_t memory_bytes, reserve_bytes;
    uint64_t card_reserve_bytes; /* of other cards that are compared with it */
};

/* True if the device is a card, or stands for one, unlike "sim:24GiB" and "cpu". */
bool mt_device_is_card(const char *spelling);

/* Opens the simulated device `spelling`, which stands for the one that is called `name`, to read its size. Fails with
 * MT_USAGE if it is not simulated, or if the reserve leaves nothing. */
mt_status mt_fit_device_choose(const char *spelling, const char *name, uint64_t reserve_bytes,
                               struct mt_fit_device *out);

#endif
