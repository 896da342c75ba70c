/* A file of plain values, opened whole: a pickle or JSON, as it is or gzipped.
 *
 *   file ──▶ gzip? undo it ──▶ begins as a pickle? as JSON? ──▶ values
 *
 * Threads: one at a time for each document. */
#ifndef MT_TRACE_IMPORT_DOCUMENT_H
#define MT_TRACE_IMPORT_DOCUMENT_H

#include "base/status.h"
#include "trace/import/value.h"

struct mt_document;

/* Reads the file, which may be a pipe. MT_FAILED if it can't be read; MT_BAD_TRACE, with the place, if it holds nothing of
 * the kind, is damaged, or would take far more memory than files of its size do: hostile files end so, too. Owned by the
 * caller; *out is NULL after a failure. */
mt_status mt_document_open(const char *path, struct mt_document **out);
/* The same of a file that was read. */
struct mt_whole_file;
mt_status mt_document_read(const char *path, const struct mt_whole_file *file, struct mt_document **out);
void mt_document_close(struct mt_document *document); /* may be NULL */

/* The value that the file is; the document's. */
const struct mt_value *mt_document_root(const struct mt_document *document);

/* "pickle" or "JSON". */
const char *mt_document_format(const struct mt_document *document);

#endif
