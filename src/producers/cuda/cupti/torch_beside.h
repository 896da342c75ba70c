/* The library that watches PyTorch's own allocator in this process, if there is one: libmemtrace_torch.so. It writes
 * the trace then, and this passes it the memory that CUDA's functions allocate, since only that library knows which of
 * it is its allocator's.
 *
 * Threads: any. */
#pragma once

#include "producers/cuda/cupti/cuda_calls.h"

#include <stdbool.h>

/* Functions of src/producers/torch/memtrace_torch.h. */
struct mt_torch_beside {
    void (*take)(int device, uint64_t address, uint64_t bytes, const char *holder);
    void (*give)(uint64_t address);
};

/* Finds the functions. False if PyTorch is not watched in this process. */
bool mt_torch_beside_find(struct mt_torch_beside *out);

/* Reports a call at one of its ends, as mt_call_report. Physical memory counts where it is mapped. */
void mt_torch_beside_report(const struct mt_torch_beside *beside, struct mt_listening_thread *thread,
                            const struct mt_listened_call *call, const CUpti_CallbackData *data,
                            const struct mt_call_place *place);
