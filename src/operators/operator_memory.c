#include "operators/operator_memory.h"

#include "operators/operator_plan.h"

#include <assert.h>

enum { REDUCE_THREADS = 512, WARP = 32, MIN_PER_THREAD = 16, MAX_PER_THREAD = 256, FEWEST_TO_LOAD = 128 };

/* The threads of a block, and how many of them an output's inputs are spread over. */
struct shape {
    int64_t width, height;
    int64_t per_thread; /* inputs of one thread */
    int64_t tiles;      /* blocks that all outputs take */
    bool shares_width;  /* threads of a row share outputs */
};

static int64_t last_power_of_two(int64_t n)
{
    int64_t power = 1;
    while (power * 2 <= n)
        power *= 2;
    return power;
}

struct mt_reduction mt_reduction_of_rows(int64_t rows, int64_t columns)
{
    return (struct mt_reduction){.outputs = columns,
                                 .inputs = rows,
                                 .vector = columns % 4 == 0   ? 4
                                           : columns % 2 == 0 ? 2
                                                              : 1,
                                 .accumulator_bytes = MT_FLOAT_BYTES,
                                 .is_dense = true,
                                 .loads_vectors = true};
}

/* Sets width and height: the width follows the dimension with the smallest stride. */
static void shape_block(const struct mt_reduction *reduction, int64_t vector, struct shape *out)
{
    int64_t across = reduction->outputs / vector, along = reduction->inputs;
    if (reduction->is_along_rows) {
        across = reduction->inputs;
        along = reduction->outputs;
        if (reduction->is_dense && reduction->is_flat && reduction->loads_vectors && across > FEWEST_TO_LOAD)
            across /= 4;
    }
    const int64_t threads = REDUCE_THREADS / vector;
    const int64_t width_limit = mt_smaller(last_power_of_two(across), threads);
    const int64_t height_limit = mt_smaller(last_power_of_two(along), threads);
    out->height = mt_smaller(height_limit, threads / mt_smaller(width_limit, WARP));
    out->width = mt_smaller(width_limit, threads / out->height);
    assert(out->width * out->height <= threads);
}

/* Spreads inputs and outputs over the threads. Returns false if no warps share an output, so no blocks do. */
static bool spread(const struct mt_reduction *reduction, int64_t vector, struct shape *shape)
{
    shape->shares_width = reduction->is_along_rows;
    const int64_t input_step = shape->shares_width ? shape->width : 1;
    const int64_t output_step = shape->shares_width ? 1 : shape->width;
    const int64_t of_warp = mt_divide_up(reduction->inputs, input_step);
    if (of_warp < mt_smaller(shape->height * MIN_PER_THREAD, MAX_PER_THREAD))
        return false;
    shape->per_thread = mt_divide_up(reduction->inputs, input_step * shape->height);
    shape->tiles = mt_divide_up(reduction->outputs / vector, output_step);
    return true;
}

/* If a thread has 256 inputs or more, several blocks share the inputs of a tile of outputs: each of them needs a place
 * for its partial results, and each tile a counter. */
void mt_reduction_staging(const struct mt_card *card, const struct mt_reduction *reduction, int64_t *out_staging_bytes,
                          int64_t *out_counter_bytes)
{
    assert(card->multiprocessors > 0 && card->threads_per_multiprocessor > 0);
    *out_staging_bytes = *out_counter_bytes = 0;
    if (reduction->inputs <= 0 || reduction->outputs <= 0)
        return;
    const int64_t vector = !reduction->is_along_rows && reduction->is_dense ? reduction->vector : 1;
    struct shape shape;
    shape_block(reduction, vector, &shape);
    if (!spread(reduction, vector, &shape))
        return;
    const int64_t threads = shape.width * shape.height;
    const int64_t resident = card->multiprocessors * (card->threads_per_multiprocessor / threads);
    if (shape.per_thread < MAX_PER_THREAD || shape.tiles > resident)
        return;
    int64_t blocks = mt_smaller(mt_divide_up(resident, shape.tiles), mt_divide_up(shape.per_thread, MIN_PER_THREAD));
    const int64_t fewest = mt_divide_up(shape.per_thread, MAX_PER_THREAD);
    if (blocks < fewest)
        blocks = fewest;
    if (blocks <= 1)
        return;
    const int64_t places = shape.shares_width ? 1 : shape.width * vector;
    *out_staging_bytes = reduction->accumulator_bytes * reduction->outputs * blocks * places;
    *out_counter_bytes = (int64_t)sizeof(int32_t) * shape.tiles;
}
