/* Workspaces of cuDNN's engines that ask a card. The formulas were found from cuDNN 9.19's own answers to 2,754
 * questions with an H200 and without one, and from recorded calls on it. Engines and tiles have cuDNN's numbers. */
#include "operators/cudnn_plan.h"

#include "operators/cudnn_product.h"
#include "operators/cudnn_transform.h"
#include "operators/operator_plan.h"

#include <string.h>

enum { MOST_TILE = 21, MOST_CLUSTER = 8, ENGINES = 3, HOPPER = 9 };

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

/* By the number of the tile: its rows and columns, and above how many steps along k it is cut in two, in fp32 and fp16
 * and in bf16: if all tiles run at once, and if only the last ones are cut, in halves of steps. 0: as for the first
 * tile. */
static const struct tile {
    int16_t rows, columns, cut, bf16_cut, tail_cut, bf16_tail_cut;
} tiles[MOST_TILE] = {
    [0] = {128, 128, 26, 196, 27, 208}, [1] = {128, 64, 32, 256, 32, 256}, [2] = {128, 32, 0, 0, 0, 0},
    [3] = {256, 128, 23, 160, 24, 184}, [4] = {256, 64, 26, 192, 28, 200}, [5] = {64, 64, 50, 392, 45, 300},
    [6] = {128, 256, 17, 128, 24, 160}, [7] = {64, 128, 32, 250, 32, 248}, [8] = {64, 32, 0, 0, 0, 0},
    [9] = {64, 256, 26, 196, 24, 200},  [16] = {256, 32, 25, 0, 28, 0},    [18] = {64, 192, 24, 0, 28, 0},
    [19] = {128, 192, 24, 0, 24, 0},    [20] = {256, 96, 0, 0, 0, 0},
};

/* Engines with such a scheduler, by the kind of the convolution. */
static const int64_t scheduled[MT_CONVOLUTION_KIND_COUNT][ENGINES] = {[MT_CONVOLUTION_FORWARD] = {62, 67},
                                                                      [MT_CONVOLUTION_INPUT_GRADIENT] = {67, 71},
                                                                      [MT_CONVOLUTION_WEIGHT_GRADIENT] = {65, 68},
                                                                      [MT_CONVOLUTION_FUSED] = {41, 51}};

/* Blocks that run at once in clusters of 1 to MOST_CLUSTER blocks. */
static const struct clusters {
    const char *card;
    int16_t blocks[MOST_CLUSTER];
} clusters[] = {{"h200", {132, 132, 117, 120, 110, 102, 105, 120}}};

/* Without a card, cuDNN assumes one group of so many multiprocessors, in which whole clusters run. */
enum { GROUP_MULTIPROCESSORS = 18 };

/* Returns the blocks that run at once in clusters of `size` on so many groups. */
static int64_t blocks_of_groups(int64_t groups, int64_t size)
{
    return groups * (GROUP_MULTIPROCESSORS / size * size);
}

/* Returns the blocks that run at once on a card in clusters of `size`: as read, or as in whole groups. */
static int64_t resident_blocks(const struct mt_card *card, int64_t size)
{
    for (size_t i = 0; i < sizeof clusters / sizeof clusters[0]; i++)
        if (size <= MOST_CLUSTER && strcmp(clusters[i].card, card->name) == 0)
            return clusters[i].blocks[size - 1];
    return size == 1 ? card->multiprocessors : blocks_of_groups(card->multiprocessors / GROUP_MULTIPROCESSORS, size);
}

/* The product that a scheduled kernel computes, in tiles. */
struct tiled {
    const struct tile *tile;
    int64_t cut, tail_cut; /* of the tile, for the dtype */
    int64_t count;         /* tiles, rounded up to clusters */
    int64_t steps;         /* along k, of STEP elements; in whole steps of the kernel */
    int64_t cluster;       /* blocks of one */
    bool may_split;
};
enum { STEP = 32 };

static int64_t knob(int16_t value, int64_t otherwise)
{
    return value == MT_CUDNN_NO_KNOB ? otherwise : value;
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

/* Sets the numbers of tiles and of steps, in clusters of m × n blocks and steps of the kernel of `step` elements. */
static void set_product(const struct mt_convolution_question *question, int64_t cluster_m, int64_t cluster_n,
                        int64_t step, struct tiled *out)
{
    const int64_t taps = spatial_of(question, &question->w), filters = question->w.sizes[0],
                  channels = question->w.sizes[1], rows = out->tile->rows, columns = out->tile->columns;
    int64_t m, n;
    if (question->kind == MT_CONVOLUTION_FORWARD || question->kind == MT_CONVOLUTION_FUSED) {
        m = mt_divide_up(pixels_of(question, &question->y), rows);
        n = mt_divide_up(filters, columns);
        out->steps = taps * mt_divide_up(channels, step);
    } else if (question->kind == MT_CONVOLUTION_INPUT_GRADIENT) {
        m = mt_divide_up(pixels_of(question, &question->x), rows);
        n = mt_divide_up(channels, columns);
        out->steps = taps * mt_divide_up(filters, step);
    } else {
        m = mt_divide_up(filters, rows);
        n = taps * mt_divide_up(channels, columns);
        out->steps = mt_divide_up(pixels_of(question, &question->y), step);
    }
    out->steps *= step / STEP;
    out->count = mt_round_up(m, cluster_m) * mt_round_up(n, cluster_n);
}

static int64_t either(int64_t value, int64_t otherwise)
{
    return value > 0 ? value : otherwise;
}

/* Describes the product of a plan. False if its tile is not in the table. */
static bool find_tiled(const struct mt_convolution_question *question, const struct mt_cudnn_plan *plan,
                       struct tiled *out)
{
    enum { TILE_128_64 = 1, SHORT_STEPS_CUT = 42 };
    const int64_t tile = plan->tile, m = knob(plan->cluster_m, 1), n = knob(plan->cluster_n, 1);
    if (tile < 0 || tile >= MOST_TILE || tiles[tile].rows == 0 || m < 1 || n < 1)
        return false;
    const bool is_bf16 = question->dtype == MT_SCALAR_BF16;
    *out = (struct tiled){.tile = &tiles[tile], .cluster = m * n, .may_split = plan->split == 0};
    out->cut = is_bf16 ? either(tiles[tile].bf16_cut, tiles[0].bf16_cut) : either(tiles[tile].cut, tiles[0].cut);
    out->tail_cut = is_bf16 ? either(tiles[tile].bf16_tail_cut, tiles[0].bf16_tail_cut)
                            : either(tiles[tile].tail_cut, tiles[0].tail_cut);
    if (question->dtype == MT_SCALAR_HALF && plan->step != 1 && tile == TILE_128_64)
        out->tail_cut = SHORT_STEPS_CUT;
    set_product(question, m, n, plan->step == 1 ? 2 * STEP : STEP, out);
    return true;
}

/* Returns how long a tile is, by the length that is cut in two. */
static double tail_length(const struct tiled *tiled)
{
    return 2 * (double)tiled->steps / (double)tiled->tail_cut;
}

/* Returns the parts that each of the last tiles is cut into, if those are fewer than the blocks that run at once. */
static int64_t parts_of_tail(const struct tiled *tiled)
{
    enum { LEAST_STEPS = 7, MOST_STEPS = 4 };
    const int64_t steps = tiled->steps;
    const double cuts = tail_length(tiled);
    return cuts < 1      ? 1
           : cuts < 2.05 ? 2
           : cuts < 3.2  ? 4
           : cuts < 4.6  ? mt_smaller(8, steps / LEAST_STEPS)
                         : steps / MOST_STEPS;
}

/* Returns the parts that each tile is cut into where all run at once, `most` of them at most: a power of two, or
 * all. */
static int64_t parts_of_all(const struct tiled *tiled, int64_t most)
{
    enum { MANY = 9, LEAST_STEPS = 34 };
    const int64_t limit = tiled->steps / LEAST_STEPS;
    int64_t parts = 1;
    if (most >= MANY && limit >= MANY)
        return mt_smaller(most, limit);
    while (tiled->steps > tiled->cut * parts)
        parts *= 2;
    if (parts <= most)
        return parts;
    return 4 * tiled->steps > 3 * tiled->cut * parts ? most : mt_smaller(parts / 2, most);
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

/* Returns the last tiles, of which all run at once, where so many blocks do. */
static int64_t tail_of(const struct tiled *tiled, int64_t resident)
{
    return tiled->count <= resident ? tiled->count : tiled->count % resident;
}

/* Returns the parts that each of the last tiles is cut into. */
static int64_t parts_of(const struct tiled *tiled, int64_t resident)
{
    const int64_t tail = tail_of(tiled, resident), most = tail > 0 ? resident / tail : 1;
    if (!tiled->may_split || most <= 1)
        return 1;
    return tiled->count > resident ? mt_smaller(most, parts_of_tail(tiled)) : parts_of_all(tiled, most);
}

/* Returns the bytes of the scheduler and of partial results, if the last tiles are cut into so many parts. */
static int64_t cut_bytes(const struct tiled *tiled, int64_t resident, int64_t parts)
{
    enum { ALIGNED = 127, COUNTERS = 8, MANY_WAVES = 2 };
    const int64_t tail = tail_of(tiled, resident);
    const int64_t is_long = mt_divide_up(tiled->count, resident) > MANY_WAVES;
    if (parts <= 1)
        return is_long * (ALIGNED + MT_FLOAT_BYTES);
    return MT_PRODUCT(parts, tail, tiled->tile->rows, tiled->tile->columns, MT_FLOAT_BYTES) + ALIGNED +
           MT_FLOAT_BYTES * (tail * tree_nodes(parts) + COUNTERS + is_long);
}

/* Returns the bytes of the scheduler and of partial results, if so many blocks run at once. */
static int64_t scheduled_bytes(const struct tiled *tiled, int64_t resident)
{
    return cut_bytes(tiled, resident, parts_of(tiled, resident));
}

static bool is_scheduled(const struct mt_convolution_question *question, const struct mt_cudnn_plan *plan)
{
    for (int i = 0; i < ENGINES; i++)
        if (plan->engine > 0 && scheduled[question->kind][i] == plan->engine)
            return true;
    return false;
}

/* True if the last tiles may be cut or not: kernels differ in where they begin. */
static bool is_near_cut(const struct tiled *tiled, int64_t resident)
{
    const int64_t tail = tiled->count % resident;
    const double cuts = tail_length(tiled);
    return tiled->may_split && tiled->count > resident && tail > 0 && resident / tail > 1 && cuts > 0.8 && cuts < 1.25;
}

/* A workspace. */
struct room {
    int64_t bytes;
    bool is_estimate;
    struct mt_byte_range range; /* of an estimate */
};

/* Returns an estimate that rests on the shapes alone. */
static struct room guess(const struct mt_convolution_question *question, int64_t bytes)
{
    const struct mt_convolution_tensor *const tensors[] = {&question->x, &question->w, &question->y};
    int64_t elements = 0;
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        elements += mt_product_of(tensors[i]->sizes, (size_t)question->dims);
    const int64_t item_bytes = question->dtype == MT_SCALAR_DOUBLE  ? 2 * MT_FLOAT_BYTES
                               : question->dtype == MT_SCALAR_FLOAT ? MT_FLOAT_BYTES
                                                                    : MT_FLOAT_BYTES / 2;
    return (struct room){bytes, true, mt_convolution_shape_range(bytes, MT_PRODUCT(elements, item_bytes))};
}

/* Returns the workspace of a plan with what the scheduler takes with the card's multiprocessors, not with those that
 * cuDNN assumed. The rest of the workspace, copies of channels, is 0 or 16 bytes and whole elements; else the formula
 * is not this kernel's, and the bytes stay as they are. */
static struct room schedule_for_card(const struct mt_card *card, const struct mt_convolution_question *question,
                                     const struct mt_cudnn_plan *plan)
{
    enum { COPIES_LEAST = 16, COPIES_UNIT = 8 };
    struct tiled tiled;
    if (!find_tiled(question, plan, &tiled) || tiled.cluster > GROUP_MULTIPROCESSORS)
        return guess(question, plan->workspace_bytes);
    const int64_t copies = plan->workspace_bytes - scheduled_bytes(&tiled, blocks_of_groups(1, tiled.cluster));
    if (copies != 0 && (copies < COPIES_LEAST || (copies - COPIES_LEAST) % COPIES_UNIT != 0))
        return guess(question, plan->workspace_bytes);
    const int64_t resident = resident_blocks(card, tiled.cluster);
    struct room room = {.bytes = copies + scheduled_bytes(&tiled, resident),
                        .is_estimate = is_near_cut(&tiled, resident)};
    if (room.is_estimate)
        room.range = (struct mt_byte_range){copies + cut_bytes(&tiled, resident, 1),
                                            copies + cut_bytes(&tiled, resident, parts_of(&tiled, resident) * 2)};
    return room;
}

/* ---- engines that are left out without a card ---- */

/* Writes the workspace of an engine; false if it does not compute the convolution. */
typedef bool engine_room(const struct mt_convolution_question *question, struct room *out);

static bool product_room(const struct mt_convolution_question *question, struct room *out)
{
    out->is_estimate = true;
    return mt_cudnn_product_bytes(question, &out->bytes, &out->range);
}

/* Winograd's products of tiles of 4 × 4 results, each of 36 numbers, for filters of 3 × 3. Filters of 5 × 5 take
 * more. */
static bool winograd_room(const struct mt_convolution_question *question, struct room *out)
{
    enum { TILE = 4, NUMBERS = 36, SMALL_SIDE = 3, LARGE_SIDE = 5 };
    const int64_t *y = question->y.sizes, *w = question->w.sizes, side = w[2];
    if (question->dims != 4 || w[3] != side || (side != SMALL_SIDE && side != LARGE_SIDE))
        return false;
    for (int i = 0; i < 2; i++)
        if (question->stride[i] != 1 || question->dilation[i] != 1)
            return false;
    const int64_t count = MT_PRODUCT(y[0], mt_divide_up(y[2], TILE), mt_divide_up(y[3], TILE));
    out->bytes = MT_PRODUCT(NUMBERS, MT_FLOAT_BYTES, MT_PRODUCT(count, w[0] + w[1]) + MT_PRODUCT(w[0], w[1]));
    out->is_estimate = side == LARGE_SIDE;
    return true;
}

/* Weights of separate channels: 8 sums of each image. */
static bool separate_room(const struct mt_convolution_question *question, struct room *out)
{
    enum { SUMS = 8, CHANNELS = 32 };
    out->bytes = MT_PRODUCT(question->y.sizes[0], mt_round_up(question->w.sizes[0], CHANNELS),
                            spatial_of(question, &question->w), SUMS, MT_FLOAT_BYTES);
    return true;
}

static bool transform_room(const struct mt_convolution_question *question, struct room *out)
{
    out->is_estimate = true;
    return mt_cudnn_transform_bytes(question, &out->bytes);
}

static bool no_room(const struct mt_convolution_question *question, struct room *out)
{
    (void)question, (void)out;
    return true;
}

static const struct left_out {
    enum mt_convolution_kind kind;
    int64_t engine, reason;
    engine_room *room;
} left_out[] = {
    {MT_CONVOLUTION_FORWARD, 58, MT_CUDNN_NEEDS_HANDLE, product_room},
    {MT_CONVOLUTION_INPUT_GRADIENT, 63, MT_CUDNN_NEEDS_HANDLE, product_room},
    {MT_CONVOLUTION_WEIGHT_GRADIENT, 62, MT_CUDNN_NEEDS_HANDLE, product_room},
    {MT_CONVOLUTION_WEIGHT_GRADIENT, 17, MT_CUDNN_NEEDS_HANDLE, winograd_room},
    {MT_CONVOLUTION_FORWARD, 3, MT_CUDNN_NEEDS_HANDLE, transform_room},
    {MT_CONVOLUTION_INPUT_GRADIENT, 50, MT_CUDNN_NEEDS_HANDLE, transform_room},
    {MT_CONVOLUTION_WEIGHT_GRADIENT, 18, MT_CUDNN_NEEDS_HANDLE, transform_room},
    {MT_CONVOLUTION_FORWARD, 5, MT_CUDNN_NEEDS_DRIVER, no_room},
    {MT_CONVOLUTION_INPUT_GRADIENT, 6, MT_CUDNN_NEEDS_DRIVER, no_room},
    {MT_CONVOLUTION_WEIGHT_GRADIENT, 16, MT_CUDNN_NEEDS_DRIVER, separate_room},
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

/* Adds a plan. The first one decides whether the answer is an estimate. */
static void add(const struct mt_convolution_question *question, struct room room, struct mt_convolution_answer *answer)
{
    if (answer->count == MT_CONVOLUTION_MOST_PLANS)
        return;
    if (answer->count == 0 && room.is_estimate && room.range.high == 0)
        room = guess(question, room.bytes);
    if (answer->count == 0) {
        answer->is_estimate = room.is_estimate;
        answer->range = room.range;
    }
    answer->workspace_bytes[answer->count++] = room.bytes;
}

/* What must be known of the engines that a card has: `most` of those that were left out in [begin, end). */
struct wanted {
    int64_t begin, end, most;
};

/* Adds engines that were left out. Returns true if there is one whose bytes are not known, or which may not be used. */
static bool add_left_out(const struct mt_convolution_question *question, const struct mt_cudnn_plans *plans,
                         struct wanted wanted, struct mt_convolution_answer *out)
{
    bool is_uncertain = false;
    for (int64_t i = wanted.begin; i < wanted.end && wanted.most > 0; i++) {
        const struct mt_cudnn_rejected *rejected = &plans->rejected[i];
        if (rejected->reason == MT_CUDNN_UNSUPPORTED)
            continue;
        const struct left_out *found = find_left_out(question->kind, rejected);
        struct room room = {0};
        is_uncertain |= found == NULL || may_be_filtered(question);
        if (found == NULL || !found->room(question, &room))
            continue;
        room.is_estimate |= is_uncertain;
        add(question, room, out);
        wanted.most--;
    }
    return is_uncertain;
}

/* Returns what a plan takes on the card. */
static struct room room_of(const struct mt_card *card, const struct mt_convolution_question *question,
                           const struct mt_cudnn_plan *plan)
{
    if (card->capability / 10 != HOPPER || !is_scheduled(question, plan))
        return (struct room){.bytes = plan->workspace_bytes};
    return schedule_for_card(card, question, plan);
}

/* Adds the plan that PyTorch tries first: an engine that was left out, or the first of the list. Returns how many plans
 * of the list were added. */
static int64_t add_first(const struct mt_card *card, const struct mt_convolution_question *question,
                         const struct mt_cudnn_plans *plans, struct mt_convolution_answer *out)
{
    const bool is_uncertain = add_left_out(question, plans, (struct wanted){0, plans->first_rejected_count, 1}, out);
    if (out->count > 0)
        return 0;
    struct room room = room_of(card, question, &plans->plans[0]);
    room.is_estimate |= is_uncertain;
    room.is_estimate |= plans->first_rejected_count == MT_CUDNN_MOST_REJECTED; /* there may be more */
    add(question, room, out);
    return 1;
}

bool mt_cudnn_plan_answer(int64_t version, const struct mt_card *card, const struct mt_convolution_question *question,
                          const struct mt_cudnn_plans *plans, struct mt_convolution_answer *out)
{
    if (plans->count == 0)
        return false;
    *out = (struct mt_convolution_answer){0};
    for (int64_t i = add_first(card, question, plans, out); i < plans->count; i++)
        add(question, room_of(card, question, &plans->plans[i]), out);
    (void)add_left_out(question, plans,
                       (struct wanted){plans->first_rejected_count, plans->rejected_count, plans->rejected_count}, out);
    if (!mt_cudnn_is_checked(version, card)) {
        out->is_estimate = true;
        out->range = guess(question, out->workspace_bytes[0]).range;
    }
    return true;
}
