/* What the files of this folder share and nobody else sees: how each backend is opened, and the known cards. */
#ifndef MT_DEVICE_BACKEND_H
#define MT_DEVICE_BACKEND_H

#include "device/device.h"

/* Open a backend by the part of its spelling after the colon; NULL if there was none. The device's name, table and
 * capacity are set; the caller owns it. */
mt_status mt_sim_open(const char *argument, struct mt_device **out);
mt_status mt_cpu_open(const char *argument, struct mt_device **out);
mt_status mt_cuda_module_open(const char *argument, struct mt_device **out);

/* A capacity as written after a colon: MT_USAGE for 0 and for what is not a size. */
mt_status mt_capacity_parse(const char *text, uint64_t *out_bytes);

/* The card of that name, whatever its letters' case, or NULL. Static. */
const struct mt_profile *mt_profile_find(const char *name);

/* How many names mt_device_cards() has before its NULL. */
size_t mt_profile_count(void);

#endif
