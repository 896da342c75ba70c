/* NCCL's allocations, as logged by Meta's build of NCCL (ncclx, in torchcomms), which calls its log memtrace, too.
 *
 *   NCCL_MEMORY_EVENT_LOGGING=pipe:NAME writes a line of JSON for each event:
 *     {"int": {"memoryAddr": …, "bytes": …, "globalRank": 0, …},
 *      "normal": {"type": "MemoryEvent", "use": "ncclCuMemAlloc", "callsite": …, "commDesc": …}, …}   ▶ entries
 *   ncclCommDumpAll(), and PyTorch's flight recorder as nccl_comm_state, have sums for each communicator:
 *     {"0x1f…": {"commDesc": …, "memory": "{\"peakUsage\": …}"}}                                      ▶ holders
 *
 * Events have no times, and frees no bytes. Registrations refer to memory that other code allocated.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/document.h"

typedef enum mt_nccl_action {
    MT_NCCL_ALLOC,
    MT_NCCL_FREE,
    MT_NCCL_HOST,         /* allocates or frees memory of the host */
    MT_NCCL_REGISTRATION, /* of a buffer with the network, or its end */
    MT_NCCL_ACTION_COUNT
} mt_nccl_action;

/* Texts belong to the log. Invariants: the bytes of allocations and their sum are within the bounds of an import. */
struct mt_nccl_entry {
    mt_nccl_action action;
    uint64_t address, bytes;
    const char *use;          /* the function: "ncclCuMemAlloc" */
    const char *callsite;     /* "" if it is not stated */
    const char *communicator; /* its description; "" if there is none */
};

struct mt_nccl_log {
    struct mt_value_store *store;
    struct mt_nccl_entry *entries;
    size_t count;
    int64_t rank; /* -1: not stated */
    bool is_cut;  /* the last line has no end, and could not be read */
};

/* True if the first line is an event of NCCL's memory. */
bool mt_nccl_log_is_one(const struct mt_whole_file *file);

/* Reads all lines. Fails with MT_BAD_TRACE and the line. Release it in any case. */
mt_status mt_nccl_log_read(const struct mt_whole_file *file, struct mt_nccl_log *out);
void mt_nccl_log_release(struct mt_nccl_log *log);

/* A communicator, and its memory at the moment when all of them together held most. If the file has only sums, the
 * communicator's own peak. */
struct mt_nccl_holder {
    char name[64]; /* its description; "" if there is none */
    uint64_t bytes;
};

/* Invariant: the bytes of all holders sum to at most MT_IMPORT_MOST_SUM. */
struct mt_nccl_holders {
    struct mt_nccl_holder *rows; /* largest first; small ones beyond a bound are one, "others" */
    size_t count;
    int64_t rank; /* -1: not stated */
};

/* Finds the holders in a file of either kind. Fails with MT_BAD_TRACE. Release them in any case. */
mt_status mt_nccl_holders_find(const struct mt_whole_file *file, struct mt_nccl_holders *out);

/* The same for a file at a path. Also fails with MT_FAILED if it can't be read. */
mt_status mt_nccl_holders_read(const char *path, uint64_t most_bytes, struct mt_nccl_holders *out);
void mt_nccl_holders_release(struct mt_nccl_holders *holders);
