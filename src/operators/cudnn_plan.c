/* Workspaces of cuDNN's engines that ask a card. The formulas were found from 492 recorded calls on an H200 under cuDNN 9.19 and
 * from cuDNN's answers to the same questions without a card; the clusters were read on the H200
 * (cudaOccupancyMaxActiveClusters). Engines and knobs have cuDNN's numbers. */
#include "operators/cudnn_plan.h"

#include "operators/operator_plan.h"

#include <string.h>

enum { KNOB_TILE = 2, KNOB_STEP = 13, KNOB_SPLIT = 25, KNOB_CLUSTER_M = 27, KNOB_CLUSTER_N = 28 };
enum { MOST_TILE = 20, MOST_CLUSTER = 8, ENGINES = 3, HOPPER = 9 };

/* ---- what was checked ---- */

enum { VERSION_STEP = 100 }; /* versions that differ in their patch are alike */

static const struct checked {
    int64_t version;
    const char *card;
} checked[] = {{919, "h200"}};

bool mt_cudnn_is_checked(int64_t version, const struct mt_card *card)
{
    for (size_t i = 0; i < sizeof checked / sizeof checked[0]; i++)
        if (checked[i].version == version / VERSION_STEP && strcmp(checked[i].card, card->name) == 0)
            return true;
    return false;
}

/* ---- tile schedulers of Hopper ---- */

/* By the value of KNOB_TILE: rows and columns of a tile, and, by dtype (fp32, bf16, fp16), above how many steps along k a tile is
 * cut in two: if all tiles run at once, and if only the last ones are cut. 0: as DEFAULT_CUT. */
static const struct tile {
    int16_t rows, columns, cut[3], tail_cut[3];
} tiles[MOST_TILE] = {
    [0] = {128, 128, {27, 105, 13}, {14, 54, 7}}, [1] = {128, 64, {35, 137, 17}, {17, 66, 10}},
    [3] = {256, 128, {23, 0, 0}, {12, 0, 0}},     [4] = {256, 64, {27, 0, 0}, {14, 0, 0}},
    [5] = {64, 64, {49, 0, 24}, {22, 88, 11}},    [6] = {128, 256, {0, 0, 0}, {0, 0, 0}},
    [7] = {64, 128, {35, 0, 0}, {17, 0, 0}},      [9] = {64, 256, {27, 0, 0}, {14, 0, 0}},
    [16] = {256, 32, {0, 0, 0}, {0, 0, 0}},       [18] = {64, 192, {29, 0, 0}, {16, 0, 0}},
    [19] = {128, 192, {23, 0, 0}, {12, 0, 0}},
};
enum { DEFAULT_CUT = 200, DEFAULT_TAIL_CUT = 14 };

/* Engines with such a scheduler, by the kind of the convolution. */
static const int64_t scheduled[MT_CONVOLUTION_KIND_COUNT][ENGINES] = {[MT_CONVOLUTION_FORWARD] = {62, 67},
                                                                      [MT_CONVOLUTION_INPUT_GRADIENT] = {67, 71},
                                                                      [MT_CONVOLUTION_WEIGHT_GRADIENT] = {65, 68}};

/* Blocks that run at once in clusters of 1 to MOST_CLUSTER blocks. */
static const struct clusters {
    const char *card;
    int16_t blocks[MOST_CLUSTER];
} clusters[] = {{"h200", {132, 132, 117, 120, 110, 102, 105, 120}}};

/* Without a card, cuDNN assumes so many multiprocessors. */
enum { ASSUMED_MULTIPROCESSORS = 18 };

/* Returns the blocks that run at once on a card in clusters of `size`: as read, or as if no multiprocessor were left over. */
static int64_t resident_blocks(const struct mt_card *card, int64_t size)
{
    for (size_t i = 0; i < sizeof clusters / sizeof clusters[0]; i++)
        if (size <= MOST_CLUSTER && strcmp(clusters[i].card, card->name) == 0)
            return clusters[i].blocks[size - 1];
    return card->multiprocessors / size * size;
}

/* The product that a scheduled kernel computes, in tiles. */
struct tiled {
    const struct tile *tile;
    int64_t type;      /* 0 fp32, 1 bf16, 2 fp16 */
    int64_t tile_type; /* KNOB_TILE */
    int64_t count;     /* tiles, rounded up to clusters */
    int64_t steps;     /* along k */
    int64_t step;      /* elements of one */
    int64_t cluster;   /* blocks of one */
    bool may_split;
};

static int64_t knob(const struct mt_cudnn_plan *plan, int64_t type, int64_t otherwise)
{
    for (int64_t i = 0; i < plan->knob_count; i++)
        if (plan->knobs[i].type == type)
            return plan->knobs[i].value;
    return otherwise;
}

static int64_t spatial_of(const struct mt_convolution_question *question, const struct mt_convolution_tensor *tensor)
{
    return mt_product_of(tensor->sizes + 2, (size_t)question->dims - 2);
}

/* Returns the images' pixels: rows of the product. */
static int64_t pixels_of(const struct mt_convolution_question *question, const struct mt_convolution_tensor *tensor)
{
    return MT_PRODUCT(tensor->sizes[0], spatial_of(question, tensor));
}

/* Sets the numbers of tiles and steps, in clusters of m × n blocks. */
static void set_product(const struct mt_convolution_question *question, int64_t cluster_m, int64_t cluster_n,
                        struct tiled *out)
{
    const int64_t taps = spatial_of(question, &question->w), filters = question->w.sizes[0],
                  channels = question->w.sizes[1], rows = out->tile->rows, columns = out->tile->columns;
    int64_t m, n;
    if (question->kind == MT_CONVOLUTION_FORWARD) {
        m = mt_divide_up(pixels_of(question, &question->y), rows);
        n = mt_divide_up(filters, columns);
        out->steps = taps * mt_divide_up(channels, out->step);
    } else if (question->kind == MT_CONVOLUTION_INPUT_GRADIENT) {
        m = mt_divide_up(pixels_of(question, &question->x), rows);
        n = mt_divide_up(channels, columns);
        out->steps = taps * mt_divide_up(filters, out->step);
    } else {
        m = mt_divide_up(filters, rows);
        n = taps * mt_divide_up(channels, columns);
        out->steps = mt_divide_up(pixels_of(question, &question->y), out->step);
    }
    out->count = mt_round_up(m, cluster_m) * mt_round_up(n, cluster_n);
}

/* Describes the product of a plan. False if its tile is not in the table. */
static bool find_tiled(const struct mt_convolution_question *question, const struct mt_cudnn_plan *plan,
                       struct tiled *out)
{
    const int64_t tile = knob(plan, KNOB_TILE, -1), m = knob(plan, KNOB_CLUSTER_M, 1),
                  n = knob(plan, KNOB_CLUSTER_N, 1);
    if (tile < 0 || tile >= MOST_TILE || tiles[tile].rows == 0 || m < 1 || n < 1)
        return false;
    *out = (struct tiled){.tile = &tiles[tile], .tile_type = tile, .cluster = m * n};
    out->type = question->dtype == MT_SCALAR_HALF ? 2 : question->dtype == MT_SCALAR_BF16 ? 1 : 0;
    out->step = knob(plan, KNOB_STEP, 0) == 1 ? 64 : 32;
    out->may_split = knob(plan, KNOB_SPLIT, 1) == 0;
    set_product(question, m, n, out);
    return true;
}

/* Returns the parts that each of the last tiles is cut into, which are fewer than blocks run at once. */
static int64_t parts_of_tail(const struct tiled *tiled, int64_t waves)
{
    const int64_t cut = tiled->tile->tail_cut[tiled->type], k = tiled->steps;
    const bool is_long = tiled->type == 0 || tiled->step == 64;
    const double first = (double)(cut > 0 ? cut : DEFAULT_TAIL_CUT) * (is_long ? 1 : 2);
    const double steps = (double)k;
    enum { TILE_128_64 = 1, MOST_WAVES = 16 };
    if (tiled->tile_type == TILE_128_64 && waves > MOST_WAVES)
        return 1;
    return steps < first ? 1 : steps < 2.05 * first ? 2 : steps < 3.3 * first ? 4 : steps < 4.6 * first ? 8 : k / 8;
}

/* Returns the parts that each tile is cut into where all run at once, `most` of them at most. */
static int64_t parts_of_all(const struct tiled *tiled, int64_t most)
{
    enum { MANY = 9, LEAST_STEPS_64 = 17, LEAST_STEPS_32 = 33 };
    const int64_t limit = tiled->steps / (tiled->step == 64 ? LEAST_STEPS_64 : LEAST_STEPS_32);
    const int64_t cut = tiled->tile->cut[tiled->type] > 0 ? tiled->tile->cut[tiled->type] : DEFAULT_CUT;
    int64_t parts = 1;
    if (most >= MANY && limit >= MANY)
        return mt_smaller(most, limit);
    while (tiled->steps > cut * parts)
        parts *= 2;
    return mt_smaller(parts, most);
}

/* Returns the nodes of a binary tree above so many leaves. */
static int64_t tree_nodes(int64_t leaves)
{
    int64_t nodes = 0;
    while (leaves > 1) {
        leaves = mt_divide_up(leaves, 2);
        nodes += leaves;
    }
    return nodes;
}

/* Returns the bytes of the scheduler and of partial results, if so many blocks run at once. */
static int64_t scheduled_bytes(const struct tiled *tiled, int64_t resident)
{
    enum { ALIGNED = 127, COUNTERS = 8, MANY_WAVES = 2 };
    const int64_t waves = mt_divide_up(tiled->count, resident);
    const int64_t tail = tiled->count <= resident ? tiled->count : tiled->count % resident;
    const int64_t most = tail > 0 ? resident / tail : 1;
    int64_t parts = 1;
    if (tiled->may_split && most > 1)
        parts = tiled->count > resident ? mt_smaller(most, parts_of_tail(tiled, waves)) : parts_of_all(tiled, most);
    const int64_t is_long = waves > MANY_WAVES;
    if (parts <= 1)
        return is_long * (ALIGNED + MT_FLOAT_BYTES);
    return MT_PRODUCT(parts, tail, tiled->tile->rows, tiled->tile->columns, MT_FLOAT_BYTES) + ALIGNED +
           MT_FLOAT_BYTES * (tail * tree_nodes(parts) + COUNTERS + is_long);
}

static bool is_scheduled(const struct mt_convolution_question *question, const struct mt_cudnn_plan *plan)
{
    for (int i = 0; i < ENGINES; i++)
        if (plan->engine > 0 && scheduled[question->kind][i] == plan->engine)
            return true;
    return false;
}

/* Replaces what the scheduler takes with cuDNN's assumed multiprocessors by what it takes with the card's. The rest of the
 * workspace, copies of channels, is 0 or 16 bytes and whole elements; otherwise the formula is not this kernel's, and the bytes are
 * left as they are: false. */
static bool schedule_for_card(const struct mt_card *card, const struct mt_convolution_question *question,
                              const struct mt_cudnn_plan *plan, int64_t *bytes)
{
    enum { COPIES_LEAST = 16, COPIES_UNIT = 8 };
    struct tiled tiled;
    if (!find_tiled(question, plan, &tiled) || tiled.cluster > ASSUMED_MULTIPROCESSORS)
        return false;
    const int64_t assumed = ASSUMED_MULTIPROCESSORS / tiled.cluster * tiled.cluster;
    const int64_t copies = *bytes - scheduled_bytes(&tiled, assumed);
    if (copies != 0 && (copies < COPIES_LEAST || (copies - COPIES_LEAST) % COPIES_UNIT != 0))
        return false;
    *bytes = copies + scheduled_bytes(&tiled, resident_blocks(card, tiled.cluster));
    return true;
}

/* ---- engines that are left out without a card ---- */

/* Writes the bytes of an engine. `is_estimate` if they do not follow from the shapes alone. */
typedef bool engine_bytes(const struct mt_convolution_question *question, int64_t *bytes, bool *is_estimate);

/* A product of channels by cuBLASLt, which chooses by measures of its own: as it was seen. The weight's gradient with channels
 * last was seen to be cut in 19 and in 131 parts. */
static bool product_bytes(const struct mt_convolution_question *question, int64_t *bytes, bool *is_estimate)
{
    enum { FORWARD_FP32_LAST = 400, GRADIENT_NARROW = 272 };
    const bool is_last = question->x.strides[1] == 1 && question->x.sizes[1] > 1,
               is_single = question->dtype == MT_SCALAR_FLOAT;
    for (int i = 0; i < MT_CONVOLUTION_MOST_SPATIAL; i++)
        if (question->padding[i] != 0 || question->stride[i] > 1)
            return false;
    if (spatial_of(question, &question->w) != 1)
        return false;
    *is_estimate = true;
    if (question->kind == MT_CONVOLUTION_FORWARD)
        *bytes = is_last && is_single ? FORWARD_FP32_LAST : 0;
    else if (question->kind == MT_CONVOLUTION_INPUT_GRADIENT)
        *bytes = is_single ? 0 : GRADIENT_NARROW;
    else if (!is_last)
        *bytes = MT_PRODUCT(question->x.sizes[0], question->w.sizes[0], question->w.sizes[1], MT_FLOAT_BYTES);
    return true;
}

/* Winograd's products of tiles of 4 × 4 results, each of 36 numbers. */
static bool winograd_bytes(const struct mt_convolution_question *question, int64_t *bytes, bool *is_estimate)
{
    enum { TILE = 4, NUMBERS = 36 };
    (void)is_estimate;
    const int64_t *y = question->y.sizes, *w = question->w.sizes;
    if (question->dims != 4)
        return false;
    const int64_t count = MT_PRODUCT(y[0], mt_divide_up(y[2], TILE), mt_divide_up(y[3], TILE));
    *bytes = MT_PRODUCT(NUMBERS, MT_FLOAT_BYTES, MT_PRODUCT(count, w[0] + w[1]) + MT_PRODUCT(w[0], w[1]));
    return true;
}

/* Weights of separate channels: 8 sums of each image. */
static bool separate_bytes(const struct mt_convolution_question *question, int64_t *bytes, bool *is_estimate)
{
    enum { SUMS = 8, CHANNELS = 32 };
    (void)is_estimate;
    *bytes = MT_PRODUCT(question->y.sizes[0], mt_round_up(question->w.sizes[0], CHANNELS),
                        spatial_of(question, &question->w), SUMS, MT_FLOAT_BYTES);
    return true;
}

static bool no_bytes(const struct mt_convolution_question *question, int64_t *bytes, bool *is_estimate)
{
    (void)question, (void)is_estimate;
    *bytes = 0;
    return true;
}

static const struct left_out {
    enum mt_convolution_kind kind;
    int64_t engine, reason;
    engine_bytes *bytes;
} left_out[] = {
    {MT_CONVOLUTION_FORWARD, 58, MT_CUDNN_NEEDS_HANDLE, product_bytes},
    {MT_CONVOLUTION_INPUT_GRADIENT, 63, MT_CUDNN_NEEDS_HANDLE, product_bytes},
    {MT_CONVOLUTION_WEIGHT_GRADIENT, 62, MT_CUDNN_NEEDS_HANDLE, product_bytes},
    {MT_CONVOLUTION_WEIGHT_GRADIENT, 17, MT_CUDNN_NEEDS_HANDLE, winograd_bytes},
    {MT_CONVOLUTION_FORWARD, 5, MT_CUDNN_NEEDS_DRIVER, no_bytes},
    {MT_CONVOLUTION_INPUT_GRADIENT, 6, MT_CUDNN_NEEDS_DRIVER, no_bytes},
    {MT_CONVOLUTION_WEIGHT_GRADIENT, 16, MT_CUDNN_NEEDS_DRIVER, separate_bytes},
};

static const struct left_out *find_left_out(int64_t kind, const struct mt_cudnn_rejected *rejected)
{
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        if ((int64_t)left_out[i].kind == kind && left_out[i].engine == rejected->engine &&
            left_out[i].reason == rejected->reason)
            return &left_out[i];
    return NULL;
}

/* True if PyTorch's filters may leave an engine out, which can't be asked for its properties without a card. */
static bool may_be_filtered(const struct mt_convolution_question *question)
{
    return question->is_deterministic != 0 || (question->dtype == MT_SCALAR_FLOAT && question->allows_tf32 == 0);
}

/* Finds the first engine that a card has before the chosen one. False if there is none. Sets out->is_estimate if one is there whose
 * bytes are not known, or which may not be used. */
static bool answer_left_out(const struct mt_convolution_question *question, const struct mt_cudnn_plan *plan,
                            struct mt_convolution_answer *out)
{
    for (int64_t i = 0; i < plan->rejected_count; i++) {
        const struct mt_cudnn_rejected *rejected = &plan->rejected[i];
        if (rejected->reason == MT_CUDNN_UNSUPPORTED)
            continue;
        const struct left_out *found = find_left_out(question->kind, rejected);
        out->is_estimate |= found == NULL || may_be_filtered(question);
        if (found != NULL && found->bytes(question, &out->workspace_bytes, &out->is_estimate)) {
            out->engine = (int32_t)rejected->engine;
            return true;
        }
    }
    out->is_estimate |= plan->rejected_count == MT_CUDNN_MOST_REJECTED; /* there may be more */
    return false;
}

bool mt_cudnn_plan_answer(int64_t version, const struct mt_card *card, const struct mt_convolution_question *question,
                          const struct mt_cudnn_plan *plan, struct mt_convolution_answer *out)
{
    if (plan->engine < 0 || plan->workspace_bytes < 0)
        return false;
    *out = (struct mt_convolution_answer){.workspace_bytes = plan->workspace_bytes,
                                          .engine = (int32_t)plan->engine,
                                          .is_estimate =
                                              question->is_benchmarked != 0 || !mt_cudnn_is_checked(version, card)};
    if (answer_left_out(question, plan, out))
        return true;
    if (card->capability / 10 == HOPPER && is_scheduled(question, plan) &&
        !schedule_for_card(card, question, plan, &out->workspace_bytes))
        out->is_estimate = true;
    return true;
}
