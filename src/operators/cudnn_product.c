#include "operators/cudnn_product.h"

#include "operators/operator_plan.h"

enum { KIB = 1024, MIB = 1024 * KIB };

/* A workspace. */
struct estimate {
    int64_t bytes;
    struct mt_byte_range range;
};

/* A product of channels: `pixels` rows of `from` numbers become rows of `to` numbers, or are multiplied with each
 * other. */
struct product {
    int64_t pixels, from, to;
    bool is_last, is_single;
};

/* True if the kernel that is chosen keeps some numbers for its blocks: of large results in fp32, or of much work if
 * each image is a product of its own; in 16 bits of gradients of many pixels, sooner if they have 64 channels. */
static bool keeps_numbers(const struct product *product, bool is_gradient)
{
    enum { RESULT = 1 << 21, WORK = 1 << 30, PIXELS = 1 << 17, FEW_PIXELS = 1 << 14, FEW_CHANNELS = 64, UNIT = 4 };
    if (product->from % UNIT != 0 || product->to % UNIT != 0)
        return false;
    if (product->is_single && !is_gradient && !product->is_last)
        return MT_PRODUCT(product->pixels, product->from, product->to) >= WORK;
    if (product->is_single)
        return MT_PRODUCT(product->pixels, product->to) >= RESULT;
    if (!is_gradient || product->from % (2 * UNIT) != 0 || product->to % (2 * UNIT) != 0)
        return false;
    const bool is_narrow = product->to == FEW_CHANNELS && product->from >= FEW_CHANNELS;
    return product->pixels >= (is_narrow ? FEW_PIXELS : PIXELS);
}

/* Few products of small results are cut along k. */
static struct estimate image_room(const struct product *product, bool is_gradient)
{
    enum { OF_SINGLE = 400, OF_HALF = 272 };
    struct estimate room = {.bytes = 0};
    if (keeps_numbers(product, is_gradient))
        room.bytes = product->is_single ? OF_SINGLE : OF_HALF;
    room.range.high = !product->is_last ? KIB : product->is_single ? 8 * MIB : MIB;
    return room;
}

/* With channels last, the pixels are cut into parts until all blocks run at once, or twice as many of large products;
 * results that need most blocks stay whole. */
static struct estimate weight_room(const struct product *product)
{
    enum { BLOCKS = 132, SIDE = 128, LEAST_PARTS = 3, LARGE = 400000, LARGE_TILES = 8 };
    enum { PIXELS_SINGLE = 64, PIXELS_HALF = 1280, OF_SINGLE = 256, OF_HALF = 272 }; /* of a part; beside the parts */
    const bool is_single = product->is_single;
    const int64_t narrow = mt_smaller(product->from, product->to), wide = mt_greater(product->from, product->to),
                  of_result = mt_divide_up(narrow, SIDE) * mt_divide_up(wide, is_single ? 2 * SIDE : SIDE);
    const bool is_large = of_result >= LARGE_TILES && MT_PRODUCT(product->pixels, of_result) >= LARGE;
    const int64_t parts = mt_smaller((is_large ? 2 * BLOCKS : BLOCKS) / of_result,
                                     product->pixels / (is_single ? PIXELS_SINGLE : PIXELS_HALF));
    struct estimate room = {.bytes = 0};
    if (parts >= LEAST_PARTS)
        room.bytes = MT_PRODUCT(product->from, product->to, parts, MT_FLOAT_BYTES) + (is_single ? OF_SINGLE : OF_HALF);
    room.range.high = mt_greater(room.bytes, (is_single ? 36 : 18) * MIB);
    return room;
}

/* Without channels last, each image has a sum of its own. */
static struct estimate separate_images_room(const struct product *product, int64_t images)
{
    const int64_t bytes = MT_PRODUCT(images, product->from, product->to, MT_FLOAT_BYTES);
    return (struct estimate){bytes, {bytes, bytes + KIB}};
}

bool mt_cudnn_product_bytes(const struct mt_convolution_question *question, int64_t *bytes, struct mt_byte_range *range)
{
    for (int i = 0; i < MT_CONVOLUTION_MOST_SPATIAL; i++)
        if (question->padding[i] != 0 || question->stride[i] > 1)
            return false;
    if (mt_product_of(question->w.sizes + 2, (size_t)question->dims - 2) != 1)
        return false;
    const bool is_gradient = question->kind == MT_CONVOLUTION_INPUT_GRADIENT;
    const int64_t filters = question->w.sizes[0], channels = question->w.sizes[1];
    const struct product product = {
        .pixels = MT_PRODUCT(question->y.sizes[0], mt_product_of(question->y.sizes + 2, (size_t)question->dims - 2)),
        .from = is_gradient ? filters : channels,
        .to = is_gradient ? channels : filters,
        .is_last = question->x.strides[1] == 1 && question->x.sizes[1] > 1,
        .is_single = question->dtype == MT_SCALAR_FLOAT};
    const struct estimate found = question->kind != MT_CONVOLUTION_WEIGHT_GRADIENT ? image_room(&product, is_gradient)
                                  : product.is_last                                ? weight_room(&product)
                                                    : separate_images_room(&product, question->x.sizes[0]);
    *bytes = found.bytes;
    *range = found.range;
    return true;
}
