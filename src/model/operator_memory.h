/* Memory that operators take inside, beside their outputs: pure functions of shapes, for the reference card, an
 * H200. */
#ifndef MT_MODEL_OPERATOR_MEMORY_H
#define MT_MODEL_OPERATOR_MEMORY_H

#include <stdint.h>

/* Bytes of the workspace that cuBLAS takes on a Hopper card for matrix products of one thread. Forward and backward run
 * in a thread each. */
#define MT_MATMUL_WORKSPACE_BYTES (32u << 20)

/* Computes what PyTorch's reduction launcher takes for a sum over the rows of (rows, columns): bytes of partial sums
 * and of counters. Both are 0 unless several blocks share the rows of a column and meet in global memory. */
void mt_reduction_staging(int64_t rows, int64_t columns, int64_t *out_staging_bytes, int64_t *out_counter_bytes);

#endif
