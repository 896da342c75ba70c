/* The cells of the attention study: every combination of precision, head size, length and variant, in that order. */
#ifndef MT_STUDY_ATTENTION_GRID_H
#define MT_STUDY_ATTENTION_GRID_H

#include "study/attention_study.h"

enum { MT_MOST_LIST_VALUES = 64 };

/* The values of one axis. Invariant: they are different. */
struct mt_value_list {
    int64_t values[MT_MOST_LIST_VALUES]; /* numbers, or the indices of choices */
    size_t count;
};

/* What tensors are of, and how products of fp32 are computed. */
typedef enum mt_study_precision { MT_STUDY_FP32, MT_STUDY_TF32, MT_STUDY_BF16 } mt_study_precision;

extern const char *const mt_study_precision_names[]; /* ends with NULL */

/* What spans the grid, and what is the same in every cell. */
struct mt_attention_grid {
    struct mt_value_list precisions, widths, lengths, variants; /* widths: d_model */
    int64_t batch, heads, repeats, seed;
};

size_t mt_attention_grid_count(const struct mt_attention_grid *grid);

/* How many cells one precision has: they stand together. */
size_t mt_attention_grid_part(const struct mt_attention_grid *grid);

/* The cell of that number; the variant counts fastest, then the length. */
struct mt_attention_case mt_attention_grid_cell(const struct mt_attention_grid *grid, size_t number);

/* MT_USAGE for the first cell that can't be run. */
mt_status mt_attention_grid_check(const struct mt_attention_grid *grid);

mt_study_precision mt_study_precision_of(const struct mt_attention_case *study);

/* "bf16, d 64, sequence 16384, flash". */
struct mt_text;
void mt_attention_case_describe(const struct mt_attention_case *study, struct mt_text *out);

#endif
