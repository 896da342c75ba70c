/* What of a run is not about blocks: times, marks and kernels. Of a long run it is read beside the blocks, on a thread and
 * from an opening of the trace of its own, which halves the time that reading takes. */
#ifndef MT_PAGE_PAGE_BESIDE_H
#define MT_PAGE_PAGE_BESIDE_H

#include "trace/query/blocks.h"

/* The rows; arrays are malloc'ed. */
struct mt_page_beside {
    struct mt_trace *trace; /* the opening that the rows' texts belong to; NULL: the run's */
    uint64_t *times;        /* of each event */
    struct mt_mark_row *marks;
    size_t mark_count;
    struct mt_launch_row *kernels;
    size_t kernel_count;
};

struct mt_page_reading;

/* Begins to read the run in the trace at `path`; borrows both. NULL where that is not worth a thread, or there is none. */
struct mt_page_reading *mt_page_reading_begin(const char *path, const struct mt_run *run);

/* Waits for it; NULL if nothing was begun. What could not be had that way is read from `trace`, whose error it is if that
 * fails. Release *out in any case. */
mt_status mt_page_reading_end(struct mt_page_reading *reading, struct mt_trace *trace, const struct mt_run *run,
                              struct mt_page_beside *out);

/* Waits for it and drops what it read; may be NULL. */
void mt_page_reading_abandon(struct mt_page_reading *reading);

void mt_page_beside_release(struct mt_page_beside *beside);

#endif
