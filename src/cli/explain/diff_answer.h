/* The answer of `memtrace diff`, before it is printed. */
#ifndef MT_CLI_DIFF_ANSWER_H
#define MT_CLI_DIFF_ANSWER_H

#include "analysis/diff.h"
#include "analysis/run_settings.h"
#include "cli/output/question.h"
#include "study/published.h"

/* The same two settings at one sequence length. */
struct mt_diff_length {
    int64_t seq;
    const struct mt_run *run[MT_SIDE_COUNT]; /* the newest that are so */
    uint64_t reserved_bytes[MT_SIDE_COUNT];
    const struct mt_published_cell *published[MT_SIDE_COUNT]; /* NULL: none that these bytes are comparable with */
};

enum { MT_MOST_DIFF_DOUBTS = 5 };

/* Ownership: everything; release it in any case. */
struct mt_diff_answer {
    struct mt_question question[MT_SIDE_COUNT];
    struct mt_settings settings[MT_SIDE_COUNT];
    struct mt_settings_difference changes;      /* that could change memory */
    struct mt_text doubts[MT_MOST_DIFF_DOUBTS]; /* what makes the two hard to compare, a sentence each */
    size_t doubt_count;
    struct mt_diff diff;
    struct mt_diff_category *categories; /* the largest of either first */
    size_t category_count;
    struct mt_diff_length *lengths; /* ascending; none where the sequence length itself differs */
    size_t length_count;
};

/* Compares two runs, named as for mt_question_open_named. If both are NULL, they are those of mt_diff_pair_find. */
mt_status mt_diff_answer_load(const char *trace, const char *a, const char *b, struct mt_diff_answer *out);
void mt_diff_answer_release(struct mt_diff_answer *answer);

/* Returns the published difference of reserved bytes, B less A, in GiB; NAN if none was published. */
double mt_diff_length_published_gib(const struct mt_diff_length *length);

/* Returns the same as measured with PyTorch. False if it was not. */
bool mt_diff_length_measured(const struct mt_diff_length *length, int64_t *out_bytes);

/* Print it: for people, as many rows as asked for, causes that matter little in one line unless all are; or as JSON. */
struct mt_diff_print {
    int64_t rows;
    bool all;
};
void mt_diff_answer_print(const struct mt_diff_answer *answer, const struct mt_diff_print *how);
void mt_diff_answer_print_json(const struct mt_diff_answer *answer);

#endif
