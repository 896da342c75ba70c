#include "operators/cudnn_transform.h"

#include "operators/operator_plan.h"

enum { BATCH, CHANNELS, HEIGHT, WIDTH, PLANES, COPY_HEADER = 16 };

/* The planes of a convolution's tensors, and their pixels. */
struct planes {
    int64_t x, w, y, x_pixels, w_pixels, y_pixels;
    bool is_copied; /* channels are last */
    int64_t item_bytes;
};

static int64_t planes_of(const struct mt_convolution_tensor *tensor)
{
    return MT_PRODUCT(tensor->sizes[BATCH], tensor->sizes[CHANNELS]);
}

static int64_t pixels_of(const struct mt_convolution_tensor *tensor)
{
    return MT_PRODUCT(tensor->sizes[HEIGHT], tensor->sizes[WIDTH]);
}

static struct planes read_planes(const struct mt_convolution_question *question)
{
    const struct mt_convolution_tensor *x = &question->x, *w = &question->w, *y = &question->y;
    return (struct planes){.x = planes_of(x),
                           .w = planes_of(w),
                           .y = planes_of(y),
                           .x_pixels = pixels_of(x),
                           .w_pixels = pixels_of(w),
                           .y_pixels = pixels_of(y),
                           .is_copied = x->sizes[CHANNELS] > 1 && x->strides[CHANNELS] == 1,
                           .item_bytes = question->dtype == MT_SCALAR_HALF ? MT_FLOAT_BYTES / 2 : MT_FLOAT_BYTES};
}

static bool is_taken(const struct mt_convolution_question *question, int64_t stride)
{
    const bool is_known = question->dtype == MT_SCALAR_FLOAT || (question->dtype == MT_SCALAR_HALF && stride == 1);
    if (question->dims != PLANES || !is_known || question->x.sizes[CHANNELS] != question->w.sizes[CHANNELS])
        return false;
    for (int i = 0; i < PLANES - HEIGHT; i++)
        if (question->stride[i] != stride || (question->dilation[i] != 1 && question->w.sizes[HEIGHT + i] != 1))
            return false;
    return true;
}

/* Returns the longer side of the results of a whole convolution. */
static int64_t whole_side(const struct mt_convolution_question *question)
{
    const int64_t *y = question->y.sizes, *w = question->w.sizes;
    return mt_greater(y[HEIGHT] + w[HEIGHT], y[WIDTH] + w[WIDTH]) - 1;
}

enum { MOST_SIDE = 256 }; /* of a plane that is transformed as a whole */

/* Returns two buffers of a transformed plane: half of a square whose side is a power of two. */
static int64_t plane_bytes(int64_t side)
{
    enum { LEAST_SIDE = 16, COMPLEX_BYTES = 8, BUFFERS = 2 };
    int64_t power = LEAST_SIDE;
    while (power < side)
        power *= 2;
    return MT_PRODUCT(BUFFERS, power, power / 2 + 1, COMPLEX_BYTES);
}

static int64_t copies_bytes(const struct planes *planes)
{
    if (!planes->is_copied)
        return 0;
    return MT_PRODUCT(planes->item_bytes, MT_PRODUCT(planes->x, planes->x_pixels) +
                                              MT_PRODUCT(planes->w, planes->w_pixels) +
                                              MT_PRODUCT(planes->y, planes->y_pixels)) +
           COPY_HEADER;
}

/* The weights are turned around. */
static int64_t forward_bytes(const struct planes *planes, int64_t plane)
{
    return MT_PRODUCT(mt_greater(planes->w + planes->x, planes->y), plane) +
           MT_PRODUCT(planes->w, planes->w_pixels, MT_FLOAT_BYTES) + copies_bytes(planes);
}

static int64_t weight_gradient_bytes(const struct planes *planes, int64_t plane)
{
    return MT_PRODUCT(mt_greater(planes->x + planes->y, planes->w), plane) +
           MT_PRODUCT(planes->y, planes->y_pixels, MT_FLOAT_BYTES) + copies_bytes(planes);
}

/* Tiles of 32 × 32; images of several have two buffers. A stride of 2 makes four convolutions by parts of the
 * filter. */
static int64_t input_gradient_bytes(const struct mt_convolution_question *question, const struct planes *planes,
                                    bool is_strided)
{
    enum { TILE_SIDE = 32, TILE = 32 * 17 * 8, PHASES = 4 };
    const int64_t *x = question->x.sizes, *w = question->w.sizes, *y = question->y.sizes;
    if (!is_strided) {
        const int64_t side =
            mt_greater(whole_side(question), mt_greater(x[HEIGHT] + w[HEIGHT], x[WIDTH] + w[WIDTH]) - 1);
        const int64_t buffers = side > TILE_SIDE ? 2 : 1;
        return MT_PRODUCT(TILE, planes->w + buffers * (planes->x + planes->y)) + copies_bytes(planes);
    }
    const int64_t rows = mt_divide_up(w[HEIGHT], 2), columns = mt_divide_up(w[WIDTH], 2), height = y[HEIGHT] + rows - 1,
                  width = y[WIDTH] + columns - 1, buffers = mt_greater(height, width) > TILE_SIDE ? 2 : 1;
    return MT_PRODUCT(planes->w, PHASES * TILE + PHASES * MT_FLOAT_BYTES * rows * columns) +
           MT_PRODUCT(planes->x, PHASES * TILE * buffers + MT_FLOAT_BYTES * planes->x_pixels) +
           MT_PRODUCT(planes->y, TILE * buffers + MT_FLOAT_BYTES * height * width) + COPY_HEADER;
}

bool mt_cudnn_transform_bytes(const struct mt_convolution_question *question, int64_t *bytes)
{
    const bool is_input_gradient = question->kind == MT_CONVOLUTION_INPUT_GRADIENT,
               is_strided = is_input_gradient && is_taken(question, 2);
    if (!is_strided && !is_taken(question, 1))
        return false;
    if (!is_input_gradient && whole_side(question) > MOST_SIDE)
        return false;
    const struct planes planes = read_planes(question);
    if (is_input_gradient)
        *bytes = input_gradient_bytes(question, &planes, is_strided);
    else if (question->kind == MT_CONVOLUTION_FORWARD)
        *bytes = forward_bytes(&planes, plane_bytes(whole_side(question)));
    else
        *bytes = weight_gradient_bytes(&planes, plane_bytes(whole_side(question)));
    return true;
}
