/* The forms of an answer that --format and --json choose, and rows as CSV and as Markdown. */
#pragma once

#include "cli/output/output.h"

/* The values of --format, in the order of a choice's numbers: "text" is 0. NULL ends them. */
extern const char *const mt_report_format_names[];

/* Finds the form that a number of a format and --json choose. Fails with MT_USAGE for --json with a format but text. */
mt_status mt_report_form_find(bool json, int format, mt_report_form *out);

/* Prints rows on stdout, with a header. Fails with MT_NOT_WRITTEN if a write has failed. */
mt_status mt_rows_print_csv(const struct mt_row_type *type, const void *rows, size_t count);

/* Prints rows on stdout as the one table of a page with that title. `key` names the table. */
mt_status mt_rows_print_markdown(const char *page_title, const char *key, const char *title,
                                 const struct mt_row_type *type, const void *rows, size_t count);
