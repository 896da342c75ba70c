/* Labels of blocks of which little is known: a size, a name that the file gives, a place that the program said it was in.
 * Rules may go by size and, as `metadata`, by the name. A name of our own exports, "Opt State adamw.exp_avg model.w", is
 * category, op and span.
 *
 * Threads: one at a time. */
#ifndef MT_TRACE_IMPORT_PLAIN_LABELS_H
#define MT_TRACE_IMPORT_PLAIN_LABELS_H

#include "trace/import/rules.h"
#include "trace/import/torch_labels.h"
#include "trace/store/foreign.h"

struct mt_plain_labels;

/* Borrows both. */
struct mt_plain_labels *mt_plain_labels_create(const struct mt_rules *rules, const struct mt_sink *sink);
void mt_plain_labels_destroy(struct mt_plain_labels *labels); /* may be NULL */

/* The phase of the blocks to come; forward until it is said. */
void mt_plain_labels_phase(struct mt_plain_labels *labels, mt_phase phase);

/* Gives the block, of which the rest is known, a label and a span: `span` is the path of the place, "" for none. */
void mt_plain_labels_give(struct mt_plain_labels *labels, const char *name, const char *span,
                          struct mt_foreign_block *block);

/* Counts a block that was given a label, and taken, in what is covered. */
void mt_plain_labels_count(struct mt_plain_labels *labels, const struct mt_foreign_block *block);

struct mt_torch_coverage mt_plain_labels_coverage(const struct mt_plain_labels *labels);

#endif
