/* A page of sections, tables and sentences, written once and printed as Markdown, HTML or JSON.
 *
 *   page ─▶ section ─▶ elements: table (made from rows by their fields), sentence, curve,
 *                                hint (a command that adds what is missing)
 *
 * It begins with the sentences that were added as findings. Markdown and HTML leave out columns that show the same in each row;
 * the title says it. HTML has charts beside tables, and curves.
 *
 * Texts are kept as they are. Each writer escapes them for its own format, so that a name in a trace stays a name.
 *
 * Threads: a page belongs to its caller. */
#pragma once

#include "answer/row.h"

struct mt_page;

/* Creates an empty page. Copies the title. */
struct mt_page *mt_page_create(const char *title);
void mt_page_destroy(struct mt_page *page); /* may be NULL */

/* Begins a section. Later elements belong to it; those before the first section are the page's introduction. `key` is the
 * section's name in JSON and in links, of letters, digits and dashes. Copies both texts. */
void mt_page_section(struct mt_page *page, const char *key, const char *title);

/* Adds a paragraph of plain text. */
void mt_page_say(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same of a sentence that says what was found: the page begins with all of these, too. */
void mt_page_find(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adds bytes over a run as an area, which HTML alone has. `end` names the right end of the axis: "1.2 s". Copies everything. */
void mt_page_curve(struct mt_page *page, const char *title, const uint64_t *bytes, size_t count, const char *end);

/* Adds the reason why something is absent, and the command that adds it. Copies both texts. */
void mt_page_hint(struct mt_page *page, const char *command, const char *reason);

/* Adds a table with a column for each field of the type, and `count` rows, one behind the other. `key` is its name in JSON,
 * `title` a line above it. A cell shows the field as people read it; its exact number is kept for JSON, and null is shown as
 * a dash. Copies everything. */
void mt_page_table(struct mt_page *page, const char *key, const char *title, const struct mt_row_type *type,
                   const void *rows, size_t count);

/* Adds a row to the table that was added last, and after which nothing else was. The type is the table's. */
void mt_page_row(struct mt_page *page, const struct mt_row_type *type, const void *row);

/* Links the row that was added last: its first cell, and its bars. Copies the target, a path relative to the page. */
void mt_page_link(struct mt_page *page, const char *target);

/* Has pages show all columns of the table that was added last, also those that are the same in each row. */
void mt_page_keep_columns(struct mt_page *page);

/* Adds a chart of the rows so far to the table that was added last: for each row a bar for each of the columns of those titles,
 * three at most; NULL follows the last title. Titles that no column has are left out. */
void mt_page_chart(struct mt_page *page, ...) __attribute__((sentinel));

/* A field of rows for pages alone: MT_COLUMN(BYTES, uint64_t, struct mt_top_row, bytes, "size"). */
#define MT_COLUMN(kind, type, row, member, title) MT_SHOWN(kind, type, row, member, title, title)

/* Adds the whole page. HTML is one file without scripts or anything to fetch. */
void mt_page_write_markdown(const struct mt_page *page, struct mt_text *out);
void mt_page_write_html(const struct mt_page *page, struct mt_text *out);

/* Returns {schema, title, introduction, sections}; the caller releases it. */
json_t *mt_page_json(const struct mt_page *page);
