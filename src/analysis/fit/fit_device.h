/* The device that a fit is about, and the part of its memory that a run may take.
 *
 *   memory_bytes = reserve_bytes (kept free) + what the simulated device has
 *
 * A process on a card holds more than the allocator reserves: CUDA's context, the modules and what the libraries take.
 * So of a card what its context takes is kept free, and what a run held outside besides; of a size in bytes nothing is,
 * unless asked for. */
#pragma once

#include "base/text.h"
#include "device/device.h"
#include "trace/query/trace.h"

/* No reserve was asked for. */
#define MT_RESERVE_UNSET UINT64_MAX

struct mt_fit_device {
    char name[MT_DEVICE_NAME];      /* of the device: "sim:rtx4090" */
    char simulated[MT_DEVICE_NAME]; /* that has what a run may take: "sim:rtx4090", "sim:rtx4090:23000MiB" */
    uint64_t memory_bytes, reserve_bytes;
    uint64_t asked_reserve_bytes; /* or MT_RESERVE_UNSET */
    struct mt_card card;          /* of the simulated device, where its name does not tell it */
    bool has_card;
};

/* Chooses the simulated device for a device by its spelling. Unless asked for, the reserve is what the card's context
 * takes. Fails with MT_USAGE if the reserve leaves nothing. */
mt_status mt_fit_device_choose(const char *spelling, uint64_t reserve_bytes, struct mt_fit_device *out);

/* Chooses it likewise for the device of a traced run, with the run's capacity. A card from a file is not read again: the path
 * may be another computer's. The run keeps its figures. */
mt_status mt_fit_device_choose_traced(struct mt_trace *trace, const struct mt_run *run, uint64_t reserve_bytes,
                                      struct mt_fit_device *out);

/* Spells the same card with more memory than programs ask for. A program that is tried there shows all that it needs, and is not
 * made to catch running out of memory. */
#define MT_ROOMY_BYTES ((uint64_t)1 << 40)
mt_status mt_fit_device_spell_roomy(const struct mt_fit_device *device, char out[MT_DEVICE_NAME]);

/* Keeps free what the run held outside of the allocator beyond a context: libraries, NCCL. Of a size, and where a reserve was
 * asked for, it changes nothing. Fails with MT_USAGE if that leaves nothing. */
mt_status mt_fit_device_count_outside(struct mt_fit_device *device, struct mt_trace *trace, const struct mt_run *run);
