/* The rows of a run's summary, and functions that write them. Writing replaces existing rows, so writing twice is
 * harmless. */
#pragma once

#include "base/category_set.h"
#include "base/event.h"
#include "trace/store/allocations.h"
#include "trace/store/connection.h"
#include "trace/store/parts.h"
#include "trace/store/trace_names.h"

/* A row of table segment. */
struct mt_summary_segment {
    uint32_t id;
    mt_addr address;
    uint64_t bytes;        /* up to the end of the last part that ever had memory */
    uint64_t mapped_bytes; /* that have memory now */
    mt_stream stream;
    int64_t mapped_event, unmapped_event; /* unmapped_event 0: still mapped */
    bool changed;                         /* since it was last written */
};

/* A row of table step. */
struct mt_summary_step {
    int64_t number, first_event, last_event; /* last_event 0: not ended */
    uint64_t begin_ns, end_ns;
};

/* A row of table checkpoint. `live` is owned. */
struct mt_summary_checkpoint {
    int64_t event;
    unsigned char *live;
    size_t live_bytes;
};

/* The sums over the live blocks of one category or role. */
struct mt_live_total {
    uint64_t allocated_bytes, requested_bytes, blocks;
};

/* The live blocks by category (mt_category_set of the run), and by role. Invariant: both have the same sums. */
struct mt_composition {
    struct mt_live_total role[MT_ROLE_COUNT];
    struct mt_live_total category[MT_MOST_CATEGORIES];
};

/* The highest value of a measure so far. */
struct mt_peak {
    uint64_t bytes;
    int64_t event;            /* the first that reached it; for reserved bytes before all blocks, the fullest */
    struct mt_composition at; /* the live blocks there, or now if stale */
};

/* The peaks of a run, or of a step. */
struct mt_peaks {
    struct mt_peak measure[MT_MEASURE_COUNT];
    unsigned stale; /* bit i: the composition of measure i was not copied yet */
};

/* A row of table summary_category. count 0: no row. */
struct mt_summary_count {
    uint64_t count, total_bytes, max_bytes;
};

/* The totals of a step, or of the time before the first step. */
struct mt_summary_scope {
    int64_t step;
    struct mt_peaks peaks;
    struct mt_summary_count counts[MT_PHASE_COUNT][MT_MOST_CATEGORIES];
};

/* Rows of the summary tables. All are borrowed. */
struct mt_summary_totals {
    const struct mt_category_set *categories;
    const struct mt_peaks *run_peaks; /* NULL: none */
    struct mt_summary_scope *const *scopes;
    size_t scope_count;
    const struct mt_allocations *allocations; /* NULL: none */
};

mt_status mt_summary_write_segment_rows(struct mt_database *database, int64_t run, const char *prefix,
                                        const struct mt_summary_segment *segments, const size_t *indices, size_t count);

/* If a changed part has several rows, the last one replaces the others. */
mt_status mt_summary_write_part_rows(struct mt_database *database, int64_t run, const char *prefix,
                                     const struct mt_part *parts, size_t count);
mt_status mt_summary_write_step_rows(struct mt_database *database, int64_t run, const char *prefix,
                                     const struct mt_summary_step *steps, size_t count);
mt_status mt_summary_write_checkpoint_rows(struct mt_database *database, int64_t run, const char *prefix,
                                           const struct mt_summary_checkpoint *checkpoints, size_t count);

/* `prefix` is put before the tables' names. */
mt_status mt_summary_write_total_rows(struct mt_database *database, int64_t run, const char *prefix,
                                      const struct mt_summary_totals *totals);
