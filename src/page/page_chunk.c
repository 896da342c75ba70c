#include "page/page_chunk.h"

#include "base/memory.h"

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

char *mt_page_chunk_make(size_t number, const unsigned char *bytes, size_t count, size_t *out_length)
{
    uLongf length = compressBound((uLong)count);
    unsigned char *compressed = mt_host_alloc(length);
    int code = compress2(compressed, &length, bytes, (uLong)count, Z_DEFAULT_COMPRESSION);
    char *text = code == Z_OK ? make_element(number, compressed, length, out_length) : NULL;
    free(compressed);
    return text;
}
