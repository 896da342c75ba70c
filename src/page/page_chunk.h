/* Chunks of the timeline page: bytes, compressed by zlib and written as base64 into a script element. Compressing is
 * half of the work of a page, so the chunks of tables are made on every core, and written in order.
 *
 *   tables ──▶ a wave of parts ──┬─▶ encode, compress ─┬──▶ the file
 *                                └─▶ encode, compress ─┘ */
#pragma once

#include "page/page_table.h"

#include <stddef.h>

enum { MT_PAGE_SET_NAME = 32 };

/* The destination of the page. Writing returns no error here: the owner of the file keeps the first one. A page may
 * have several sets of chunks, each numbered from 0. */
struct mt_page_output {
    void *context;
    void (*write)(void *context, const void *data, size_t bytes);
    char set[MT_PAGE_SET_NAME]; /* what the ids of its chunks begin with: "", "rank3-" */
};

void mt_page_output_text(const struct mt_page_output *out, const char *text);

/* Writes the bytes as the element with the id SETchunk-NUMBER. MT_FAILED if zlib fails. */
mt_status mt_page_chunk_write(const struct mt_page_output *out, size_t number, const void *bytes, size_t count);

/* Writes the chunks of `count` measured tables. Skips tables without a name. MT_FAILED if zlib fails. */
mt_status mt_page_tables_write(const struct mt_page_output *out, const struct mt_page_table *tables, size_t count);
