/* A page of sections, tables and sentences, written once and printed as Markdown, HTML or JSON.
 *
 *   page ─▶ section ─▶ elements: table (rows of cells), sentence, hint (what would add a missing table)
 *
 * Texts are kept as they are: each writer escapes for its own format, so that a name in a trace stays a name. */
#ifndef MT_ANSWER_REPORT_PAGE_H
#define MT_ANSWER_REPORT_PAGE_H

#include "answer/table.h"
#include "base/text.h"

#include <jansson.h>

struct mt_page;

/* An empty page. Copies the title. */
struct mt_page *mt_page_create(const char *title);
void mt_page_destroy(struct mt_page *page); /* may be NULL */

/* A section; what is added from now on belongs to it. `key` is its name in JSON and in links, of letters and dashes.
 * What precedes the first section is the page's introduction. */
void mt_page_section(struct mt_page *page, const char *key, const char *title);

/* A paragraph of plain text. */
void mt_page_say(struct mt_page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Why something is absent, and the command that would add it. */
void mt_page_hint(struct mt_page *page, const char *command, const char *reason);

/* A table, which cells are added to until the next element; its columns are borrowed for the call. `key` is its name in
 * JSON, `title` a line above it. */
void mt_page_table(struct mt_page *page, const char *key, const char *title, const struct mt_column *columns,
                   size_t column_count);

/* The next cell of the table, row by row. What people see is rounded; the exact value stays for JSON. */
void mt_page_cell(struct mt_page *page, const char *text);
void mt_page_cell_bytes(struct mt_page *page, uint64_t bytes);
void mt_page_cell_difference(struct mt_page *page, int64_t bytes); /* with its sign */
void mt_page_cell_count(struct mt_page *page, int64_t count);
void mt_page_cell_number(struct mt_page *page, double number, const char *text); /* shown as `text` */
void mt_page_cell_absent(struct mt_page *page);                                  /* not known, or not asked for */

/* The writers: each adds the whole page. HTML is one file without scripts or anything to fetch. */
void mt_page_write_markdown(const struct mt_page *page, struct mt_text *out);
void mt_page_write_html(const struct mt_page *page, struct mt_text *out);

/* {schema, title, introduction, sections}; the caller's. */
json_t *mt_page_json(const struct mt_page *page);

#endif
