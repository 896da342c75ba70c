/* Times of attention with one head on a card, batch 8: forward and backward as one op each, in fp32 and bf16; and of
 * softmax by itself, over matrices of weights.
 *
 *   bench_attention [--peer COMMAND] [LONGEST]
 *
 * COMMAND starts a peer (peer.h, pytorch_attention.py) that takes turns with the ops. LONGEST is the longest sequence,
 * 16384 unless given. Times are medians of some launches, by the card's clock. Without a usable card nothing is
 * measured. */
#include "base/text.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "device/device.h"

#include <stdlib.h>

enum { BATCH = 8, LAUNCHES = 15, TURNS = 3, FROM = 0, TO = 1 };

/* The card, and memory for one call's views. */
struct bench {
    struct mt_device *device;
    struct mtk_queue *queue;
    mt_addr memory;
    uint64_t bytes, taken;
    struct peer peer;
};

static struct mtk_view take(struct bench *bench, mt_dtype dtype, int64_t length, int64_t columns)
{
    struct mtk_view view = {.address = bench->memory + bench->taken,
                            .dtype = dtype,
                            .shape = {BATCH, 1, length, columns},
                            .stride = {length * columns, length * columns, columns, 1}};
    bench->taken += (uint64_t)(BATCH * length * columns) * mt_dtype_bytes(dtype);
    return view;
}

static struct mtk_view take_noise(struct bench *bench, mt_dtype dtype, int64_t length, int64_t columns)
{
    struct mtk_view view = take(bench, dtype, length, columns);
    bench->device->kernels->random(bench->taken, 0, 1, &view, bench->queue);
    return view;
}

/* Something to launch again and again. */
struct subject {
    mt_status (*launch)(struct bench *bench, const void *call);
    const void *call;
};

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds of one launch; NAN if it fails. */
static double median_ms(struct bench *bench, const struct subject *subject)
{
    double ms[LAUNCHES];
    for (int i = -2; i < LAUNCHES; i++) {
        mt_device_mark(bench->device, FROM);
        mt_status status = subject->launch(bench, subject->call);
        mt_device_mark(bench->device, TO);
        if (status != MT_OK || mt_device_elapsed_ms(bench->device, FROM, TO, &ms[i < 0 ? 0 : i]) != MT_OK) {
            fprintf(stderr, "bench_attention: %s\n", mt_last_error());
            return NAN;
        }
    }
    qsort(ms, LAUNCHES, sizeof ms[0], compare);
    return ms[LAUNCHES / 2];
}

static mt_status launch_forward(struct bench *bench, const void *call)
{
    const struct mtk_attention_grad *a = call;
    return bench->device->kernels->attention(a->scale, a->math, &a->out, &a->lse, &a->q, &a->k, &a->v, bench->queue);
}

static mt_status launch_backward(struct bench *bench, const void *call)
{
    return bench->device->kernels->attention_grad(call, bench->queue);
}

/* Returns `target` for the one case that has a target, and NAN for the others. */
static double target_of(mt_dtype dtype, int64_t length, int64_t features, double target)
{
    return dtype == MT_BF16 && length == 16384 && features == 64 ? target : NAN;
}

/* "tf32" is fp32 that may be rounded. */
static const char *kind_name(mt_dtype dtype, mtk_math math)
{
    return math == MTK_MATH_TF32 ? "tf32" : mt_dtype_name(dtype);
}

static void report(const char *what, const char *kind, int64_t length, int64_t features, double ms, double peer_ms,
                   double target)
{
    char text[128];
    snprintf(text, sizeof text, "attention %s, %s, d %lld, seq %lld", what, kind, (long long)features,
             (long long)length);
    bench_report(text, "ms", ms, peer_ms, isnan(target) ? "" : BENCH_AT_MOST, target);
}

static struct mtk_attention_grad take_call(struct bench *bench, mt_dtype dtype, mtk_math math, int64_t length,
                                           int64_t features)
{
    bench->taken = 0;
    return (struct mtk_attention_grad){.scale = 1 / sqrt((double)features),
                                       .math = math,
                                       .q = take_noise(bench, dtype, length, features),
                                       .k = take_noise(bench, dtype, length, features),
                                       .v = take_noise(bench, dtype, length, features),
                                       .grad = take_noise(bench, dtype, length, features),
                                       .out = take(bench, dtype, length, features),
                                       .lse = take(bench, MT_F32, length, 1),
                                       .delta = take(bench, MT_F32, length, 1),
                                       .dq = take(bench, dtype, length, features),
                                       .dk = take(bench, dtype, length, features),
                                       .dv = take(bench, dtype, length, features)};
}

static double middle_of(double ms[TURNS])
{
    qsort(ms, TURNS, sizeof ms[0], compare);
    return ms[TURNS / 2];
}

static void measure_attention(struct bench *bench, mt_dtype dtype, mtk_math math, int64_t length, int64_t features)
{
    const struct mtk_attention_grad call = take_call(bench, dtype, math, length, features);
    const char *kind = kind_name(dtype, math);
    double forward[TURNS], backward[TURNS], their_forward[TURNS], their_backward[TURNS], theirs[2];
    for (int turn = 0; turn < TURNS; turn++) {
        forward[turn] = median_ms(bench, &(struct subject){launch_forward, &call});
        backward[turn] = median_ms(bench, &(struct subject){launch_backward, &call});
        peer_ask(&bench->peer, theirs, 2, "attention %s %lld %lld", kind, (long long)length, (long long)features);
        their_forward[turn] = theirs[0];
        their_backward[turn] = theirs[1];
    }
    report("forward", kind, length, features, middle_of(forward), middle_of(their_forward),
           target_of(dtype, length, features, 1.8));
    report("backward", kind, length, features, middle_of(backward), middle_of(their_backward),
           target_of(dtype, length, features, 3.5));
}

struct softmax {
    struct mtk_view out, in;
};

static mt_status launch_softmax(struct bench *bench, const void *call)
{
    const struct softmax *s = call;
    return bench->device->kernels->softmax(0.125, MTK_KEYS_UP_TO_QUERY, &s->out, &s->in, bench->queue);
}

static mt_status launch_softmax_grad(struct bench *bench, const void *call)
{
    const struct softmax *s = call;
    return bench->device->kernels->softmax_grad(0.125, MTK_KEYS_UP_TO_QUERY, &s->out, &s->in, &s->in, bench->queue);
}

static void measure_softmax(struct bench *bench, mt_dtype dtype, int64_t length)
{
    bench->taken = 0;
    struct softmax call = {.out = take(bench, dtype, length, length), .in = take_noise(bench, dtype, length, length)};
    report("weights", mt_dtype_name(dtype), length, 0, median_ms(bench, &(struct subject){launch_softmax, &call}), NAN,
           NAN);
    report("weights' gradient", mt_dtype_name(dtype), length, 0,
           median_ms(bench, &(struct subject){launch_softmax_grad, &call}), NAN, NAN);
}

static void measure(struct bench *bench, int64_t longest)
{
    static const int64_t features[] = {16, 32, 64, 80, 128};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        measure_attention(bench, MT_BF16, MTK_MATH_FP32, longest, features[i]);
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        for (mtk_math math = MTK_MATH_FP32; math <= MTK_MATH_TF32; math++)
            measure_attention(bench, MT_F32, math, longest / 4, features[i]);
    measure_softmax(bench, MT_F32, longest / 4);
    measure_softmax(bench, MT_BF16, longest / 4);
}

/* Returns the bytes of the largest call: attention with the widest heads, or softmax over a quarter of the length
 * squared. */
static uint64_t bytes_for(int64_t longest)
{
    enum { HEADS = 8, COLUMNS = 2 };
    uint64_t length = (uint64_t)longest, quarter = length / 4;
    uint64_t attention =
        BATCH * length * (HEADS * MTK_MOST_HEAD_FEATURES * mt_dtype_bytes(MT_BF16) + COLUMNS * mt_dtype_bytes(MT_F32));
    uint64_t softmax = 2 * BATCH * quarter * quarter * mt_dtype_bytes(MT_F32);
    return attention > softmax ? attention : softmax;
}

int main(int argc, char **argv)
{
    enum { SHORTEST = 64, FARTHEST = 1 << 20 };
    bool has_peer = argc > 2 && strcmp(argv[1], "--peer") == 0;
    int64_t longest = 16384;
    struct bench bench = {0};
    if (argc > (has_peer ? 3 : 1) &&
        mt_parse_integer("LONGEST", argv[argc - 1], SHORTEST, FARTHEST, &longest) != MT_OK) {
        fprintf(stderr, "bench_attention: %s\n", mt_last_error());
        return 2;
    }
    if (mt_device_open("cuda", &bench.device) != MT_OK) {
        fprintf(stderr, "bench_attention: nothing is measured: %s\n", mt_last_error());
        return 0;
    }
    bench.bytes = bytes_for(longest);
    bench.queue = mt_device_queue(bench.device, 0);
    mt_status status = mt_device_reserve(bench.device, bench.bytes, &bench.memory);
    if (status == MT_OK) {
        bench.peer = peer_open(has_peer ? argv[2] : NULL);
        measure(&bench, longest);
        peer_close(&bench.peer);
        mt_device_release(bench.device, bench.memory, bench.bytes);
    } else
        fprintf(stderr, "bench_attention: %s\n", mt_last_error());
    mt_device_close(bench.device);
    return status == MT_OK ? 0 : 1;
}
