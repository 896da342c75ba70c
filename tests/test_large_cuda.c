/* Ops on tensors of more elements than 31 bits count, on a card: each is independent along the first dimension, so
 * that the first, a middle and the last part of what the card makes are held against their twins on the CPU. Takes
 * 36 GiB of the card's memory, and is skipped where there is less. With a device as its argument (cpu:1GiB) sizes
 * are small. */
#include "gpu.h"
#include "strided.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { MOST_TENSORS = 8, PROBES = 3 };

#define ARENA_BYTES ((uint64_t)36 << 30)

static struct {
    const char *spelling;
    struct mt_device *device;
    mt_addr memory;
    uint64_t arena_bytes, taken_bytes;
    int64_t parts; /* 0: as many as a subject says */
} card = {.spelling = "cuda", .arena_bytes = ARENA_BYTES};

/* An operand of an op: a matrix for each part, or one for all parts. */
struct tensor {
    mt_dtype dtype;
    int64_t rows, columns;
    enum { READ, WRITTEN, READ_BY_ALL, INDEX } use;
    int64_t below; /* of an index */
};

struct subject {
    const char *name;
    int64_t parts;
    struct tensor tensors[MOST_TENSORS]; /* up to one of no columns */
    mt_status (*run)(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *queue);
    double slack; /* relative to the largest of a part */
};

static int64_t part_elements(const struct tensor *t)
{
    return t->rows * t->columns;
}

static uint64_t part_bytes(const struct tensor *t)
{
    return (uint64_t)part_elements(t) * mt_dtype_bytes(t->dtype);
}

static struct mtk_view view_of(const struct tensor *t, mt_addr address, int64_t parts)
{
    return (struct mtk_view){.address = address,
                             .dtype = t->dtype,
                             .shape = {parts, 1, t->rows, t->columns},
                             .stride = {part_elements(t), part_elements(t), t->columns, 1}};
}

static struct mtk_queue *queue(void)
{
    return mt_device_queue(card.device, 0);
}

static void done(const char *name, mt_status status)
{
    if (status != MT_OK)
        fail_msg("%s: %s", name, mt_last_error());
}

/* A tensor on the card, of noise. */
static struct mtk_view take(const struct tensor *t, int64_t parts, uint64_t generator)
{
    struct mtk_view view = view_of(t, card.memory + card.taken_bytes, t->use == READ_BY_ALL ? 1 : parts);
    double half = (double)t->below / 2;
    card.taken_bytes += ((uint64_t)view.shape[0] * part_bytes(t) + 255) / 256 * 256;
    assert_true(card.taken_bytes <= card.arena_bytes);
    done("random", card.device->kernels->random(generator, t->use == INDEX ? half : 0, t->use == INDEX ? half - 1 : 2,
                                                &view, queue()));
    return view;
}

/* One part of a tensor, read from the card. */
static void *fetch(const struct tensor *t, const struct mtk_view *view, int64_t part)
{
    void *raw = mt_host_alloc(part_bytes(t));
    mt_addr from = view->address + (t->use == READ_BY_ALL ? 0 : (uint64_t)part * part_bytes(t));
    assert_int_equal(mt_device_read(card.device, raw, from, part_bytes(t), 0), MT_OK);
    return raw;
}

static double value_at(const struct tensor *t, const void *raw, int64_t i)
{
    return decode((const unsigned char *)raw + (size_t)i * mt_dtype_bytes(t->dtype), t->dtype);
}

static void expect_part(const struct subject *subject, int number, int64_t part, const void *got, const void *twin)
{
    const struct tensor *t = &subject->tensors[number];
    double largest = 0;
    for (int64_t i = 0; i < part_elements(t); i++)
        largest = fmax(largest, fabs(value_at(t, twin, i)));
    for (int64_t i = 0; i < part_elements(t); i++)
        if (!(fabs(value_at(t, got, i) - value_at(t, twin, i)) <= subject->slack * largest))
            fail_msg("%s, tensor %d, part %lld, element %lld: %.9g, the twin %.9g", subject->name, number,
                     (long long)part, (long long)i, value_at(t, got, i), value_at(t, twin, i));
}

/* Runs the twin on one part, as it was before, and compares with what has become of it. */
static void check_part(const struct subject *subject, int count, const struct mtk_view *on_card, int64_t part,
                       void *const *before)
{
    struct mtk_view twin[MOST_TENSORS];
    for (int i = 0; i < count; i++)
        twin[i] = view_of(&subject->tensors[i], (mt_addr)(uintptr_t)before[i], 1);
    done(subject->name, subject->run(&mtk_cpu, twin, NULL));
    for (int i = 0; i < count; i++) {
        if (subject->tensors[i].use == WRITTEN) {
            void *got = fetch(&subject->tensors[i], &on_card[i], part);
            expect_part(subject, i, part, got, before[i]);
            free(got);
        }
        free(before[i]);
    }
}

static void check(const struct subject *subject)
{
    int64_t parts = card.parts > 0 ? card.parts : subject->parts;
    const int64_t probes[PROBES] = {0, parts / 2, parts - 1};
    struct mtk_view views[MOST_TENSORS];
    void *before[PROBES][MOST_TENSORS];
    int count = 0;
    card.taken_bytes = 0;
    for (; count < MOST_TENSORS && subject->tensors[count].columns > 0; count++)
        views[count] = take(&subject->tensors[count], parts, (uint64_t)count + 1);
    for (int p = 0; p < PROBES; p++)
        for (int i = 0; i < count; i++)
            before[p][i] = fetch(&subject->tensors[i], &views[i], probes[p]);
    done(subject->name, subject->run(card.device->kernels, views, queue()));
    done(subject->name, mt_device_synchronize(card.device));
    for (int p = 0; p < PROBES; p++)
        check_part(subject, count, views, probes[p], before[p]);
}

/* ---- subjects: 70001 x 32768 elements, or as many ---- */

enum { MANY = 70001, WIDE = 32768 };

static mt_status run_exp(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    return ops->unary(MTK_EXP, 0, &v[0], &v[1], on);
}

static mt_status run_add(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    return ops->binary(MTK_ADD, 0, &v[0], &v[0], &v[1], on);
}

static mt_status run_copy_turned(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    struct mtk_view turned = v[1];
    turned.shape[2] = v[1].shape[3];
    turned.shape[3] = v[1].shape[2];
    turned.stride[2] = v[1].stride[3];
    turned.stride[3] = v[1].stride[2];
    return ops->unary(MTK_COPY, 0, &v[0], &turned, on);
}

static mt_status run_sum(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    return ops->reduce(MTK_SUM, &v[0], &v[1], on);
}

static mt_status run_softmax(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    mt_status status = ops->softmax(1, MTK_KEYS_ALL, &v[0], &v[1], on);
    return status == MT_OK ? ops->softmax_grad(1, MTK_KEYS_ALL, &v[1], &v[1], &v[0], on) : status;
}

static mt_status run_loss(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    return ops->cross_entropy(0.5, &v[0], &v[1], &v[2], on);
}

static mt_status run_gate(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    mt_status status = ops->swiglu(&v[0], &v[2], on);
    return status == MT_OK ? ops->swiglu_grad(&v[2], &v[1], on) : status;
}

static mt_status run_norm(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    return ops->rms_norm(1e-5, &v[0], &v[1], &v[2], &v[2], &v[3], &v[4], on);
}

static mt_status run_pick(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    mt_status status = ops->pick(&v[0], &v[1], &v[2], on);
    return status == MT_OK ? ops->place_add(&v[1], &v[2], &v[0], on) : status;
}

static mt_status run_rotate(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    return ops->rotate(10000, 1, &v[0], &v[0], on);
}

static mt_status run_attention(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    return ops->attention(0.25, MTK_MATH_FP32, &v[3], &v[4], &v[0], &v[1], &v[2], on);
}

/* Of noise as well: values are the queries, and the output the keys. What is left of the memory is the workspace. */
static mt_status run_attention_grad(const struct mtk_table *ops, const struct mtk_view *v, struct mtk_queue *on)
{
    const struct mtk_attention_grad call = {.scale = 0.25,
                                            .dq = v[5],
                                            .dk = v[6],
                                            .dv = v[7],
                                            .delta = v[4],
                                            .grad = v[2],
                                            .q = v[0],
                                            .k = v[1],
                                            .v = v[0],
                                            .out = v[1],
                                            .lse = v[3],
                                            .workspace = card.memory + card.taken_bytes,
                                            .workspace_bytes = card.arena_bytes - card.taken_bytes};
    return ops->attention_grad(&call, on);
}

static const struct subject subjects[] = {
    {"exp", MANY, {{MT_BF16, 1, WIDE, WRITTEN, 0}, {MT_BF16, 1, WIDE, READ, 0}}, run_exp, 0x1p-7},
    {"add, no fours", 2 * MANY + 1, {{MT_BF16, 1, 15359, WRITTEN, 0}, {MT_BF16, 1, 15359, READ, 0}}, run_add, 0x1p-7},
    {"copy that turns", 35, {{MT_BF16, 8192, 8192, WRITTEN, 0}, {MT_BF16, 8192, 8192, READ, 0}}, run_copy_turned, 0},
    {"sum", MANY, {{MT_F32, 1, 1, WRITTEN, 0}, {MT_BF16, 1, WIDE, READ, 0}}, run_sum, 1e-4},
    {"softmax and its gradient",
     MANY,
     {{MT_BF16, 1, WIDE, WRITTEN, 0}, {MT_BF16, 1, WIDE, WRITTEN, 0}},
     run_softmax,
     0x1p-6},
    {"loss",
     MANY,
     {{MT_BF16, 1, WIDE, WRITTEN, 0}, {MT_F32, 1, 1, WRITTEN, 0}, {MT_I64, 1, 1, INDEX, WIDE}},
     run_loss,
     0x1p-7},
    {"gate",
     MANY,
     {{MT_BF16, 1, WIDE / 2, WRITTEN, 0}, {MT_BF16, 1, WIDE / 2, WRITTEN, 0}, {MT_BF16, 1, WIDE, WRITTEN, 0}},
     run_gate,
     0x1p-6},
    {"gate, no eights",
     2 * MANY,
     {{MT_BF16, 1, 15361, WRITTEN, 0}, {MT_BF16, 1, 15361, WRITTEN, 0}, {MT_BF16, 1, 2 * 15361, WRITTEN, 0}},
     run_gate,
     0x1p-6},
    {"norm",
     2 * MANY,
     {{MT_BF16, 1, WIDE / 2, WRITTEN, 0},
      {MT_F32, 1, 1, WRITTEN, 0},
      {MT_F32, 1, WIDE / 2, WRITTEN, 0},
      {MT_BF16, 1, WIDE / 2, READ, 0},
      {MT_F32, 1, WIDE / 2, READ_BY_ALL, 0}},
     run_norm,
     0x1p-7},
    {"pick and place",
     MANY,
     {{MT_BF16, 1, 1, WRITTEN, 0}, {MT_BF16, 1, WIDE, WRITTEN, 0}, {MT_I64, 1, 1, INDEX, WIDE}},
     run_pick,
     0x1p-7},
    {"rotation", 2 * MANY, {{MT_BF16, 128, 128, WRITTEN, 0}}, run_rotate, 0x1p-7},
    {"attention",
     2 * MANY,
     {{MT_BF16, 128, 128, READ, 0},
      {MT_BF16, 128, 128, READ, 0},
      {MT_BF16, 128, 128, READ, 0},
      {MT_BF16, 128, 128, WRITTEN, 0},
      {MT_F32, 128, 1, WRITTEN, 0}},
     run_attention,
     0x1p-6},
    {"attention's gradient",
     2 * MANY,
     {{MT_BF16, 128, 128, READ, 0},
      {MT_BF16, 128, 128, READ, 0},
      {MT_BF16, 128, 128, READ, 0},
      {MT_F32, 128, 1, READ, 0},
      {MT_F32, 128, 1, WRITTEN, 0},
      {MT_BF16, 128, 128, WRITTEN, 0},
      {MT_BF16, 128, 128, WRITTEN, 0},
      {MT_BF16, 128, 128, WRITTEN, 0}},
     run_attention_grad,
     0x1p-5},
};

static void parts_beyond_31_bits_are_their_twins(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof subjects / sizeof subjects[0]; i++)
        check(&subjects[i]);
}

static int open_card(void **state)
{
    (void)state;
    done("open", mt_device_open(card.spelling, &card.device));
    done("reserve", mt_device_reserve(card.device, card.arena_bytes, &card.memory));
    return 0;
}

static int close_card(void **state)
{
    (void)state;
    mt_device_release(card.device, card.memory, card.arena_bytes);
    mt_device_close(card.device);
    return 0;
}

/* True if the card has as much free memory as the tests take; otherwise prints how much it has. */
static bool has_room(void)
{
    struct mt_device *device;
    struct mt_device_memory memory;
    done("open", mt_device_open(card.spelling, &device));
    done("memory", mt_device_memory(device, &memory));
    mt_device_close(device);
    if (memory.free_bytes >= card.arena_bytes)
        return true;
    printf("skipped: %.1f GiB of the card's memory are free, and this takes 36\n", (double)memory.free_bytes / 0x1p30);
    return false;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts_beyond_31_bits_are_their_twins)};
    if (argc > 1) {
        card.spelling = argv[1];
        card.arena_bytes = (uint64_t)900 << 20;
        card.parts = 3;
    } else if (!gpu_is_there() || !has_room()) {
        return SKIPPED;
    }
    return cmocka_run_group_tests(tests, open_card, close_card);
}
