#include "trace/export/proto.h"

#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_BYTES = 2, VARINT_MOST_BYTES = 10 };

void mt_proto_release(struct mt_proto *message)
{
    free(message->data);
    *message = (struct mt_proto){0};
}

void mt_proto_clear(struct mt_proto *message)
{
    message->length = 0;
}

static void make_room(struct mt_proto *message, size_t bytes)
{
    if (message->capacity - message->length >= bytes)
        return;
    message->capacity = message->capacity * 2 + bytes;
    message->data = mt_host_resize(message->data, message->capacity, 1);
}

static size_t put_varint(unsigned char *at, uint64_t value)
{
    size_t length = 0;
    for (; value >= 0x80; value >>= 7)
        at[length++] = (unsigned char)(value | 0x80);
    at[length++] = (unsigned char)value;
    return length;
}

static void add_varint(struct mt_proto *message, uint64_t value)
{
    make_room(message, VARINT_MOST_BYTES);
    message->length += put_varint(message->data + message->length, value);
}

static void add_key(struct mt_proto *message, int field, int wire)
{
    add_varint(message, (uint64_t)field << 3 | (uint64_t)wire);
}

void mt_proto_add_integer(struct mt_proto *message, int field, uint64_t value)
{
    if (value == 0)
        return;
    add_key(message, field, WIRE_VARINT);
    add_varint(message, value);
}

void mt_proto_add_bytes(struct mt_proto *message, int field, const void *data, size_t bytes)
{
    add_key(message, field, WIRE_BYTES);
    add_varint(message, bytes);
    if (bytes == 0)
        return;
    make_room(message, bytes);
    memcpy(message->data + message->length, data, bytes);
    message->length += bytes;
}

void mt_proto_add_text(struct mt_proto *message, int field, const char *text)
{
    mt_proto_add_bytes(message, field, text, strlen(text));
}

void mt_proto_add_message(struct mt_proto *message, int field, const struct mt_proto *part)
{
    mt_proto_add_bytes(message, field, part->data, part->length);
}

void mt_proto_add_integers(struct mt_proto *message, int field, const uint64_t *values, size_t count)
{
    unsigned char ignored[VARINT_MOST_BYTES];
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += put_varint(ignored, values[i]);
    add_key(message, field, WIRE_BYTES);
    add_varint(message, bytes);
    for (size_t i = 0; i < count; i++)
        add_varint(message, values[i]);
}
