/* A file, read whole, and the plain values in it: a pickle or JSON, as it is or compressed with gzip.
 *
 *   file ──▶ bytes without gzip ──▶ begins as a pickle or as JSON? ──▶ values
 *
 * Threads: one at a time for each document. */
#pragma once

#include "base/status.h"
#include "producers/file/value.h"

/* The bytes of a file. All zero: none. */
struct mt_whole_file {
    unsigned char *data;
    size_t length;
    uint64_t most_bytes; /* limit of memory for them, and for the values read from them; 0: none */
    bool is_asked;       /* the user set most_bytes, which then applies even to a small file */
};

/* The most memory that an import uses, unless the file itself is nearly as large. */
#define MT_IMPORT_USUAL_BYTES (UINT64_C(2) << 30)

/* Reads the file, which may be a pipe, to its end, and decompresses gzip, also several concatenated gzip files. Removes
 * a byte order mark. Uses at most `most_bytes` of memory, and MT_IMPORT_FILE_FACTOR times the size on disk. Fails with
 * MT_FAILED if the file can't be read, and with MT_BAD_TRACE if its gzip data are damaged or truncated, or if it needs
 * more memory. Release it in any case. */
enum { MT_IMPORT_FILE_FACTOR = 16 };
mt_status mt_whole_file_read(const char *path, uint64_t most_bytes, struct mt_whole_file *out);
void mt_whole_file_release(struct mt_whole_file *file);

/* Returns the limits of the values that are read out of the file. */
struct mt_value_limits mt_whole_file_limits(const struct mt_whole_file *file);

struct mt_document;

/* True if the bytes begin as a pickle or as JSON. */
bool mt_document_is_one(const struct mt_whole_file *file);

/* Reads the values; copies what it keeps of the bytes. Fails with MT_BAD_TRACE and the position if the bytes are
 * neither a pickle nor JSON, are damaged, or need far more memory than usual files of their size. The caller closes
 * *out, which is NULL after a failure. */
mt_status mt_document_read(const struct mt_whole_file *file, struct mt_document **out);

/* The same for a file at a path. */
mt_status mt_document_open(const char *path, struct mt_document **out);
void mt_document_close(struct mt_document *document); /* may be NULL */

/* Fails with MT_BAD_TRACE for a file that no reader recognizes. Names its format if that is known. */
mt_status mt_document_refuse(const struct mt_whole_file *file);

/* Counts `bytes` that a reader is about to allocate in addition to the values. Fails with MT_BAD_TRACE if the sum
 * exceeds the document's limit. */
mt_status mt_document_count(struct mt_document *document, uint64_t bytes);

/* Returns the outermost value; it belongs to the document. */
const struct mt_value *mt_document_root(const struct mt_document *document);

/* Returns "pickle" or "JSON". */
const char *mt_document_format(const struct mt_document *document);
