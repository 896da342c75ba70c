/* The lifetimes of a window of a run: when its blocks are live, with and without cuts. Private to this folder.
 *
 *   moment     0        1        2                  k = event - first_event + 1
 *   position   2f-1     2f 2f+1  2f+2 2f+3          f = first_event
 *
 * Moment 0 is the state before the window. */
#pragma once

#include "analysis/advise/advise.h"

/* A period in which a block is to be absent: from <= position < to.
 * Invariant: begin <= from < to <= end of its lifetime in the window. */
struct mt_cut {
    uint32_t block; /* index */
    int64_t from, to;
};

/* The live bytes after every event.
 * Invariants: live[k] has the live bytes at moment k; change has 2 * count zeros between calls. */
struct mt_usage {
    const struct mt_block_row *blocks; /* borrowed */
    int64_t first_position;
    size_t count;     /* of moments */
    uint64_t *live;   /* requested bytes */
    uint64_t *ns;     /* the device's clock */
    uint64_t *change; /* of live bytes, by position; wraps around below 0 */
    uint64_t peak_bytes;
    int64_t peak_position; /* the first position with the peak */
};

/* Returns the time of a position. Positions outside the window have the time of its begin or end. */
uint64_t mt_usage_ns(const struct mt_usage *usage, int64_t position);

/* The live bytes with cuts applied. */
struct mt_cut_usage {
    uint64_t peak_bytes;
    uint64_t most_bytes;   /* the largest number of bytes absent at one moment */
    int64_t most_position; /* that moment */
};
struct mt_cut_usage mt_usage_cut(struct mt_usage *usage, const struct mt_cut *cuts, size_t count);

/* The events of a step in the window; 0: none. */
struct mt_step_extent {
    int64_t number;
    int64_t begin, end;
    int64_t forward;       /* the mark of its first forward phase */
    int64_t after_forward; /* the mark of the phase after it */
    int64_t optimizer;     /* the mark of the first optimizer phase after that */
};

/* Invariants: steps are in order, and begin < end for steps that end; ranks are ascending. */
struct mt_window {
    const struct mt_advice_input *input; /* borrowed */
    struct mt_usage usage;
    mt_role *roles;          /* by label; MT_ROLE_COUNT: an unknown role */
    mt_category *categories; /* by label */
    struct mt_step_extent *steps;
    size_t step_count;
    int64_t program_end; /* the last event of the program's own work; later frees are cleanup */
    bool ran_out;        /* it ended there because memory ran out */
    int64_t *ranks;      /* of the events that map or unmap a segment */
    size_t rank_count;
    int64_t *releases; /* positions at which the program emptied the cache, ascending */
    size_t release_count;
};

void mt_window_create(const struct mt_advice_input *input, struct mt_window *out);
void mt_window_release(struct mt_window *window);

/* Returns the index of the last step that began at or before `event`; MT_NO_STEP if none did in the window. */
int64_t mt_window_step_of(const struct mt_window *window, int64_t event);

/* Convert between events and their ranks. A rank numbers events without those that map and unmap segments, since these
 * differ between otherwise equal steps. Such an event has the rank of the event before it. */
int64_t mt_window_rank(const struct mt_window *window, int64_t event);
int64_t mt_window_event(const struct mt_window *window, int64_t rank);

/* Return the positions at which a block's lifetime begins and ends. The lifetime of a block from before the window
 * begins just before its first event. */
int64_t mt_window_begin(const struct mt_window *window, const struct mt_block_row *block);
int64_t mt_window_end(const struct mt_window *window, const struct mt_block_row *block);

/* True if the block is live at `position`. */
static inline bool mt_window_is_live(const struct mt_window *window, const struct mt_block_row *block, int64_t position)
{
    return mt_window_begin(window, block) <= position && position < mt_window_end(window, block);
}

/* True if the block outlives the program's work: it is a result, such as a parameter, or might have been used later. */
bool mt_window_is_result(const struct mt_window *window, const struct mt_block_row *block);

/* Zero-initialized is empty. */
struct mt_cut_list {
    struct mt_cut *items;
    size_t count;
};

/* Adds from <= position < to of block `index`, limited to its lifetime. Adds nothing if that contains no event. */
void mt_cut_list_add(struct mt_cut_list *list, const struct mt_window *window, size_t index, int64_t from, int64_t to);
void mt_cut_list_release(struct mt_cut_list *list);

/* Sorts the cuts from `first` on, which belong to one block, and joins adjacent ones. */
void mt_cut_list_join(struct mt_cut_list *list, size_t first);

/* Returns the blocks' lifetimes without the cuts, which are ordered by block, then position. Parts of blocks with cuts
 * come last, ordered by the blocks' original ends, so that parts that now end at one position end in the original
 * order. The caller frees them. */
struct mt_lifetime *mt_lifetimes_with_cuts(const struct mt_window *window, const struct mt_cut *cuts, size_t cut_count,
                                           size_t *out_count);

/* Replays the window without the cuts. The cache is emptied where the program emptied it. */
mt_status mt_window_replay(const struct mt_window *window, const struct mt_cut *cuts, size_t cut_count,
                           const struct mt_alloc_settings *settings, struct mt_replay_result *out);
