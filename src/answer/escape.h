/* Escapes text for a terminal, HTML, Markdown, a shell or CSV. Names in a trace may hold any bytes. */
#pragma once

#include "base/text.h"

/* True if a byte of UTF-8 continues a character rather than beginning one. */
static inline bool mt_continues_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* Returns the columns that `bytes` of text take on a terminal: one for each character. */
size_t mt_text_width(const char *text, size_t bytes);

/* Adds words, wrapped at `width` columns, and ends the last line. The text is in column `indent`, where each line
 * begins. */
void mt_text_add_wrapped(struct mt_text *out, const char *text, size_t indent, size_t width);

/* Adds `name` with control characters, marks of direction and invalid UTF-8 written as \x1b. */
void mt_text_add_visible(struct mt_text *out, const char *name);

/* Adds text for an element or a quoted attribute of XML or HTML: visible as above, and with its markup escaped. */
void mt_text_add_markup(struct mt_text *out, const char *text);

/* Adds text for a paragraph, a heading or a cell of GitHub's Markdown: visible as above, and with a backslash before each
 * character that has a meaning there. */
void mt_text_add_markdown(struct mt_text *out, const char *text);

/* Adds `word` so that a shell reads it as one word, quoted where it must be. */
void mt_text_add_shell_word(struct mt_text *out, const char *word);

/* Adds a field of a CSV line, quoted where it must be (RFC 4180). One that a spreadsheet would take for a formula begins with an
 * apostrophe, which it takes for the mark of text. */
void mt_text_add_csv(struct mt_text *out, const char *field);
