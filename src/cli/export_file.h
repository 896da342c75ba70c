/* Where an export goes: stdout, or a file that is there under its name only once it is complete; through gzip where its
 * name ends in .gz.
 *
 *   name "blocks.csv.gz":  rows ──▶ buffer ──▶ gzip ──▶ blocks.csv.gz.<number of the process> ──rename──▶ blocks.csv.gz */
#ifndef MT_CLI_EXPORT_FILE_H
#define MT_CLI_EXPORT_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_export_file;

typedef enum mt_export_compression { MT_COMPRESS_BY_NAME, MT_COMPRESS_ALWAYS } mt_export_compression;

/* `name` NULL or "-" is stdout. A name that is already something else than a file (a pipe, /dev/null) is written to
 * directly. MT_USAGE for what is compressed and would go to a terminal. */
mt_status mt_export_file_open(const char *name, mt_export_compression compression, struct mt_export_file **out);

/* Writes go on after a failure, to nowhere: the first one is kept. */
void mt_export_write(struct mt_export_file *file, const void *data, size_t bytes);
void mt_export_print(struct mt_export_file *file, const char *text);

/* MT_FAILED once more writing is useless. */
mt_status mt_export_go_on(const struct mt_export_file *file);

/* Whether what is written is shown on a terminal, which may obey it. */
bool mt_export_is_terminal(const struct mt_export_file *file);

/* Ends the file and frees it: if `status`, what became of the export so far, is MT_OK, the file gets its name, and
 * otherwise it goes away. Returns the first failure of both, but none where the reader of stdout has left. */
mt_status mt_export_file_close(struct mt_export_file *file, mt_status status);

#endif
