/* The watch of a simulated device: kernels that would have run, with the times that the device's clock spent on them. So what
 * asks about kernels answers without a GPU, by estimates. */
#pragma once

#include "device/backend.h"

/* Begins a watch. Its `end` frees it. */
struct mt_kernel_watch *mt_sim_watch_create(void);

/* Adds a kernel of the label and the step that were set last. `name` is static. */
void mt_sim_watch_add(struct mt_kernel_watch *watch, const char *name, uint64_t start_ns, uint64_t end_ns);
