#include "base/utf8.h"

#include <assert.h>

/* True if byte[1] to byte[extra] all continue a sequence. NUL does not, so nothing behind it is read. */
static bool continues(const unsigned char *byte, int extra)
{
    assert(extra > 0 && extra <= 3);
    for (int i = 1; i <= extra; i++)
        if ((byte[i] & 0xC0) != 0x80)
            return false;
    return true;
}

int mt_utf8_length(const char *text)
{
    const unsigned char *byte = (const unsigned char *)text;
    unsigned char lead = byte[0];
    if (lead < 0x80)
        return 1;
    int extra = lead >= 0xF0 && lead <= 0xF4  ? 3
                : lead >= 0xE0 && lead < 0xF0 ? 2
                : lead >= 0xC2 && lead < 0xE0 ? 1
                                              : 0;
    if (extra == 0 || !continues(byte, extra))
        return 0;
    bool too_long = (lead == 0xE0 && byte[1] < 0xA0) || (lead == 0xF0 && byte[1] < 0x90);
    bool no_character = (lead == 0xED && byte[1] > 0x9F) || (lead == 0xF4 && byte[1] > 0x8F);
    return too_long || no_character ? 0 : extra + 1;
}

void mt_utf8_add_repaired(struct mt_text *out, const char *text)
{
    while (*text != '\0') {
        int length = mt_utf8_length(text);
        mt_text_add(out, "%.*s", length > 0 ? length : 3, length > 0 ? text : "\xEF\xBF\xBD");
        text += length > 0 ? length : 1;
    }
}
