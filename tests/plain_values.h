/* Trees of plain values for tests: comparison, and bytes to make them of. */
#pragma once

#include "base/memory.h"
#include "base/random.h"
#include "producers/file/value.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that are added to. */
struct bytes {
    unsigned char *data;
    size_t length, room;
};

static inline void bytes_add(struct bytes *bytes, const void *data, size_t length)
{
    while (bytes->room - bytes->length < length)
        bytes->data = mt_host_resize(bytes->data, bytes->room = bytes->room * 2 + 64, 1);
    memcpy(bytes->data + bytes->length, data, length);
    bytes->length += length;
}

static inline void bytes_add_text(struct bytes *bytes, const char *text)
{
    bytes_add(bytes, text, strlen(text));
}

/* Adds `byte` so many times. */
static inline void bytes_add_byte(struct bytes *bytes, int byte, size_t count)
{
    unsigned char one = (unsigned char)byte;
    while (count-- > 0)
        bytes_add(bytes, &one, 1);
}

/* Adds a number, lowest byte first. */
static inline void bytes_add_number(struct bytes *bytes, uint64_t number, size_t length)
{
    for (size_t i = 0; i < length; i++)
        bytes_add_byte(bytes, (int)(number >> 8 * i & 0xFF), 1);
}

static inline bool values_are_same(const struct mt_value *a, const struct mt_value *b);

/* Returns a list's element, or a dict's key or value, of those in turns. */
static inline const struct mt_value *item_at(const struct mt_value *value, uint32_t index)
{
    if (value->kind == MT_VALUE_LIST)
        return mt_value_at(value, index);
    return index % 2 == 0 ? mt_value_key_at(value, index / 2) : mt_value_value_at(value, index / 2);
}

static inline bool items_are_same(const struct mt_value *a, const struct mt_value *b)
{
    if (a->items->count != b->items->count)
        return false;
    for (uint32_t i = 0; i < a->items->count; i++)
        if (!values_are_same(item_at(a, i), item_at(b, i)))
            return false;
    return true;
}

static inline bool values_are_same(const struct mt_value *a, const struct mt_value *b)
{
    if (a->kind != b->kind || a->length != b->length)
        return false;
    switch ((mt_value_kind)a->kind) {
    case MT_VALUE_TEXT:
    case MT_VALUE_BYTES:
        return memcmp(a->text, b->text, a->length + 1) == 0;
    case MT_VALUE_LIST:
    case MT_VALUE_DICT:
        return items_are_same(a, b);
    default:
        return a->integer == b->integer;
    }
}

/* Returns the depth of a value, as far as `*left` values reach: a walk over values that are shared often may never
 * end. */
static inline uint32_t value_depth(const struct mt_value *value, uint64_t *left)
{
    uint32_t deepest = 0;
    if ((value->kind != MT_VALUE_LIST && value->kind != MT_VALUE_DICT) || *left == 0)
        return 0;
    for (uint32_t i = 0; i<value->items->count && * left> 0; i++) {
        --*left;
        uint32_t depth = value_depth(item_at(value, i), left);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + 1;
}
