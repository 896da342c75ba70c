/* An opened trace, shared by the files that ask it. */
#pragma once

#include "api/run_parts.h"
#include "trace/query/trace.h"

/* Returns the opened trace behind a caller's. */
struct mt_trace *mt_api_trace_of(const memtrace_trace *trace);

/* Finds the run of a caller's row. Fails with MT_USAGE if the row is NULL or of another trace. */
mt_status mt_api_find_run(const memtrace_trace *trace, const memtrace_run_row *row, const struct mt_run **out);

/* Returns `text`, or "" for NULL. */
const char *mt_api_text(const char *text);

/* Returns zeroed room for `count` rows, behind as many pointers to them: an answer that memtrace_free releases. */
const void **mt_api_rows(size_t count, size_t row_bytes);
