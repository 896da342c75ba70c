/* The kind of device that a memory snapshot is about.
 *
 * PyTorch's allocators for devices other than CUDA, and MLX, write the same lists as PyTorch's CUDA allocator. Files do
 * not name their device, so marks of the writer decide: names of C++ functions and of files in call stacks, entries
 * that only one writer makes, and the name of the allocator's settings.
 *
 * Threads: any. */
#pragma once

#include "producers/file/value.h"

typedef enum mt_torch_device {
    MT_TORCH_CUDA, /* or ROCm, or one that left no mark */
    MT_TORCH_XPU,
    MT_TORCH_ASCEND,
    MT_TORCH_MTIA,
    MT_TORCH_NEURON,
    MT_TORCH_MLX,
    MT_TORCH_HOST, /* pinned memory of the host: never found, but chosen */
    MT_TORCH_DEVICE_COUNT
} mt_torch_device;

/* Returns the device of a run: "PyTorch snapshot", "XPU (PyTorch snapshot)", … */
const char *mt_torch_device_name(mt_torch_device device);

/* Finds the kind of device of a snapshot, or of a list of segments. It searches a bounded number of frames. */
mt_torch_device mt_torch_device_find(const struct mt_value *root);

/* Returns the value of the environment variable with the allocator's settings, from a snapshot; "" if there is none. */
const char *mt_torch_device_configuration(const struct mt_value *settings);
