/* The checksums of the ring's records.
 *
 * On x86-64 a checksum consists of CRC-32C, for which processors have had an instruction since 2008: a record needs 10
 * of them, while its mt_record_hash needs 50 instructions and more registers than there are. Elsewhere the hash is the
 * checksum. A ring's magic number says which it uses (ring.c). */
#pragma once

#include "trace/store/ring_record.h"

#include <stdbool.h>

#ifdef __x86_64__
enum { MT_SUM_IS_CRC = true };

/* True if the processor has the instruction. */
static inline bool mt_sum_is_quick(void)
{
    return __builtin_cpu_supports("sse4.2");
}

/* Returns the 32-bit CRC, continued over a word, first byte first. Uses assembly, because a compiler inlines its
 * builtin for the instruction only into code that is compiled only for such processors. */
static inline uint64_t mt_crc_quick(uint64_t crc, uint64_t word)
{
    __asm__("crc32q %1, %0" : "+r"(crc) : "r"(word));
    return crc;
}

/* Returns the same, computed bit by bit. */
static inline uint64_t mt_crc_slow(uint64_t crc, uint64_t word)
{
    const uint32_t polynomial = 0x82F63B78; /* first bit first */
    crc ^= word;
    for (int bit = 0; bit < 64; bit++)
        crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    return crc;
}

/* Defines a function that returns the sum of eight words, continued from `sum`. The last word is a separate argument.
 * The two halves are independent of each other. Any change within 32 neighbouring bits of a word changes the sum. */
#define MT_DEFINE_SUM(name, crc)                                                                                       \
    static inline __attribute__((always_inline)) uint32_t name(uint32_t sum, const union mt_record *record,            \
                                                               uint64_t last)                                          \
    {                                                                                                                  \
        const uint64_t *word = record->words;                                                                          \
        uint64_t first = crc(crc(crc(crc(sum, word[0]), word[1]), word[2]), word[3]);                                  \
        uint64_t second = crc(crc(crc(crc(UINT32_MAX, word[4]), word[5]), word[6]), last);                             \
        return (uint32_t)crc(first, second);                                                                           \
    }
MT_DEFINE_SUM(mt_sum_quick, mt_crc_quick)
MT_DEFINE_SUM(mt_sum_slow, mt_crc_slow)

/* Returns the initial sum of a record at a position. */
static inline uint32_t mt_sum_begin(uint64_t position)
{
    return (uint32_t)(mt_sum_is_quick() ? mt_crc_quick(UINT32_MAX, position) : mt_crc_slow(UINT32_MAX, position));
}

/* Returns the sum of a record without its checksum at its position, on a processor with the instruction. */
static inline __attribute__((always_inline)) uint32_t mt_sum_quick_at(const union mt_record *record, uint64_t position)
{
    return mt_sum_quick((uint32_t)mt_crc_quick(UINT32_MAX, position), record, (uint32_t)record->words[7]);
}
#else
enum { MT_SUM_IS_CRC = false };

static inline bool mt_sum_is_quick(void)
{
    return true;
}

static inline uint32_t mt_sum_quick(uint32_t sum, const union mt_record *record, uint64_t last)
{
    const uint64_t hash = mt_record_hash(sum, record, last);
    return (uint32_t)(hash ^ hash >> 32);
}

static inline uint32_t mt_sum_slow(uint32_t sum, const union mt_record *record, uint64_t last)
{
    return mt_sum_quick(sum, record, last);
}

static inline uint32_t mt_sum_begin(uint64_t position)
{
    const uint64_t mixed = position * 0x9E3779B97F4A7C15u;
    return (uint32_t)(mixed ^ mixed >> 32);
}

static inline uint32_t mt_sum_quick_at(const union mt_record *record, uint64_t position)
{
    return mt_sum_quick(mt_sum_begin(position), record, (uint32_t)record->words[7]);
}
#endif

/* Returns the sum continued over a record of plain bytes. */
static inline uint32_t mt_sum_on(uint32_t sum, const union mt_record *record)
{
    const uint64_t last = record->words[7];
    return mt_sum_is_quick() ? mt_sum_quick(sum, record, last) : mt_sum_slow(sum, record, last);
}

/* Returns the sum of a record without its checksum, at its position: its checksum, if it has no payload. */
static inline uint32_t mt_sum_at(const union mt_record *record, uint64_t position)
{
    const uint64_t last = (uint32_t)record->words[7];
    const uint32_t begin = mt_sum_begin(position);
    return mt_sum_is_quick() ? mt_sum_quick(begin, record, last) : mt_sum_slow(begin, record, last);
}
