/* The attention study for people: its tables, with the variants side by side, and what follows from them. */
#ifndef MT_STUDY_ATTENTION_REPORT_H
#define MT_STUDY_ATTENTION_REPORT_H

#include "study/attention_answer.h"

/* Prints tables and sentences on the answer's screen. */
void mt_attention_write_text(const struct mt_attention_answer *answer);

#endif
