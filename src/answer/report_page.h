/* A page of sections, tables and sentences, written once and printed as Markdown, HTML or JSON.
 *
 *   page ─▶ section ─▶ elements: table (made from rows by their fields), sentence, curve,
 *                                hint (a command that adds what is missing)
 *
 * The page begins with the sentences that were added as findings. Markdown and HTML leave out columns with the same
 * value in each row, and put the value into the title. HTML also has charts and curves.
 *
 * Texts are stored unescaped. Each writer escapes them for its format, so that names from a trace can't be markup.
 *
 * Threads: a page belongs to its caller. */
#pragma once

#include "answer/row.h"

struct mt_page;

/* Creates an empty page. Copies the title. */
struct mt_page *mt_page_create(const char *title);
void mt_page_destroy(struct mt_page *page); /* may be NULL */

/* Begins a section. Elements before the first section are the page's introduction. `key` is the section's name in JSON
 * and in links, and has only letters, digits and dashes. Copies both texts. */
void mt_page_section(struct mt_page *page, const char *key, const char *title);

/* Adds a paragraph of plain text. */
void mt_page_say(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds a paragraph that is also a finding: the page begins with a list of all findings. */
void mt_page_find(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds bytes over a run as an area chart, only in HTML. `end` labels the right end of the axis: "1.2 s". Copies
 * everything. */
void mt_page_curve(struct mt_page *page, const char *title, const uint64_t *bytes, size_t count, const char *end);

/* Adds why something is missing, and the command that adds it. Copies both texts. */
void mt_page_hint(struct mt_page *page, const char *command, const char *reason);

/* Adds a table with a column for each field of the type, and `count` rows from an array. `key` is its name in JSON,
 * `title` a line above it. Cells show the readable form of a field; the exact number is kept for JSON, and null is
 * shown as a dash. Copies everything. */
void mt_page_table(struct mt_page *page, const char *key, const char *title, const struct mt_row_type *type,
                   const void *rows, size_t count);

/* Adds a row to the last table, which must be the last element. The type is the table's. */
void mt_page_row(struct mt_page *page, const struct mt_row_type *type, const void *row);

/* Adds a link to the last row: on its first cell and its bars. Copies the target, a path relative to the page. */
void mt_page_link(struct mt_page *page, const char *target);

/* Makes pages show all columns of the last table, also those with equal values in each row. */
void mt_page_keep_columns(struct mt_page *page);

/* Adds a chart of the rows so far to the last table: in each row, a bar for each column with one of the titles, at most
 * three. The titles end with NULL. Titles without a column are ignored. */
void mt_page_chart(struct mt_page *page, ...) __attribute__((sentinel));

/* A field of rows only for pages: MT_COLUMN(BYTES, uint64_t, struct mt_top_row, bytes, "size"). */
#define MT_COLUMN(kind, type, row, member, title) MT_SHOWN(kind, type, row, member, title, title)

/* Adds the whole page. HTML is one file without scripts or external resources. */
void mt_page_write_markdown(const struct mt_page *page, struct mt_text *out);
void mt_page_write_html(const struct mt_page *page, struct mt_text *out);

/* Returns {schema, title, introduction, sections}; the caller releases it. */
json_t *mt_page_json(const struct mt_page *page);
