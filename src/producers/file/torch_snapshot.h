/* One device of a memory snapshot of PyTorch, checked and in rows: torch.cuda.memory._snapshot(), saved as a pickle
 * or as JSON.
 *
 *   {"segments": [{…, "blocks": [{…}]}],      ▶ segments, blocks: the state at the end
 *    "device_traces": [[{…}, {…}, …], …],     ▶ events: a list for each device
 *    "external_annotations": [{…}]}           ▶ annotations
 *
 * Rows refer to the values, which must outlive them. Threads: one at a time. */
#pragma once

#include "base/status.h"
#include "producers/file/import_reader.h"
#include "producers/file/torch_action.h"
#include "producers/file/torch_pools.h"
#include "producers/file/torch_settings.h"

/* An event. Invariants, except for an oom: address + bytes and address + block_bytes <= 2^63 - 1; sizes and their sum
 * are bounded by MT_IMPORT_MOST_BYTES and MT_IMPORT_MOST_SUM. */
struct mt_torch_event {
    uint64_t address;     /* of an oom: the bytes that the driver reported as free; UINT64_MAX: not stated */
    uint64_t bytes;       /* as requested */
    uint64_t block_bytes; /* of the block, with rounding; only in our exports; 0: not stated */
    uint64_t stream;      /* PyTorch's number, a pointer; with private pools, a place in the snapshot's streams */
    int64_t time_us;
    const struct mt_value *frames; /* innermost first: dicts of name, filename, line; or none */
    const struct mt_value *event;  /* the whole dict; NULL if it is derived */
    uint32_t pool;                 /* as mt_torch_pools_find numbers it */
    uint8_t action;                /* mt_torch_action */
    bool is_derived;               /* it is not an entry of the file */
    bool is_workspace;             /* it allocates a workspace of Ascend */
};
_Static_assert(sizeof(struct mt_torch_event) == 64, "a file has millions of events");

/* A block that is live at the end, or waits for other streams. Its sizes have the same bounds as in events. */
struct mt_torch_block {
    uint64_t address, bytes, requested_bytes;
    uint64_t stream; /* of its segment */
    uint32_t pool;
    const struct mt_value *frames;
};

/* A segment at the end. In an expandable segment, each run of addresses with memory is one. */
struct mt_torch_segment {
    uint64_t address, bytes, stream;
    uint32_t pool;
    bool is_expandable;
};

/* The begin or end of an annotation such as "Optimizer.step#AdamW.step". */
struct mt_torch_annotation {
    const char *name;
    int64_t time_us;
    bool is_end;
};

struct mt_torch_snapshot {
    int64_t device;                      /* or MT_IMPORT_HOST */
    uint64_t elsewhere, elsewhere_bytes; /* of other devices: events about memory, and bytes reserved at the end */
    bool has_host;                       /* and of pinned memory, which is not this device's */
    struct mt_torch_settings settings;
    struct mt_torch_event *events; /* in the order of the file */
    size_t event_count;
    bool is_paired;   /* a profiler's trace without addresses: frees were matched to blocks by size */
    bool is_relative; /* one without totals: memory from before it that is never freed does not show */
    bool is_untimed;  /* no event has a time: the number of events before it counts as microseconds */
    size_t
        state_event; /* the number of events after which blocks and segments are as stated: all, but in one of ours */
    struct mt_torch_block *blocks; /* of all segments, in the order of the file */
    size_t block_count;
    struct mt_torch_segment *segments;
    size_t segment_count;
    struct mt_torch_annotation *annotations; /* of this device */
    size_t annotation_count;
    struct mt_torch_pools pools;
};

/* True if the value has the lists of a snapshot, whatever they contain. */
bool mt_torch_snapshot_is_one(const struct mt_value *root);

/* Returns the most memory that the rows of a device, and their replay, can use. A file may refer to one event again and
 * again in two bytes each. */
uint64_t mt_torch_snapshot_most_bytes(const struct mt_value *root);

/* Reads the rows of a device. MT_IMPORT_ANY_DEVICE means the one with most events about memory and, of equal ones, with
 * most memory, or MT_IMPORT_HOST if none has any. Fails with MT_BAD_TRACE and the place if a value has the wrong kind,
 * and with MT_USAGE if there is no such device. Release it in any case. */
mt_status mt_torch_snapshot_read(const struct mt_value *root, int64_t device, struct mt_torch_snapshot *out);
void mt_torch_snapshot_release(struct mt_torch_snapshot *snapshot);
