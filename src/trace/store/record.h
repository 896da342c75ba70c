/* The records of the ring that are not events: labels, spans, measurements and names of kernels, of any length; and kernels
 * and uses of blocks, which are a head without a payload.
 *
 *   ┌ head: an event record, kind >= MT_RECORD_LABEL, ┐┌ payload: value bytes in as many      ┐
 *   └ value = bytes of the payload                    ┘└ records as they need, zeros after it ┘
 *
 * The records of one item are published together, before the first event that names it. Lengths are checked when records
 * are read back, since a file may hold anything. */
#ifndef MT_TRACE_RECORD_H
#define MT_TRACE_RECORD_H

#include "trace/store/ring.h"

enum {
    MT_RECORD_LABEL = 0x100, /* label: the id; payload: the label's fields, its category by name, its op last */
    MT_RECORD_SPAN,          /* span: the id; payload: parent, name, path */
    MT_RECORD_MEASUREMENT,   /* payload: step, value, name */
    MT_RECORD_KERNEL_NAME,   /* segment: the name's id; payload: name */
    MT_RECORD_KERNEL,        /* no payload; see mt_record_of_kernel */
    MT_RECORD_USE,           /* no payload, and value is no length; see mt_record_of_use */
};

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

/* A kernel as it is stored. */
struct mt_stored_kernel {
    uint64_t start_ns, duration_ns;
    int64_t step;  /* MT_NO_STEP: none */
    uint32_t name; /* id, from 1 */
    mt_label_id label;
    uint32_t stream;
};

/* Returns the record of a kernel, which fits the head alone. Its step is stored plus 1: 0 for none. */
static inline struct mt_event mt_record_of_kernel(const struct mt_kernel *kernel, uint32_t name)
{
    return (struct mt_event){.kind = MT_RECORD_KERNEL,
                             .time_ns = kernel->start_ns,
                             .block_bytes = kernel->end_ns - kernel->start_ns,
                             .address = (uint64_t)(kernel->step + 1),
                             .segment = name,
                             .label = kernel->label,
                             .offset = kernel->stream};
}

static inline struct mt_stored_kernel mt_kernel_of_record(const struct mt_event *record)
{
    return (struct mt_stored_kernel){.start_ns = record->time_ns,
                                     .duration_ns = record->block_bytes,
                                     .step = (int64_t)record->address - 1,
                                     .name = record->segment,
                                     .label = record->label,
                                     .stream = (uint32_t)record->offset};
}

/* Returns the record of a block's use, which fits the head alone: fields that the ring does not look at hold its numbers. */
static inline struct mt_event mt_record_of_use(const struct mt_use *use)
{
    return (struct mt_event){.kind = MT_RECORD_USE,
                             .sequence = use->block,
                             .time_ns = use->first,
                             .address = use->last,
                             .block_bytes = use->idle_from,
                             .offset = use->idle_to,
                             .value = use->copied_from,
                             .segment = use->reads,
                             .span = use->writes,
                             .stream = use->unread};
}

static inline struct mt_use mt_use_of_record(const struct mt_event *record)
{
    return (struct mt_use){.block = record->sequence,
                           .reads = record->segment,
                           .writes = record->span,
                           .first = record->time_ns,
                           .last = record->address,
                           .idle_from = record->block_bytes,
                           .idle_to = record->offset,
                           .copied_from = record->value,
                           .unread = record->stream != 0};
}

/* Encode an item, which replaces the payload. A label's category is stored by its name: its number means something only to
 * the sink that gave it. */
void mt_payload_set_label(struct mt_payload *payload, const struct mt_label *label, const char *category);
void mt_payload_set_span(struct mt_payload *payload, const struct mt_span *span);
void mt_payload_set_measurement(struct mt_payload *payload, const struct mt_measurement *measurement);
void mt_payload_set_name(struct mt_payload *payload, const char *name);

/* Decode an item. False if the payload is not one. Texts are borrowed from the payload. The category of a label is 0. */
bool mt_payload_get_label(struct mt_payload *payload, struct mt_label *out, const char **out_category);
bool mt_payload_get_span(struct mt_payload *payload, struct mt_span *out);
bool mt_payload_get_measurement(struct mt_payload *payload, struct mt_measurement *out);
bool mt_payload_get_name(struct mt_payload *payload, const char **out);

/* Returns the number of records that a payload of `bytes` takes, head included. */
static inline uint64_t mt_payload_records(uint64_t bytes)
{
    return 1 + (bytes + sizeof(struct mt_event) - 1) / sizeof(struct mt_event);
}

/* Producer: writes head and payload at ring->head without publishing them. There must be room. */
void mt_payload_write(const struct mt_payload *payload, struct mt_event head, struct mt_ring *ring);

/* Consumer: reads the payload of the head at `position`. False if it does not end before `end`. */
bool mt_payload_read(struct mt_payload *payload, const struct mt_ring *ring, uint64_t position, uint64_t end);

#endif
