#include "page/page_chunk.h"

#include "base/memory.h"
#include "base/text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

void mt_page_output_text(const struct mt_page_output *out, const char *text)
{
    out->write(out->context, text, strlen(text));
}

mt_status mt_page_chunk_compress(const unsigned char *bytes, size_t count, unsigned char **out, size_t *out_count)
{
    uLongf length = compressBound((uLong)count);
    *out = mt_host_alloc(length);
    int code = compress2(*out, &length, bytes, (uLong)count, Z_DEFAULT_COMPRESSION);
    *out_count = length;
    if (code == Z_OK)
        return MT_OK;
    free(*out);
    *out = NULL;
    return mt_fail(MT_FAILED, "zlib: %s", zError(code));
}

/* Three bytes, of which `count` are there, as four characters. */
static void encode_group(const unsigned char *bytes, size_t count, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t group = (uint32_t)bytes[0] << 16;
    group |= count > 1 ? (uint32_t)bytes[1] << 8 : 0;
    group |= count > 2 ? bytes[2] : 0;
    for (int i = 0; i < 4; i++)
        out[i] = (size_t)i <= count ? digits[group >> (18 - 6 * i) & 63] : '=';
}

static void write_base64(const struct mt_page_output *out, const unsigned char *bytes, size_t count)
{
    enum { GROUPS = 1024 };
    char text[GROUPS * 4];
    while (count > 0) {
        size_t groups = 0;
        for (; groups < GROUPS && count > 0; groups++) {
            size_t taken = count < 3 ? count : 3;
            encode_group(bytes, taken, text + groups * 4);
            bytes += taken;
            count -= taken;
        }
        out->write(out->context, text, groups * 4);
    }
}

void mt_page_chunk_write(const struct mt_page_output *out, size_t number, const unsigned char *compressed, size_t count)
{
    struct mt_text head = {0};
    mt_text_add(&head, "<script type=\"application/octet-stream;base64\" id=\"chunk-%zu\">", number);
    mt_page_output_text(out, head.data);
    write_base64(out, compressed, count);
    mt_page_output_text(out, "</script>\n");
    mt_text_release(&head);
}
