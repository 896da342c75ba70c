#include "base/text.h"

#include "base/memory.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
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
    mt_print(text, MT_BYTES_TEXT, "%.2f %s", value, units[unit]);
    return text;
}

char *mt_format_difference(int64_t bytes, char *text)
{
    if (bytes == 0)
        return mt_format_bytes(0, text);
    text[0] = bytes < 0 ? '-' : '+';
    char magnitude[MT_BYTES_TEXT];
    mt_format_bytes(bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes, magnitude);
    assert(strlen(magnitude) + 1 < MT_BYTES_TEXT);
    memcpy(text + 1, magnitude, strlen(magnitude) + 1);
    return text;
}

/* Returns the power of 1024 that a unit stands for; -1 if it is no unit. */
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

/* Reads the decimal number at the beginning of `text`, and sets *out_rest behind it and its blanks; false if there is
 * none. */
static bool read_number(const char *text, double *out, const char **out_rest)
{
    char *end;
    bool is_hexadecimal = text[0] == '0' && tolower((unsigned char)text[1]) == 'x';
    errno = 0;
    *out = mt_read_real(text, &end);
    *out_rest = end + strspn(end, " ");
    return end != text && isdigit((unsigned char)text[0]) && !is_hexadecimal && errno == 0;
}

mt_status mt_parse_bytes(const char *text, uint64_t *out_bytes)
{
    double value;
    const char *unit;
    bool is_number = read_number(text, &value, &unit);
    int power = unit_power(unit);
    for (int i = 0; i < power; i++)
        value *= 1024;
    if (!is_number || power < 0 || value >= 0x1p63)
        return mt_fail(
            MT_USAGE,
            "\"%s\" is not a size: write bytes or a number with KiB, MiB, GiB or TiB (KB, MB, GB and TB are the same)",
            text);
    *out_bytes = (uint64_t)value;
    return MT_OK;
}

mt_status mt_parse_size(const char *text, uint64_t *out_bytes)
{
    enum { LEAST_PLAIN = 4096 }; /* of a number without a unit: a page of memory */
    double value;
    const char *unit;
    MT_TRY(mt_parse_bytes(text, out_bytes));
    (void)read_number(text, &value, &unit);
    if (unit[0] == '\0' && value > 0 && value < LEAST_PLAIN)
        return mt_fail(MT_USAGE, "\"%s\" would be %" PRIu64 " bytes: write the unit, as in %sGiB or %sB", text,
                       *out_bytes, text, text);
    return MT_OK;
}

mt_status mt_parse_percent(const char *text, double *out_percent)
{
    double value;
    const char *sign;
    bool is_number = read_number(text, &value, &sign);
    if (!is_number || (strcmp(sign, "%") != 0 && *sign != '\0') || value > MT_MOST_PERCENT)
        return mt_fail(MT_USAGE, "\"%s\" is not a percentage: write a number from 0, with or without %%", text);
    *out_percent = value;
    return MT_OK;
}

mt_status mt_parse_integer(const char *what, const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;
    assert(low <= high);
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0 && value >= low && value <= high) {
        *out = value;
        return MT_OK;
    }
    if (high == INT64_MAX && errno == 0)
        return mt_fail(MT_USAGE, "%s %s: expected a whole number, %" PRId64 " or more", what, text, low);
    return mt_fail(MT_USAGE, "%s %s: expected a whole number from %" PRId64 " to %" PRId64, what, text, low, high);
}

enum { LONGEST_WORD = 63 };

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static bool is_same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Returns the distance of two words in optimal string alignment: the number of letters to insert, delete, change or
 * swap with the next that makes one word the other. Ignores case; words are cut at LONGEST_WORD. */
static int edit_distance(const char *a, const char *b)
{
    int distance[LONGEST_WORD + 1][LONGEST_WORD + 1]; /* of the first i letters of a and the first j of b */
    size_t rows = strnlen(a, LONGEST_WORD), columns = strnlen(b, LONGEST_WORD);
    for (size_t i = 0; i <= rows; i++) {
        for (size_t j = 0; j <= columns; j++) {
            if (i == 0 || j == 0) {
                distance[i][j] = (int)(i + j);
                continue;
            }
            int least = distance[i - 1][j - 1] + !is_same_letter(a[i - 1], b[j - 1]);
            least = smaller(least, smaller(distance[i - 1][j], distance[i][j - 1]) + 1);
            if (i > 1 && j > 1 && is_same_letter(a[i - 1], b[j - 2]) && is_same_letter(a[i - 2], b[j - 1]))
                least = smaller(least, distance[i - 2][j - 2] + 1);
            distance[i][j] = least;
        }
    }
    assert(distance[rows][columns] >= 0 && distance[rows][columns] <= LONGEST_WORD);
    return distance[rows][columns];
}

/* Returns the distance of what was written from a name; that of a name's beginning is 1, as of one mistake. */
static int distance_of(const char *word, const char *name)
{
    size_t length = strlen(word);
    if (length > 0 && length < strlen(name) && strncasecmp(word, name, length) == 0)
        return 1;
    return edit_distance(word, name);
}

/* Names by their distance from a word, the nearest first; equally near ones in their own order. */
enum { MOST_NEAREST = 3 };
struct nearest {
    const char *names[MOST_NEAREST];
    int distances[MOST_NEAREST];
    size_t count;
};

static void add_nearest(const char *name, int distance, struct nearest *out)
{
    size_t place = out->count < MOST_NEAREST ? out->count++ : MOST_NEAREST - 1;
    if (place == MOST_NEAREST - 1 && out->names[place] != NULL && out->distances[place] <= distance)
        return;
    for (; place > 0 && out->distances[place - 1] > distance; place--) {
        out->names[place] = out->names[place - 1];
        out->distances[place] = out->distances[place - 1];
    }
    out->names[place] = name;
    out->distances[place] = distance;
}

/* Finds the names below the distance `limit`. */
static struct nearest find_nearest(const char *word, const char *const *names, size_t count, int limit)
{
    struct nearest nearest = {.count = 0};
    assert(word != NULL && (names != NULL || count == 0));
    for (size_t i = 0; i < count; i++) {
        int distance = distance_of(word, names[i]);
        if (distance < limit)
            add_nearest(names[i], distance, &nearest);
    }
    return nearest;
}

/* Returns the distance at which a name is too far to be what was meant. */
static int far_from(const char *word)
{
    return (int)(strnlen(word, LONGEST_WORD) / 2 + 1);
}

const char *mt_nearest(const char *word, const char *const *names, size_t count)
{
    return find_nearest(word, names, count, far_from(word)).names[0];
}

/* Adds `"a", "b" or "c"`. */
static void add_nearest_names(const struct nearest *nearest, struct mt_text *out)
{
    for (size_t i = 0; i < nearest->count; i++)
        mt_text_add(out, "%s\"%s\"", i == 0 ? "" : i + 1 < nearest->count ? ", " : " or ", nearest->names[i]);
}

/* Adds "are a, b, c", or how many there are if they are too many to be read. */
static void add_names(const char *const *names, size_t count, bool is_long, struct mt_text *out)
{
    mt_text_add(out, count > 0 ? "are " : "are none");
    if (is_long)
        mt_text_add(out, "%zu", count);
    for (size_t i = 0; i < count && !is_long; i++)
        mt_text_add(out, "%s%s", i > 0 ? ", " : "", names[i]);
}

mt_status mt_fail_unknown(const char *what, const char *word, const char *const *names, size_t count)
{
    enum { FEW = 8, MOST_LISTED = 32 };
    bool is_long = count > MOST_LISTED;
    struct nearest nearest = find_nearest(word, names, count, far_from(word));
    if (is_long || (count > FEW && nearest.count > 0))
        nearest = find_nearest(word, names, count, INT_MAX);
    struct mt_text text = {0};
    mt_text_add(&text, "unknown %s \"%s\"", what, word);
    if (nearest.count > 0)
        mt_text_add(&text, "; did you mean ");
    add_nearest_names(&nearest, &text);
    mt_text_add(&text, nearest.count > 0 ? "? There " : ": there ");
    add_names(names, count, is_long, &text);
    mt_status status = mt_fail(MT_USAGE, "%s", mt_text_get(&text));
    mt_text_release(&text);
    return status;
}

void mt_text_add_list(struct mt_text *text, const char *format, va_list arguments)
{
    va_list again;
    assert(text->length <= text->capacity && (text->data != NULL || text->capacity == 0));
    va_copy(again, arguments);
    int needed = mt_print_list(NULL, 0, format, arguments);
    if (needed > 0) {
        size_t end = text->length + (size_t)needed;
        if (end + 1 > text->capacity) {
            text->capacity = (end + 1) * 2;
            text->data = mt_host_resize(text->data, text->capacity, 1);
        }
        assert(end < text->capacity);
        mt_print_list(text->data + text->length, (size_t)needed + 1, format, again);
        text->length = end;
    }
    va_end(again);
}

bool mt_is_text(const char *wanted, const char *text)
{
    return wanted == NULL || strcmp(wanted, text) == 0;
}

bool mt_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = end != NULL ? strlen(end) : 0;
    return end_length <= length && mt_is_text(end, text + length - end_length);
}

void mt_text_add(struct mt_text *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    mt_text_add_list(text, format, arguments);
    va_end(arguments);
}

void mt_text_release(struct mt_text *text)
{
    free(text->data);
    *text = (struct mt_text){0};
}

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
