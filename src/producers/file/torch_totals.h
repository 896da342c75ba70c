/* How many events and bytes a memory snapshot has for each device, to choose a device and to report what is left out.
 *
 *   device_traces, segments  ▶ devices, by number        host_traces, host_segments  ▶ the host's pinned memory
 *
 * Lists that a file refers to repeatedly are counted once. Threads: one at a time. */
#pragma once

#include "producers/file/value.h"

enum { MT_TORCH_MOST_DEVICES = 1024 };

struct mt_torch_total {
    uint64_t events;         /* about memory: markers do not show that a device is in use */
    uint64_t reserved_bytes; /* at the end */
};

/* Invariant: 1 <= device_count <= MT_TORCH_MOST_DEVICES. */
struct mt_torch_totals {
    struct mt_torch_total devices[MT_TORCH_MOST_DEVICES];
    uint32_t device_count;
    struct mt_torch_total host;
    bool has_host; /* there is a list of its events or segments that is not empty */
};

/* Returns the list of a device's events, or of the segments of all devices; MT_IMPORT_HOST means the host. Returns a
 * value of another kind if there is none. */
const struct mt_value *mt_torch_events_of(const struct mt_value *root, int64_t device);
const struct mt_value *mt_torch_segments_of(const struct mt_value *root, int64_t device);

/* True for a list of only segments: torch.cuda.memory_snapshot(). An empty list is not one. */
bool mt_torch_is_list(const struct mt_value *root);

/* Counts events and bytes of all devices. */
void mt_torch_totals_count(const struct mt_value *root, struct mt_torch_totals *out);

/* Returns the device with most events and, of equal ones, with most reserved bytes; MT_IMPORT_HOST if only the host has
 * any. */
int64_t mt_torch_totals_busiest(const struct mt_torch_totals *totals);

/* Returns the sums over all devices except one, which may be MT_IMPORT_HOST. */
struct mt_torch_total mt_torch_totals_without(const struct mt_torch_totals *totals, int64_t device);
