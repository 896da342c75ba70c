#include "study/attention_study.h"

#include "producers/model/attention_layer.h"
#include "producers/model/graph.h"
#include "producers/model/ops.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { WARMUP = 1, PROJECTIONS = 4, INPUTS = 3 };

/* The generator number for the first input's values; parameters have lower numbers. */
enum { INPUT_NUMBER = PROJECTIONS + 1 };

/* A case in progress. */
struct study {
    struct mt_runtime rt;
    const struct mt_attention_case *of;
    const struct mt_training_observer *observer; /* NULL: none */
    struct mt_training_config config;            /* of a run with this layer */
    struct mt_parameter projections[PROJECTIONS];
    struct mt_parameter
        inputs[INPUTS]; /* with gradients, like parameters: only x or, without projections, q, k and v */
    struct mt_attention_layer layer;
};

/* Returns a training run with this layer, for its checks and to initialize parameters. */
static struct mt_training_config training_config(const struct mt_attention_case *study)
{
    struct mt_training_config config = mt_training_config_default();
    config.model.d_model = study->d_model;
    config.model.heads = study->heads;
    config.batch = study->batch;
    config.seq = study->seq;
    config.steps = study->repeats;
    config.attention = study->attention;
    config.math = study->math;
    config.seed = study->seed;
    return config;
}

mt_status mt_attention_case_check(const struct mt_attention_case *study)
{
    const struct mt_training_config config = training_config(study);
    if (study->dtype != MT_F32 && study->dtype != MT_BF16)
        return mt_fail(MT_USAGE, "an attention layer alone is of fp32 or bf16, not %s", mt_dtype_name(study->dtype));
    if (study->without_mask && (study->attention == MT_ATTENTION_WEIGHTS || study->attention == MT_ATTENTION_FLASH))
        return mt_fail(MT_USAGE,
                       "the ops of weights and flash are causal; without a mask there are custom and softmax");
    return mt_training_config_check(&config);
}

static void create_projections(struct study *study)
{
    static const char *const modules[PROJECTIONS] = {"attn.q_proj", "attn.k_proj", "attn.v_proj", "attn.output_proj"};
    const int64_t C = study->of->d_model;
    for (int i = 0; i < PROJECTIONS; i++) {
        const struct mt_parameter_shape shape = {MT_PARAMETER_LINEAR, (uint64_t)i, C, C};
        mt_parameter_create(&study->rt, &study->config, modules[i], &shape, &study->projections[i]);
    }
}

static void create_input(struct study *study, const char *name, int number)
{
    const struct mt_attention_case *of = study->of;
    struct mt_runtime *rt = &study->rt;
    struct mt_scope outer = mt_scope_enter(rt, name, MT_CATEGORY_DATA, name);
    struct mt_tensor *values =
        mt_tensor_empty(rt, MT_ROLE_INPUT, NULL, of->dtype, 3, (const int64_t[]){of->batch, of->seq, of->d_model});
    struct mt_parameter *input = &study->inputs[number];
    *input = (struct mt_parameter){.span = rt->scope.span, .layer = outer.layer, .value = values};
    snprintf(input->name, sizeof input->name, "%s", name);
    mt_parameter_draw(rt, &study->config, MT_PARAMETER_EMBEDDING, (uint64_t)(INPUT_NUMBER + number), values);
    mt_parameter_add_leaf(rt, input);
    mt_scope_leave(rt, outer);
}

static void create_inputs(struct study *study)
{
    static const char *const names[INPUTS] = {"q", "k", "v"};
    if (!study->of->without_projections)
        create_input(study, "input", 0);
    for (int i = 0; i < INPUTS && study->of->without_projections; i++)
        create_input(study, names[i], i);
}

static void create(struct study *study)
{
    struct mt_parameter *p = study->projections;
    if (!study->of->without_projections)
        create_projections(study);
    create_inputs(study);
    study->layer = (struct mt_attention_layer){.heads = study->of->heads,
                                               .without_mask = study->of->without_mask,
                                               .kind = study->of->attention,
                                               .q_proj = &p[0],
                                               .k_proj = &p[1],
                                               .v_proj = &p[2],
                                               .output_proj = &p[3]};
}

static void zero_grads(struct study *study)
{
    for (int i = 0; i < PROJECTIONS; i++)
        mt_tensor_drop(&study->rt, &study->projections[i].grad);
    for (int i = 0; i < INPUTS; i++)
        mt_tensor_drop(&study->rt, &study->inputs[i].grad);
}

static struct mt_attention_kept measure_kept(struct mt_alloc *alloc)
{
    struct mt_alloc_stats stats;
    mt_alloc_stats(alloc, &stats);
    const struct mt_alloc_count *workspaces = &stats.category[MT_CATEGORY_WORKSPACE];
    assert(workspaces->requested_bytes <= stats.all.requested_bytes);
    assert(workspaces->allocated_bytes <= stats.all.allocated_bytes);
    return (struct mt_attention_kept){.is_known = true,
                                      .requested_bytes = stats.all.requested_bytes - workspaces->requested_bytes,
                                      .allocated_bytes = stats.all.allocated_bytes - workspaces->allocated_bytes,
                                      .workspace_bytes = workspaces->requested_bytes};
}

/* Notes the live bytes before backward. Fails with MT_FAILED if they differ from the previous step. */
static void note_kept(struct study *study, struct mt_attention_kept *kept)
{
    struct mt_attention_kept now = measure_kept(study->rt.alloc);
    if (study->rt.status != MT_OK)
        return;
    if (kept->is_known && kept->requested_bytes != now.requested_bytes)
        mt_runtime_fail(&study->rt,
                        mt_fail(MT_FAILED,
                                "%" PRIu64 " bytes are live before backward; in the step before it was %" PRIu64,
                                now.requested_bytes, kept->requested_bytes));
    *kept = now;
}

static struct mt_tensor *run_forward(struct study *study)
{
    struct mt_parameter *in = study->inputs;
    return study->of->without_projections
               ? mt_attention_layer_attend(&study->rt, &study->layer, in[0].value, in[1].value, in[2].value)
               : mt_attention_layer_forward(&study->rt, &study->layer, in[0].value);
}

static void run_step(struct study *study, struct mt_attention_kept *kept)
{
    struct mt_runtime *rt = &study->rt;
    zero_grads(study);
    mt_runtime_phase(rt, MT_PHASE_FORWARD);
    struct mt_tensor *output = run_forward(study);
    note_kept(study, kept);
    mt_runtime_phase(rt, MT_PHASE_BACKWARD);
    mt_graph_backward(rt, output);
    mt_runtime_mark(rt, MT_STEP_END_MARK);
    mt_tensor_release(rt, output);
}

/* Reports the times of a step, unless it is the first. */
static void report_step(struct study *study, int64_t step)
{
    const struct mt_training_observer *observer = study->observer;
    struct mt_runtime *rt = &study->rt;
    if (observer == NULL || step < WARMUP)
        return;
    double forward_ms = mt_runtime_elapsed_ms(rt, MT_PHASE_FORWARD, MT_PHASE_BACKWARD);
    double backward_ms = mt_runtime_elapsed_ms(rt, MT_PHASE_BACKWARD, MT_STEP_END_MARK);
    if (rt->status != MT_OK)
        return;
    if (observer->phase_time != NULL) {
        observer->phase_time(observer->context, step, MT_PHASE_FORWARD, forward_ms);
        observer->phase_time(observer->context, step, MT_PHASE_BACKWARD, backward_ms);
    }
    if (observer->step_done != NULL)
        observer->step_done(observer->context, step, WARMUP + study->of->repeats, NAN, forward_ms + backward_ms);
}

static void run_steps(struct study *study, struct mt_attention_kept *kept)
{
    struct mt_runtime *rt = &study->rt;
    for (int64_t step = 0; step < WARMUP + study->of->repeats && rt->status == MT_OK; step++) {
        mt_alloc_mark(rt->alloc, MT_EVENT_STEP_BEGIN, (uint64_t)step, 0);
        run_step(study, kept);
        mt_runtime_synchronize(rt);
        assert(rt->scope_depth == 0);
        if (rt->status == MT_OK)
            mt_alloc_mark(rt->alloc, MT_EVENT_STEP_END, (uint64_t)step, 0);
        report_step(study, step);
    }
}

static void destroy(struct study *study)
{
    for (int i = 0; i < PROJECTIONS; i++)
        mt_parameter_release(&study->rt, &study->projections[i]);
    for (int i = 0; i < INPUTS; i++)
        mt_parameter_release(&study->rt, &study->inputs[i]);
}

mt_status mt_attention_study_run(struct mt_device *device, struct mt_alloc *alloc, const struct mt_attention_case *of,
                                 const struct mt_training_observer *observer, struct mt_attention_kept *out)
{
    struct study study = {.of = of, .observer = observer, .config = training_config(of)};
    *out = (struct mt_attention_kept){0};
    mt_status status = mt_attention_case_check(of);
    if (status != MT_OK)
        return status;
    study.config.parameter_dtype = of->dtype;
    mt_runtime_open(&study.rt, device, alloc);
    study.rt.math = of->math;
    create(&study);
    mt_runtime_synchronize(&study.rt); /* the first step begins with an idle device */
    run_steps(&study, out);
    destroy(&study);
    mt_op_workspaces_release(&study.rt);
    return study.rt.status;
}

/* The factors of the terms' sizes. */
struct sizes {
    uint64_t activation; /* B·T·C·w */
    uint64_t square;     /* B·H·T²·w */
    uint64_t rows;       /* B·H·T */
    uint64_t width;      /* w */
};

struct account {
    struct mt_attention_term *terms;
    size_t count;
};

static void add(struct account *account, const char *what, const char *formula, uint64_t bytes)
{
    assert(account->count < MT_ATTENTION_MOST_TERMS);
    account->terms[account->count++] = (struct mt_attention_term){.what = what, .formula = formula, .bytes = bytes};
}

static void add_square(struct account *account, const char *what, const char *formula, uint64_t bytes)
{
    add(account, what, formula, bytes);
    account->terms[account->count - 1].is_square = true;
}

/* Adds the mask, if it is a tensor, and the root by which the scores are divided. */
static void add_mask(struct account *account, const struct mt_attention_case *study, const struct sizes *sizes)
{
    const uint64_t length = (uint64_t)study->seq;
    if (!study->without_mask)
        add_square(account, "causal mask", "T²", length * length);
    add(account, "root of the head size", "w", sizes->width);
}

static void add_kind(struct account *account, const struct mt_attention_case *study, const struct sizes *sizes)
{
    mt_attention_kind kind = study->attention;
    if (kind == MT_ATTENTION_CUSTOM || kind == MT_ATTENTION_SOFTMAX)
        add_mask(account, study, sizes);
    if (kind == MT_ATTENTION_CUSTOM) {
        add_square(account, study->without_mask ? "scaled scores" : "masked scores", "B·H·T²·w", sizes->square);
        add(account, "row maxima", "B·H·T·w", sizes->rows * sizes->width);
        add_square(account, "exponentials", "B·H·T²·w", sizes->square);
        add(account, "row sums", "B·H·T·w", sizes->rows * sizes->width);
    }
    if (kind == MT_ATTENTION_FLASH)
        add(account, "log-sum-exp", "B·H·T·4", sizes->rows * sizeof(float));
    if (kind != MT_ATTENTION_FLASH)
        add_square(account, "weights of attention", "B·H·T²·w", sizes->square);
}

/* Adds projections with their input and their kept results or, without projections, q, k and v and their heads, which
 * batched products copy. */
static void add_rows(struct account *account, const struct mt_attention_case *study, const struct sizes *sizes)
{
    const uint64_t C = (uint64_t)study->d_model;
    const bool folds = study->batch == 1 || study->seq == 1 || study->heads == 1;
    if (!study->without_projections) {
        add(account, "projection weights", "4·C²·w", 4 * C * C * sizes->width);
        add(account, "input", "B·T·C·w", sizes->activation);
    }
    add(account, "q, k and v", "3·B·T·C·w", 3 * sizes->activation);
    if (!study->without_projections)
        add(account, "weighted values", "B·T·C·w", sizes->activation);
    else if (!folds && study->attention != MT_ATTENTION_FLASH)
        add(account, "q, k and v by heads", "3·B·T·C·w", 3 * sizes->activation);
    add(account, "output", "B·T·C·w", sizes->activation);
}

size_t mt_attention_account(const struct mt_attention_case *study, struct mt_attention_term *out)
{
    const uint64_t B = (uint64_t)study->batch, H = (uint64_t)study->heads, T = (uint64_t)study->seq,
                   C = (uint64_t)study->d_model, w = mt_dtype_bytes(study->dtype);
    const struct sizes sizes = {B * T * C * w, B * H * T * T * w, B * H * T, w};
    struct account account = {.terms = out};
    add_rows(&account, study, &sizes);
    add_kind(&account, study, &sizes);
    return account.count;
}

uint64_t mt_attention_account_bytes(const struct mt_attention_case *study, uint64_t *out_square_bytes)
{
    struct mt_attention_term terms[MT_ATTENTION_MOST_TERMS];
    size_t count = mt_attention_account(study, terms);
    uint64_t bytes = 0;
    *out_square_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        bytes += terms[i].bytes;
        *out_square_bytes += terms[i].is_square ? terms[i].bytes : 0;
    }
    return bytes;
}
