/* An open trace, shared by the files that answer questions about it. */
#pragma once

#include "api/run_parts.h"
#include "trace/query/trace.h"

/* Returns the internal trace of a public one. */
struct mt_trace *mt_api_trace_of(const memtrace_trace *trace);

/* Finds the run of a caller's row. Fails with MT_USAGE if the row is NULL or belongs to another trace. */
mt_status mt_api_find_run(const memtrace_trace *trace, const memtrace_run_row *row, const struct mt_run **out);

/* Returns `text`, or "" for NULL. */
const char *mt_api_text(const char *text);

/* Returns zeroed memory for `count` rows, after as many pointers to them: an answer for memtrace_free. */
const void **mt_api_rows(size_t count, size_t row_bytes);
