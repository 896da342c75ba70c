/* A chunk of the timeline page: bytes, compressed by zlib and written as base64 into a script element. */
#ifndef MT_PAGE_PAGE_CHUNK_H
#define MT_PAGE_PAGE_CHUNK_H

#include "base/status.h"

#include <stddef.h>

/* Where the page goes. Writing does not fail here: whoever owns the file keeps the first error. */
struct mt_page_output {
    void *context;
    void (*write)(void *context, const void *data, size_t bytes);
};

void mt_page_output_text(const struct mt_page_output *out, const char *text);

/* Compressed bytes; the caller's, free(). MT_FAILED if zlib can't. Any thread. */
mt_status mt_page_chunk_compress(const unsigned char *bytes, size_t count, unsigned char **out, size_t *out_count);

/* Writes the element with the id chunk-NUMBER. */
void mt_page_chunk_write(const struct mt_page_output *out, size_t number, const unsigned char *compressed,
                         size_t count);

#endif
