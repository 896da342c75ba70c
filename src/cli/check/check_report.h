/* What a check found, on the screen, as JSON and as the files that continuous integration reads. */
#ifndef MT_CLI_CHECK_REPORT_H
#define MT_CLI_CHECK_REPORT_H

#include "analysis/check.h"
#include "cli/command.h"

/* One line if it passed; otherwise nine at most: the verdict, the criteria that failed, as many as fit, and what to ask next. */
mt_status mt_check_print(const struct mt_check *check, const struct mt_trace_options *options);

/* memtrace.check/1 of docs/json.md. */
mt_status mt_check_print_json(const struct mt_check *check, const struct mt_trace_options *options);

/* Writes JUnit's XML, a test case for each criterion, in place of the file. */
mt_status mt_check_write_junit(const struct mt_check *check, const char *path);

/* Appends a section of Markdown to the file. */
mt_status mt_check_append_summary(const struct mt_check *check, const struct mt_trace_options *options,
                                  const char *path);

#endif
