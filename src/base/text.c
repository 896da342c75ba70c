#include "base/text.h"

#include "base/memory.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

char *mt_format_bytes(uint64_t bytes, char *text)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < 1024) {
        snprintf(text, MT_BYTES_TEXT, "%" PRIu64 " B", bytes);
        return text;
    }
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.995 && unit + 1 < sizeof units / sizeof units[0]) {
        value /= 1024;
        unit++;
    }
    snprintf(text, MT_BYTES_TEXT, "%.2f %s", value, units[unit]);
    return text;
}

/* The power of 1024 that a unit's spelling means, -1 for none. */
static int unit_power(const char *unit)
{
    static const char letters[] = "kmgt";
    if (unit[0] == '\0' || strcasecmp(unit, "b") == 0)
        return 0;
    const char *letter = strchr(letters, tolower((unsigned char)unit[0]));
    if (letter == NULL || *letter == '\0')
        return -1;
    const char *rest = unit + 1;
    bool known = rest[0] == '\0' || strcasecmp(rest, "b") == 0 || strcasecmp(rest, "ib") == 0;
    return known ? (int)(letter - letters) + 1 : -1;
}

mt_status mt_parse_bytes(const char *text, uint64_t *out_bytes)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    bool is_number = end != text && isdigit((unsigned char)text[0]) && errno == 0;
    while (*end == ' ')
        end++;
    int power = unit_power(end);
    for (int i = 0; i < power; i++)
        value *= 1024;
    if (!is_number || power < 0 || value >= 0x1p63)
        return mt_fail(MT_USAGE, "\"%s\" is not a size: write bytes or a number with KiB, MiB, GiB or TiB", text);
    *out_bytes = (uint64_t)value;
    return MT_OK;
}

mt_status mt_parse_integer(const char *what, const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < low || value > high)
        return mt_fail(MT_USAGE, "%s %s: expected a whole number from %" PRId64 " to %" PRId64, what, text, low, high);
    *out = value;
    return MT_OK;
}

enum { LONGEST_WORD = 63 };

static size_t smallest(size_t a, size_t b, size_t c)
{
    size_t low = a < b ? a : b;
    return low < c ? low : c;
}

/* Levenshtein distance, letters compared without case; words are cut at LONGEST_WORD. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[LONGEST_WORD + 1];
    size_t columns = strnlen(b, LONGEST_WORD), rows = strnlen(a, LONGEST_WORD);
    for (size_t j = 0; j <= columns; j++)
        row[j] = j;
    for (size_t i = 1; i <= rows; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= columns; j++) {
            size_t change = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            size_t above = row[j];
            row[j] = smallest(diagonal + change, above + 1, row[j - 1] + 1);
            diagonal = above;
        }
    }
    return row[columns];
}

const char *mt_nearest(const char *word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    size_t best = strlen(word) / 2 + 1;
    for (size_t i = 0; i < count; i++) {
        size_t distance = edit_distance(word, names[i]);
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

mt_status mt_fail_unknown(const char *what, const char *word, const char *const *names, size_t count)
{
    struct mt_text list = {0};
    for (size_t i = 0; i < count; i++)
        mt_text_add(&list, "%s%s", i > 0 ? ", " : "", names[i]);
    const char *nearest = mt_nearest(word, names, count);
    const char *choices = list.length > 0 ? list.data : "none";
    mt_status status = nearest != NULL ? mt_fail(MT_USAGE, "unknown %s \"%s\"; did you mean \"%s\"? There are %s", what,
                                                 word, nearest, choices)
                                       : mt_fail(MT_USAGE, "unknown %s \"%s\": there are %s", what, word, choices);
    mt_text_release(&list);
    return status;
}

void mt_text_add(struct mt_text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int needed = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (needed > 0) {
        size_t end = text->length + (size_t)needed;
        if (end + 1 > text->capacity) {
            text->capacity = (end + 1) * 2;
            text->data = mt_host_resize(text->data, text->capacity, 1);
        }
        vsnprintf(text->data + text->length, (size_t)needed + 1, format, again);
        text->length = end;
    }
    va_end(again);
}

void mt_text_release(struct mt_text *text)
{
    free(text->data);
    *text = (struct mt_text){0};
}
