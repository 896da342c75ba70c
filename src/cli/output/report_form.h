/* The forms of an answer for --format and --json, and rows as CSV and Markdown. */
#pragma once

#include "cli/output/output.h"

/* The values of --format, by index; "text" is 0. Ends with NULL. */
extern const char *const mt_report_format_names[];

/* Finds the form for a value of --format and --json. Fails with MT_USAGE for --json with any format but text. */
mt_status mt_report_form_find(bool json, int format, mt_report_form *out);

/* Prints rows on stdout, with a header. Fails with MT_NOT_WRITTEN if a write has failed. */
mt_status mt_rows_print_csv(const struct mt_row_type *type, const void *rows, size_t count);

/* Prints rows on stdout as the only table of a page with this title. `key` names the table. */
mt_status mt_rows_print_markdown(const char *page_title, const char *key, const char *title,
                                 const struct mt_row_type *type, const void *rows, size_t count);
