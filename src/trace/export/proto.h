/* Messages of Protocol Buffers, as far as a profile needs them: varints, bytes and messages inside messages.
 * https://protobuf.dev/programming-guides/encoding/ */
#ifndef MT_TRACE_EXPORT_PROTO_H
#define MT_TRACE_EXPORT_PROTO_H

#include <stddef.h>
#include <stdint.h>

/* A message under way. Zero-initialized is empty and valid. */
struct mt_proto {
    unsigned char *data;
    size_t length, capacity;
};

void mt_proto_release(struct mt_proto *message);

/* Makes it empty, and keeps its room. */
void mt_proto_clear(struct mt_proto *message);

/* Adds a field. 0 is what a reader takes a field for that is not there, so it is left out. */
void mt_proto_add_integer(struct mt_proto *message, int field, uint64_t value);

/* Adds a field, also where it is empty. */
void mt_proto_add_bytes(struct mt_proto *message, int field, const void *data, size_t bytes);
void mt_proto_add_text(struct mt_proto *message, int field, const char *text);
void mt_proto_add_message(struct mt_proto *message, int field, const struct mt_proto *part);

/* A repeated field of numbers, packed. */
void mt_proto_add_integers(struct mt_proto *message, int field, const uint64_t *values, size_t count);

#endif
