/* A chunk of the timeline page: bytes, compressed by zlib and written as base64 into a script element. */
#ifndef MT_PAGE_PAGE_CHUNK_H
#define MT_PAGE_PAGE_CHUNK_H

#include <stddef.h>

/* Where the page goes. Writing does not fail here: whoever owns the file keeps the first error. */
struct mt_page_output {
    void *context;
    void (*write)(void *context, const void *data, size_t bytes);
};

void mt_page_output_text(const struct mt_page_output *out, const char *text);

/* The element with the id chunk-NUMBER that holds the bytes, as *out_length characters; the caller's, free(). NULL if
 * zlib can't, for which there is no reason but memory. Any thread. */
char *mt_page_chunk_make(size_t number, const unsigned char *bytes, size_t count, size_t *out_length);

#endif
