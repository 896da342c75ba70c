/* PyTorch takes the first plan of cuDNN's instant heuristics that its filters keep and that can be built, then of the
 * fallback list; with torch.backends.cudnn.benchmark it tries all of both lists
 * (aten/src/ATen/native/cudnn/Conv_v8.cpp: run_single_conv, filterEngineConfigs). */
#include "operators/cudnn/helper/cudnn_chooser.h"

#include "operators/cudnn/helper/cudnn_reasons.h"

#include <string.h>

/* Attributes, as in NVIDIA's reference. */
enum {
    POINTWISE_MODE = 0,
    POINTWISE_PRECISION = 1,
    CONVOLUTION_COMPUTE = 100,
    CONVOLUTION_MODE = 101,
    CONVOLUTION_DILATION = 102,
    CONVOLUTION_STRIDE = 103,
    CONVOLUTION_POST_PADDING = 104,
    CONVOLUTION_PRE_PADDING = 105,
    CONVOLUTION_SPATIAL = 106,
    HEURISTICS_MODE = 200,
    HEURISTICS_GRAPH = 201,
    HEURISTICS_RESULTS = 202,
    HEURISTICS_DEVICE = 204,
    CONFIGURATION_ENGINE = 300,
    CONFIGURATION_KNOBS = 302,
    PLAN_CONFIGURATION = 401,
    PLAN_WORKSPACE = 402,
    PLAN_DEVICE = 407,
    KNOB_TYPE = 600,
    KNOB_VALUE = 601,
    POINTWISE_DESCRIPTOR = 750,
    POINTWISE_X = 751,
    POINTWISE_B = 752,
    POINTWISE_Y = 753,
    GRAPH_OPERATIONS = 801,
    TENSOR_ALIGNMENT = 900,
    TENSOR_TYPE = 901,
    TENSOR_SIZES = 902,
    TENSOR_STRIDES = 903,
    TENSOR_ID = 906,
    TENSOR_IS_VIRTUAL = 907,
    ENGINE_INDEX = 1301,
    ENGINE_NOTES = 1303,
    DEVICE_JSON = 2702
};
/* An operation's attributes begin at a number of its own, in this order. */
enum { OPERATION_ALPHA, OPERATION_BETA, OPERATION_CONVOLUTION, OPERATION_W, OPERATION_X, OPERATION_Y };
enum { NOTE_TENSOR_CORE = 0, NOTE_DOWN_CONVERT = 1, NOTE_NONDETERMINISTIC = 4 };
enum { ADD = 0, RELU = 100 };
enum { MODE_INSTANT = 0, MODE_FALLBACK = 2, CROSS_CORRELATION = 1 };
enum { DATA_FLOAT = 0, DATA_DOUBLE = 1, DATA_HALF = 2, DATA_BF16 = 9 };
enum { SCALAR_HALF = 5, SCALAR_DOUBLE = 7, SCALAR_BF16 = 15 }; /* of c10::ScalarType */

cudnn_descriptor cudnn_card(struct cudnn_backend *backend, const char *properties)
{
    cudnn_descriptor card = cudnn_make(backend, CUDNN_DEVICE);
    cudnn_set(backend, card, DEVICE_JSON, CUDNN_TYPE_CHAR, (int64_t)strlen(properties), properties);
    cudnn_finish(backend, card);
    return backend->has_failed ? NULL : card;
}

/* ---- the question ---- */

static int data_type_of(int64_t dtype)
{
    return dtype == SCALAR_HALF     ? DATA_HALF
           : dtype == SCALAR_BF16   ? DATA_BF16
           : dtype == SCALAR_DOUBLE ? DATA_DOUBLE
                                    : DATA_FLOAT;
}

/* A tensor that is only within a graph is virtual. */
static cudnn_descriptor make_tensor_of(struct cudnn_backend *backend, const struct mt_convolution_question *question,
                                       const struct mt_convolution_tensor *tensor, char id, int type, bool is_virtual)
{
    cudnn_descriptor made = cudnn_make(backend, CUDNN_TENSOR);
    const int64_t number = id;
    if (is_virtual)
        cudnn_set(backend, made, TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    cudnn_set(backend, made, TENSOR_TYPE, CUDNN_TYPE_DATA, 1, &type);
    cudnn_set(backend, made, TENSOR_SIZES, CUDNN_TYPE_INT64, question->dims, tensor->sizes);
    cudnn_set(backend, made, TENSOR_STRIDES, CUDNN_TYPE_INT64, question->dims, tensor->strides);
    cudnn_set(backend, made, TENSOR_ID, CUDNN_TYPE_INT64, 1, &number);
    cudnn_set(backend, made, TENSOR_ALIGNMENT, CUDNN_TYPE_INT64, 1, &tensor->alignment_bytes);
    cudnn_finish(backend, made);
    return made;
}

static cudnn_descriptor make_tensor(struct cudnn_backend *backend, const struct mt_convolution_question *question,
                                    const struct mt_convolution_tensor *tensor, char id)
{
    return make_tensor_of(backend, question, tensor, id, data_type_of(question->dtype), false);
}

static cudnn_descriptor make_convolution(struct cudnn_backend *backend, const struct mt_convolution_question *question)
{
    cudnn_descriptor made = cudnn_make(backend, CUDNN_CONVOLUTION);
    const int64_t spatial = question->dims - 2;
    const int compute = question->dtype == SCALAR_DOUBLE ? DATA_DOUBLE : DATA_FLOAT, mode = CROSS_CORRELATION;
    cudnn_set(backend, made, CONVOLUTION_COMPUTE, CUDNN_TYPE_DATA, 1, &compute);
    cudnn_set(backend, made, CONVOLUTION_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    cudnn_set(backend, made, CONVOLUTION_DILATION, CUDNN_TYPE_INT64, spatial, question->dilation);
    cudnn_set(backend, made, CONVOLUTION_STRIDE, CUDNN_TYPE_INT64, spatial, question->stride);
    cudnn_set(backend, made, CONVOLUTION_POST_PADDING, CUDNN_TYPE_INT64, spatial, question->padding);
    cudnn_set(backend, made, CONVOLUTION_PRE_PADDING, CUDNN_TYPE_INT64, spatial, question->padding);
    cudnn_set(backend, made, CONVOLUTION_SPATIAL, CUDNN_TYPE_INT64, 1, &spatial);
    cudnn_finish(backend, made);
    return made;
}

static void set_factor(struct cudnn_backend *backend, cudnn_descriptor operation, int attribute, int64_t dtype,
                       double value)
{
    const float single = (float)value;
    if (dtype == SCALAR_DOUBLE)
        cudnn_set(backend, operation, attribute, CUDNN_TYPE_DOUBLE, 1, &value);
    else
        cudnn_set(backend, operation, attribute, CUDNN_TYPE_FLOAT, 1, &single);
}

static cudnn_descriptor make_operation(struct cudnn_backend *backend, const struct mt_convolution_question *question,
                                       cudnn_descriptor y)
{
    static const struct {
        enum cudnn_kind kind;
        int first_attribute;
    } operations[MT_CONVOLUTION_KIND_COUNT] = {[MT_CONVOLUTION_FORWARD] = {CUDNN_FORWARD, 700},
                                               [MT_CONVOLUTION_INPUT_GRADIENT] = {CUDNN_INPUT_GRADIENT, 706},
                                               [MT_CONVOLUTION_WEIGHT_GRADIENT] = {CUDNN_WEIGHT_GRADIENT, 712},
                                               [MT_CONVOLUTION_FUSED] = {CUDNN_FORWARD, 700}};
    const int first = operations[question->kind].first_attribute;
    cudnn_descriptor x = make_tensor(backend, question, &question->x, 'x'),
                     w = make_tensor(backend, question, &question->w, 'w'),
                     convolution = make_convolution(backend, question),
                     made = cudnn_make(backend, operations[question->kind].kind);
    set_factor(backend, made, first + OPERATION_ALPHA, question->dtype, 1);
    set_factor(backend, made, first + OPERATION_BETA, question->dtype, 0);
    cudnn_set_descriptor(backend, made, first + OPERATION_CONVOLUTION, convolution);
    cudnn_set_descriptor(backend, made, first + OPERATION_W, w);
    cudnn_set_descriptor(backend, made, first + OPERATION_X, x);
    cudnn_set_descriptor(backend, made, first + OPERATION_Y, y);
    cudnn_finish(backend, made);
    return made;
}

/* Makes an operation on each element of x, and of b unless that is NULL. */
static cudnn_descriptor make_pointwise(struct cudnn_backend *backend, int mode, cudnn_descriptor x, cudnn_descriptor b,
                                       cudnn_descriptor y)
{
    cudnn_descriptor described = cudnn_make(backend, CUDNN_POINTWISE),
                     made = cudnn_make(backend, CUDNN_POINTWISE_OPERATION);
    const int precision = DATA_FLOAT;
    cudnn_set(backend, described, POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    cudnn_set(backend, described, POINTWISE_PRECISION, CUDNN_TYPE_DATA, 1, &precision);
    cudnn_finish(backend, described);
    cudnn_set_descriptor(backend, made, POINTWISE_DESCRIPTOR, described);
    cudnn_set_descriptor(backend, made, POINTWISE_X, x);
    if (b != NULL)
        cudnn_set_descriptor(backend, made, POINTWISE_B, b);
    cudnn_set_descriptor(backend, made, POINTWISE_Y, y);
    cudnn_finish(backend, made);
    return made;
}

/* Returns the shape of the bias: one number for each channel. */
static struct mt_convolution_tensor bias_of(const struct mt_convolution_question *question)
{
    struct mt_convolution_tensor bias = {.alignment_bytes = question->y.alignment_bytes};
    for (int64_t i = 0; i < question->dims; i++) {
        bias.sizes[i] = i == 1 ? question->y.sizes[1] : 1;
        bias.strides[i] = i == 0 ? question->y.sizes[1] : 1;
    }
    return bias;
}

enum { FUSED_OPERATIONS = 4 };

/* Makes the operations of PyTorch's call, and returns their count (Conv_v8.cpp, build_opgraph_fused). */
static int64_t make_operations(struct cudnn_backend *backend, const struct mt_convolution_question *question,
                               cudnn_descriptor out[FUSED_OPERATIONS])
{
    const struct mt_convolution_tensor *shape = &question->y, bias = bias_of(question);
    cudnn_descriptor y = make_tensor(backend, question, shape, 'y'), between[FUSED_OPERATIONS - 1];
    if (question->kind != MT_CONVOLUTION_FUSED) {
        out[0] = make_operation(backend, question, y);
        return 1;
    }
    for (int i = 0; i < FUSED_OPERATIONS - 1; i++)
        between[i] = make_tensor_of(backend, question, shape, "CAB"[i], DATA_FLOAT, true);
    cudnn_descriptor z = make_tensor(backend, question, shape, 'z'), b = make_tensor(backend, question, &bias, 'b');
    out[0] = make_operation(backend, question, between[0]);
    out[1] = make_pointwise(backend, ADD, between[0], z, between[1]);
    out[2] = make_pointwise(backend, ADD, between[1], b, between[2]);
    out[3] = make_pointwise(backend, RELU, between[2], NULL, y);
    return FUSED_OPERATIONS;
}

static cudnn_descriptor make_graph(struct cudnn_backend *backend, const struct mt_convolution_question *question)
{
    cudnn_descriptor operations[FUSED_OPERATIONS];
    const int64_t count = make_operations(backend, question, operations);
    cudnn_descriptor made = cudnn_make(backend, CUDNN_GRAPH);
    cudnn_set(backend, made, GRAPH_OPERATIONS, CUDNN_TYPE_DESCRIPTOR, count, operations);
    cudnn_finish(backend, made);
    return made;
}

/* ---- the choice ---- */

/* A card, and a question about it. */
struct choice {
    struct cudnn_backend *backend;
    cudnn_descriptor card, graph;
    const struct mt_convolution_question *question;
};

/* True if PyTorch leaves the engine out, by its numerical notes. */
static bool is_filtered(const struct choice *choice, cudnn_descriptor engine)
{
    enum { MOST_NOTES = 16 };
    const struct mt_convolution_question *question = choice->question;
    const bool is_single = data_type_of(question->dtype) == DATA_FLOAT;
    int notes[MOST_NOTES];
    const int64_t count = cudnn_get(choice->backend, engine, ENGINE_NOTES, CUDNN_TYPE_NOTE, MOST_NOTES, notes);
    for (int64_t i = 0; i < count; i++)
        if (notes[i] == NOTE_DOWN_CONVERT || (notes[i] == NOTE_NONDETERMINISTIC && question->is_deterministic) ||
            (notes[i] == NOTE_TENSOR_CORE && is_single && !question->allows_tf32))
            return true;
    return false;
}

static void set_knob(int type, int64_t value, struct mt_cudnn_plan *out)
{
    int16_t *const places[] = {
        [2] = &out->tile, [13] = &out->step, [25] = &out->split, [27] = &out->cluster_m, [28] = &out->cluster_n};
    if (type >= 0 && (size_t)type < sizeof places / sizeof places[0] && places[type] != NULL)
        *places[type] = (int16_t)value;
}

/* Writes the knobs of a configuration. */
static void read_knobs(struct cudnn_backend *backend, cudnn_descriptor configuration, struct mt_cudnn_plan *out)
{
    enum { MOST_KNOBS = 16 };
    cudnn_descriptor choices[MOST_KNOBS];
    for (int i = 0; i < MOST_KNOBS; i++)
        choices[i] = cudnn_make(backend, CUDNN_KNOB_CHOICE);
    const int64_t count =
        cudnn_get(backend, configuration, CONFIGURATION_KNOBS, CUDNN_TYPE_DESCRIPTOR, MOST_KNOBS, choices);
    for (int64_t i = 0; i < count; i++) {
        int type = -1;
        (void)cudnn_get(backend, choices[i], KNOB_TYPE, CUDNN_TYPE_KNOB, 1, &type);
        set_knob(type, cudnn_get_number(backend, choices[i], KNOB_VALUE), out);
    }
}

/* Builds the plan of a configuration. False if it can't be built, or PyTorch leaves it out. */
static bool build(const struct choice *choice, cudnn_descriptor configuration, struct mt_cudnn_plan *out)
{
    enum { NONE = MT_CUDNN_NO_KNOB };
    struct cudnn_backend *backend = choice->backend;
    cudnn_descriptor engine = cudnn_make(backend, CUDNN_ENGINE), plan = cudnn_make(backend, CUDNN_PLAN);
    (void)cudnn_get(backend, configuration, CONFIGURATION_ENGINE, CUDNN_TYPE_DESCRIPTOR, 1, &engine);
    if (is_filtered(choice, engine))
        return false;
    cudnn_set_descriptor(backend, plan, PLAN_CONFIGURATION, configuration);
    cudnn_set_descriptor(backend, plan, PLAN_DEVICE, choice->card);
    cudnn_finish(backend, plan);
    *out = (struct mt_cudnn_plan){.tile = NONE, .step = NONE, .split = NONE, .cluster_m = NONE, .cluster_n = NONE};
    out->workspace_bytes = cudnn_get_number(backend, plan, PLAN_WORKSPACE);
    out->engine = (int32_t)cudnn_get_number(backend, engine, ENGINE_INDEX);
    read_knobs(backend, configuration, out);
    return !backend->has_failed && out->workspace_bytes >= 0;
}

static cudnn_descriptor make_heuristics(const struct choice *choice, int mode)
{
    struct cudnn_backend *backend = choice->backend;
    cudnn_descriptor made = cudnn_make(backend, CUDNN_HEURISTICS);
    cudnn_set_descriptor(backend, made, HEURISTICS_GRAPH, choice->graph);
    cudnn_set(backend, made, HEURISTICS_MODE, CUDNN_TYPE_HEURISTICS_MODE, 1, &mode);
    cudnn_set_descriptor(backend, made, HEURISTICS_DEVICE, choice->card);
    cudnn_finish(backend, made);
    return made;
}

/* Returns the configuration at a place of the list; NULL after the last. Asks for no more than needed, so that the log
 * names the engines before it and no others, after the first `kept`. */
static cudnn_descriptor find_configuration(const struct choice *choice, cudnn_descriptor heuristics, int64_t place,
                                           int64_t kept, struct mt_cudnn_plans *out)
{
    enum { MOST_CONFIGURATIONS = 64 };
    struct cudnn_backend *backend = choice->backend;
    cudnn_descriptor found[MOST_CONFIGURATIONS];
    if (place >= MOST_CONFIGURATIONS)
        return NULL;
    for (int64_t i = 0; i <= place; i++)
        found[i] = cudnn_make(backend, CUDNN_CONFIGURATION);
    cudnn_reasons_write(out, kept);
    const int64_t count = cudnn_get(backend, heuristics, HEURISTICS_RESULTS, CUDNN_TYPE_DESCRIPTOR, place + 1, found);
    cudnn_reasons_write(NULL, 0);
    return place < count ? found[place] : NULL;
}

/* True if the question needs no further plan. */
static bool is_done(const struct choice *choice, const struct mt_cudnn_plans *plans)
{
    return plans->count == (choice->question->wants_all ? MT_CONVOLUTION_MOST_PLANS : 1);
}

static void add(const struct mt_cudnn_plan *plan, struct mt_cudnn_plans *out)
{
    if (out->count == 0)
        out->first_rejected_count = out->rejected_count;
    out->plans[out->count++] = *plan;
}

/* Adds the plans of a list, as far as they are needed. */
static void add_list(const struct choice *choice, int mode, struct mt_cudnn_plans *out)
{
    struct cudnn_backend *backend = choice->backend;
    cudnn_descriptor heuristics = make_heuristics(choice, mode), configuration;
    const int64_t kept = backend->count, rejected = out->rejected_count;
    for (int64_t place = 0; !is_done(choice, out); place++) {
        struct mt_cudnn_plan plan;
        configuration = find_configuration(choice, heuristics, place, rejected, out);
        if (configuration == NULL)
            break;
        if (build(choice, configuration, &plan))
            add(&plan, out);
        cudnn_release_to(backend, kept);
    }
    cudnn_release_to(backend, kept);
}

void cudnn_choose(struct cudnn_backend *backend, cudnn_descriptor card, const struct mt_convolution_question *question,
                  struct mt_cudnn_plans *out)
{
    const int64_t kept = backend->count;
    const struct choice choice = {backend, card, make_graph(backend, question), question};
    *out = (struct mt_cudnn_plans){0};
    for (int mode = MODE_INSTANT; mode <= MODE_FALLBACK && !backend->has_failed; mode += MODE_FALLBACK)
        if (!is_done(&choice, out))
            add_list(&choice, mode, out);
    cudnn_release_to(backend, kept);
}
