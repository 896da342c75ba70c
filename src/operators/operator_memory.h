/* Reductions: the memory in which blocks of threads that share an output meet. */
#pragma once

#include "device/card.h"

/* A reduction as PyTorch's launcher sees it, after dimensions that lie behind each other were joined. */
struct mt_reduction {
    int64_t outputs, inputs;   /* inputs: of each output */
    int64_t vector;            /* neighbouring outputs that a thread may compute: 4, 2 or 1 */
    int64_t accumulator_bytes; /* of one partial result */
    bool is_along_rows;        /* the reduced dimension has the smallest stride */
    bool is_dense;             /* that stride is one element */
    bool is_flat;              /* there is no other dimension */
    bool loads_vectors;        /* the kernel may load four inputs at once */
};

/* Returns the sum over the rows of (rows, columns), dense. */
struct mt_reduction mt_reduction_of_rows(int64_t rows, int64_t columns);

/* Computes what PyTorch's reduction launcher takes on the card: bytes of partial results and of counters. Both are 0
 * unless several blocks share an output and meet in global memory. Formula: aten/src/ATen/native/cuda/Reduce.cuh,
 * setReduceConfig (lines 994 to 1169 of 2.7). */
void mt_reduction_staging(const struct mt_card *card, const struct mt_reduction *reduction, int64_t *out_staging_bytes,
                          int64_t *out_counter_bytes);
