/* Leaks: blocks that every step leaves behind.
 *
 * The same blocks should be live after each step: parameters, optimizer state, perhaps gradients. Blocks whose labels
 * differ only in the layer and the shape are one group. A group leaks if its live bytes never fall over the ends of the
 * last full steps, and rise at two ends or more; at one, if only two ends are compared. The first step does not count:
 * its blocks may stay. A block belongs to the group of its label at the last end, if it is live there.
 *
 *   ends of steps    0    1    2    3    4
 *   Opt State        8    8    8    8    8   GiB    stays
 *   Loss             0    1    2    3    4   KiB    leaks 1 KiB a step
 *   Data             3    5    2    4    3   KiB    comes and goes
 *   Data             0    0    1    1    1   KiB    replaces data that was made before the first step
 *
 * Ownership and threads: as trace.h. */
#pragma once

#include "trace/query/blocks.h"

enum {
    MT_LEAK_LEAST_STEPS = 3,      /* full steps that a run needs: two ends besides the first step's */
    MT_LEAK_LEAST_ITERATIONS = 6, /* of a loop: a few forward passes in a row may be of as many models */
    MT_LEAK_MOST_ENDS = 8         /* number of last ends that are compared */
};

/* Returns at how many of so many ends the live bytes of a group rise at least if it leaks. */
static inline uint64_t mt_leak_least_growths(size_t ends)
{
    return ends > 2 ? 2 : 1;
}

/* A group that leaks. Bytes are as requested: the rounding of a block depends on
 * the free block that it was cut from. Invariants: first_bytes < last_bytes; grew >= 1. */
struct mt_leak_row {
    const char *category, *role, *op, *phase, *dtype;
    const char *place;                  /* the span with "*" for the layer's number */
    const char *shape;                  /* of its blocks; "" if there are several */
    uint64_t first_bytes, first_blocks; /* live at the end of mt_leaks.first_step */
    uint64_t last_bytes, last_blocks;   /* at the end of mt_leaks.last_step */
    uint64_t grew;                      /* number of ends with more bytes than the end before */
};

/* Of a run whose steps leave nothing behind, or that has too few, the iterations of its longest loop without steps are
 * compared: forward passes of one program phase but the first. They count as steps, from 0. What a loop that generates
 * adds to, such as a key-value cache, is no leak if the run freed it by its end, or if it is as small as the numbers of
 * tokens.
 * Invariants: first_step < last_step; row_of_label[number] is the row of the group that the label belongs to, or
 * MT_NO_LEAK. */
#define MT_NO_LEAK SIZE_MAX
struct mt_leaks {
    int64_t first_step, last_step;   /* the first and last end that were compared are theirs */
    int64_t first_event, last_event; /* event.id of these two ends */
    const char *loop;                /* the program phase of the loop, "validate"; "": steps were compared */
    int64_t loop_event;              /* of a loop: from which on its blocks count, event.id */
    struct mt_leak_row *rows;        /* most growth first */
    size_t row_count;
    size_t *row_of_label;
    size_t label_count;
};

/* Finds the leaks. Reads the live blocks at MT_LEAK_MOST_ENDS events at most: milliseconds, however long the run. Fails
 * with MT_USAGE if it has fewer than MT_LEAK_LEAST_STEPS full steps and MT_LEAK_LEAST_ITERATIONS iterations. The caller
 * releases *out, also after a failure. */
mt_status mt_trace_leaks(struct mt_trace *trace, const struct mt_run *run, struct mt_leaks *out);
void mt_leaks_release(struct mt_leaks *leaks);
