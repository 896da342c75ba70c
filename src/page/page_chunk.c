#include "page/page_chunk.h"

#include "base/memory.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char TAIL[] = "</script>\n";

enum { HEAD_BYTES = 96 };

void mt_page_output_text(const struct mt_page_output *out, const char *text)
{
    out->write(out->context, text, strlen(text));
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Three bytes as four characters. */
static void encode_group(const unsigned char *bytes, char *out)
{
    uint32_t group = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
    out[0] = digits[group >> 18];
    out[1] = digits[group >> 12 & 63];
    out[2] = digits[group >> 6 & 63];
    out[3] = digits[group & 63];
}

static size_t base64_length(size_t count)
{
    return (count + 2) / 3 * 4;
}

static void encode_base64(const unsigned char *bytes, size_t count, char *out)
{
    size_t rest = count % 3, whole = count - rest;
    for (size_t i = 0; i < whole; i += 3, out += 4)
        encode_group(bytes + i, out);
    if (rest == 0)
        return;
    const unsigned char last[3] = {bytes[whole], rest == 2 ? bytes[whole + 1] : 0};
    encode_group(last, out);
    memset(out + rest + 1, '=', 3 - rest);
}

/* The element around what was compressed. */
static char *make_element(size_t number, const unsigned char *compressed, size_t count, size_t *out_length)
{
    char *text = mt_host_alloc(HEAD_BYTES + base64_length(count) + sizeof TAIL);
    int head = snprintf(text, HEAD_BYTES, "<script type=\"application/octet-stream;base64\" id=\"chunk-%zu\">", number);
    char *at = text + head;
    encode_base64(compressed, count, at);
    at += base64_length(count);
    memcpy(at, TAIL, sizeof TAIL);
    *out_length = (size_t)(at - text) + strlen(TAIL);
    return text;
}

/* Twice as fast as zlib's own choice, 6, for a file that is a hundredth larger. */
enum { LEVEL = 4, WINDOW_BITS = 15, MEMORY_LEVEL = 8 };

/* The bytes as zlib packs them, *out_length many; the caller's. NULL: it can't. */
static unsigned char *pack(mt_page_packing packing, const unsigned char *bytes, size_t count, size_t *out_length)
{
    int strategy = packing == MT_PAGE_NOISE ? Z_HUFFMAN_ONLY : Z_DEFAULT_STRATEGY;
    z_stream stream = {.next_in = (z_const Bytef *)(uintptr_t)bytes, .avail_in = (uInt)count};
    if (deflateInit2(&stream, LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL, strategy) != Z_OK)
        return NULL;
    uLong bound = deflateBound(&stream, (uLong)count);
    unsigned char *packed = mt_host_alloc(bound);
    stream.next_out = packed;
    stream.avail_out = (uInt)bound;
    int code = deflate(&stream, Z_FINISH);
    *out_length = stream.total_out;
    deflateEnd(&stream);
    if (code == Z_STREAM_END)
        return packed;
    free(packed);
    return NULL;
}

mt_page_packing mt_page_packing_choose(const unsigned char *bytes, size_t count)
{
    size_t repeats = 0, noise = 0;
    unsigned char *as_repeats = pack(MT_PAGE_REPEATS, bytes, count, &repeats);
    unsigned char *as_noise = pack(MT_PAGE_NOISE, bytes, count, &noise);
    bool less = as_repeats != NULL && as_noise != NULL && noise <= repeats;
    free(as_repeats);
    free(as_noise);
    return less ? MT_PAGE_NOISE : MT_PAGE_REPEATS;
}

char *mt_page_chunk_make(size_t number, mt_page_packing packing, const unsigned char *bytes, size_t count,
                         size_t *out_length)
{
    size_t length;
    unsigned char *packed = pack(packing, bytes, count, &length);
    char *text = packed != NULL ? make_element(number, packed, length, out_length) : NULL;
    free(packed);
    return text;
}
