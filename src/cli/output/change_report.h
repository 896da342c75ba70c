/* The table of changes of a program, for people. */
#ifndef MT_CLI_CHANGE_REPORT_H
#define MT_CLI_CHANGE_REPORT_H

#include "words/change_words.h"

/* Prints the change with which a replay reserves least, if there is one. */
void mt_changes_headline(const struct mt_program_changes *changes, const struct mt_program *program);

/* Prints the fields of rows as a table, what to write for each, and what their figures rest on; then what is not known. */
void mt_change_rows_print(const struct mt_change_rows *rows, const char *fields);

/* Does so for changes, with all peaks. */
void mt_changes_report(const struct mt_program_changes *changes, const struct mt_program *program);

#endif
