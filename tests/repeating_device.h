/* A device that repeats steps as a card with graphs does, and computes nothing. Of the work between a begin and its end it
 * keeps a digest of all launches, with their addresses. What came to its end under a key is what would be launched from
 * then on whenever that key comes; so another digest under it, or memory that comes or goes before such an end, is a fault:
 * on a card, bytes of somebody else's would be read and written. */
#ifndef MT_TESTS_REPEATING_DEVICE_H
#define MT_TESTS_REPEATING_DEVICE_H

#include "base/memory.h"
#include "base/random.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>

/* Work that came to its end, and may be repeated. */
struct repeated_step {
    uint64_t key, digest;
};

/* Invariants: steps[0 .. known) have different keys; the later half is of the work since the last begin. */
struct repeating_device {
    struct mt_device device;
    mt_addr next; /* the lowest address that nobody has had */
    struct repeated_step *steps;
    size_t known;
    int begins, repeats, drops, faults;
    int fail_launch; /* of a begin whose key is known, the launch of this number (from 1) finds no memory; 0: none */

    uint64_t key, digest;
    int launches;
    bool has_begun, moves_memory, has_failed;
};

static inline struct repeated_step *repeating_find(struct repeating_device *repeating, uint64_t key)
{
    for (size_t i = 0; i < repeating->known; i++)
        if (repeating->steps[i].key == key)
            return &repeating->steps[i];
    return NULL;
}

/* ---- launches: the queue that kernels are given is the device itself ---- */

static uint64_t repeating_fold(uint64_t sum, const void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sum = mt_splitmix64(sum ^ ((const unsigned char *)bytes)[i]);
    return sum;
}

static uint64_t repeating_fold_view(uint64_t sum, const struct mtk_view *view)
{
    if (view == NULL)
        return mt_splitmix64(sum);
    sum = mt_splitmix64(sum ^ view->address);
    sum = mt_splitmix64(sum ^ (uint64_t)view->dtype);
    sum = repeating_fold(sum, view->shape, sizeof view->shape);
    return repeating_fold(sum, view->stride, sizeof view->stride);
}

/* One launch: what it was told, in some number, and its views. */
static mt_status repeating_launch(struct mtk_queue *queue, uint64_t told, const struct mtk_view *const *views,
                                  int count)
{
    struct repeating_device *repeating = (struct repeating_device *)queue;
    uint64_t sum = mt_splitmix64(repeating->digest ^ told);
    for (int i = 0; i < count; i++)
        sum = repeating_fold_view(sum, views[i]);
    repeating->digest = sum;
    repeating->launches++;
    if (!repeating->has_begun || repeating->launches != repeating->fail_launch ||
        repeating_find(repeating, repeating->key) == NULL)
        return MT_OK;
    repeating->has_failed = true;
    return mt_fail(MT_OUT_OF_MEMORY, "launch number %d was made to find no memory", repeating->launches);
}

/* Launches views, numbered by the line of the op that does. */
#define REPEATING_LAUNCH(queue, ...)                                                                                   \
    repeating_launch(queue, __LINE__, (const struct mtk_view *const[]){__VA_ARGS__},                                   \
                     sizeof((const struct mtk_view *const[]){__VA_ARGS__}) / sizeof(struct mtk_view *))

static mt_status repeating_fill(double value, const struct mtk_view *out, struct mtk_queue *queue)
{
    (void)value;
    return REPEATING_LAUNCH(queue, out);
}

static mt_status repeating_unary(mtk_unary_op op, double s, const struct mtk_view *out, const struct mtk_view *in,
                                 struct mtk_queue *queue)
{
    (void)op;
    (void)s;
    return REPEATING_LAUNCH(queue, out, in);
}

static mt_status repeating_binary(mtk_binary_op op, double s, const struct mtk_view *out, const struct mtk_view *a,
                                  const struct mtk_view *b, struct mtk_queue *queue)
{
    (void)op;
    (void)s;
    return REPEATING_LAUNCH(queue, out, a, b);
}

static mt_status repeating_ternary(mtk_ternary_op op, double s, double t, const struct mtk_view *out,
                                   const struct mtk_view *a, const struct mtk_view *b, const struct mtk_view *c,
                                   struct mtk_queue *queue)
{
    (void)op;
    (void)s;
    (void)t;
    return REPEATING_LAUNCH(queue, out, a, b, c);
}

static mt_status repeating_reduce(mtk_reduce_op op, const struct mtk_view *out, const struct mtk_view *in,
                                  struct mtk_queue *queue)
{
    (void)op;
    return REPEATING_LAUNCH(queue, out, in);
}

static mt_status repeating_two(const struct mtk_view *out, const struct mtk_view *in, struct mtk_queue *queue)
{
    return REPEATING_LAUNCH(queue, out, in);
}

static mt_status repeating_three(const struct mtk_view *out, const struct mtk_view *a, const struct mtk_view *b,
                                 struct mtk_queue *queue)
{
    return REPEATING_LAUNCH(queue, out, a, b);
}

static mt_status repeating_matmul(const struct mtk_product *product, const struct mtk_view *out,
                                  const struct mtk_view *a, const struct mtk_view *b, mt_addr workspace,
                                  uint64_t workspace_bytes, struct mtk_queue *queue)
{
    const struct mtk_view place = {.address = workspace + workspace_bytes};
    (void)product;
    return REPEATING_LAUNCH(queue, out, a, b, &place);
}

static mt_status repeating_rotate(double theta, int direction, const struct mtk_view *out, const struct mtk_view *in,
                                  struct mtk_queue *queue)
{
    (void)theta;
    (void)direction;
    return REPEATING_LAUNCH(queue, out, in);
}

static mt_status repeating_softmax(double scale, mtk_keys keys, const struct mtk_view *out, const struct mtk_view *lse,
                                   const struct mtk_view *in, struct mtk_queue *queue)
{
    (void)scale;
    (void)keys;
    return REPEATING_LAUNCH(queue, out, lse, in);
}

static mt_status repeating_softmax_grad(double scale, mtk_keys keys, const struct mtk_view *out,
                                        const struct mtk_view *grad, const struct mtk_view *kept,
                                        const struct mtk_view *lse, struct mtk_queue *queue)
{
    (void)scale;
    (void)keys;
    return REPEATING_LAUNCH(queue, out, grad, kept, lse);
}

static mt_status repeating_attention(double scale, mtk_math math, const struct mtk_view *out,
                                     const struct mtk_view *lse, const struct mtk_view *q, const struct mtk_view *k,
                                     const struct mtk_view *v, struct mtk_queue *queue)
{
    (void)scale;
    (void)math;
    return REPEATING_LAUNCH(queue, out, lse, q, k, v);
}

static mt_status repeating_attention_grad(const struct mtk_attention_grad *call, struct mtk_queue *queue)
{
    return REPEATING_LAUNCH(queue, &call->dq, &call->dk, &call->dv, &call->delta, &call->grad, &call->q, &call->k,
                            &call->v, &call->out, &call->lse);
}

static mt_status repeating_rms_norm(double epsilon, const struct mtk_view *out, const struct mtk_view *rstd,
                                    const struct mtk_view *sum, const struct mtk_view *x, const struct mtk_view *y,
                                    const struct mtk_view *weight, struct mtk_queue *queue)
{
    (void)epsilon;
    return REPEATING_LAUNCH(queue, out, rstd, sum, x, y, weight);
}

static mt_status repeating_rms_norm_grad(const struct mtk_norm_grad *call, struct mtk_queue *queue)
{
    return REPEATING_LAUNCH(queue, &call->dx, &call->before, &call->cast, &call->grad, &call->dweight, &call->x,
                            &call->rstd, &call->weight, &call->partial_sum);
}

static mt_status repeating_cross_entropy(double scale, const struct mtk_view *logits, const struct mtk_view *loss,
                                         const struct mtk_view *target, struct mtk_queue *queue)
{
    (void)scale;
    return REPEATING_LAUNCH(queue, logits, loss, target);
}

static mt_status repeating_adamw(const struct mtk_adamw *how, int count, const struct mtk_adamw_item *items,
                                 struct mtk_queue *queue)
{
    (void)how;
    return repeating_launch(queue, repeating_fold(0, items, (size_t)count * sizeof *items), NULL, 0);
}

static mt_status repeating_random(uint64_t generator, double center, double spread, const struct mtk_view *out,
                                  struct mtk_queue *queue)
{
    (void)generator;
    (void)center;
    (void)spread;
    return REPEATING_LAUNCH(queue, out);
}

static const struct mtk_table repeating_kernels = {
    .name = "repeating",
    .fill = repeating_fill,
    .unary = repeating_unary,
    .binary = repeating_binary,
    .ternary = repeating_ternary,
    .reduce = repeating_reduce,
    .lower_triangle = repeating_two,
    .matmul = repeating_matmul,
    .gather_rows = repeating_three,
    .scatter_add_rows = repeating_three,
    .pick = repeating_three,
    .place_add = repeating_three,
    .rotate = repeating_rotate,
    .softmax = repeating_softmax,
    .softmax_grad = repeating_softmax_grad,
    .attention = repeating_attention,
    .attention_grad = repeating_attention_grad,
    .rms_norm = repeating_rms_norm,
    .rms_norm_grad = repeating_rms_norm_grad,
    .swiglu = repeating_two,
    .swiglu_grad = repeating_two,
    .cross_entropy = repeating_cross_entropy,
    .adamw = repeating_adamw,
    .random = repeating_random,
};

/* ---- memory ---- */

static mt_status repeating_open(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    struct repeating_device *repeating = (struct repeating_device *)device;
    *out_address = repeating->next;
    repeating->next += (bytes + MT_DEVICE_PAGE - 1) / MT_DEVICE_PAGE * MT_DEVICE_PAGE;
    return MT_OK;
}

static void repeating_close(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    (void)device;
    (void)address;
    (void)bytes;
}

static mt_status repeating_reserve(struct mt_device *device, uint64_t bytes, mt_addr *out_address)
{
    ((struct repeating_device *)device)->moves_memory = true;
    return repeating_open(device, bytes, out_address);
}

static void repeating_release(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    ((struct repeating_device *)device)->moves_memory = true;
    repeating_close(device, address, bytes);
}

static mt_status repeating_map(struct mt_device *device, mt_addr address, uint64_t bytes)
{
    repeating_release(device, address, bytes);
    return MT_OK;
}

static mt_status repeating_read(struct mt_device *device, void *to, mt_addr from, uint64_t bytes, mt_stream stream)
{
    (void)device;
    (void)from;
    (void)stream;
    memset(to, 0, bytes);
    return MT_OK;
}

/* ---- steps ---- */

static struct mtk_queue *repeating_queue(struct mt_device *device, mt_stream stream)
{
    (void)stream;
    return (struct mtk_queue *)device;
}

static mt_status repeating_graph_begin(struct mt_device *device, uint64_t key)
{
    struct repeating_device *repeating = (struct repeating_device *)device;
    repeating->begins++;
    repeating->repeats += repeating_find(repeating, key) != NULL;
    repeating->key = key;
    repeating->digest = 0;
    repeating->launches = 0;
    repeating->has_begun = true;
    repeating->moves_memory = repeating->has_failed = false;
    return MT_OK;
}

static mt_status repeating_graph_end(struct mt_device *device)
{
    struct repeating_device *repeating = (struct repeating_device *)device;
    struct repeated_step *step = repeating_find(repeating, repeating->key);
    repeating->has_begun = false;
    repeating->faults += repeating->has_failed || repeating->moves_memory;
    if (step != NULL) {
        repeating->faults += step->digest != repeating->digest;
        return MT_OK;
    }
    repeating->steps = mt_host_room(repeating->steps, repeating->known, sizeof *repeating->steps);
    repeating->steps[repeating->known++] = (struct repeated_step){repeating->key, repeating->digest};
    return MT_OK;
}

static mt_status repeating_graph_drop(struct mt_device *device)
{
    struct repeating_device *repeating = (struct repeating_device *)device;
    struct repeated_step *step = repeating_find(repeating, repeating->key);
    repeating->has_begun = false;
    repeating->drops++;
    if (step == NULL)
        return MT_OK;
    *step = repeating->steps[--repeating->known];
    return mt_fail(MT_FAILED, "the work of a step that repeats was dropped");
}

static void repeating_graph_forget(struct mt_device *device)
{
    ((struct repeating_device *)device)->known = 0;
}

static uint64_t repeating_now_ns(const struct mt_device *device)
{
    (void)device;
    return 0;
}

static const struct mt_device_table repeating_table = {
    .kind = "repeating",
    .reserve = repeating_reserve,
    .release = repeating_release,
    .range_open = repeating_open,
    .range_close = repeating_close,
    .range_map = repeating_map,
    .range_unmap = repeating_release,
    .read = repeating_read,
    .queue = repeating_queue,
    .graph_begin = repeating_graph_begin,
    .graph_end = repeating_graph_end,
    .graph_drop = repeating_graph_drop,
    .graph_forget = repeating_graph_forget,
    .now_ns = repeating_now_ns,
};

static inline void repeating_device_init(struct repeating_device *repeating, uint64_t capacity_bytes)
{
    *repeating = (struct repeating_device){.device = {.table = &repeating_table,
                                                      .kernels = &repeating_kernels,
                                                      .name = "repeating",
                                                      .capacity_bytes = capacity_bytes},
                                           .next = MT_DEVICE_PAGE};
}

static inline void repeating_device_end(struct repeating_device *repeating)
{
    free(repeating->steps);
}

#endif
