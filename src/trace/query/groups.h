/* Sums of blocks by one word of their labels, and how high each phase went.
 *
 *   live blocks of the peak ──by role──▶ parameter 12.69 GiB, gradient 12.69 GiB, …      each sums to the peak
 *                           ──by module─▶ model.layers.*.ffn.w1 3.12 GiB, …
 *
 * Ownership, failures and threads as in trace.h. */
#pragma once

#include "trace/query/trace.h"

/* The words of a label by which blocks are summed. A module is a span's path, "*" standing for the layer's number. */
#define MT_GROUP_KEYS(X)                                                                                               \
    X(ROLE, "role")                                                                                                    \
    X(CATEGORY, "category")                                                                                            \
    X(MODULE, "module")                                                                                                \
    X(OP, "op")                                                                                                        \
    X(PHASE, "phase")                                                                                                  \
    X(DTYPE, "dtype")

typedef enum mt_group_key {
#define X(name, text) MT_GROUP_##name,
    MT_GROUP_KEYS(X)
#undef X
        MT_GROUP_KEY_COUNT
} mt_group_key;

/* The names by enumeration, ending with NULL: "role", …. */
extern const char *const mt_group_key_names[];

/* Reads the peak of a step, of the time before the first (-1) or of the run (MT_ALL_STEPS), with the shares of that key
 * in struct mt_peak_row, whose invariants hold. The caller releases *out, also after a failure. Reads from the nearest
 * checkpoint on: milliseconds, however long the run. */
mt_status mt_trace_peak_by(struct mt_trace *trace, const struct mt_run *run, int64_t step, mt_measure measure,
                           mt_group_key key, struct mt_peak_row *out);

/* Blocks of one group, of the run or live at its peak. Sizes are as requested. */
struct mt_top_group {
    const char *name;
    uint64_t count, max_bytes, total_bytes;
};

/* Sums the blocks of a choice, whose grouping does not matter, by a key; the largest block or sum first, as its order
 * says.
 * *out_complete is false if the run has allocations that the summary no longer tells apart, and so leaves out. */
mt_status mt_trace_top_groups(struct mt_trace *trace, const struct mt_run *run, const struct mt_top_choice *choice,
                              mt_group_key key, struct mt_top_group **out_rows, size_t *out_count, bool *out_complete);

/* What a private pool has: memory that blocks of other pools never get, such as that of a CUDA graph of PyTorch.
 * Invariant: allocated_bytes <= reserved_bytes, in a sound trace. */
struct mt_pool_row {
    const char *name; /* "private pool (1, 0)" */
    uint64_t reserved_bytes, allocated_bytes, blocks;
};

/* Reads the private pools that had memory after `event`, the largest first. */
mt_status mt_trace_pools(struct mt_trace *trace, const struct mt_run *run, int64_t event, struct mt_pool_row **out_rows,
                         size_t *out_count);

/* The highest moment of a phase, in allocated bytes. */
struct mt_phase_peak {
    const char *phase;
    uint64_t bytes;   /* at least what was live when the phase began */
    int64_t event;    /* that reached it first */
    int64_t step;     /* -1: before the first */
    uint64_t time_ns; /* the device's clock, from the start of the run */
};

/* Reads the peaks of the phases, in their order: init is what precedes the first step, the others are of the step that
 * went highest. None if that step told of no phase. Reads the events of one step. */
mt_status mt_trace_phase_peaks(struct mt_trace *trace, const struct mt_run *run, struct mt_phase_peak **out_rows,
                               size_t *out_count);
