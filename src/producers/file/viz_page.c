#include "producers/file/viz_page.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

static size_t skip_space(const struct mt_whole_file *file, size_t at)
{
    while (at < file->length && isspace(file->data[at]))
        at++;
    return at;
}

static bool begins_with(const struct mt_whole_file *file, const char *word)
{
    size_t at = skip_space(file, 0), length = strlen(word);
    return file->length - at >= length && strncasecmp((const char *)file->data + at, word, length) == 0;
}

bool mt_viz_page_is_one(const struct mt_whole_file *file)
{
    return begins_with(file, "<!doctype html") || begins_with(file, "<html");
}

/* Returns the position of the first character of base64; the length of the file if there is none. */
static size_t find_base64(const struct mt_whole_file *file)
{
    static const char key[] = "\"base64\"";
    const unsigned char *found = memmem(file->data, file->length, key, strlen(key));
    if (found == NULL)
        return file->length;
    size_t at = skip_space(file, (size_t)(found - file->data) + strlen(key));
    if (at == file->length || file->data[at] != ':')
        return file->length;
    at = skip_space(file, at + 1);
    return at < file->length && file->data[at] == '"' ? at + 1 : file->length;
}

/* Returns the six bits of a character of base64; -1 for others. */
static int bits_of(unsigned char character)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = character != '\0' ? strchr(alphabet, character) : NULL;
    return found != NULL ? (int)(found - alphabet) : -1;
}

/* Each character adds six bits, and a byte is written once there are eight, so writing stays behind reading. */
mt_status mt_viz_page_unwrap(struct mt_whole_file *file)
{
    size_t at = find_base64(file), length = 0;
    unsigned bits = 0, count = 0;
    if (at == file->length)
        return mt_fail(MT_BAD_TRACE, "it is a page of HTML without a snapshot of PyTorch: pages of trace_plot and "
                                     "segment_plot since PyTorch 2.1 contain one");
    for (int six; at < file->length && (six = bits_of(file->data[at])) >= 0; at++) {
        bits = (bits << 6 | (unsigned)six) & 0xFFFF;
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        assert(length < at);
        file->data[length++] = (unsigned char)(bits >> count);
    }
    if (at == file->length || (file->data[at] != '"' && file->data[at] != '='))
        return mt_fail(MT_BAD_TRACE, "the page is damaged: its snapshot in base64 %s at byte %zu",
                       at == file->length ? "is cut off" : "has another character", at);
    file->length = length;
    return MT_OK;
}
