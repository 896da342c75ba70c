/* The output of a command that is not for the screen: the standard output, or a file. A file gets its name only once it is
 * complete, and goes through gzip if its name ends in .gz. No trace and no input of a command is ever overwritten.
 *
 *   name "blocks.csv.gz":  rows ──▶ buffer ──▶ gzip ──▶ blocks.csv.gz.<number of the process> ──rename──▶ blocks.csv.gz */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_output_file;

/* The form of the bytes, and the treatment of a file that has the name already. */
typedef enum mt_output_form {
    MT_OUTPUT_BY_NAME,    /* compressed if the name ends in .gz; replaces it */
    MT_OUTPUT_COMPRESSED, /* replaces it */
    MT_OUTPUT_APPENDED    /* as they are, behind what is there */
} mt_output_form;

/* Checks the name of an output before a command works or prints. Fails with MT_USAGE if `name` is empty, a trace,
 * or the same file as `other`, which the command reads or writes, too. `option` named it ("-o"). Either name may
 * be NULL, and neither file need exist. Follows links of both kinds; pipes and /dev/null may be named twice. */
mt_status mt_output_file_check(const char *option, const char *name, const char *other);

/* Opens an output. `name` NULL or "-" is the standard output. A pipe or a device, such as /dev/null, is written
 * directly. Fails with MT_USAGE for a trace, and if compressed bytes would go to a terminal. */
mt_status mt_output_file_open(const char *name, mt_output_form form, struct mt_output_file **out);

/* Lets the output have so many bytes, before gzip; the text of the failure then says `reason`, which is borrowed. */
void mt_output_file_limit(struct mt_output_file *file, uint64_t bytes, const char *reason);

/* Write. After a failure nothing more is written, and the first failure is kept. */
void mt_output_file_write(struct mt_output_file *file, const void *data, size_t bytes);
void mt_output_file_print(struct mt_output_file *file, const char *text);

/* Fails with MT_NOT_WRITTEN once a write has failed. */
mt_status mt_output_file_go_on(const struct mt_output_file *file);

/* True if the output is a terminal, which would obey control characters. */
bool mt_output_file_is_terminal(const struct mt_output_file *file);

/* True if the output is the standard output and no regular file: a terminal, or a pipe to a log, whose readers take lines for
 * commands. */
bool mt_output_file_is_log(const struct mt_output_file *file);

/* Ends the output and frees it. If `status`, that of the command so far, is MT_OK, the file gets its name;
 * otherwise it is removed, except if it was appended to. Returns the first failure; MT_OK if the reader of the
 * standard output has left. */
mt_status mt_output_file_close(struct mt_output_file *file, mt_status status);

/* Opens, writes a whole text and closes. */
mt_status mt_output_file_put(const char *name, mt_output_form form, const char *text);
