/* The output of a command: the standard output or a file. A file gets its name only when it is complete, and is
 * compressed with gzip if the name ends in .gz. Never overwrites a trace or an input of the command.
 *
 *   name "blocks.csv.gz":  rows ──▶ buffer ──▶ gzip ──▶ blocks.csv.gz.<number of the process> ──rename──▶ blocks.csv.gz */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_output_file;

/* The encoding, and what happens to an existing file. */
typedef enum mt_output_form {
    MT_OUTPUT_BY_NAME,    /* compressed if the name ends in .gz; replaces the file */
    MT_OUTPUT_COMPRESSED, /* replaces the file */
    MT_OUTPUT_APPENDED    /* uncompressed; appends to the file */
} mt_output_form;

/* Checks the name of an output before a command starts. Fails with MT_USAGE if `name` is empty, a trace, or the same
 * file as `other`, which the command also reads or writes. `option` is the option with the name ("-o"). Both names may
 * be NULL, and need not exist. Follows hard and symbolic links; pipes and /dev/null may be used twice. */
mt_status mt_output_file_check(const char *option, const char *name, const char *other);

/* Opens an output. `name` NULL or "-" is the standard output. Pipes and devices, such as /dev/null, are written
 * directly. Fails with MT_USAGE for a trace, and if compressed bytes would go to a terminal. */
mt_status mt_output_file_open(const char *name, mt_output_form form, struct mt_output_file **out);

/* Limits the output to this many bytes, before gzip; the error text then says `reason`, which is borrowed. */
void mt_output_file_limit(struct mt_output_file *file, uint64_t bytes, const char *reason);

/* Write. After a failure, nothing more is written, and the first failure is kept. */
void mt_output_file_write(struct mt_output_file *file, const void *data, size_t bytes);
void mt_output_file_print(struct mt_output_file *file, const char *text);

/* Fails with MT_NOT_WRITTEN if a write has failed. */
mt_status mt_output_file_go_on(const struct mt_output_file *file);

/* True if the output is a terminal, which interprets control characters. */
bool mt_output_file_is_terminal(const struct mt_output_file *file);

/* True if the output is the standard output and not a regular file: a terminal, or a pipe to a log, whose readers may
 * interpret lines as commands. */
bool mt_output_file_is_log(const struct mt_output_file *file);

/* Ends the output and frees it. `status` is the command's status so far: if it is MT_OK, the file gets its name;
 * otherwise the file is removed, unless it was appended to. Returns the first failure; MT_OK if the reader of the
 * standard output has closed it. */
mt_status mt_output_file_close(struct mt_output_file *file, mt_status status);

/* Opens the output, writes a text and closes it. */
mt_status mt_output_file_put(const char *name, mt_output_form form, const char *text);
