/* The findings of a check, on the screen and as the files that continuous integration reads. Names come from whoever
 * wrote the trace: each form escapes them. */
#pragma once

#include "answer/table.h"
#include "words/check_words.h"

/* Prints one line if it passed; otherwise nine at most: the verdict, the criteria that failed, as many as fit, and what
 * to ask next. */
void mt_check_print(const struct mt_check_row *row, const struct mt_screen *screen);

/* Writes JUnit's XML, a test case for each criterion, in place of the file. */
mt_status mt_check_write_junit(const struct mt_check_row *row, const char *path);

/* Appends a section of Markdown to the file. */
mt_status mt_check_append_summary(const struct mt_check_row *row, const char *path);
