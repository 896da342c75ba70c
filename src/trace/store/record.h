/* The items of the ring: labels, spans, call stacks, measurements and names, of any length.
 *
 *   ┌ head: kind, id, ┐┌ payload: length bytes in as many    ┐
 *   └ length          ┘└ records as they need, zeros after it ┘
 *
 * The records of one item are published together, before the first event that names it. Lengths are checked when
 * records are read back, since a file may hold anything. */
#pragma once

#include "trace/store/caveat.h"
#include "trace/store/ring.h"

/* The most bytes of a text, including its NUL. Longer ones are truncated, so that every item fits the smallest ring. */
enum { MT_RECORD_TEXT_BYTES = 8192 };

/* The most bytes of a payload. */
enum { MT_RECORD_MOST_BYTES = 4 * MT_RECORD_TEXT_BYTES + 256 };

/* A payload that is being written or read. Reading past the end returns zeros and clears `whole`. Invariant: read <=
 * length <= MT_RECORD_MOST_BYTES. */
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

/* Encodes an item of a kind of record, and replaces the payload. `item` points to a struct mt_span, mt_measurement,
 * mt_frame, mt_stack, mt_outside, mt_caveat, mt_run_setting or mt_holder, to a mt_ended_by or mt_program_phase or, for
 * a kernel's name, to a const char *. */
void mt_payload_set(struct mt_payload *payload, uint16_t kind, const void *item);

/* Decodes such an item. False if the payload is not one. Texts are borrowed from the payload. */
bool mt_payload_get(struct mt_payload *payload, uint16_t kind, void *out);

/* The same for a label. Its category is stored by its name, since its number is only valid in the sink that assigned
 * it. The category of a decoded label is 0. */
void mt_payload_set_label(struct mt_payload *payload, const struct mt_label *label, const char *category);
bool mt_payload_get_label(struct mt_payload *payload, struct mt_label *out, const char **out_category);

/* Returns the number of records that a payload of `bytes` needs, including its head. */
static inline uint64_t mt_payload_records(uint64_t bytes)
{
    return 1 + (bytes + sizeof(union mt_record) - 1) / sizeof(union mt_record);
}

/* Producer: writes the item with a kind and id at ring->head without publishing it. There must be room. */
void mt_payload_write(const struct mt_payload *payload, uint16_t kind, uint32_t id, struct mt_ring *ring);

/* Consumer: reads the payload of the head at `position`. False if it does not end before `end`, or the checksum is
 * wrong. */
bool mt_payload_read(struct mt_payload *payload, const struct mt_ring *ring, uint64_t position, uint64_t end);
