#include "trace/export/plain_writer.h"

#include "answer/row.h"
#include "base/memory.h"
#include "base/text.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opcodes of pickles. */
enum {
    PICKLE_PROTO = 0x80,
    PICKLE_PROTOCOL = 4,
    PICKLE_STOP = '.',
    PICKLE_MARK = '(',
    PICKLE_EMPTY_DICT = '}',
    PICKLE_SETITEMS = 'u',
    PICKLE_EMPTY_LIST = ']',
    PICKLE_APPENDS = 'e',
    PICKLE_BININT1 = 'K',
    PICKLE_BININT2 = 'M',
    PICKLE_BININT = 'J',
    PICKLE_LONG1 = 0x8A,
    PICKLE_TRUE = 0x88,
    PICKLE_FALSE = 0x89,
    PICKLE_SHORT_TEXT = 0x8C,
    PICKLE_TEXT = 'X',
    PICKLE_MEMOIZE = 0x94,
    PICKLE_BINGET = 'h',
    PICKLE_LONG_BINGET = 'j'
};

/* The items of a list are written in batches: readers push a batch onto a stack, and the stack of a web page is limited
 * to about 120,000. */
enum { PICKLE_BATCH = 1000, NUMBER_TEXT = 32 };

/* A value that can be recalled: its text in JSON, its memo number in a pickle. */
struct mt_plain_kept {
    bool is_known;
    uint32_t memo;
    struct mt_text text;
};

static void put(struct mt_plain_writer *writer, const void *data, size_t bytes)
{
    if (writer->capture != NULL)
        mt_text_add(writer->capture, "%.*s", (int)bytes, (const char *)data);
    else
        mt_output_file_write(writer->file, data, bytes);
}

static void put_text(struct mt_plain_writer *writer, const char *text)
{
    put(writer, text, strlen(text));
}

static void put_byte(struct mt_plain_writer *writer, int byte)
{
    unsigned char data = (unsigned char)byte;
    mt_output_file_write(writer->file, &data, 1);
}

/* Writes an opcode and a number of `bytes` bytes, lowest first. */
static void put_operand(struct mt_plain_writer *writer, int opcode, uint64_t number, int bytes)
{
    unsigned char data[1 + sizeof number] = {(unsigned char)opcode};
    for (int i = 0; i < bytes; i++)
        data[1 + i] = (unsigned char)(number >> (8 * i));
    mt_output_file_write(writer->file, data, (size_t)bytes + 1);
}

static bool is_json(const struct mt_plain_writer *writer)
{
    return writer->form == MT_PLAIN_JSON;
}

void mt_plain_begin(struct mt_plain_writer *writer, struct mt_output_file *file, mt_plain_form form)
{
    *writer = (struct mt_plain_writer){
        .file = file, .form = form, .is_ascii = mt_output_file_is_terminal(file), .words = mt_name_set_create()};
    if (form == MT_PLAIN_PICKLE)
        put_operand(writer, PICKLE_PROTO, PICKLE_PROTOCOL, 1);
}

mt_status mt_plain_end(struct mt_plain_writer *writer)
{
    assert(writer->capture == NULL);
    if (is_json(writer))
        put_text(writer, "\n");
    else
        put_byte(writer, PICKLE_STOP);
    for (uint32_t i = 0; i < writer->kept_count; i++)
        mt_text_release(&writer->kept[i].text);
    free(writer->kept);
    free(writer->word_memo);
    mt_name_set_destroy(writer->words);
    return mt_output_file_go_on(writer->file);
}

/* Counts a value and writes what precedes it: a comma in a list of JSON, the ends of batches in one of a pickle. */
static void begin_value(struct mt_plain_writer *writer)
{
    if (writer->depth == 0 || !writer->in_list[writer->depth - 1])
        return;
    uint64_t before = writer->counts[writer->depth - 1]++;
    if (is_json(writer)) {
        put_text(writer, before > 0 ? ", " : "");
        return;
    }
    if (before % PICKLE_BATCH != 0)
        return;
    if (before > 0)
        put_byte(writer, PICKLE_APPENDS);
    put_byte(writer, PICKLE_MARK);
}

static void open_value(struct mt_plain_writer *writer, bool is_list)
{
    assert(writer->depth < MT_PLAIN_MOST_DEPTH);
    begin_value(writer);
    if (is_json(writer))
        put_text(writer, is_list ? "[" : "{");
    else
        put_byte(writer, is_list ? PICKLE_EMPTY_LIST : PICKLE_EMPTY_DICT);
    writer->in_list[writer->depth] = is_list;
    writer->counts[writer->depth++] = 0;
}

void mt_plain_open_dict(struct mt_plain_writer *writer)
{
    open_value(writer, false);
}

void mt_plain_open_list(struct mt_plain_writer *writer)
{
    open_value(writer, true);
}

static void close_value(struct mt_plain_writer *writer, bool is_list)
{
    assert(writer->depth > 0 && writer->in_list[writer->depth - 1] == is_list);
    bool is_empty = writer->counts[--writer->depth] == 0;
    if (is_json(writer))
        put_text(writer, is_list ? "]" : "}");
    else if (!is_empty)
        put_byte(writer, is_list ? PICKLE_APPENDS : PICKLE_SETITEMS);
}

void mt_plain_close_dict(struct mt_plain_writer *writer)
{
    close_value(writer, false);
}

void mt_plain_close_list(struct mt_plain_writer *writer)
{
    close_value(writer, true);
}

static void put_pickle_text(struct mt_plain_writer *writer, const char *text, size_t bytes)
{
    if (bytes <= UINT8_MAX)
        put_operand(writer, PICKLE_SHORT_TEXT, bytes, 1);
    else
        put_operand(writer, PICKLE_TEXT, bytes, 4);
    mt_output_file_write(writer->file, text, bytes);
}

/* Stores the last value in the memo, and returns its number there. */
static uint32_t memoize(struct mt_plain_writer *writer)
{
    put_byte(writer, PICKLE_MEMOIZE);
    return writer->memo_count++;
}

static void put_memo(struct mt_plain_writer *writer, uint32_t place)
{
    if (place <= UINT8_MAX)
        put_operand(writer, PICKLE_BINGET, place, 1);
    else
        put_operand(writer, PICKLE_LONG_BINGET, place, 4);
}

static void put_repaired(struct mt_plain_writer *writer, const char *text)
{
    struct mt_text repaired = {0};
    mt_utf8_add_repaired(&repaired, text);
    put_pickle_text(writer, mt_text_get(&repaired), repaired.length);
    mt_text_release(&repaired);
}

/* Writes a word to a pickle, from the memo if it is there. */
static void put_pickle_word(struct mt_plain_writer *writer, const char *word)
{
    bool is_new;
    uint32_t number = mt_name_set_number(writer->words, word, &is_new);
    if (!is_new) {
        put_memo(writer, writer->word_memo[number]);
        return;
    }
    put_repaired(writer, word);
    if ((number & (number - 1)) == 0) /* room is made at the powers of two */
        writer->word_memo = mt_host_resize(writer->word_memo, 2 * (size_t)number, sizeof *writer->word_memo);
    writer->word_memo[number] = memoize(writer);
}

/* True if the JSON string is just the text in quotes. */
static bool is_plain(const char *text)
{
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~' || *text == '"' || *text == '\\')
            return false;
    return true;
}

static void put_json_text(struct mt_plain_writer *writer, const char *text)
{
    if (is_plain(text)) {
        put_text(writer, "\"");
        put_text(writer, text);
        put_text(writer, "\"");
        return;
    }
    json_t *json = mt_json_text(text);
    char *quoted = json_dumps(json, JSON_ENCODE_ANY | (writer->is_ascii ? JSON_ENSURE_ASCII : 0));
    put_text(writer, quoted);
    free(quoted);
    json_decref(json);
}

void mt_plain_key(struct mt_plain_writer *writer, const char *key)
{
    assert(writer->depth > 0 && !writer->in_list[writer->depth - 1]);
    bool is_first = writer->counts[writer->depth - 1]++ == 0;
    if (!is_json(writer)) {
        if (is_first)
            put_byte(writer, PICKLE_MARK);
        put_pickle_word(writer, key);
        return;
    }
    put_text(writer, is_first ? "" : ", ");
    put_json_text(writer, key);
    put_text(writer, ": ");
}

void mt_plain_word(struct mt_plain_writer *writer, const char *word)
{
    begin_value(writer);
    if (is_json(writer))
        put_json_text(writer, word);
    else
        put_pickle_word(writer, word);
}

/* A LONG1 number is signed, so a number with the highest bit set needs one more byte. */
static void put_long(struct mt_plain_writer *writer, uint64_t number)
{
    int bytes = (64 - __builtin_clzll(number)) / 8 + 1;
    put_operand(writer, PICKLE_LONG1, (uint64_t)bytes, 1);
    for (int i = 0; i < bytes; i++)
        put_byte(writer, i < 8 ? (int)(number >> (8 * i) & 0xFF) : 0);
}

static void put_pickle_number(struct mt_plain_writer *writer, uint64_t number)
{
    if (number <= UINT8_MAX)
        put_operand(writer, PICKLE_BININT1, number, 1);
    else if (number <= UINT16_MAX)
        put_operand(writer, PICKLE_BININT2, number, 2);
    else if (number <= INT32_MAX)
        put_operand(writer, PICKLE_BININT, number, 4);
    else
        put_long(writer, number);
}

void mt_plain_number(struct mt_plain_writer *writer, uint64_t number)
{
    char text[NUMBER_TEXT];
    begin_value(writer);
    if (!is_json(writer)) {
        put_pickle_number(writer, number);
        return;
    }
    int length = snprintf(text, sizeof text, "%" PRIu64, number);
    put(writer, text, (size_t)length);
}

void mt_plain_truth(struct mt_plain_writer *writer, bool truth)
{
    begin_value(writer);
    if (is_json(writer))
        put_text(writer, truth ? "true" : "false");
    else
        put_byte(writer, truth ? PICKLE_TRUE : PICKLE_FALSE);
}

void mt_plain_microseconds(struct mt_plain_writer *writer, uint64_t nanoseconds)
{
    assert(is_json(writer));
    char text[NUMBER_TEXT];
    begin_value(writer);
    int length = snprintf(text, sizeof text, "%" PRIu64 ".%03u", nanoseconds / 1000, (unsigned)(nanoseconds % 1000));
    put(writer, text, (size_t)length);
}

void mt_plain_line(struct mt_plain_writer *writer)
{
    if (is_json(writer))
        put_text(writer, "\n");
}

void mt_plain_add_text(struct mt_plain_writer *writer, const char *key, const char *text)
{
    mt_plain_key(writer, key);
    begin_value(writer);
    if (is_json(writer))
        put_json_text(writer, text);
    else
        put_repaired(writer, text);
}

void mt_plain_add_word(struct mt_plain_writer *writer, const char *key, const char *word)
{
    mt_plain_key(writer, key);
    mt_plain_word(writer, word);
}

void mt_plain_add_number(struct mt_plain_writer *writer, const char *key, uint64_t number)
{
    mt_plain_key(writer, key);
    mt_plain_number(writer, number);
}

bool mt_plain_recall(struct mt_plain_writer *writer, uint32_t number)
{
    if (number >= writer->kept_count || !writer->kept[number].is_known)
        return false;
    begin_value(writer);
    if (is_json(writer))
        put(writer, writer->kept[number].text.data, writer->kept[number].text.length);
    else
        put_memo(writer, writer->kept[number].memo);
    return true;
}

static void make_room(struct mt_plain_writer *writer, uint32_t number)
{
    if (number < writer->kept_count)
        return;
    uint32_t count = number / 2 * 3 + 64;
    writer->kept = mt_host_resize(writer->kept, count, sizeof *writer->kept);
    memset(&writer->kept[writer->kept_count], 0, (count - writer->kept_count) * sizeof *writer->kept);
    writer->kept_count = count;
}

void mt_plain_keep_begin(struct mt_plain_writer *writer, uint32_t number)
{
    assert(writer->capture == NULL);
    make_room(writer, number);
    if (is_json(writer))
        writer->capture = &writer->kept[number].text;
}

void mt_plain_keep_end(struct mt_plain_writer *writer, uint32_t number)
{
    assert(number < writer->kept_count && !writer->kept[number].is_known);
    struct mt_plain_kept *kept = &writer->kept[number];
    kept->is_known = true;
    if (!is_json(writer)) {
        kept->memo = memoize(writer);
        return;
    }
    writer->capture = NULL;
    put(writer, mt_text_get(&kept->text), kept->text.length);
}
