/* Escapes text for a terminal, HTML, Markdown, a shell or CSV. Names in a trace may contain any bytes. */
#pragma once

#include "base/text.h"

/* True if a UTF-8 byte continues a character. */
static inline bool mt_continues_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* Returns the columns that `bytes` of text take on a terminal: one for each character. */
size_t mt_text_width(const char *text, size_t bytes);

/* Adds words, wrapped at `width` columns, and ends the last line. The first line begins at the current position, column
 * `indent`; later lines are indented to the same column. */
void mt_text_add_wrapped(struct mt_text *out, const char *text, size_t indent, size_t width);

/* Adds `name` with control characters, direction marks and invalid UTF-8 as escapes such as \x1b. */
void mt_text_add_visible(struct mt_text *out, const char *name);

/* Adds text for an element or a quoted attribute of XML or HTML: visible as above, and with its markup escaped. */
void mt_text_add_markup(struct mt_text *out, const char *text);

/* Adds text for a paragraph, heading or cell of GitHub's Markdown: visible as above, and with a backslash before each
 * character with a meaning there. */
void mt_text_add_markdown(struct mt_text *out, const char *text);

/* Adds `word` as one shell word, quoted if necessary. */
void mt_text_add_shell_word(struct mt_text *out, const char *word);

/* Adds a field of a CSV line, quoted if necessary (RFC 4180). A field that a spreadsheet would treat as a formula is
 * prefixed with an apostrophe, which marks it as text. */
void mt_text_add_csv(struct mt_text *out, const char *field);
