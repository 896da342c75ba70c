/* The device of a fit, and the part of its memory that is available to a run.
 *
 *   memory_bytes = reserve_bytes (kept free) + what the simulated device has
 *
 * A process needs more memory of a card than its allocator reserves: CUDA's context, modules and libraries. So on a
 * card, the context's memory is kept free, plus the run's other memory outside the allocator. For a size in bytes,
 * nothing is kept free unless requested. */
#pragma once

#include "base/text.h"
#include "device/device.h"
#include "trace/query/trace.h"

/* No reserve was requested. */
#define MT_RESERVE_UNSET UINT64_MAX

struct mt_fit_device {
    char name[MT_DEVICE_NAME];      /* of the device: "sim:rtx4090" */
    char simulated[MT_DEVICE_NAME]; /* with the available memory: "sim:rtx4090", "sim:rtx4090:23000MiB" */
    uint64_t memory_bytes, reserve_bytes;
    uint64_t asked_reserve_bytes; /* or MT_RESERVE_UNSET */
    struct mt_card card;          /* of the simulated device, if its name does not identify it */
    bool has_card;
};

/* Chooses the simulated device by a device's spelling. The default reserve is the context's memory of the card. Fails
 * with MT_USAGE if the reserve leaves nothing. */
mt_status mt_fit_device_choose(const char *spelling, uint64_t reserve_bytes, struct mt_fit_device *out);

/* Chooses the simulated device for the device of a traced run, with the run's capacity. A card from a file is not read
 * again, since the path may belong to another computer. The run stores its figures. */
mt_status mt_fit_device_choose_traced(struct mt_trace *trace, const struct mt_run *run, uint64_t reserve_bytes,
                                      struct mt_fit_device *out);

/* Sets `out` to the name of the same card with ample memory. A program that runs there shows all its needs, and does
 * not catch out-of-memory errors. */
#define MT_ROOMY_BYTES ((uint64_t)1 << 40)
mt_status mt_fit_device_spell_roomy(const struct mt_fit_device *device, char out[MT_DEVICE_NAME]);

/* Keeps free the memory that the run held outside the allocator in addition to a context: libraries, NCCL. Has no
 * effect for a size in bytes or with a requested reserve. Fails with MT_USAGE if that leaves nothing. */
mt_status mt_fit_device_count_outside(struct mt_fit_device *device, struct mt_trace *trace, const struct mt_run *run);
