/* The verdict of a dry run: how much memory of its card the program needs, and whether it fits.
 *
 *   ├──────────────────────── card ─────────────────────────┤
 *   ├────────── reserved ──────────┤── outside ──┤── free ──┤
 *   ├────── live ───────┤
 *
 * Live and reserved are peaks, usually at different moments. Outside is the process's memory outside PyTorch's
 * allocator: CUDA's context, libraries, NCCL. On a device with a size in bytes ("sim:15GiB"), the allocator may use all
 * memory, and nothing counts as outside.
 *
 * Threads: the thread that opened the trace. */
#pragma once

#include "analysis/run_question.h"
#include "base/text.h"

struct mt_caveat;

/* A peak with estimated scratch memory at the lower and at the upper end of its range. */
struct mt_peak_range {
    uint64_t low_bytes, high_bytes;
};

/* Invariants: needed_bytes == reserved_bytes + outside_bytes; of free_bytes and short_bytes at most one is positive;
 * fits is false for a run that ended out of memory, and if short_bytes > 0; ranges hold the peaks, and are equal to
 * them without bounds; rest_bytes > 0 only if iterations > 0. Owns `line`. */
struct mt_verdict {
    bool fits, is_out_of_memory;
    uint64_t live_bytes, reserved_bytes, outside_bytes, needed_bytes;
    struct mt_peak_range live_range, needed_range;
    bool has_bounds;     /* the run has estimates, and their ranges are known */
    uint64_t card_bytes; /* of the card, as its driver would report them, less what other processes hold */
    bool is_shared;      /* other processes hold some */
    uint64_t free_bytes; /* of it, if the program fits */
    uint64_t short_bytes;
    int64_t iterations;  /* of the loop that would add rest_bytes; -1: none would, or unknown */
    uint64_t rest_bytes; /* that iterations which did not run would add to the peaks, if memory grows as before */
    int64_t steps;       /* ended or begun */
    struct mt_text line; /* of the refused request, "train.py:12"; empty: none was refused, or unknown */
    int64_t step;        /* of that request; -1: before the first step */
    const char *phase;   /* of that request; NULL: none was refused */
    int64_t grows_until; /* the iteration after which memory grows no more; INT64_MAX: not known */
};

/* Returns the bytes that the iterations of a growing loop which did not run would add; 0 if their number is unknown. */
uint64_t mt_growth_rest(const struct mt_caveat *growth);

/* Finds the verdict for a run. Release *out in any case. */
mt_status mt_verdict_find(const struct mt_question *question, struct mt_verdict *out);
void mt_verdict_release(struct mt_verdict *verdict);
