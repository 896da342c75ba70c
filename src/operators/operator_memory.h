/* Memory that operators take inside, beside their outputs: pure functions of shapes and of the card. */
#ifndef MT_OPERATORS_OPERATOR_MEMORY_H
#define MT_OPERATORS_OPERATOR_MEMORY_H

#include "device/card.h"

/* Computes what PyTorch's reduction launcher takes on the card for a sum over the rows of (rows, columns): bytes of partial
 * sums and of counters. Both are 0 unless several blocks share the rows of a column and meet in global memory. */
void mt_reduction_staging(const struct mt_card *card, int64_t rows, int64_t columns, int64_t *out_staging_bytes,
                          int64_t *out_counter_bytes);

#endif
