/* The answer of advise in rows that are described once. */
#pragma once

#include "analysis/advise/advise_answer.h"
#include "answer/row.h"

/* Adds "PyTorch's allocator (policy=torch)": what the run was replayed with. */
void mt_replayed_allocator_add(const struct mt_advice_input *input, struct mt_text *out);

/* A finding with its words and its place among the others. Of fragmentation, which is not timed, numbers are -1 and
 * byte_seconds is NAN. */
struct mt_finding_row {
    struct mt_finding finding;
    int64_t number; /* from 1 */
    const char *pattern, *cost;
    struct mt_text alloc, hint, what, duration;
    int64_t known_blocks; /* 0: not known */
    int64_t events, ns, total_blocks;
    double byte_seconds;
};

/* Describes a finding; only tables have its number, what it is about, its duration and what is reserved without it. */
extern const struct mt_row_type mt_finding_type;

/* Returns a row for each finding, in their order. Release them (mt_rows_release). */
struct mt_finding_row *mt_finding_rows_create(const struct mt_advice *advice, const struct mt_program *program);

/* Returns the peaks of the run itself. */
struct mt_replay_result mt_advice_peaks(const struct mt_advice_answer *answer);

/* A simulated option. */
struct mt_advice_option_row {
    struct mt_text change, command;
    struct mt_text difference; /* of the peak of requested bytes, for tables */
    struct mt_replay_result peak;
    int64_t saved_bytes; /* against the run as it is */
};

/* Describes an option, with the peaks as fields of tables. */
extern const struct mt_row_type mt_advice_option_type;

/* Returns a row for the run as it is and, behind it, one for each option that was simulated. Release them. */
struct mt_advice_option_row *mt_advice_options_create(const struct mt_simulated_advice *simulated);

/* Describes a line of the program that asked for memory, with fields of tables. */
extern const struct mt_row_type mt_peak_line_type;

/* Adds "At the peak, 3.00 GiB (73%) are results of aten::sub, fp32 (2048,1024,128), allocated at train.py:7."; nothing
 * if no tensor is a fifth of the peak. */
void mt_peak_tensor_add(const struct mt_advice_answer *answer, struct mt_text *out);

/* Describes the answer. */
extern const struct mt_row_type mt_advice_type;

/* Returns the answer as memtrace.advise/4; the caller releases it. */
json_t *mt_advice_json(const struct mt_advice_answer *answer);
