#include "producers/program/assumed_values.h"

#include "base/plain_text.h"

#include <stdbool.h>
#include <string.h>

/* True if C and Python both read the text as a number. Only C reads 0x10. */
static bool is_number(const char *text)
{
    char *end;
    (void)mt_read_real(text, &end);
    return end != text && *end == '\0' && strpbrk(text, "xX(") == NULL;
}

/* Reads "none", "all" or a percentage. False if it is none of these. */
static bool read_masks(const char *text, double *out)
{
    char *end;
    if (strcmp(text, "none") == 0 || strcmp(text, "all") == 0) {
        *out = text[0] == 'a';
        return true;
    }
    *out = mt_read_real(text, &end) / 100;
    return end != text && strcmp(end, "%") == 0 && *out >= 0 && *out <= 1;
}

mt_status mt_assumed_value_read(const char *text, struct mt_assumed_value *out)
{
    *out = (struct mt_assumed_value){.number = MT_ASSUMED_USUAL, .masks = 1};
    if (is_number(text)) {
        out->number = text;
        return MT_OK;
    }
    if (read_masks(text, &out->masks))
        return MT_OK;
    return mt_fail(MT_USAGE, "an assumed value is a number, or none, all or a percentage for masks, not \"%s\"", text);
}
