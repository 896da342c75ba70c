/* The items of the ring: labels, spans, call stacks, measurements and names, of any length.
 *
 *   ┌ head: kind, id, ┐┌ payload: length bytes in as many    ┐
 *   └ length          ┘└ records as they need, zeros after it ┘
 *
 * The records of one item are published together, before the first event that names it. Lengths are checked when records
 * are read back, since a file may hold anything. */
#ifndef MT_TRACE_RECORD_H
#define MT_TRACE_RECORD_H

#include "trace/store/caveat.h"
#include "trace/store/ring.h"

/* The most bytes of a text, its NUL included. Longer ones are cut, so that every item fits the smallest ring. */
enum { MT_RECORD_TEXT_BYTES = 8192 };

/* The most bytes of a payload. */
enum { MT_RECORD_MOST_BYTES = 2 * MT_RECORD_TEXT_BYTES + 256 };

/* A payload that is being written or read. Reading past the end yields zeros and clears `whole`. Invariant: read <= length
 * <= MT_RECORD_MOST_BYTES. */
struct mt_payload {
    size_t length, read;
    bool whole;
    unsigned char data[MT_RECORD_MOST_BYTES];
};

struct mt_measurement {
    const char *name;
    int64_t step;
    double value;
};

/* Encode an item, which replaces the payload. A label's category is stored by its name: its number means something only to
 * the sink that gave it. */
void mt_payload_set_label(struct mt_payload *payload, const struct mt_label *label, const char *category);
void mt_payload_set_span(struct mt_payload *payload, const struct mt_span *span);
void mt_payload_set_measurement(struct mt_payload *payload, const struct mt_measurement *measurement);
void mt_payload_set_name(struct mt_payload *payload, const char *name);
void mt_payload_set_frame(struct mt_payload *payload, const struct mt_frame *frame);
void mt_payload_set_stack(struct mt_payload *payload, const struct mt_stack *stack);
void mt_payload_set_outside(struct mt_payload *payload, const struct mt_outside *outside);
void mt_payload_set_caveat(struct mt_payload *payload, const struct mt_caveat *caveat);
void mt_payload_set_ended_by(struct mt_payload *payload, mt_ended_by reason);

/* Decode an item. False if the payload is not one. Texts are borrowed from the payload. The category of a label is 0. */
bool mt_payload_get_label(struct mt_payload *payload, struct mt_label *out, const char **out_category);
bool mt_payload_get_span(struct mt_payload *payload, struct mt_span *out);
bool mt_payload_get_measurement(struct mt_payload *payload, struct mt_measurement *out);
bool mt_payload_get_name(struct mt_payload *payload, const char **out);
bool mt_payload_get_frame(struct mt_payload *payload, struct mt_frame *out);
bool mt_payload_get_stack(struct mt_payload *payload, struct mt_stack *out);
bool mt_payload_get_outside(struct mt_payload *payload, struct mt_outside *out);
bool mt_payload_get_caveat(struct mt_payload *payload, struct mt_caveat *out);
bool mt_payload_get_ended_by(struct mt_payload *payload, mt_ended_by *out);

/* Returns the number of records that a payload of `bytes` takes, head included. */
static inline uint64_t mt_payload_records(uint64_t bytes)
{
    return 1 + (bytes + sizeof(union mt_record) - 1) / sizeof(union mt_record);
}

/* Producer: writes the item of that kind and id at ring->head without publishing it. There must be room. */
void mt_payload_write(const struct mt_payload *payload, uint16_t kind, uint32_t id, struct mt_ring *ring);

/* Consumer: reads the payload of the head at `position`. False if it does not end before `end`, or the checksum is wrong. */
bool mt_payload_read(struct mt_payload *payload, const struct mt_ring *ring, uint64_t position, uint64_t end);

#endif
