/* What the program says: data on stdout, notes and progress on stderr.
 *
 * Names in a trace come from whoever wrote it. Nothing of them reaches a terminal that the terminal would obey. */
#ifndef MT_CLI_OUTPUT_H
#define MT_CLI_OUTPUT_H

#include "base/text.h"

#include <jansson.h>

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

/* How many columns sentences on stdout may take: those of the terminal, MT_LEAST_WIDTH at least and MT_MOST_WIDTH, which
 * is as wide as reads well, at most; MT_MOST_WIDTH too where stdout is no terminal, so that files are the same
 * everywhere. */
enum { MT_LEAST_WIDTH = 60, MT_MOST_WIDTH = 110 };
int mt_output_width(void);

/* Whether a byte of UTF-8 is none that a character begins with. */
static inline bool mt_continues_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* The columns that text of that many bytes takes: a column a character. */
size_t mt_text_width(const char *text, size_t bytes);

/* Prints, or adds, words from column `indent` on, which is reached, with lines broken between them, and ends the last
 * line. */
void mt_print_wrapped(const char *text, size_t indent);
void mt_text_add_wrapped(struct mt_text *out, const char *text, size_t indent);

/* A line on stderr, "memtrace: …". */
void mt_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Adds `name` with control characters and what is not UTF-8 written as \x1b. */
void mt_text_add_visible(struct mt_text *out, const char *name);

/* Adds text that XML and HTML show as it is, in an element or a quoted attribute: made visible as above, since control
 * characters are not allowed there even escaped, and without markup. */
void mt_text_add_markup(struct mt_text *out, const char *text);

/* Adds text that GitHub's Markdown shows as it is, in a paragraph, a heading or a cell of a table: made visible as above,
 * and with a backslash before what would mean something. */
void mt_text_add_markdown(struct mt_text *out, const char *text);

/* Adds `word` so that a shell reads it as one, quoted where it must be. */
void mt_text_add_shell_word(struct mt_text *out, const char *word);

/* Prints a name as mt_text_add_visible does; raw where stdout is not a terminal and so obeys nothing. */
void mt_print_name(const char *name);

/* "41.7 %", and "<0.1 %" of what is more than nothing but would round to 0.0 %; ">-0.1 %" of a part below 0 that would,
 * "-" of a whole that is not above 0. Into `text` of MT_BYTES_TEXT bytes, which it returns. */
char *mt_format_share(double part, double whole, char *text);

/* Prints "3.41 billion parameters"; a count under a million is printed in full. */
void mt_print_parameter_count(uint64_t count);

/* A JSON string of text in any encoding: bytes that are not UTF-8 become U+FFFD. NULL becomes null. */
json_t *mt_json_text(const char *text);

/* A number, or null where it is NAN. */
json_t *mt_json_number(double value);

/* Prints `value` on stdout with a newline and releases it. */
void mt_json_print(json_t *value);

/* A JSON object whose last member is a list that may be too long to hold: {…members of `head`…, "key": [row, row]}.
 * Zero-initialized is ready to begin. */
struct mt_json_stream {
    bool has_rows;
};
void mt_json_stream_begin(struct mt_json_stream *stream, json_t *head, const char *key); /* takes head, not empty */
void mt_json_stream_row(struct mt_json_stream *stream, json_t *row);                     /* takes row */
void mt_json_stream_end(struct mt_json_stream *stream);

/* Adds a field of a CSV line, quoted where it must be (RFC 4180). */
void mt_text_add_csv(struct mt_text *out, const char *field);

/* Prints one, its characters visible on a terminal, and what follows it, ',' or a newline. */
void mt_csv_print(const char *field, char after);

#endif
