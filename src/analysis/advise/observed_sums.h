/* Sums over the blocks that are live at one moment of a run, by their labels. */
#pragma once

#include "analysis/advise/observed.h"
#include "trace/query/blocks.h"

/* The blocks that are live at a moment, and the labels of the run. */
struct mt_moment_blocks {
    const struct mt_block_row *blocks;
    const struct mt_label_row *labels;
    size_t count, label_count;
    uint64_t bytes;  /* allocated at the moment */
    bool is_loading; /* the moment is before the first step */
};

/* The sum over some of these blocks. */
struct mt_block_sum {
    uint64_t bytes, largest;
    int64_t event;   /* that allocated the largest; 0: none */
    uint64_t layers; /* one bit for each, modulo their number */
};

/* Reads the blocks that are live at a moment, and sums them; the labels stay. The caller frees *out_blocks, which the
 * moment borrows. */
mt_status mt_moment_blocks_read(const struct mt_question *question, int64_t event, struct mt_block_row **out_blocks,
                                struct mt_moment_blocks *moment);

bool mt_label_is_role(const struct mt_label_row *label, mt_role role);
bool mt_label_is_in_phase(const struct mt_label_row *label, mt_phase phase);

/* True if the run has a label that counts, at any time. */
bool mt_moment_has_label(const struct mt_moment_blocks *moment, bool (*counts)(const struct mt_label_row *));

/* Adds a block to a sum. */
void mt_block_sum_add(const struct mt_moment_blocks *moment, size_t index, struct mt_block_sum *sum);

/* Returns the sum over the blocks whose labels count. */
struct mt_block_sum mt_block_sum_of(const struct mt_moment_blocks *moment, bool (*counts)(const struct mt_label_row *));

/* True if a sum is at least a tenth of the bytes that are allocated at the moment. */
bool mt_block_sum_counts(const struct mt_moment_blocks *moment, struct mt_block_sum sum);

/* Adds an observation about a sum, with the line that allocated its largest block. Nothing if the sum
 * does not count. */
mt_status mt_observations_add_sum(const struct mt_question *question, const struct mt_moment_blocks *moment,
                                  struct mt_block_sum sum, mt_observed_kind kind, mt_observed_change change,
                                  struct mt_observations *out);
