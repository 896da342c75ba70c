/* Where a command writes what is not for the screen: the standard output, or a file that is there under its name only once it is
 * complete; through gzip where its name ends in .gz. What a command reads, and any trace, is never overwritten.
 *
 *   name "blocks.csv.gz":  rows ──▶ buffer ──▶ gzip ──▶ blocks.csv.gz.<number of the process> ──rename──▶ blocks.csv.gz */
#ifndef MT_ANSWER_OUTPUT_FILE_H
#define MT_ANSWER_OUTPUT_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_output_file;

/* What becomes of the bytes, and of the file that has the name already. */
typedef enum mt_output_form {
    MT_OUTPUT_BY_NAME,    /* compressed if the name ends in .gz; replaces it */
    MT_OUTPUT_COMPRESSED, /* replaces it */
    MT_OUTPUT_APPENDED    /* as they are, behind what is there */
} mt_output_form;

/* For the start of a command, before it works or prints: MT_USAGE if `name` is empty, a trace, or one file with `other`, which
 * the command reads or writes too. `option` is what named it ("-o"). Either name may be NULL, and there need be no such
 * file. Links of both kinds are seen through; pipes and /dev/null may be named twice. */
mt_status mt_output_file_check(const char *option, const char *name, const char *other);

/* `name` NULL or "-" is the standard output. A name that is already something else than a file (a pipe, /dev/null) is written to
 * directly. MT_USAGE for what is compressed and would go to a terminal, and for a trace. */
mt_status mt_output_file_open(const char *name, mt_output_form form, struct mt_output_file **out);

/* Writes go on after a failure, to nowhere: the first one is kept. */
void mt_output_file_write(struct mt_output_file *file, const void *data, size_t bytes);
void mt_output_file_print(struct mt_output_file *file, const char *text);

/* MT_NOT_WRITTEN once more writing is useless. */
mt_status mt_output_file_go_on(const struct mt_output_file *file);

/* Whether what is written is shown on a terminal, which may obey it. */
bool mt_output_file_is_terminal(const struct mt_output_file *file);

/* Ends the file and frees it: if `status`, what became of the output so far, is MT_OK, the file gets its name, and
 * otherwise it goes away (but for what was appended). Returns the first failure of both, but none where the reader of
 * the standard output has left. */
mt_status mt_output_file_close(struct mt_output_file *file, mt_status status);

/* Opens, writes and closes: for a text that is there as a whole. */
mt_status mt_output_file_put(const char *name, mt_output_form form, const char *text);

#endif
