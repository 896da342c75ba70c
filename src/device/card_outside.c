#include "device/card_outside.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

struct range {
    uint64_t bytes, low_bytes, high_bytes;
};

static const struct {
    mt_outside_kind kind;
    const char *name;
} holders[] = {
#define X(part, kind, name) [MT_PART_##part] = {MT_OUTSIDE_##kind, name},
    MT_OUTSIDE_PARTS(X)
#undef X
};

/* The context for each multiprocessor, on cards where it is known: from the L40S to PyTorch's on the H200. */
static const uint64_t LEAST_CONTEXT_BYTES = 3 * MIB, MOST_CONTEXT_BYTES = 6139532;

/* Known values for a card. A part without bytes is unknown. */
struct found {
    const char *card;
    struct range part[MT_OUTSIDE_PART_COUNT];
};

/* The first collective of any kind creates the rings: gathering and scattering after a sum needed no more memory. */
#define HOPPER                                                                                                         \
    {                                                                                                                  \
        [MT_PART_PROCESS] = {600 * MIB, 600 * MIB, 600 * MIB}, [MT_PART_CONTEXT] = {648937472, 648937472, 651034624},  \
        [MT_PART_LIBRARIES] = {155189248, 155189248, 159383552}, [MT_PART_NCCL_FIRST] = {383778816, 0, 383778816},     \
        [MT_PART_NCCL_RING] = {497025024, 497025024, 688 * MIB},                                                       \
        [MT_PART_NCCL_PEER] = {132120576, 132120576, 468571428},                                                       \
    }

/* Two ranks need the least. */
#define AMPERE                                                                                                         \
    {                                                                                                                  \
        [MT_PART_NCCL_RING] = {688 * MIB, 544 * MIB, 688 * MIB},                                                       \
    }

static const struct found found[] = {
    {"h200", HOPPER}, {"h100", HOPPER}, {"a100-80gb", AMPERE}, {"a100-40gb", AMPERE}, {"a800", AMPERE},
};

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Returns the context in the table of cards, with the range for such cards. A device with a size in bytes has none. */
static struct range context_of(const struct mt_card *card)
{
    struct mt_card listed;
    const bool is_listed = card->context_bytes == 0 && mt_card_find(card->name, &listed);
    const uint64_t units = (uint64_t)card->multiprocessors;
    const uint64_t bytes = is_listed ? listed.context_bytes : card->context_bytes;
    return (struct range){bytes, smaller(bytes, units * LEAST_CONTEXT_BYTES),
                          larger(bytes, units * MOST_CONTEXT_BYTES)};
}

static const struct found *find(const struct mt_card *card)
{
    for (size_t i = 0; i < sizeof found / sizeof found[0]; i++)
        if (strcmp(found[i].card, card->name) == 0)
            return &found[i];
    return NULL;
}

/* True for the parts that connect ranks. */
static bool is_connection(mt_outside_part part)
{
    return part == MT_PART_NCCL_RING || part == MT_PART_NCCL_PEER;
}

static struct range range_of(const struct mt_card *card, mt_outside_part part)
{
    const struct found *known = find(card);
    if (known != NULL && known->part[part].bytes > 0)
        return known->part[part];
    return part == MT_PART_PROCESS || part == MT_PART_CONTEXT ? context_of(card) : (struct range){0};
}

bool mt_card_outside(const struct mt_card *card, mt_outside_part part, int ranks, struct mt_outside *out)
{
    assert((unsigned)part < MT_OUTSIDE_PART_COUNT);
    struct range range = range_of(card, part);
    if (part == MT_PART_NCCL_RING && ranks == 2)
        range.bytes = range.low_bytes;
    assert(range.low_bytes <= range.bytes && range.bytes <= range.high_bytes);
    *out = (struct mt_outside){.kind = holders[part].kind,
                               .name = holders[part].name,
                               .bytes = range.bytes,
                               .low_bytes = range.low_bytes,
                               .high_bytes = range.high_bytes};
    return range.bytes > 0 && !(is_connection(part) && ranks < 2);
}
