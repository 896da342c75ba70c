#include "operators/operator_memory.h"

#include <assert.h>

enum { REDUCE_THREADS = 512, WARP = 32, MIN_PER_THREAD = 16, MAX_PER_THREAD = 256, ACCUMULATOR_BYTES = 4 };

static int64_t divide_up(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t last_power_of_two(int64_t n)
{
    int64_t power = 1;
    while (power * 2 <= n)
        power *= 2;
    return power;
}

/* The launcher gives each thread up to four neighbouring columns, and each block a tile of columns by a tile of
 * rows. If a thread then has 256 rows or more, several blocks share the rows of a tile: each of them needs a place
 * for its partial sums, and each tile a counter. */
void mt_reduction_staging(const struct mt_card *card, int64_t rows, int64_t columns, int64_t *out_staging_bytes,
                          int64_t *out_counter_bytes)
{
    assert(rows > 0 && columns > 0 && card->multiprocessors > 0 && card->threads_per_multiprocessor > 0);
    *out_staging_bytes = *out_counter_bytes = 0;
    int64_t vector = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1;
    int64_t vectors = columns / vector, threads = REDUCE_THREADS / vector;
    int64_t width_limit = smaller(last_power_of_two(vectors), threads);
    int64_t height = smaller(smaller(last_power_of_two(rows), threads), threads / smaller(width_limit, WARP));
    int64_t width = smaller(width_limit, threads / height);
    assert(width * height <= threads);
    if (rows < height * MIN_PER_THREAD && rows < MAX_PER_THREAD)
        return;
    int64_t per_thread = divide_up(rows, height), tiles = divide_up(vectors, width);
    int64_t resident = card->multiprocessors * (card->threads_per_multiprocessor / (width * height));
    if (per_thread < MAX_PER_THREAD || tiles > resident)
        return;
    int64_t blocks = smaller(divide_up(resident, tiles), divide_up(per_thread, MIN_PER_THREAD));
    int64_t fewest = divide_up(per_thread, MAX_PER_THREAD);
    if (blocks < fewest)
        blocks = fewest;
    if (blocks <= 1)
        return;
    *out_staging_bytes = ACCUMULATOR_BYTES * columns * blocks * width * vector;
    *out_counter_bytes = (int64_t)sizeof(int32_t) * tiles;
}
