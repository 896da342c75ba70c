/* The answer of diff: two runs, the causes of their difference, and what makes them hard to compare. */
#pragma once

#include "analysis/diff/diff.h"
#include "analysis/run_settings.h"
#include "answer/row.h"

#include <math.h>

/* Reserved memory of both sides as published, in GiB, and as measured with PyTorch on an H200.
 * Invariant: of a side that was not published, gib is NAN and measured_bytes 0. */
struct mt_diff_published {
    double gib[MT_SIDE_COUNT], delta_gib; /* NAN: none, or out of memory */
    uint64_t measured_bytes[MT_SIDE_COUNT];
    int64_t delta_measured_bytes;
};

/* The same two settings at one sequence length. */
struct mt_diff_length {
    int64_t seq;
    int64_t run[MT_SIDE_COUNT]; /* the newest that are so; 0: none yet */
    uint64_t reserved_bytes[MT_SIDE_COUNT];
    int64_t delta_bytes;
    double percent; /* of A; NAN if A is 0 */
    struct mt_diff_published published;
    const struct mt_diff_published *of_both; /* the same; NULL: not comparable, or not published of both */
    struct mt_text measured;                 /* the measured difference for tables; "-" if of_both is NULL */
};

/* Returns by how many percent `b` is more than `a`; NAN if `a` is 0. */
static inline double mt_diff_percent(uint64_t a, uint64_t b)
{
    return a > 0 ? 100 * ((double)b - (double)a) / (double)a : NAN;
}

enum { MT_MOST_DIFF_DOUBTS = 5, MT_NO_GROUPS = -1 };

/* Ownership: everything but what the questions have opened. */
struct mt_diff_answer {
    struct mt_question question[MT_SIDE_COUNT];
    struct mt_settings settings[MT_SIDE_COUNT];
    struct mt_settings_difference changes;      /* that could change memory */
    struct mt_text doubts[MT_MOST_DIFF_DOUBTS]; /* what makes the two hard to compare, a sentence each */
    size_t doubt_count;
    struct mt_diff diff;
    struct mt_diff_group *categories; /* the largest of either first */
    size_t category_count;
    int key;                      /* mt_group_key of the groups; MT_NO_GROUPS: of a prediction the op, otherwise none */
    struct mt_diff_group *groups; /* the largest difference first */
    size_t group_count;
    struct mt_diff_length *lengths; /* ascending; none where the sequence length itself differs */
    size_t length_count;
};

/* Returns the side that is a dry run, where the other is a recording or another program's file: the dry run predicted
 * it; MT_SIDE_COUNT: there is none. */
mt_side mt_diff_predicted(const struct mt_diff_answer *answer);

/* Loads all but the lengths of an answer whose questions and key are set and whose other members are zero. Fails with
 * MT_USAGE if a run can't be compared. The caller releases the answer in any case. */
mt_status mt_diff_answer_load(struct mt_diff_answer *answer);
void mt_diff_answer_release(struct mt_diff_answer *answer);

/* Describe the answer and its rows. */
extern const struct mt_row_type mt_diff_type, mt_diff_row_type, mt_diff_category_type, mt_diff_length_type;

/* Describe a group, by mt_group_key: it begins with the key's own field. */
extern const struct mt_row_type mt_diff_group_types[];

/* Returns the answer as JSON; the caller releases it. */
json_t *mt_diff_json(const struct mt_diff_answer *answer);

/* Adds the answer as one sentence: "With autocast bf16 the run needs 4.28 GiB more than with autocast off, because of
 * …". */
void mt_diff_add_sentence(const struct mt_diff_answer *answer, struct mt_text *out);
