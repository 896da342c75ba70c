/* Labels of blocks with little information: a size, a name in the file, a place in the program. Rules may match the
 * size and, as `metadata`, the name. A name from one of our exports, "Opt State adamw.exp_avg model.w", is category, op
 * and span.
 *
 * Threads: one at a time. */
#pragma once

#include "producers/file/import_reader.h"

struct mt_plain_labels;

/* Borrows its arguments. */
struct mt_plain_labels *mt_plain_labels_create(const struct mt_rules *rules, const struct mt_sink *sink);
void mt_plain_labels_destroy(struct mt_plain_labels *labels); /* may be NULL */

/* Sets the phase of the next blocks; at first it is forward. */
void mt_plain_labels_phase(struct mt_plain_labels *labels, mt_phase phase);

/* Sets the block's label and span. Its other fields must be set already. `span` is the path of the place; "" for
 * none. */
void mt_plain_labels_give(struct mt_plain_labels *labels, const char *name, const char *span,
                          struct mt_foreign_block *block);

/* Counts a labelled block in the coverage. */
void mt_plain_labels_count(struct mt_plain_labels *labels, const struct mt_foreign_block *block);

struct mt_import_coverage mt_plain_labels_coverage(const struct mt_plain_labels *labels);
