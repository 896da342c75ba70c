/* What the program says: data on stdout, notes and progress on stderr.
 *
 * Names in a trace come from whoever wrote it. Nothing of them reaches a terminal that the terminal would obey. */
#ifndef MT_CLI_OUTPUT_H
#define MT_CLI_OUTPUT_H

#include "answer/escape.h"
#include "answer/row.h"
#include "answer/table.h"

/* Makes sure that stdin, stdout and stderr are open, so that no file that is opened later takes their numbers, and
 * that a reader who stops reading ends the output and not the process. Call first. */
void mt_output_begin(void);

/* Flushes stdout. MT_NOT_WRITTEN if something could not be written, except to a reader who has left. */
mt_status mt_output_end(void);

/* Whether writing more to stdout is useless: a write has failed. */
bool mt_output_broken(void);

/* MT_NOT_WRITTEN if so: what a visitor of rows returns, to end the query when nobody reads any more. */
mt_status mt_output_go_on(void);

/* Whether stdout, or stderr, is a terminal, and whether it may be styled (NO_COLOR, TERM=dumb). */
bool mt_output_is_terminal(void);
bool mt_output_is_styled(void);
bool mt_notes_are_on_terminal(void);

/* The columns of the terminal that stdout is, or as many of them as the variable COLUMNS asks for; 0: it is none, or does
 * not say. */
int mt_output_columns(void);

/* Returns stdout as the place that tables are printed on. */
struct mt_screen mt_output_screen(void);

/* Creates a table on stdout (answer/table.h). */
struct mt_table *mt_table_create(const struct mt_column *columns, size_t count);

/* Prints rows as a table of those fields on stdout (mt_table_of_rows). */
void mt_rows_print(const struct mt_row_type *type, const char *fields, const char *spare, const void *rows,
                   size_t count);

/* How many columns sentences on stdout may take: those of the terminal, MT_LEAST_WIDTH at least and MT_MOST_WIDTH, which
 * is as wide as reads well, at most; MT_MOST_WIDTH too where stdout is no terminal, so that files are the same
 * everywhere. */
enum { MT_LEAST_WIDTH = 60, MT_MOST_WIDTH = 110 };
int mt_output_width(void);

/* Prints words from column `indent` on, which is reached, with lines broken between them, and ends the last line. */
void mt_print_wrapped(const char *text, size_t indent);

/* A line on stderr, "memtrace: …". */
void mt_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a name as mt_text_add_visible does; raw where stdout is not a terminal and so obeys nothing. */
void mt_print_name(const char *name);

/* Prints a text as mt_print_name does, ends the line, and releases the text. */
void mt_print_line(struct mt_text *line);

/* Prints "3.41 billion parameters"; a count under a million is printed in full. */
void mt_print_parameter_count(uint64_t count);

/* Prints `value` on stdout with a newline and releases it. */
void mt_json_print(json_t *value);

/* Prints an answer that is about no single run: {schema: "memtrace.<name>/1", …the members of its row…}. */
void mt_answer_print_json(const char *name, const struct mt_row_type *type, const void *answer);

/* A JSON object whose last member is a list that may be too long to hold: {…members of `head`…, "key": [row, row]}.
 * Zero-initialized is ready to begin. */
struct mt_json_stream {
    bool has_rows;
};
void mt_json_stream_begin(struct mt_json_stream *stream, json_t *head, const char *key); /* takes head, not empty */
void mt_json_stream_row(struct mt_json_stream *stream, json_t *row);                     /* takes row */
void mt_json_stream_end(struct mt_json_stream *stream);

/* Prints a field of CSV, its characters visible on a terminal, and what follows it, ',' or a newline. */
void mt_csv_print(const char *field, char after);

#endif
