/* The watch of a simulated device: the kernels that would run, with their times on the device's clock. So questions
 * about kernels have estimated answers without a GPU. */
#pragma once

#include "device/backend.h"

/* Starts a watch. Its `end` frees it. */
struct mt_kernel_watch *mt_sim_watch_create(void);

/* Adds a kernel with the last label and step. `name` is static. */
void mt_sim_watch_add(struct mt_kernel_watch *watch, const char *name, uint64_t start_ns, uint64_t end_ns);
