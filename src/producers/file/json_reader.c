/* Reads in one pass, without recursion. Values stay on a stack until their list or object ends, which then removes them
 * together.
 *
 *   [{"a": 1, "b": [2, 3   ▲ at
 *   open    list from 0, object from 0, list from 3
 *   stack   "a" 1 "b" 2 3 */
#include "producers/file/json_reader.h"

#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_VALUES = 64, MOST_NUMBER_BYTES = 400 };

/* A list or object that has not ended. */
struct opened {
    uint32_t first; /* place of its first value on the stack */
    mt_value_kind kind;
};

/* Invariants: data <= at <= end; the `first` of open lists ascend, and none is above `count`; open_count <=
 * most_open, the depth that the store allows. */
struct reader {
    const unsigned char *data, *at, *end;
    struct mt_value_store *store;
    struct mt_value *stack;
    size_t count, capacity;
    struct opened *open;
    uint32_t open_count, most_open;
    char *scratch; /* the text that is being read, without its escapes */
    size_t scratch_bytes;
};

/* Fails at the next byte, and names the byte and what was expected. */
static mt_status fail_here(const struct reader *reader, const char *expected)
{
    if (reader->at == reader->end)
        return mt_fail(MT_BAD_TRACE, "it ends where %s should come", expected);
    return mt_fail(MT_BAD_TRACE, "there is 0x%02x where %s should come", *reader->at, expected);
}

static void skip_space(struct reader *reader)
{
    assert(reader->at >= reader->data && reader->at <= reader->end);
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

bool mt_json_is_one(const unsigned char *data, size_t length)
{
    struct reader reader = {.data = data, .at = data, .end = data + length};
    skip_space(&reader);
    return reader.at < reader.end && (*reader.at == '{' || *reader.at == '[');
}

/* Skips the byte and returns true, if it is the next one. */
static bool take(struct reader *reader, unsigned char byte)
{
    if (reader->at == reader->end || *reader->at != byte)
        return false;
    reader->at++;
    return true;
}

static mt_status push(struct reader *reader, struct mt_value value)
{
    assert(reader->count <= reader->capacity);
    if (reader->count == reader->capacity) {
        size_t capacity = reader->capacity * 2;
        MT_TRY(mt_value_store_count(reader->store, reader->capacity * sizeof *reader->stack));
        reader->stack = mt_host_resize(reader->stack, capacity, sizeof *reader->stack);
        reader->capacity = capacity;
    }
    reader->stack[reader->count++] = value;
    return MT_OK;
}

static mt_status begin(struct reader *reader, mt_value_kind kind)
{
    if (reader->open_count == reader->most_open)
        return mt_fail(MT_BAD_TRACE, "its lists are nested more than %u deep", reader->most_open);
    if (reader->count > UINT32_MAX)
        return mt_fail(MT_BAD_TRACE, "it has a list of more than %u values", UINT32_MAX);
    reader->open[reader->open_count++] = (struct opened){.first = (uint32_t)reader->count, .kind = kind};
    return MT_OK;
}

/* Replaces the values of the innermost open list or object by one value. */
static mt_status end(struct reader *reader)
{
    assert(reader->open_count > 0);
    const struct opened *opened = &reader->open[--reader->open_count];
    struct mt_value made;
    MT_TRY(mt_value_store_share(reader->store, opened->kind, reader->stack + opened->first,
                                (uint32_t)(reader->count - opened->first), &made));
    reader->count = opened->first;
    return push(reader, made);
}

static int digit_of(unsigned char byte)
{
    if (byte >= '0' && byte <= '9')
        return byte - '0';
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Reads the four digits after \u. */
static mt_status read_unit(struct reader *reader, uint32_t *out)
{
    *out = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        int digit = reader->at < reader->end ? digit_of(*reader->at) : -1;
        if (digit < 0)
            return fail_here(reader, "a hexadecimal digit");
        *out = *out << 4 | (uint32_t)digit;
    }
    return MT_OK;
}

static bool is_high_half(uint32_t unit)
{
    return unit >= 0xD800 && unit < 0xDC00;
}

static bool is_low_half(uint32_t unit)
{
    return unit >= 0xDC00 && unit < 0xE000;
}

static char *put_character(char *out, uint32_t character)
{
    assert(character < 0x110000);
    if (character < 0x80) {
        *out++ = (char)character;
        return out;
    }
    int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
    static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
    *out++ = (char)(first[more] | character >> 6 * more);
    while (more-- > 0)
        *out++ = (char)(0x80 | (character >> 6 * more & 0x3F));
    return out;
}

/* Reads one character after \u, of one unit or of two. Writes no more bytes than it reads. */
static mt_status read_character(struct reader *reader, char **out)
{
    enum { REPLACEMENT = 0xFFFD };
    uint32_t unit, low;
    MT_TRY(read_unit(reader, &unit));
    const unsigned char *after = reader->at;
    if (is_high_half(unit) && take(reader, '\\') && take(reader, 'u')) {
        MT_TRY(read_unit(reader, &low));
        if (is_low_half(low)) {
            *out = put_character(*out, 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00));
            return MT_OK;
        }
    }
    if (is_high_half(unit) || is_low_half(unit)) {
        reader->at = after; /* the unit that follows is a character of its own */
        unit = REPLACEMENT;
    }
    *out = put_character(*out, unit);
    return MT_OK;
}

/* Reads the rest of an escape, after the backslash. */
static mt_status read_escape(struct reader *reader, char **out)
{
    static const char names[] = "\"\\/bfnrt", bytes[] = "\"\\/\b\f\n\r\t";
    if (take(reader, 'u'))
        return read_character(reader, out);
    const char *found = reader->at < reader->end && *reader->at != '\0' ? strchr(names, *reader->at) : NULL;
    if (found == NULL)
        return fail_here(reader, "what a backslash may be followed by");
    reader->at++;
    *(*out)++ = bytes[found - names];
    return MT_OK;
}

/* Returns the end of a run of plain characters: a quote, a backslash, or a byte that a text must not contain. */
static const unsigned char *find_special(const unsigned char *at, const unsigned char *last)
{
    while (at < last && *at != '"' && *at != '\\' && *at >= 0x20)
        at++;
    return at;
}

/* Makes room for a text of `bytes`. */
static mt_status scratch_room(struct reader *reader, size_t bytes)
{
    if (bytes <= reader->scratch_bytes)
        return MT_OK;
    MT_TRY(mt_value_store_count(reader->store, 2 * bytes - reader->scratch_bytes));
    reader->scratch = mt_host_resize(reader->scratch, 2, bytes);
    reader->scratch_bytes = 2 * bytes;
    return MT_OK;
}

/* Returns the closing quote of the text that begins here, or the end of the data. */
static const unsigned char *find_end(const struct reader *reader)
{
    const unsigned char *at = reader->at;
    while (at < reader->end && *at != '"')
        at += *at == '\\' && reader->end - at > 1 ? 2 : 1;
    return at;
}

static mt_status push_text(struct reader *reader, const char *data, size_t length)
{
    struct mt_value value;
    if (length > UINT32_MAX)
        return mt_fail(MT_BAD_TRACE, "it has a text of %zu bytes", length);
    mt_status status = mt_value_store_text(reader->store, data, (uint32_t)length, &value);
    return status == MT_OK ? push(reader, value) : status;
}

static mt_status read_escaped_text(struct reader *reader)
{
    mt_status status = scratch_room(reader, (size_t)(find_end(reader) - reader->at) + 1);
    char *out = reader->scratch;
    while (status == MT_OK) {
        const unsigned char *special = find_special(reader->at, reader->end);
        memcpy(out, reader->at, (size_t)(special - reader->at));
        out += special - reader->at;
        reader->at = special;
        if (take(reader, '"'))
            return push_text(reader, reader->scratch, (size_t)(out - reader->scratch));
        status = take(reader, '\\') ? read_escape(reader, &out) : fail_here(reader, "the rest of a text");
    }
    return status;
}

/* Reads a text after its opening quote. */
static mt_status read_text(struct reader *reader)
{
    const unsigned char *special = find_special(reader->at, reader->end);
    if (special == reader->end || *special != '"')
        return read_escaped_text(reader);
    const char *data = (const char *)reader->at;
    reader->at = special + 1;
    return push_text(reader, data, (size_t)(special - (const unsigned char *)data));
}

static size_t skip_digits(struct reader *reader)
{
    const unsigned char *first = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return (size_t)(reader->at - first);
}

/* Skips a fraction and an exponent. Sets *out_there if there is either. */
static mt_status skip_rest(struct reader *reader, bool *out_there)
{
    const unsigned char *first = reader->at;
    if (take(reader, '.') && skip_digits(reader) == 0)
        return fail_here(reader, "a digit");
    if (take(reader, 'e') || take(reader, 'E')) {
        if (!take(reader, '-'))
            take(reader, '+');
        if (skip_digits(reader) == 0)
            return fail_here(reader, "a digit");
    }
    *out_there = reader->at > first;
    return MT_OK;
}

/* Pushes the double that is nearest to the number in these bytes. */
static mt_status push_real(struct reader *reader, const unsigned char *first)
{
    char text[MOST_NUMBER_BYTES];
    size_t bytes = (size_t)(reader->at - first);
    if (bytes >= sizeof text)
        return mt_fail(MT_BAD_TRACE, "it has a number of %zu digits", bytes);
    memcpy(text, first, bytes);
    text[bytes] = '\0';
    return push(reader, (struct mt_value){.kind = MT_VALUE_REAL, .real = mt_read_real(text, NULL)});
}

/* Sets *out to the integer in these digits. False if it does not fit in an int64_t. */
static bool sum_digits(const unsigned char *digits, size_t count, bool is_negative, int64_t *out)
{
    bool fits = true;
    *out = 0;
    for (size_t i = 0; i < count && fits; i++) {
        int digit = digits[i] - '0';
        fits =
            !__builtin_mul_overflow(*out, 10, out) && !__builtin_add_overflow(*out, is_negative ? -digit : digit, out);
    }
    return fits;
}

static mt_status read_number(struct reader *reader)
{
    const unsigned char *first = reader->at;
    bool is_negative = take(reader, '-'), is_real = false;
    const unsigned char *digits = reader->at;
    size_t count = skip_digits(reader);
    if (count == 0 || (count > 1 && *digits == '0')) {
        reader->at = count == 0 ? reader->at : digits + 1;
        return fail_here(reader, count == 0 ? "a value" : "the rest of a number that begins with 0");
    }
    MT_TRY(skip_rest(reader, &is_real));
    int64_t integer;
    if (is_real || !sum_digits(digits, count, is_negative, &integer))
        return push_real(reader, first);
    return push(reader, (struct mt_value){.kind = MT_VALUE_INTEGER, .integer = integer});
}

static bool take_word(struct reader *reader, const char *word)
{
    size_t length = strlen(word);
    if (length > (size_t)(reader->end - reader->at) || memcmp(reader->at, word, length) != 0)
        return false;
    reader->at += length;
    return true;
}

static mt_status read_word(struct reader *reader)
{
    if (take_word(reader, "null"))
        return push(reader, (struct mt_value){.kind = MT_VALUE_NONE});
    if (take_word(reader, "true"))
        return push(reader, (struct mt_value){.kind = MT_VALUE_BOOL, .integer = 1});
    if (take_word(reader, "false"))
        return push(reader, (struct mt_value){.kind = MT_VALUE_BOOL});
    return read_number(reader);
}

/* Reads the key of a pair and its colon. */
static mt_status read_key(struct reader *reader)
{
    skip_space(reader);
    if (!take(reader, '"'))
        return fail_here(reader, "a key");
    MT_TRY(read_text(reader));
    skip_space(reader);
    return take(reader, ':') ? MT_OK : fail_here(reader, "a colon");
}

/* Continues in a list or object that has just begun: reads its end, or its first key. */
static mt_status after_opening(struct reader *reader, bool *out_complete)
{
    assert(reader->open_count > 0 && reader->open_count <= reader->most_open);
    bool is_dict = reader->open[reader->open_count - 1].kind == MT_VALUE_DICT;
    skip_space(reader);
    *out_complete = take(reader, is_dict ? '}' : ']');
    if (*out_complete)
        return end(reader);
    return is_dict ? read_key(reader) : MT_OK;
}

/* Reads a value or the beginning of one. Sets *out_complete if the whole value is on the stack. */
static mt_status read_value(struct reader *reader, bool *out_complete)
{
    mt_status status;
    skip_space(reader);
    *out_complete = true;
    if (take(reader, '"'))
        return read_text(reader);
    if (take(reader, '{'))
        status = begin(reader, MT_VALUE_DICT);
    else if (take(reader, '['))
        status = begin(reader, MT_VALUE_LIST);
    else
        return read_word(reader);
    return status == MT_OK ? after_opening(reader, out_complete) : status;
}

/* Continues after a value in a list or object: reads the end, or a comma and, in an object, the next key. Sets
 * *out_complete if the list or object ended, and is now a value itself. */
static mt_status after_value(struct reader *reader, bool *out_complete)
{
    assert(reader->open_count > 0 && reader->count > reader->open[reader->open_count - 1].first);
    bool is_dict = reader->open[reader->open_count - 1].kind == MT_VALUE_DICT;
    skip_space(reader);
    *out_complete = take(reader, is_dict ? '}' : ']');
    if (*out_complete)
        return end(reader);
    if (!take(reader, ','))
        return fail_here(reader, is_dict ? "a comma or the end of an object" : "a comma or the end of a list");
    return is_dict ? read_key(reader) : MT_OK;
}

static mt_status read_all(struct reader *reader)
{
    bool complete = false;
    mt_status status = MT_OK;
    while (status == MT_OK && !(complete && reader->open_count == 0))
        status = complete ? after_value(reader, &complete) : read_value(reader, &complete);
    if (status != MT_OK)
        return status;
    skip_space(reader);
    return reader->at == reader->end ? MT_OK : fail_here(reader, "the end");
}

mt_status mt_json_read(const unsigned char *data, size_t length, struct mt_value_store *store, struct mt_value *out)
{
    struct reader reader = {.data = data, .at = data, .end = data + length, .store = store};
    reader.most_open = mt_value_store_limits(store)->depth;
    reader.open = mt_host_alloc((reader.most_open + 1) * sizeof *reader.open);
    reader.stack = mt_host_alloc(FIRST_VALUES * sizeof *reader.stack);
    reader.capacity = FIRST_VALUES;
    *out = (struct mt_value){0};
    mt_status status = read_all(&reader);
    assert(status != MT_OK || (reader.count == 1 && reader.open_count == 0));
    if (status == MT_OK)
        *out = reader.stack[0];
    else
        mt_fail_context(status, "byte %td of the JSON", reader.at - data);
    free(reader.stack);
    free(reader.open);
    free(reader.scratch);
    return status;
}
