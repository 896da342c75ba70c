/* Makes the chunks of tables on every core, since compressing is half the work of a page, and writes them in order.
 *
 *   tables ──▶ a wave of parts ──┬─▶ encode, compress ─┬──▶ the file
 *                                └─▶ encode, compress ─┘ */
#ifndef MT_PAGE_PAGE_PRESS_H
#define MT_PAGE_PAGE_PRESS_H

#include "page/page_chunk.h"
#include "page/page_table.h"

/* Writes the chunks of `count` tables, those without a name left out. MT_FAILED if zlib can't. */
mt_status mt_page_press(const struct mt_page_output *out, const struct mt_page_table *tables, size_t count);

#endif
