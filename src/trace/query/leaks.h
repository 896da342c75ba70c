/* Leaks: blocks that every step leaves behind.
 *
 * What is live when a step ends should be the same after each: parameters, optimizer state, perhaps gradients. Blocks
 * that are alike (all of their label is the same but the layer and the shape) are one group; a group leaks if, over the
 * ends of the last full steps, its live bytes never fell and are more at the last end than at the first one looked at.
 * The first step does not count: it makes what then stays.
 *
 *   ends of steps    0    1    2    3    4
 *   Opt State        8    8    8    8    8   GiB    stays
 *   Loss             0    1    2    3    4   KiB    leaks 1 KiB a step
 *   Data             3    5    2    4    3   KiB    comes and goes
 *
 * Ownership and threads: as trace.h. */
#ifndef MT_TRACE_LEAKS_H
#define MT_TRACE_LEAKS_H

#include "trace/query/blocks.h"

enum {
    MT_LEAK_LEAST_STEPS = 3, /* full ones that a run needs to have an answer: two ends besides the first step's */
    MT_LEAK_MOST_ENDS = 8    /* the last so many are looked at */
};

/* A group that leaks. Invariants: first_bytes < last_bytes; grew >= 1. Bytes are of blocks, rounding included. */
struct mt_leak_row {
    const char *category, *role, *op, *phase, *dtype;
    const char *place;                  /* the span with "*" for the layer's number */
    const char *shape;                  /* of its blocks; "" if there are several */
    uint64_t first_bytes, first_blocks; /* live at the end of mt_leaks.first_step */
    uint64_t last_bytes, last_blocks;   /* at the end of mt_leaks.last_step */
    uint64_t grew;                      /* at how many of the ends after the first it was more than at the one before */
};

/* Invariants: first_step < last_step; row_of_label[number] is the row of the group that the label belongs to, or
 * MT_NO_LEAK. */
#define MT_NO_LEAK SIZE_MAX
struct mt_leaks {
    int64_t first_step, last_step;   /* whose ends were looked at, and those in between */
    int64_t first_event, last_event; /* these two ends */
    struct mt_leak_row *rows;        /* most growth first */
    size_t row_count;
    size_t *row_of_label;
    size_t label_count;
};

/* Reads the live blocks at MT_LEAK_MOST_ENDS moments at most: milliseconds, however long the run. MT_USAGE if it has
 * fewer than MT_LEAK_LEAST_STEPS full steps. Release in any case. */
mt_status mt_trace_leaks(struct mt_trace *trace, const struct mt_run *run, struct mt_leaks *out);
void mt_leaks_release(struct mt_leaks *leaks);

#endif
