/* One step of AdamW: reads and writes each element of a parameter once. Moments are stored in the parameter's dtype, in
 * bf16, or in 8 bits with a scale for each block of elements (kernels/moments.h). A tile is a block. */
#include "kernels/cpu/cpu_ops.h"
#include "kernels/moments.h"

#include <math.h>

_Static_assert((int)MTK_TILE == (int)MTK_MOMENTS_BLOCK, "a tile of moments has one scale");

/* A tile of the four tensors of a parameter. */
struct adamw_tile {
    double value[MTK_TILE], grad[MTK_TILE], mean[MTK_TILE], square[MTK_TILE];
};

/* The tables of both moments' codes. */
struct code_tables {
    struct mtk_codes mean, square;
};

static void update(const struct mtk_adamw *how, int64_t count, struct adamw_tile *t)
{
    for (int64_t i = 0; i < count; i++) {
        t->mean[i] += (1 - how->beta1) * (t->grad[i] - t->mean[i]);
        t->square[i] += (1 - how->beta2) * (t->grad[i] * t->grad[i] - t->square[i]);
        t->value[i] = how->keep * t->value[i] - how->step_size * t->mean[i] / (sqrt(t->square[i]) + how->epsilon);
    }
}

static void store_at_random(uint16_t *to, double value, uint32_t random)
{
    union {
        float value;
        uint32_t bits;
    } near = {.value = (float)value};
    *to = mtk_bf16_at_random(near.bits, random);
}

static void store_bf16(const struct mtk_adamw_item *item, int64_t first, int64_t count, const struct adamw_tile *t)
{
    uint16_t *mean = (uint16_t *)(void *)mtk_pointer(item->mean) + first;
    uint16_t *square = (uint16_t *)(void *)mtk_pointer(item->square) + first;
    for (int64_t i = 0; i < count; i++) {
        uint64_t random = mtk_moment_bits(item->generator, (first + i) / 2) >> 32 * ((first + i) % 2);
        store_at_random(&mean[i], t->mean[i], (uint32_t)random);
        store_at_random(&square[i], t->square[i], (uint32_t)random >> 16);
    }
}

/* Returns the scales of the block at an element. */
static float *scales_at(const struct mtk_adamw_item *item, int64_t first)
{
    return (float *)(void *)mtk_pointer(item->scales) + 2 * (first / MTK_MOMENTS_BLOCK);
}

static void load_8bit(const struct mtk_adamw_item *item, const struct code_tables *codes, int64_t first, int64_t count,
                      struct adamw_tile *t)
{
    const uint8_t *mean = (const uint8_t *)mtk_pointer(item->mean) + first;
    const uint8_t *square = (const uint8_t *)mtk_pointer(item->square) + first;
    const float *scales = scales_at(item, first);
    for (int64_t i = 0; i < count; i++) {
        t->mean[i] = codes->mean.number[mean[i]] * scales[0];
        t->square[i] = codes->square.number[square[i]] * scales[1];
    }
}

static void store_8bit(const struct mtk_adamw_item *item, const struct code_tables *codes, int64_t first, int64_t count,
                       const struct adamw_tile *t)
{
    uint8_t *mean = (uint8_t *)mtk_pointer(item->mean) + first, *square = (uint8_t *)mtk_pointer(item->square) + first;
    float *scales = scales_at(item, first), largest[2] = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        largest[0] = fmaxf(largest[0], fabsf((float)t->mean[i]));
        largest[1] = fmaxf(largest[1], (float)t->square[i]);
    }
    float factor[2] = {mtk_code_factor(largest[0]), mtk_code_factor(largest[1])};
    for (int64_t i = 0; i < count; i++) {
        mean[i] = mtk_code_of(&codes->mean, (float)t->mean[i] * factor[0]);
        square[i] = mtk_code_of(&codes->square, (float)t->square[i] * factor[1]);
    }
    scales[0] = largest[0];
    scales[1] = largest[1];
}

/* Returns the dtype of moments without scales. */
static mt_dtype moment_dtype(const struct mtk_adamw *how, const struct mtk_adamw_item *item)
{
    return item->moments == MTK_MOMENTS_BF16 ? MT_BF16 : how->dtype;
}

static void load_moments(const struct mtk_adamw *how, const struct mtk_adamw_item *item,
                         const struct code_tables *codes, int64_t first, int64_t count, struct adamw_tile *t)
{
    mt_dtype dtype = moment_dtype(how, item);
    int64_t at = first * (int64_t)mt_dtype_bytes(dtype);
    if (item->moments == MTK_MOMENTS_8BIT) {
        load_8bit(item, codes, first, count, t);
        return;
    }
    mtk_load(mtk_pointer(item->mean) + at, dtype, 1, count, t->mean);
    mtk_load(mtk_pointer(item->square) + at, dtype, 1, count, t->square);
}

static void store_moments(const struct mtk_adamw *how, const struct mtk_adamw_item *item,
                          const struct code_tables *codes, int64_t first, int64_t count, const struct adamw_tile *t)
{
    int64_t at = first * (int64_t)mt_dtype_bytes(how->dtype);
    switch (item->moments) {
    case MTK_MOMENTS_FULL:
        mtk_store(mtk_pointer(item->mean) + at, how->dtype, 1, count, t->mean);
        mtk_store(mtk_pointer(item->square) + at, how->dtype, 1, count, t->square);
        break;
    case MTK_MOMENTS_BF16:
        store_bf16(item, first, count, t);
        break;
    case MTK_MOMENTS_8BIT:
        store_8bit(item, codes, first, count, t);
        break;
    }
}

static void update_item(const struct mtk_adamw *how, const struct mtk_adamw_item *item, const struct code_tables *codes)
{
    assert(item->count >= 0 && item->value != 0 && item->grad != 0 && item->mean != 0 && item->square != 0);
    assert((item->scales != 0) == (item->moments == MTK_MOMENTS_8BIT));
    assert(item->moments == MTK_MOMENTS_FULL || how->dtype == MT_F32);
    struct adamw_tile t;
    int64_t size = (int64_t)mt_dtype_bytes(how->dtype);
    MTK_EACH_TILE (first, count, item->count) {
        mtk_load(mtk_pointer(item->value) + first * size, how->dtype, 1, count, t.value);
        mtk_load(mtk_pointer(item->grad) + first * size, how->dtype, 1, count, t.grad);
        load_moments(how, item, codes, first, count, &t);
        update(how, count, &t);
        mtk_store(mtk_pointer(item->value) + first * size, how->dtype, 1, count, t.value);
        store_moments(how, item, codes, first, count, &t);
        if (item->cast == 0)
            continue;
        mtk_load(mtk_pointer(item->value) + first * size, how->dtype, 1, count, t.value); /* as rounded when stored */
        mtk_store(mtk_pointer(item->cast) + first * (int64_t)mt_dtype_bytes(MT_BF16), MT_BF16, 1, count, t.value);
    }
}

mt_status mtk_cpu_adamw(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                        struct mtk_queue *queue)
{
    const struct code_tables codes = {mtk_codes_of(MTK_MEAN_CELLS), mtk_codes_of(MTK_SQUARE_CELLS)};
    (void)queue;
    assert(how->dtype == MT_F32 || how->dtype == MT_F64);
    for (int i = 0; i < count; i++)
        update_item(how, &items[i], &codes);
    return MT_OK;
}
