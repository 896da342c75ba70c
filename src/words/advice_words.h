/* Advice in words: the hint of a finding, and the answer of advise in rows that are described once. */
#ifndef MT_WORDS_ADVICE_WORDS_H
#define MT_WORDS_ADVICE_WORDS_H

#include "analysis/advise/advise_answer.h"
#include "answer/row.h"

/* Adds the change that mends a finding, in the words of the program: options of memtrace run, where it has them, and names of
 * PyTorch. */
void mt_hint_add(mt_hint hint, const struct mt_program *program, struct mt_text *out);

/* Adds "PyTorch's allocator (policy=torch)": what the run was replayed with. */
void mt_replayed_allocator_add(const struct mt_advice_input *input, struct mt_text *out);

/* Adds what the finding's blocks have in common: "einsum backward, model.layers.*.ffn". */
void mt_finding_add_blocks(const struct mt_finding *finding, struct mt_text *out);

/* Adds the same in few characters: the op, or category and role, and the place in its layer. */
void mt_finding_add_short_blocks(const struct mt_finding *finding, struct mt_text *out);

/* Adds the finding's blocks without its waste: "Softmax of softmax.exp at model.layers.*.attn (1.00 GiB) not allocated". It is not
 * of fragmentation. */
void mt_finding_add_mended(const struct mt_finding *finding, struct mt_text *out);

/* Adds the alternative settings of an allocator as the program names them. */
void mt_alternative_add(const struct mt_alloc_settings *alloc, const struct mt_program *program, struct mt_text *out);

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
void mt_advice_options_release(struct mt_advice_option_row *rows, size_t option_count);

/* Describes a line of the program that asked for memory, with fields of tables. */
extern const struct mt_row_type mt_peak_line_type;

/* Describes the answer. */
extern const struct mt_row_type mt_advice_type;

/* Returns the answer as memtrace.advise/1; the caller releases it. */
json_t *mt_advice_json(const struct mt_advice_answer *answer);

#endif
