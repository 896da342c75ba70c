/* Times of attention with one head on a card, batch 8: forward and backward as one op each, in fp32 and bf16; and of
 * softmax by itself, over matrices of weights.
 *
 *   bench_attention [--peer COMMAND] [LONGEST | lengths]
 *
 * COMMAND starts a peer (peer.h, pytorch_attention.py) that takes turns with the ops. LONGEST is the longest sequence,
 * 16384 unless given. `lengths` measures 16 heads of 64, 80 and 128 features in bf16 instead, 16,384 tokens in
 * sequences of 1,024 to 16,384, and how far results are from results in double precision. Times are medians of some
 * launches, by the card's clock. Without a usable card nothing is measured. */
#include "base/memory.h"
#include "base/text.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "device/device.h"
#include "kernels/attention_plan.h"

#include <stdlib.h>

enum { LAUNCHES = 15, TURNS = 3, FROM = 0, TO = 1 };

/* The card, and memory for one call's views. */
struct bench {
    struct mt_device *device;
    struct mtk_queue *queue;
    mt_addr memory;
    uint64_t bytes, taken;
    struct peer peer;
};

/* The heads of a call. */
struct heads {
    int64_t batch, heads, length, features;
};

static struct mtk_view take(struct bench *bench, mt_dtype dtype, const struct heads *h, int64_t columns)
{
    struct mtk_view view = {.address = bench->memory + bench->taken,
                            .dtype = dtype,
                            .shape = {h->batch, h->heads, h->length, columns},
                            .stride = {h->heads * h->length * columns, h->length * columns, columns, 1}};
    bench->taken += (uint64_t)(h->batch * h->heads * h->length * columns) * mt_dtype_bytes(dtype);
    return view;
}

static struct mtk_view take_noise(struct bench *bench, mt_dtype dtype, const struct heads *h, int64_t columns)
{
    struct mtk_view view = take(bench, dtype, h, columns);
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

static struct mtk_attention_grad take_call(struct bench *bench, mt_dtype dtype, mtk_math math, const struct heads *h)
{
    bench->taken = 0;
    struct mtk_attention_grad call = {.scale = 1 / sqrt((double)h->features),
                                      .math = math,
                                      .q = take_noise(bench, dtype, h, h->features),
                                      .k = take_noise(bench, dtype, h, h->features),
                                      .v = take_noise(bench, dtype, h, h->features),
                                      .grad = take_noise(bench, dtype, h, h->features),
                                      .out = take(bench, dtype, h, h->features),
                                      .lse = take(bench, MT_F32, h, 1),
                                      .delta = take(bench, MT_F32, h, 1),
                                      .dq = take(bench, dtype, h, h->features),
                                      .dk = take(bench, dtype, h, h->features),
                                      .dv = take(bench, dtype, h, h->features)};
    call.workspace = bench->memory + bench->taken;
    call.workspace_bytes = mtk_attention_grad_bytes(bench->device->card.capability, &call.q);
    return call;
}

static double middle_of(double ms[TURNS])
{
    qsort(ms, TURNS, sizeof ms[0], compare);
    return ms[TURNS / 2];
}

enum { BATCH = 8 }; /* of calls with one head */

static void measure_attention(struct bench *bench, mt_dtype dtype, mtk_math math, int64_t length, int64_t features)
{
    const struct heads heads = {BATCH, 1, length, features};
    const struct mtk_attention_grad call = take_call(bench, dtype, math, &heads);
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
    const struct heads heads = {BATCH, 1, length, length};
    struct softmax call = {.out = take(bench, dtype, &heads, length), .in = take_noise(bench, dtype, &heads, length)};
    report("weights", mt_dtype_name(dtype), length, 0, median_ms(bench, &(struct subject){launch_softmax, &call}), NAN,
           NAN);
    report("weights' gradient", mt_dtype_name(dtype), length, 0,
           median_ms(bench, &(struct subject){launch_softmax_grad, &call}), NAN, NAN);
}

/* ---- sequences of many lengths ---- */

enum { TOKENS = 16384, HEADS = 16 };

/* Reports a time, which has to be near the peer's, and the rate of `products` products that it makes. */
static void report_length(const char *what, const struct heads *h, int products, double ms, double peer_ms)
{
    enum { PICO = 1000000000 };
    const double most = 1.05;
    double operations = (double)products * (double)(h->batch * h->heads * h->length * h->length * h->features);
    char text[128];
    snprintf(text, sizeof text, "attention %s, bf16, d %lld, %lld x %lld x %lld", what, (long long)h->features,
             (long long)h->batch, (long long)h->heads, (long long)h->length);
    bench_report(text, "ms", ms, peer_ms, isnan(peer_ms) ? "" : BENCH_AT_MOST, most * peer_ms);
    strcat(text, ", rate");
    bench_report(text, "TFLOP/s", operations / ms / PICO, operations / peer_ms / PICO, "", 0);
}

static void measure_length(struct bench *bench, const struct heads *h)
{
    const struct mtk_attention_grad call = take_call(bench, MT_BF16, MTK_MATH_FP32, h);
    double forward[TURNS], backward[TURNS], their_forward[TURNS], their_backward[TURNS], theirs[2];
    for (int turn = 0; turn < TURNS; turn++) {
        forward[turn] = median_ms(bench, &(struct subject){launch_forward, &call});
        backward[turn] = median_ms(bench, &(struct subject){launch_backward, &call});
        peer_ask(&bench->peer, theirs, 2, "heads %lld %lld %lld %lld", (long long)h->batch, (long long)h->heads,
                 (long long)h->length, (long long)h->features);
        their_forward[turn] = theirs[0];
        their_backward[turn] = theirs[1];
    }
    report_length("forward", h, 2, middle_of(forward), middle_of(their_forward));
    report_length("backward", h, 5, middle_of(backward), middle_of(their_backward));
}

/* Returns a copy in double precision of a view of bf16 on the card, in memory of the host that the caller frees. */
static struct mtk_view read_wide(struct bench *bench, const struct mtk_view *view)
{
    int64_t count = view->shape[0] * view->shape[1] * view->shape[2] * view->shape[3];
    uint16_t *narrow = mt_host_alloc((size_t)count * sizeof *narrow);
    double *wide = mt_host_alloc((size_t)count * sizeof *wide);
    if (mt_device_read(bench->device, narrow, view->address, (uint64_t)count * sizeof *narrow, 0) != MT_OK)
        fprintf(stderr, "bench_attention: %s\n", mt_last_error());
    for (int64_t i = 0; i < count; i++) {
        uint32_t bits = (uint32_t)narrow[i] << 16;
        float value;
        memcpy(&value, &bits, sizeof value);
        wide[i] = (double)value;
    }
    free(narrow);
    struct mtk_view copy = *view;
    copy.address = (mt_addr)(uintptr_t)wide;
    copy.dtype = MT_F64;
    return copy;
}

/* Returns how far `got` is from `true_view`, as a share of its norm, both in double precision. */
static double distance(const struct mtk_view *got, const struct mtk_view *true_view)
{
    const double *a = (const double *)(uintptr_t)got->address, *b = (const double *)(uintptr_t)true_view->address;
    double apart = 0, norm = 0;
    for (int64_t i = 0; i < got->shape[0] * got->shape[1] * got->shape[2] * got->shape[3]; i++) {
        apart += (a[i] - b[i]) * (a[i] - b[i]);
        norm += b[i] * b[i];
    }
    return sqrt(apart / norm);
}

/* Compares results of the card with those of the host in double precision, of the same operands; PyTorch's likewise. */
static void measure_precision(struct bench *bench, int64_t features)
{
    enum { OUT, DQ, DK, DV, RESULTS };
    static const char *const names[RESULTS] = {"out", "dq", "dk", "dv"};
    const struct heads heads = {1, 2, 1024, features};
    const struct mtk_attention_grad call = take_call(bench, MT_BF16, MTK_MATH_FP32, &heads);
    double theirs[RESULTS];
    if (launch_forward(bench, &call) != MT_OK || launch_backward(bench, &call) != MT_OK) {
        fprintf(stderr, "bench_attention: %s\n", mt_last_error());
        return;
    }
    struct mtk_attention_grad wide = call;
    struct mtk_view *const operands[] = {&wide.q,   &wide.k,  &wide.v,  &wide.grad,
                                         &wide.out, &wide.dq, &wide.dk, &wide.dv};
    enum { OPERANDS = sizeof operands / sizeof operands[0] };
    for (int i = 0; i < OPERANDS; i++)
        *operands[i] = read_wide(bench, operands[i]);
    const struct mtk_view got[RESULTS] = {wide.out, wide.dq, wide.dk, wide.dv};
    struct mtk_view *const results[RESULTS] = {&wide.out, &wide.dq, &wide.dk, &wide.dv};
    for (int i = 0; i < RESULTS; i++)
        results[i]->address =
            (mt_addr)(uintptr_t)mt_host_alloc((size_t)(heads.heads * heads.length * features) * sizeof(double));
    wide.lse.dtype = wide.delta.dtype = MT_F64;
    wide.lse.address = (mt_addr)(uintptr_t)mt_host_alloc((size_t)(heads.heads * heads.length) * sizeof(double));
    wide.delta.address = (mt_addr)(uintptr_t)mt_host_alloc((size_t)(heads.heads * heads.length) * sizeof(double));
    mtk_cpu.attention(wide.scale, wide.math, &wide.out, &wide.lse, &wide.q, &wide.k, &wide.v, NULL);
    mtk_cpu.attention_grad(&wide, NULL);
    peer_ask(&bench->peer, theirs, RESULTS, "precision %lld %lld %lld", (long long)heads.heads, (long long)heads.length,
             (long long)features);
    for (int i = 0; i < RESULTS; i++) {
        char text[128];
        snprintf(text, sizeof text, "attention, bf16, d %lld, %s from double precision", (long long)features, names[i]);
        bench_report(text, "1", distance(&got[i], results[i]), theirs[i], isnan(theirs[i]) ? "" : BENCH_AT_MOST,
                     1.1 * theirs[i]);
        free((void *)(uintptr_t)got[i].address);
    }
    for (int i = 0; i < OPERANDS; i++)
        free((void *)(uintptr_t)operands[i]->address);
    free((void *)(uintptr_t)wide.lse.address);
    free((void *)(uintptr_t)wide.delta.address);
}

static void measure_lengths(struct bench *bench)
{
    static const int64_t features[] = {64, 80, 128};
    for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
        measure_precision(bench, features[i]);
    for (int64_t length = 1024; length <= TOKENS; length *= 2)
        for (size_t i = 0; i < sizeof features / sizeof features[0]; i++)
            measure_length(bench, &(struct heads){TOKENS / length, HEADS, length, features[i]});
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

/* Returns the bytes of the largest call: attention with the widest heads and its workspace, or softmax over a quarter
 * of the length squared. */
static uint64_t bytes_for(int64_t longest)
{
    enum { OPERANDS = 8, COLUMNS = 2, HOPPER = 90 };
    uint64_t rows = (uint64_t)(HEADS * longest), quarter = (uint64_t)longest / 4;
    const struct mtk_view widest = {.dtype = MT_BF16, .shape = {1, HEADS, longest, MTK_MOST_HEAD_FEATURES}};
    uint64_t attention =
        rows * (OPERANDS * MTK_MOST_HEAD_FEATURES * mt_dtype_bytes(MT_BF16) + COLUMNS * mt_dtype_bytes(MT_F32)) +
        mtk_attention_grad_bytes(HOPPER, &widest);
    uint64_t softmax = 2 * BATCH * quarter * quarter * mt_dtype_bytes(MT_F32);
    return attention > softmax ? attention : softmax;
}

int main(int argc, char **argv)
{
    enum { SHORTEST = 64, FARTHEST = 1 << 20 };
    bool has_peer = argc > 2 && strcmp(argv[1], "--peer") == 0;
    bool lengths = argc > (has_peer ? 3 : 1) && strcmp(argv[argc - 1], "lengths") == 0;
    int64_t longest = TOKENS;
    struct bench bench = {0};
    if (argc > (has_peer ? 3 : 1) && !lengths &&
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
        if (lengths)
            measure_lengths(&bench);
        else
            measure(&bench, longest);
        peer_close(&bench.peer);
        mt_device_release(bench.device, bench.memory, bench.bytes);
    } else
        fprintf(stderr, "bench_attention: %s\n", mt_last_error());
    mt_device_close(bench.device);
    return status == MT_OK ? 0 : 1;
}
