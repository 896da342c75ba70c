/* Findings in English: what each kind wastes, and the change that mends it. One row for each row of
 * src/analysis/advise/finding.h. */
#pragma once

#include "analysis/advise/advise.h"
#include "base/text.h"

/* A kind of finding. Of one that wastes reserved memory there is only the waste. */
struct mt_finding_words {
    const char *waste;          /* goes on with the blocks, in brackets */
    const char *before, *after; /* a sentence about the blocks: before and after their duration */
    const char *mended;         /* goes on after the blocks: what becomes of them */
};
extern const struct mt_finding_words mt_finding_words[MT_PATTERN_COUNT];

/* Adds the change in the words of the program: options of memtrace run, where it has them, and names of PyTorch. */
void mt_hint_add(mt_hint hint, const struct mt_program *program, struct mt_text *out);

/* Adds the change that mends a finding; of a leak, it names the holder if that is known. */
void mt_finding_add_hint(const struct mt_finding *finding, const struct mt_program *program, struct mt_text *out);

/* Adds what the finding's blocks have in common: "einsum backward, model.layers.*.ffn". */
void mt_finding_add_blocks(const struct mt_finding *finding, struct mt_text *out);

/* Adds the same in few characters: the op, or category and role, and the place in its layer. */
void mt_finding_add_short_blocks(const struct mt_finding *finding, struct mt_text *out);

/* Adds the run with the change: "Softmax of softmax.exp at model.layers.*.attn (1.00 GiB) not allocated" or, of
 * reserved memory, the settings. */
void mt_finding_add_mended(const struct mt_finding *finding, const struct mt_program *program, struct mt_text *out);

/* Adds settings of an allocator that reserve less, as the program names them. */
void mt_alternative_add(const struct mt_alloc_settings *alloc, const struct mt_program *program, struct mt_text *out);
