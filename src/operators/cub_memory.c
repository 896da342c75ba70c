#include "operators/cub_memory.h"

#include "operators/operator_plan.h"

enum {
    ALIGNMENT = 256,
    ONE_ALLOCATION = ALIGNMENT - 1, /* bytes by which one allocation may have to move */
    TWO_ALLOCATIONS = 2 * ALIGNMENT - 1,
    NOTHING = 1,            /* CUB never asks for 0 bytes */
    LONG_BYTES = 8,         /* of a long key, and of a counter */
    DIGIT_VALUES = 256,     /* of 8 bits */
    TILES_BEFORE = 32,      /* of the first tile, which looks back at as many */
    PAIRS_TILE_LONG = 4608, /* pairs that a block sorts, with keys of 8 bytes */
    PAIRS_TILE = 5376,      /* of 4 bytes */
    PAIRS_TILE_SHORT = 5632,
    KEYS_TILE_LONG = 5760,
    KEYS_TILE = 6912,
    PAIRS_IN_ONE_BLOCK = 2304,
    KEYS_IN_ONE_BLOCK = 4864, /* of 4 bytes and less */
    SCAN_TILE = 1920,         /* elements of up to 4 bytes that a block scans */
    SCAN_TILE_LONG = 896,
    LONG_SCAN_TILE = 3072,
    SELECT_TILE = 4224,
    RUN_LENGTH_TILE = 768,
    SUM_IN_ONE_BLOCK = 4096,
    SUM_THREADS = 256,
    SUM_WAVES = 5 /* blocks for each that a multiprocessor holds */
};

static int64_t sort_tile(int64_t key_bytes, int64_t value_bytes)
{
    if (value_bytes == 0)
        return key_bytes >= LONG_BYTES ? KEYS_TILE_LONG : KEYS_TILE;
    return key_bytes >= LONG_BYTES ? PAIRS_TILE_LONG : key_bytes >= MT_FLOAT_BYTES ? PAIRS_TILE : PAIRS_TILE_SHORT;
}

static bool sorts_in_one_block(int64_t elements, int64_t key_bytes, int64_t value_bytes)
{
    const bool is_short = value_bytes < LONG_BYTES && key_bytes < LONG_BYTES;
    return elements <= (is_short ? KEYS_IN_ONE_BLOCK : PAIRS_IN_ONE_BLOCK);
}

/* A second place for keys and values, a table for each tile, and the counts of the digits. */
int64_t mt_cub_sort_bytes(int64_t elements, int64_t key_bytes, int64_t value_bytes, int64_t digits)
{
    if (sorts_in_one_block(elements, key_bytes, value_bytes))
        return NOTHING;
    const int64_t tiles = mt_divide_up(elements, sort_tile(key_bytes, value_bytes));
    return mt_round_up(MT_PRODUCT(elements, key_bytes), ALIGNMENT) +
           mt_round_up(MT_PRODUCT(elements, value_bytes), ALIGNMENT) + MT_PRODUCT(tiles, DIGIT_VALUES, MT_FLOAT_BYTES) +
           MT_PRODUCT(digits, DIGIT_VALUES, LONG_BYTES) + TWO_ALLOCATIONS;
}

/* Returns the bytes of the states of tiles, `item_bytes` each, without what aligns them. */
static int64_t states_of(int64_t elements, int64_t tile, int64_t item_bytes)
{
    return mt_round_up(MT_PRODUCT(mt_divide_up(elements, tile) + TILES_BEFORE, item_bytes), ALIGNMENT);
}

/* A state is two numbers: of the tile, and of all up to it. */
int64_t mt_cub_scan_bytes(int64_t elements, int64_t item_bytes)
{
    const int64_t item = item_bytes < MT_FLOAT_BYTES ? MT_FLOAT_BYTES : item_bytes;
    return states_of(elements, item > MT_FLOAT_BYTES ? SCAN_TILE_LONG : SCAN_TILE, 2 * item) + TWO_ALLOCATIONS;
}

int64_t mt_cub_long_scan_bytes(int64_t elements)
{
    return states_of(elements, LONG_SCAN_TILE, LONG_BYTES) + TWO_ALLOCATIONS;
}

int64_t mt_cub_select_bytes(int64_t elements)
{
    return states_of(elements, SELECT_TILE, LONG_BYTES) + TWO_ALLOCATIONS;
}

int64_t mt_cub_run_length_bytes(int64_t elements)
{
    return states_of(elements, RUN_LENGTH_TILE, 2 * LONG_BYTES) + ONE_ALLOCATION;
}

int64_t mt_cub_sum_bytes(const struct mt_card *card, int64_t elements)
{
    if (elements <= SUM_IN_ONE_BLOCK)
        return NOTHING;
    const int64_t resident = card->threads_per_multiprocessor / SUM_THREADS;
    return mt_round_up(MT_PRODUCT(card->multiprocessors, resident, SUM_WAVES, MT_FLOAT_BYTES), ALIGNMENT) +
           ONE_ALLOCATION;
}
