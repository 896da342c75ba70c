/* The output of the program: data on stdout, notes and progress on stderr. Names in a trace may contain any bytes.
 * Their control characters are escaped even if the output is not a terminal: logs are also read on terminals, and by
 * programs that interpret lines as commands. */
#pragma once

#include "answer/escape.h"
#include "answer/row.h"
#include "answer/table.h"
#include "base/status.h"

/* Text, or formats for programs and documents. Not every command supports the last two. */
typedef enum mt_report_form { MT_REPORT_TEXT, MT_REPORT_JSON, MT_REPORT_CSV, MT_REPORT_MARKDOWN } mt_report_form;

/* Opens stdin, stdout and stderr if they are closed, so that no later file gets their numbers. Ignores SIGPIPE, so that
 * a reader that closes the pipe ends the output, not the process. Call it first. */
void mt_output_begin(void);

/* Flushes stdout. Fails with MT_NOT_WRITTEN if anything could not be written, unless the reader closed the pipe. */
mt_status mt_output_end(void);

/* True if a write to stdout has failed, so that further writes are useless. */
bool mt_output_broken(void);

/* Fails with MT_NOT_WRITTEN if a write to stdout has failed. Visitors of rows return it, to end the query. */
mt_status mt_output_go_on(void);

/* True if stdout is a terminal; if it also supports styles (NO_COLOR, TERM=dumb); if stderr is a terminal. */
bool mt_output_is_terminal(void);
bool mt_output_is_styled(void);
bool mt_notes_are_on_terminal(void);

/* Returns the width of the terminal, or the variable COLUMNS; 0 if stdout is not a terminal, or unknown. */
int mt_output_columns(void);

/* Returns a screen for printing on stdout. */
struct mt_screen mt_output_screen(void);

/* Creates a table on stdout (answer/table.h). */
struct mt_table *mt_table_create(const struct mt_column *columns, size_t count);

/* Prints rows on stdout as a table with these fields (mt_table_of_rows). */
void mt_rows_print(const struct mt_row_type *type, const char *fields, const char *spare, const void *rows,
                   size_t count);

/* Returns the width of sentences on stdout: the terminal's, between MT_LEAST_WIDTH and MT_MOST_WIDTH. If stdout is not
 * a terminal, returns MT_MOST_WIDTH, so that files are the same everywhere. */
enum { MT_LEAST_WIDTH = 20, MT_MOST_WIDTH = 110 };
int mt_output_width(void);

/* Prints words, wrapped, and ends the last line. The cursor is in column `indent`, to which later lines are
 * indented. */
void mt_print_wrapped(const char *text, size_t indent);

/* Prints a sentence, wrapped at words, and ends the last line; names in it are made visible as in mt_print_name. Blanks
 * at its beginning indent every line; newlines before them are printed first. */
void mt_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a note on stderr, "memtrace: …", wrapped at words if stderr is a terminal, with names made visible. Its
 * further lines begin with "| ". */
void mt_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Adds "; HINT" to the text of the failure, and returns `status`. Libraries report what is wrong without knowing the
 * program's options; the hint says which option helps. */
mt_status mt_fail_hint(mt_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Returns the status of opening a trace for writing. If it failed, adds a hint where else the trace can be written.
 * `untraced` is the command that needs no trace; NULL: there is none. */
mt_status mt_fail_writing_hint(mt_status status, const char *untraced);

/* Prints a name with its control characters escaped. */
void mt_print_name(const char *name);

/* Prints a sentence as mt_say does, and releases it. */
void mt_print_line(struct mt_text *line);

/* Adds "3,406,809,600 parameters". */
void mt_text_add_parameter_count(struct mt_text *out, uint64_t count);

/* Prints `value` on stdout with a newline and releases it. */
void mt_json_print(json_t *value);

/* Prints an answer that does not belong to one run: {schema, …fields of its row…}. */
void mt_answer_print_json(const char *name, const struct mt_row_type *type, const void *answer);

/* A JSON object whose last member is a list that may be too long for memory: {…members of `head`…, "key": [row,
 * row]}. */
struct mt_json_stream {
    bool has_rows;
};
void mt_json_stream_begin(struct mt_json_stream *stream, json_t *head, const char *key); /* takes head, not empty */
void mt_json_stream_row(struct mt_json_stream *stream, json_t *row);                     /* takes row */
void mt_json_stream_end(struct mt_json_stream *stream);

/* Prints a CSV field with its control characters escaped, followed by `after`: ',' or a newline. */
void mt_csv_print(const char *field, char after);
