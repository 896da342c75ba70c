/* The peaks of a run and their parts, for the commands peak, run and import. */
#pragma once

#include "alloc/alloc.h"
#include "cli/output/question.h"
#include "trace/query/groups.h"
#include "trace/query/peak_without.h"
#include "words/caveat_rows.h"
#include "words/observed_words.h"

/* A peak, with its shares by category and by another key. Invariant: both are of one moment and have equal sums. */
struct mt_run_peak {
    struct mt_peak_row by_category, by_key;
};

/* The three peaks of a run, by mt_measure, and the peaks of its phases. */
struct mt_run_peaks {
    struct mt_run_peak of[MT_MEASURE_COUNT];
    mt_group_key key;
    struct mt_phase_peak *phases;
    size_t phase_count;
    struct mt_pool_row *pools; /* private ones, at the allocated peak */
    size_t pool_count;
    struct mt_outside_row *outside, used; /* used: including reserved memory, at its peak */
    size_t outside_count;
    struct mt_caveat_lists caveats;
    bool is_tuned;          /* blocks of autotuning were allocated */
    uint64_t untuned_bytes; /* the allocated peak without them */
    struct mt_observations observations;
};

/* Loads the peaks of a run from its trace. The caller releases them, also after a failure. */
mt_status mt_run_peaks_load(const struct mt_question *question, mt_group_key key, struct mt_run_peaks *out);
void mt_run_peaks_release(struct mt_run_peaks *peaks);

/* Returns the peaks of a run without a trace: only their bytes, without moments and parts. */
struct mt_run_peaks mt_run_peaks_of_stats(const struct mt_alloc_stats *stats);

/* The peaks for JSON; NULL for peaks with an unknown moment. Borrows. */
struct mt_run_peaks_answer {
    int by; /* mt_group_key */
    uint64_t bytes[MT_MEASURE_COUNT], untuned_bytes;
    const struct mt_run_peak *of[MT_MEASURE_COUNT];
    const struct mt_peak_share *rows, *by_category; /* of the allocated peak; NULL: unknown */
    size_t row_count, category_count;
    const struct mt_phase_peak *phases;
    size_t phase_count;
    const struct mt_pool_row *pools;
    size_t pool_count;
    const struct mt_outside_row *outside, *used; /* used NULL: no holder outside is known */
    size_t outside_count;
    struct mt_caveat_lists caveats;
    struct mt_observations observations;
};
struct mt_run_peaks_answer mt_run_peaks_answer_of(const struct mt_run_peaks *peaks);

/* Describe the answer, by mt_group_key: each has rows that begin with the key's own field. */
extern const struct mt_row_type mt_run_peaks_types[];

/* How peaks are printed. */
struct mt_peaks_form {
    size_t most_rows; /* of parts */
    bool has_bytes;   /* also print each size in bytes */
};

/* Prints the answer in one line: "14.65 GiB live at gpt2.py:7 (backward, step 1); 15.88 GiB of 23.52 GiB of the card;
 * activation 70 %". Fails as a query does. */
mt_status mt_run_peaks_headline(const struct mt_question *question, const struct mt_run_peaks *peaks);

/* Prints the peaks, and the parts of the allocated peak by the key; for roles and phases, also the peaks of the
 * phases. */
void mt_run_peaks_print(const struct mt_run_peaks *peaks, const struct mt_peaks_form *form);
enum { MT_PEAK_ROWS = 20 }; /* default */
