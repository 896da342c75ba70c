#include "analysis/fit/value_range.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static mt_status parse_value(const struct mt_value_range *range, const char *text, size_t length, int64_t *out)
{
    struct mt_text value = {0};
    mt_text_add(&value, "%.*s", (int)length, text);
    mt_status status = mt_parse_integer(range->name, mt_text_get(&value), 1, MT_MOST_VALUE, out);
    mt_text_release(&value);
    return status;
}

/* Reads "1,2,4". */
static mt_status parse_list(const char *text, struct mt_value_range *out)
{
    for (;;) {
        int64_t value;
        const size_t length = strcspn(text, ",");
        MT_TRY(parse_value(out, text, length, &value));
        if (out->count > 0 && value <= out->listed[out->count - 1])
            return mt_fail(MT_USAGE, "%s: %" PRId64 " follows %" PRId64 "; values must ascend", out->name, value,
                           out->listed[out->count - 1]);
        *MT_HOST_ADD(out->listed, out->count) = value;
        if (text[length] == '\0')
            return MT_OK;
        text += length + 1;
    }
}

/* Reads "1..512" or "8..512:8"; the dots are at `dots`. */
static mt_status parse_range(const char *text, const char *dots, struct mt_value_range *out)
{
    int64_t high;
    const char *last = dots + strlen("..");
    const size_t length = strcspn(last, ":");
    MT_TRY(parse_value(out, text, (size_t)(dots - text), &out->low));
    MT_TRY(parse_value(out, last, length, &high));
    out->step = 1;
    if (last[length] == ':')
        MT_TRY(parse_value(out, last + length + 1, strlen(last + length + 1), &out->step));
    if (high < out->low)
        return mt_fail(MT_USAGE, "%s: the range ends at %" PRId64 ", below its begin %" PRId64, out->name, high,
                       out->low);
    out->count = (high - out->low) / out->step + 1;
    return MT_OK;
}

mt_status mt_value_range_parse(const char *text, struct mt_value_range *out)
{
    const size_t length = strcspn(text, "=");
    *out = (struct mt_value_range){0};
    if (length == 0 || text[length] == '\0')
        return mt_fail(MT_USAGE, "values are NAME=LOW..HIGH, NAME=LOW..HIGH:STEP or NAME=VALUE,..., not \"%s\"", text);
    out->name = mt_host_strdup(text);
    out->name[length] = '\0';
    text += length + 1;
    const char *dots = strstr(text, "..");
    return dots != NULL ? parse_range(text, dots, out) : parse_list(text, out);
}

void mt_value_range_release(struct mt_value_range *range)
{
    free(range->name);
    free(range->listed);
    *range = (struct mt_value_range){0};
}

int64_t mt_value_range_at(const struct mt_value_range *range, int64_t index)
{
    assert(index >= 0 && index < range->count);
    return range->listed != NULL ? range->listed[index] : range->low + index * range->step;
}

int64_t mt_value_range_find(const struct mt_value_range *range, double value)
{
    int64_t below = -1, above = range->count;
    while (above - below > 1) {
        const int64_t middle = below + (above - below) / 2;
        if ((double)mt_value_range_at(range, middle) <= value)
            below = middle;
        else
            above = middle;
    }
    return below;
}
