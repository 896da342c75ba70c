/* The attention layer alone: all variants compute the same output and gradients, in each precision. With
 * "cuda" as argument: on a card, too. */
#include "gpu.h"
#include "model_device.h"
#include "producers/model/attention_layer.h"
#include "producers/model/autocast.h"
#include "producers/model/functions.h"
#include "producers/model/graph.h"
#include "recording.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

enum { KINDS = MT_ATTENTION_FLASH + 1, BATCH = 2, HEADS = 2, WIDTH = 32, LENGTH = 37, PROJECTIONS = 4 };
enum { COUNT = BATCH * LENGTH * WIDTH, WEIGHT_COUNT = WIDTH * WIDTH };

static const char *const kind_names[KINDS] = {"custom", "softmax", "weights", "flash"};

/* The results of a layer for the same input and weights. */
struct made {
    double output[COUNT], input_grad[COUNT], weight_grads[PROJECTIONS][WEIGHT_COUNT];
};

/* A layer and its device. */
struct bench {
    struct recording recording;
    struct mt_device *device;
    struct mt_alloc *alloc;
    struct mt_runtime rt;
    struct mt_parameter projections[PROJECTIONS], input;
    struct mt_attention_layer layer;
};

static double bf16_value(uint16_t bits)
{
    uint32_t whole = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &whole, sizeof value);
    return (double)value;
}

static double element(const void *data, mt_dtype dtype, int64_t i)
{
    if (dtype == MT_BF16)
        return bf16_value(((const uint16_t *)data)[i]);
    return dtype == MT_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

/* Returns elements in the order of memory: every tensor that is read here is contiguous. */
static void read_back(struct bench *bench, const struct mt_tensor *tensor, double *out)
{
    double data[COUNT];
    assert_non_null(tensor);
    assert_true(mt_tensor_is_contiguous(tensor));
    assert_int_equal(mt_device_read(bench->device, data, tensor->address, mt_tensor_bytes(tensor), bench->rt.stream),
                     MT_OK);
    for (int64_t i = 0; i < mt_tensor_count(tensor); i++)
        out[i] = element(data, tensor->dtype, i);
}

static void open_bench(struct bench *bench, const char *device, mt_attention_kind kind, mt_dtype dtype)
{
    static const char *const modules[PROJECTIONS] = {"q_proj", "k_proj", "v_proj", "output_proj"};
    struct mt_training_config config = mt_training_config_default();
    config.parameter_dtype = dtype;
    *bench = (struct bench){0};
    recording_open(&bench->recording);
    const struct mt_sink sink = recording_sink(&bench->recording);
    bench->device = open_model_device(device);
    bench->alloc = create_alloc(bench->device, "", &sink);
    mt_runtime_open(&bench->rt, bench->device, bench->alloc);
    for (int i = 0; i < PROJECTIONS; i++) {
        const struct mt_parameter_shape shape = {MT_PARAMETER_LINEAR, (uint64_t)i, WIDTH, WIDTH};
        mt_parameter_create(&bench->rt, &config, modules[i], &shape, &bench->projections[i]);
    }
    const struct mt_parameter_shape rows = {MT_PARAMETER_EMBEDDING, PROJECTIONS, BATCH * LENGTH, WIDTH};
    mt_parameter_create(&bench->rt, &config, "input", &rows, &bench->input);
    struct mt_parameter *p = bench->projections;
    bench->layer = (struct mt_attention_layer){
        .heads = HEADS, .kind = kind, .q_proj = &p[0], .k_proj = &p[1], .v_proj = &p[2], .output_proj = &p[3]};
}

static void close_bench(struct bench *bench)
{
    for (int i = 0; i < PROJECTIONS; i++)
        mt_parameter_release(&bench->rt, &bench->projections[i]);
    mt_parameter_release(&bench->rt, &bench->input);
    mt_op_workspaces_release(&bench->rt);
    mt_alloc_destroy(bench->alloc);
    mt_device_close(bench->device);
    recording_close(&bench->recording);
}

static void make(const char *device, mt_attention_kind kind, mt_dtype dtype, struct made *out)
{
    struct bench bench;
    open_bench(&bench, device, kind, dtype);
    struct mt_scope outer = mt_scope_enter(&bench.rt, "layer", MT_CATEGORY_ATTN, "layer");
    struct mt_tensor *x = mt_view(&bench.rt, bench.input.value, 3, (const int64_t[]){BATCH, LENGTH, WIDTH});
    struct mt_tensor *y = mt_attention_layer_forward(&bench.rt, &bench.layer, x);
    mt_scope_leave(&bench.rt, outer);
    mt_runtime_phase(&bench.rt, MT_PHASE_BACKWARD);
    mt_graph_backward(&bench.rt, y);
    if (bench.rt.status != MT_OK)
        fail_msg("%s, %s: %s", kind_names[kind], mt_dtype_name(dtype), mt_last_error());
    read_back(&bench, y, out->output);
    read_back(&bench, bench.input.grad, out->input_grad);
    for (int i = 0; i < PROJECTIONS; i++)
        read_back(&bench, bench.projections[i].grad, out->weight_grads[i]);
    mt_tensor_release(&bench.rt, x);
    mt_tensor_release(&bench.rt, y);
    close_bench(&bench);
}

/* Returns the distance between two vectors divided by the length of the second. */
static double distance(const double *a, const double *b, int count)
{
    double difference = 0, length = 0;
    for (int i = 0; i < count; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        length += b[i] * b[i];
    }
    return sqrt(difference / length);
}

static void expect_near(const char *what, const struct made *a, const struct made *b, double tolerance)
{
    double farthest = distance(a->output, b->output, COUNT);
    farthest = fmax(farthest, distance(a->input_grad, b->input_grad, COUNT));
    for (int i = 0; i < PROJECTIONS; i++)
        farthest = fmax(farthest, distance(a->weight_grads[i], b->weight_grads[i], WEIGHT_COUNT));
    if (!(farthest <= tolerance))
        fail_msg("%s: off by %g, at most %g", what, farthest, tolerance);
}

/* The reference is fp64, op by op. */
static void expect_one_result(const char *device, mt_dtype dtype, double tolerance)
{
    static struct made exact, made;
    make("cpu:1GiB", MT_ATTENTION_CUSTOM, MT_F64, &exact);
    for (int kind = 0; kind < KINDS; kind++) {
        make(device, (mt_attention_kind)kind, dtype, &made);
        expect_near(kind_names[kind], &made, &exact, tolerance);
    }
}

static void every_variant_computes_one_thing(void **state)
{
    (void)state;
    expect_one_result("cpu:1GiB", MT_F64, 1e-14);
    expect_one_result("cpu:1GiB", MT_F32, 2e-6);
    expect_one_result("cpu:1GiB", MT_BF16, 2e-2);
}

static void every_variant_computes_it_on_a_card(void **state)
{
    (void)state;
    expect_one_result("cuda", MT_F32, 1e-5);
    expect_one_result("cuda", MT_BF16, 2e-2);
}

/* A position's output depends on no later one: it stays the same when later rows of the input change. */
static void no_position_sees_a_later_one(void **state)
{
    (void)state;
    enum { SEEN = 20 };
    for (int kind = 0; kind < KINDS; kind++) {
        struct bench bench;
        double outputs[2][COUNT];
        open_bench(&bench, "cpu:1GiB", (mt_attention_kind)kind, MT_F64);
        struct mt_tensor *x = mt_view(&bench.rt, bench.input.value, 3, (const int64_t[]){BATCH, LENGTH, WIDTH});
        const int64_t later[] = {BATCH, LENGTH - SEEN, WIDTH}, stride[] = {LENGTH * WIDTH, WIDTH, 1};
        struct mt_tensor *changed = mt_tensor_view(&bench.rt, x, 3, later, stride, SEEN * WIDTH);
        for (int i = 0; i < 2; i++) {
            struct mt_tensor *y = mt_attention_layer_forward(&bench.rt, &bench.layer, x);
            read_back(&bench, y, outputs[i]);
            mt_tensor_release(&bench.rt, y);
            mt_op_fill(&bench.rt, changed, 3);
        }
        bool has_changed = false;
        for (int i = 0; i < COUNT; i++) {
            bool is_later = i / WIDTH % LENGTH >= SEEN, is_equal = fabs(outputs[0][i] - outputs[1][i]) < 1e-12;
            has_changed |= is_later && !is_equal;
            assert_true(is_later || is_equal);
        }
        assert_true(has_changed);
        mt_tensor_release(&bench.rt, changed);
        mt_tensor_release(&bench.rt, x);
        close_bench(&bench);
    }
}

static void run_forward(struct bench *bench)
{
    struct mt_tensor *x = mt_view(&bench->rt, bench->input.value, 3, (const int64_t[]){BATCH, LENGTH, WIDTH});
    mt_tensor_release(&bench->rt, mt_attention_layer_forward(&bench->rt, &bench->layer, x));
    mt_tensor_release(&bench->rt, x);
}

/* Counts the casts of weights in the recorded events: those that were made, and those that are still live. */
static void count_casts(const struct bench *bench, int *out_made, int *out_live)
{
    *out_made = *out_live = 0;
    for (size_t i = 0; i < bench->recording.count; i++) {
        const struct mt_event *event = &bench->recording.events[i];
        bool is_taken = event->kind == MT_EVENT_ALLOC;
        if ((!is_taken && event->kind != MT_EVENT_FREE) ||
            recording_label_of(&bench->recording, event)->role != MT_ROLE_WEIGHT_CAST)
            continue;
        *out_made += is_taken;
        *out_live += is_taken ? 1 : -1;
    }
}

static void an_autocast_region_casts_each_weight_once(void **state)
{
    (void)state;
    struct bench bench;
    int made, live;
    open_bench(&bench, "sim", MT_ATTENTION_CUSTOM, MT_F32);
    for (int region = 1; region <= 2; region++) {
        mt_autocast_begin(&bench.rt, MT_BF16);
        run_forward(&bench);
        run_forward(&bench);
        count_casts(&bench, &made, &live);
        assert_int_equal(live, PROJECTIONS);
        mt_autocast_end(&bench.rt);
        count_casts(&bench, &made, &live);
        assert_int_equal(made, region * PROJECTIONS);
        assert_int_equal(live, 0);
    }
    assert_int_equal(bench.rt.status, MT_OK);
    close_bench(&bench);
}

/* Writes the attention of x with itself, without projections, to `out`, and x to `values`: COUNT elements each. */
static void attend(mt_attention_kind kind, bool without_mask, double *values, double *out)
{
    struct bench bench;
    open_bench(&bench, "cpu:1GiB", kind, MT_F64);
    bench.layer.without_mask = without_mask;
    struct mt_tensor *x = mt_view(&bench.rt, bench.input.value, 3, (const int64_t[]){BATCH, LENGTH, WIDTH});
    struct mt_tensor *y = mt_attention_layer_attend(&bench.rt, &bench.layer, x, x, x);
    mt_runtime_phase(&bench.rt, MT_PHASE_BACKWARD);
    mt_graph_backward(&bench.rt, y);
    assert_int_equal(bench.rt.status, MT_OK);
    read_back(&bench, x, values);
    read_back(&bench, y, out);
    MT_RELEASE(&bench.rt, x, y);
    close_bench(&bench);
}

/* With a mask the first position sees itself alone, and the last one all: as every position does without one. */
static void without_a_mask_each_position_sees_all(void **state)
{
    (void)state;
    enum { LAST = (LENGTH - 1) * WIDTH };
    static double x[COUNT], masked[COUNT], open[COUNT], softmax[COUNT];
    attend(MT_ATTENTION_CUSTOM, false, x, masked);
    attend(MT_ATTENTION_CUSTOM, true, x, open);
    attend(MT_ATTENTION_SOFTMAX, true, x, softmax);
    assert_true(distance(masked, x, WIDTH) < 1e-14);
    assert_true(distance(open, x, WIDTH) > 1e-3);
    assert_true(distance(masked + LAST, open + LAST, WIDTH) < 1e-14);
    assert_true(distance(softmax, open, COUNT) < 1e-14);
}

int main(int count, char **arguments)
{
    const struct CMUnitTest on_a_card[] = {
        cmocka_unit_test(every_variant_computes_it_on_a_card),
    };
    if (count > 1 && strcmp(arguments[1], "cuda") == 0)
        return gpu_is_there() ? cmocka_run_group_tests(on_a_card, NULL, NULL) : SKIPPED;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant_computes_one_thing),
        cmocka_unit_test(no_position_sees_a_later_one),
        cmocka_unit_test(without_a_mask_each_position_sees_all),
        cmocka_unit_test(an_autocast_region_casts_each_weight_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
