/* The cells of the attention study: all combinations of precision, head size, length and variant, in that order. Each
 * is a run in one trace, on a shared device. */
#pragma once

#include "alloc/alloc.h"
#include "base/text.h"
#include "study/attention_study.h"

enum { MT_MOST_LIST_VALUES = 64 };

/* The values of one axis. Invariant: values are distinct. */
struct mt_value_list {
    int64_t values[MT_MOST_LIST_VALUES]; /* numbers, or the indices of choices */
    size_t count;
};

/* The dtype of all tensors; tf32 is fp32 with matrix products on the matrix units. */
typedef enum mt_study_precision { MT_STUDY_FP32, MT_STUDY_TF32, MT_STUDY_BF16 } mt_study_precision;

extern const char *const mt_study_precision_names[]; /* ends with NULL */

/* The axes of the grid, and the common settings of all cells. Invariant: every axis has a value. */
struct mt_attention_grid {
    struct mt_value_list precisions, widths, lengths, variants; /* widths: d_model */
    int64_t batch, heads, repeats, seed;
    bool without_projections, without_mask;
};

/* Return the number of cells: in the grid; for one precision, whose cells are consecutive. */
size_t mt_attention_grid_count(const struct mt_attention_grid *grid);
size_t mt_attention_grid_part(const struct mt_attention_grid *grid);

/* Returns the cell with this number, which is below the count. The variant changes fastest, then the length. */
struct mt_attention_case mt_attention_grid_cell(const struct mt_attention_grid *grid, size_t number);

/* Fails with MT_USAGE, with its numbers, for the first invalid cell. */
mt_status mt_attention_grid_check(const struct mt_attention_grid *grid);

/* Returns the precision of a case. */
mt_study_precision mt_study_precision_of(const struct mt_attention_case *study);

/* Adds "bf16, d 64, sequence 16384, flash". */
void mt_attention_case_describe(const struct mt_attention_case *study, struct mt_text *out);

struct mt_recorder;

/* The device for the cells, and the trace. Texts are borrowed. The trace is opened for the first cell and stays open
 * until the session is closed, since opening it for each cell would wait for the disk a dozen times. */
struct mt_attention_session {
    struct mt_device *device; /* open */
    struct mt_alloc_settings alloc;
    const char *trace;            /* NULL: not traced */
    const char *name;             /* the beginning of the runs' names */
    struct mt_recorder *recorder; /* NULL: before the first cell */
    bool is_untraceable;          /* a cell failed because the trace cannot be written */
};

/* The result of a cell. Memory excludes the workspaces of matrix products, which are separate.
 * Invariants: a cell that is_done has kept.is_known and oom_bytes 0; in any other, peaks are 0 and times NAN. */
struct mt_attention_result {
    int64_t run; /* its number in the trace; 0: not traced */
    bool is_done;
    struct mt_attention_kept kept;
    uint64_t peak_requested_bytes, peak_allocated_bytes, workspace_bytes;
    double forward_ms, backward_ms; /* medians, measured by the device's clock */
    uint64_t oom_bytes;             /* out of memory: requested bytes, their category and phase */
    mt_category oom_category;
    mt_phase oom_phase;
};

/* Runs a case, which must be valid. Out of device memory is a result; any other failure is returned. */
mt_status mt_attention_session_run(struct mt_attention_session *session, const struct mt_attention_case *study,
                                   struct mt_attention_result *out);

/* Closes the trace, if one was opened. The device stays open. */
mt_status mt_attention_session_close(struct mt_attention_session *session);

/* The longest possible sequence, and the step size in the search for the longest. */
enum { MT_STUDY_LONGEST = 1 << 24, MT_STUDY_LENGTH_STEP = 256 };

/* Returns the shortest sequence for which terms of size T² are more than half of the kept memory, by formula; -1 if
 * there is none. The length of the case is ignored. */
int64_t mt_attention_square_from(const struct mt_attention_case *study);

/* Finds the longest sequence, a multiple of MT_STUDY_LENGTH_STEP, whose forward and backward fit in this many bytes of
 * the card; 0 if even the shortest does not. Simulates each length that it tries. Assumes that if a length does not
 * fit, no longer one does. */
mt_status mt_attention_longest(const struct mt_attention_case *study, const struct mt_alloc_settings *alloc,
                               const struct mt_card *card, uint64_t capacity_bytes, int64_t *out);
