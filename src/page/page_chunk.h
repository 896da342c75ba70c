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

/* What zlib looks for. */
typedef enum mt_page_packing {
    MT_PAGE_REPEATS, /* what was there before, and how often each byte is */
    MT_PAGE_NOISE /* the latter only: where little repeats, as in the times of a card's clock, that is smaller, too */
} mt_page_packing;

/* The packing that makes less of the bytes. Any thread. */
mt_page_packing mt_page_packing_choose(const unsigned char *bytes, size_t count);

/* The element with the id chunk-NUMBER that holds the bytes, as *out_length characters; the caller's, free(). NULL if
 * zlib can't, for which there is no reason but memory. Any thread. */
char *mt_page_chunk_make(size_t number, mt_page_packing packing, const unsigned char *bytes, size_t count,
                         size_t *out_length);

#endif
