/* What the parts of the attention study's report share. */
#ifndef MT_STUDY_ATTENTION_PARTS_H
#define MT_STUDY_ATTENTION_PARTS_H

#include "answer/table.h"
#include "study/attention_report.h"

enum { MT_STUDY_VARIANTS = MT_ATTENTION_FLASH + 1, MT_STUDY_COLUMNS = 2 + MT_STUDY_VARIANTS };

/* A table of two columns and one for each variant; `columns` of MT_STUDY_COLUMNS are filled, and borrowed by it. */
struct mt_table *mt_study_table(const struct mt_attention_answer *answer, const char *first, const char *second,
                                mt_align align, struct mt_column *columns);

/* The cells of one precision, width and length stand together, by variant: the first of those that are best to explain by,
 * which is the longest sequence that every variant brought to backward, at the width nearest to 64, in the last precision.
 * The number of cells if there is none. */
size_t mt_study_example(const struct mt_attention_answer *answer);

/* The accounting at that example, beside what was measured; then whether all other cells agree, too. */
void mt_study_print_account(const struct mt_attention_answer *answer);

/* Adds milliseconds, with four digits or so. */
void mt_study_add_ms(struct mt_text *out, double ms);

/* Our figures beside those that were measured of a peer. */
void mt_study_print_peer(const struct mt_attention_answer *answer);

/* What follows from the study, in sentences. */
void mt_study_print_findings(const struct mt_attention_answer *answer);

#endif
