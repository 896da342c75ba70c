/* What a summary is made of: for summary.c, which feeds it, and summary_store.c, which writes it. */
#ifndef MT_TRACE_SUMMARY_PARTS_H
#define MT_TRACE_SUMMARY_PARTS_H

#include "base/category_set.h"
#include "trace/store/allocations.h"
#include "trace/store/live.h"
#include "trace/store/parts.h"
#include "trace/store/peaks.h"
#include "trace/store/summary.h"

/* A row of table segment. */
struct mt_summary_segment {
    uint32_t id;
    mt_addr address;
    uint64_t bytes;        /* up to the end of the last part that ever had memory */
    uint64_t mapped_bytes; /* that have memory now */
    mt_stream stream;
    int64_t mapped_event, unmapped_event; /* 0: still mapped */
    bool changed;                         /* listed in changed_segments */
};

/* A row of table step. */
struct mt_summary_step {
    int64_t number, first_event, last_event; /* last_event 0: not ended */
    uint64_t begin_ns, end_ns;
};

/* A row of table checkpoint; live is owned. */
struct mt_summary_checkpoint {
    int64_t event;
    unsigned char *live;
    size_t live_bytes;
};

/* What a label counts as. */
struct mt_summary_label {
    unsigned char category, phase;
};

/* A row of table summary_category. count 0: no row. */
struct mt_summary_count {
    uint64_t count, total_bytes, max_bytes;
};

/* What is kept of the step under way, and of one that is over until it is stored. */
struct mt_summary_scope {
    int64_t step;
    struct mt_peaks peaks;
    struct mt_summary_count counts[MT_PHASE_COUNT][MT_MOST_CATEGORIES];
};

/* Invariants: the next event has the id first_event + events; scopes[scope_count - 1] is the step under way; the run's
 * peaks are never lower than its. */
struct mt_summary {
    int64_t first_event, events;
    struct mt_live live;
    struct mt_totals totals;
    struct mt_peaks run_peaks;
    struct mt_allocations allocations;

    struct mt_category_set categories; /* as they came: not what the upper bits of label ids say */
    struct mt_summary_label *labels;   /* by number; Other, init for those that never came */
    size_t label_count;

    struct mt_summary_scope **scopes; /* in order: those that are not stored yet */
    size_t scope_count;

    struct mt_number_map segment_index; /* by birth number: index of the latest row of that number */
    struct mt_summary_segment *segments;
    size_t segment_count;
    size_t *changed_segments; /* indices of the rows that are not stored as they are */
    size_t changed_count;
    struct mt_parts parts; /* their rows: those that are not stored as they are */

    struct mt_summary_step *steps;
    size_t step_count;
    size_t steps_stored; /* rows that are stored and complete */

    struct mt_summary_checkpoint *checkpoints; /* not stored yet */
    size_t checkpoint_count;
    int64_t next_checkpoint; /* at so many events */
};

#endif
