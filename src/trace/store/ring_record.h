/* The records of the ring: events of the sink, and other records. All have 64 bytes, with kind and checksum at the same
 * offsets.
 *
 *   ┌ 56 bytes of the kind ┬ kind: 2 ┬ 2 of the kind ┬ checksum: 4 ┐
 *
 * The checksum covers the other 60 bytes and the record's position since the run began. So a record of an earlier lap
 * of the ring, or a page of zeros, is never mistaken for the expected record. The checksum of a head also covers its
 * payload.
 *
 * Labels, spans, names and other records with texts are items of any length: a head, and a payload in as many records
 * as it needs, which contain plain bytes. */
#pragma once

#include "base/event.h"

#include <stddef.h>

/* The kinds that are not mt_event_kind: items, and records without a payload. */
enum {
    MT_RECORD_LABEL = 0x100,
    MT_RECORD_SPAN,
    MT_RECORD_MEASUREMENT,
    MT_RECORD_KERNEL_NAME,
    MT_RECORD_FRAME,
    MT_RECORD_STACK,
    MT_RECORD_OUTSIDE,
    MT_RECORD_KERNEL, /* no payload: struct mt_record_kernel */
    MT_RECORD_USE,    /* no payload: struct mt_record_use */
    MT_RECORD_CAVEAT,
    MT_RECORD_ENDED_BY,
    MT_RECORD_SETTING,
    MT_RECORD_PROGRAM_PHASE,
    MT_RECORD_HOLDER,
};

/* The head of an item. */
struct mt_record_head {
    uint64_t length; /* of the payload, in bytes */
    uint32_t id;     /* of the label, with its category, the span, name, frame or stack; otherwise 0 */
    uint32_t unused[11];
    uint16_t kind, unused_too;
    uint32_t checksum;
};

/* The use of a block, as struct mt_use. */
struct mt_record_use {
    uint64_t block, first, last, idle_from, idle_to, copied_from;
    uint32_t reads, writes;
    uint16_t kind;
    uint16_t unread; /* 1 or 0 */
    uint32_t checksum;
};

struct mt_record_kernel {
    uint64_t start_ns, duration_ns;
    int64_t step;  /* MT_NO_STEP: none */
    uint32_t name; /* id, from 1 */
    mt_label_id label;
    uint32_t stream;
    uint32_t unused[5];
    uint16_t kind, unused_too;
    uint32_t checksum;
};

/* A new record is built from words, and read as words, so that it stays in registers. */
union mt_record {
    struct mt_event event;
    struct mt_record_head head;
    struct mt_record_use use;
    struct mt_record_kernel kernel;
    unsigned char bytes[64]; /* of a payload */
    uint64_t words[8];
};

_Static_assert(sizeof(union mt_record) == 64, "a record is one cache line");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are made of fields");
#define MT_HAS_THE_TAIL(type)                                                                                          \
    _Static_assert(offsetof(type, kind) == 56 && offsetof(type, checksum) == 60, "every record has the same tail")
MT_HAS_THE_TAIL(struct mt_event);
MT_HAS_THE_TAIL(struct mt_record_head);
MT_HAS_THE_TAIL(struct mt_record_use);
MT_HAS_THE_TAIL(struct mt_record_kernel);

/* Returns the upper half of a product xor the lower half. Each of its bits depends on all bits of both factors. */
static inline uint64_t mt_fold(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)(product >> 64) ^ (uint64_t)product;
}

/* Returns a hash of eight words, continued from `hash`. The last word is a separate argument. The products are
 * independent of each other. A factor of 0 would hide the other one, so each word is first combined with a different
 * odd constant. */
static inline uint64_t mt_record_hash(uint64_t hash, const union mt_record *record, uint64_t last)
{
    const uint64_t *word = record->words;
    uint64_t a = mt_fold(word[0] ^ 0x9E3779B97F4A7C15u, word[1] ^ 0xBF58476D1CE4E5B9u);
    uint64_t b = mt_fold(word[2] ^ 0x94D049BB133111EBu, word[3] ^ 0xD6E8FEB86659FD93u);
    uint64_t c = mt_fold(word[4] ^ 0xA0761D6478BD642Fu, word[5] ^ 0xE7037ED1A0B428DBu);
    uint64_t d = mt_fold(word[6] ^ 0x8EBC6AF09C88C6E3u, last ^ hash ^ 0x589965CC75374CC3u);
    return mt_fold(a ^ b, c ^ d ^ 0x1D8E4E27C47D124Fu);
}

/* Returns a word with two fields, `first` at the lower address. */
static inline uint64_t mt_record_word(uint32_t first, uint32_t second)
{
    return first | (uint64_t)second << 32;
}

/* Returns the last word of a record, without its checksum. */
static inline uint64_t mt_record_last_word(uint16_t kind, uint16_t second)
{
    return kind | (uint32_t)second << 16;
}

/* Return the record of an event and of a use. Their fields are volatile so that they are read one by one, as they were
 * stored just before. A compiler would read neighbours at once, but a processor forwards only one store to a load. The
 * load would wait until all of the stores, and earlier stores to the ring, have reached the cache. */
static inline union mt_record mt_record_of_event(const volatile struct mt_event *event)
{
    return (union mt_record){.words = {event->sequence, event->time_ns, event->requested_bytes, event->block_bytes,
                                       event->offset, mt_record_word(event->segment, event->label),
                                       mt_record_word(event->span, event->stack),
                                       mt_record_last_word(event->kind, event->stream)}};
}

static inline union mt_record mt_record_of_use(const volatile struct mt_use *use)
{
    return (union mt_record){.words = {use->block, use->first, use->last, use->idle_from, use->idle_to,
                                       use->copied_from, mt_record_word(use->reads, use->writes),
                                       mt_record_last_word(MT_RECORD_USE, use->unread)}};
}

/* Returns the record of a kernel whose name has the id `name`. */
static inline union mt_record mt_record_of_kernel(const struct mt_kernel *kernel, uint32_t name)
{
    return (union mt_record){.words = {kernel->start_ns, kernel->end_ns - kernel->start_ns, (uint64_t)kernel->step,
                                       mt_record_word(name, kernel->label), kernel->stream, 0, 0,
                                       mt_record_last_word(MT_RECORD_KERNEL, 0)}};
}

static inline struct mt_use mt_use_of_record(const struct mt_record_use *record)
{
    return (struct mt_use){.block = record->block,
                           .reads = record->reads,
                           .writes = record->writes,
                           .first = record->first,
                           .last = record->last,
                           .idle_from = record->idle_from,
                           .idle_to = record->idle_to,
                           .copied_from = record->copied_from,
                           .unread = record->unread != 0};
}
