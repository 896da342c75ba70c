/* The table of settings, with the functions of rows for which their kind is not enough. */
#include "producers/model/setting_changes.h"
#include "producers/model/settings.h"

#include <stddef.h>
#include <string.h>

const char *const mt_mode_names[] = {
    [MT_MODE_INFER] = "infer", [MT_MODE_FWD] = "fwd", [MT_MODE_FWD_BWD] = "fwd_bwd", NULL};
const char *const mt_attention_names[] = {[MT_ATTENTION_CUSTOM] = "custom",
                                          [MT_ATTENTION_SOFTMAX] = "softmax",
                                          [MT_ATTENTION_WEIGHTS] = "weights",
                                          [MT_ATTENTION_FLASH] = "flash",
                                          NULL};
const char *const mt_matmul_names[] = {
    [MTK_MATH_FP32] = "fp32", [MTK_MATH_TF32] = "tf32", [MTK_MATH_FP8] = "fp8", NULL};
const char *const mt_implementation_names[] = {
    [MT_IMPLEMENTATION_EAGER] = "eager", [MT_IMPLEMENTATION_FUSED] = "fused", NULL};
static const char *const switch_names[] = {"off", "on", NULL};
static const char *const autocast_names[] = {
    [MT_AUTOCAST_OFF] = "off", [MT_AUTOCAST_BF16] = "bf16", [MT_AUTOCAST_FP16] = "fp16", NULL};
static const char *const autocast_end_names[] = {
    [MT_REGION_END_BEFORE_BACKWARD] = "before-backward", [MT_REGION_END_AFTER_BACKWARD] = "after-backward", NULL};
static const char *const optimizer_names[] = {[MT_OPTIMIZER_ADAMW] = "adamw", [MT_OPTIMIZER_NONE] = "none", NULL};
static const char *const zero_grad_names[] = {
    [MT_ZERO_GRAD_BEFORE_BACKWARD] = "before-backward", [MT_ZERO_GRAD_BEFORE_FORWARD] = "before-forward", NULL};
static const char *const init_names[] = {[MT_INIT_RANDOM] = "random", [MT_INIT_REFERENCE] = "reference", NULL};
static const char *const data_names[] = {[MT_DATA_RANDOM] = "random", [MT_DATA_REFERENCE] = "reference", NULL};
static const char *const weight_cast_names[] = {[MT_WEIGHT_CAST_REGION] = "region",
                                                [MT_WEIGHT_CAST_LAYER] = "layer",
                                                [MT_WEIGHT_CAST_PERSISTENT] = "persistent",
                                                NULL};
static const char *const checkpoint_names[] = {[MT_CHECKPOINT_OFF] = "off", [MT_CHECKPOINT_BLOCK] = "block", NULL};
static const char *const optimizer_in_backward_names[] = {[MT_OPTIMIZER_IN_BACKWARD_OFF] = "off",
                                                          [MT_OPTIMIZER_IN_BACKWARD_ON] = "on",
                                                          [MT_OPTIMIZER_IN_BACKWARD_BESIDE] = "beside",
                                                          NULL};

static const char *const moments_names[] = {
    [MTK_MOMENTS_FULL] = "fp32", [MTK_MOMENTS_BF16] = "bf16", [MTK_MOMENTS_8BIT] = "8bit", NULL};

static bool is_always_told(const struct mt_run_plan *plan)
{
    (void)plan;
    return true;
}

static bool is_fused(const struct mt_run_plan *plan)
{
    return plan->config.implementation == MT_IMPLEMENTATION_FUSED;
}

/* The model, by its name or by a file with sizes. */

static bool is_file(const char *model)
{
    const char *suffix = strrchr(model, '.');
    return (suffix != NULL && strcmp(suffix, ".json") == 0) || strchr(model, '/') != NULL;
}

static mt_status parse_model(const char *text, struct mt_run_plan *plan)
{
    if (is_file(text))
        return mt_model_config_read(text, &plan->config.model);
    mt_status status = mt_model_config_named(text, &plan->config.model);
    if (status == MT_OK)
        return MT_OK;
    return mt_fail(status, "%s; a file of sizes is given as FILE.json or ./FILE", mt_last_error());
}

static void format_model(const struct mt_run_plan *plan, struct mt_text *out)
{
    mt_text_add(out, "%s", plan->config.model.name);
}

static bool has_sizes_of(const struct mt_model_config *a, const struct mt_model_config *b)
{
    return a->vocab == b->vocab && a->d_model == b->d_model && a->d_ff == b->d_ff && a->layers == b->layers &&
           a->heads == b->heads;
}

/* True if the model has the sizes of the model with its name. */
static bool is_named_model(const struct mt_run_plan *plan)
{
    const struct mt_model_config *model = &plan->config.model;
    struct mt_model_config named;
    for (size_t i = 0; mt_model_names[i] != NULL; i++)
        if (strcmp(mt_model_names[i], model->name) == 0)
            return mt_model_config_named(model->name, &named) == MT_OK && has_sizes_of(model, &named);
    return false;
}

static bool is_model_of_sizes(const struct mt_run_plan *plan)
{
    return !is_named_model(plan);
}

/* The tokens, by a keyword or by a file. */

static mt_status parse_data(const char *text, struct mt_run_plan *plan)
{
    struct mt_training_config *config = &plan->config;
    config->data = MT_DATA_FILE;
    config->data_file = text;
    for (int i = 0; data_names[i] != NULL; i++)
        if (strcmp(data_names[i], text) == 0)
            config->data = (mt_data)i;
    return MT_OK;
}

static void format_data(const struct mt_run_plan *plan, struct mt_text *out)
{
    const struct mt_training_config *config = &plan->config;
    mt_text_add(out, "%s", config->data == MT_DATA_FILE ? config->data_file : data_names[config->data]);
}

/* The settings of the allocator. */

static mt_status parse_alloc(const char *text, struct mt_run_plan *plan)
{
    return mt_alloc_settings_parse(text, &plan->alloc);
}

static void format_alloc(const struct mt_run_plan *plan, struct mt_text *out)
{
    mt_alloc_settings_format(&plan->alloc, out);
}

static void format_alloc_short(const struct mt_run_plan *plan, struct mt_text *out)
{
    mt_alloc_settings_format_short(&plan->alloc, out);
}

/* Attention and casts of weights, for which the fused implementation has different values. */

static void settle_attention(struct mt_run_plan *plan)
{
    if (is_fused(plan))
        plan->config.attention =
            mt_attention_takes_flash(&plan->config.model) ? MT_ATTENTION_FLASH : MT_ATTENTION_WEIGHTS;
}

static void settle_weight_cast(struct mt_run_plan *plan)
{
    if (is_fused(plan))
        plan->config.weight_cast = MT_WEIGHT_CAST_PERSISTENT;
}

static bool is_attention_told(const struct mt_run_plan *plan)
{
    return is_fused(plan) || !mt_setting_is_usual(MT_SETTING_ATTENTION, plan);
}

/* Without autocast there is nothing to cast. */
static bool is_weight_cast_told(const struct mt_run_plan *plan)
{
    return is_fused(plan) ? plan->config.autocast : !mt_setting_is_usual(MT_SETTING_WEIGHT_CAST, plan);
}

#define FIELD(member) .offset = offsetof(struct mt_run_plan, member)
#define CHOICE(member) FIELD(member), .kind = MT_SETTING_IS_CHOICE
#define SWITCH(member) FIELD(member), .kind = MT_SETTING_IS_SWITCH
/* `greatest` 0: no limit. */
#define INTEGER(member, least, greatest)                                                                               \
    FIELD(member), .kind = MT_SETTING_IS_INTEGER, .value = "N", .low = least, .high = greatest
/* The ranks in a command, in a report, among changes and in an answer. */
#define RANKS(...) .rank = {__VA_ARGS__}

const struct mt_setting_entry mt_setting_table[MT_SETTING_COUNT] = {
    [MT_SETTING_MODEL] = {.name = "model",
                          .kind = MT_SETTING_IS_TEXT,
                          .value = "NAME|FILE.json",
                          .help = "small, medium, large, xl, 2.7B (the default), or a file with sizes",
                          .choices = mt_model_names,
                          .title = "model",
                          .axis = MT_AXIS_ALWAYS,
                          .is_plain = true,
                          RANKS(20, 10, 0, 0),
                          .parse = parse_model,
                          .format = format_model,
                          .is_told = is_named_model},
    [MT_SETTING_VOCAB] = {.name = "vocab",
                          INTEGER(config.model.vocab, 2, 1 << 24),
                          .help = "size of the vocabulary (default: the model's)",
                          .is_size = true,
                          RANKS(30, 0, 0, 0),
                          .is_told = is_model_of_sizes},
    [MT_SETTING_D_MODEL] = {.name = "d_model",
                            INTEGER(config.model.d_model, 1, 1 << 20),
                            .help = "width of the residual stream",
                            .is_size = true,
                            .goes_by_model = true,
                            RANKS(31, 0, 0, 0),
                            .is_told = is_model_of_sizes},
    [MT_SETTING_D_FF] = {.name = "d_ff",
                         INTEGER(config.model.d_ff, 1, 1 << 22),
                         .help = "width of the feed-forward net",
                         .is_size = true,
                         .goes_by_model = true,
                         RANKS(32, 0, 0, 0),
                         .is_told = is_model_of_sizes},
    [MT_SETTING_LAYERS] = {.name = "layers",
                           INTEGER(config.model.layers, 1, 4096),
                           .help = "how many layers",
                           .is_size = true,
                           .goes_by_model = true,
                           RANKS(33, 0, 0, 0),
                           .is_told = is_model_of_sizes},
    [MT_SETTING_HEADS] = {.name = "heads",
                          INTEGER(config.model.heads, 1, 1 << 16),
                          .help = "attention heads of a layer",
                          .is_size = true,
                          .goes_by_model = true,
                          RANKS(34, 0, 0, 0),
                          .is_told = is_model_of_sizes},
    [MT_SETTING_ROPE] = {.name = "rope",
                         SWITCH(config.model.rope),
                         .choices = switch_names,
                         .help = "rotary position embedding (off)",
                         .title = "RoPE",
                         RANKS(40, 30, 0, 0)},
    [MT_SETTING_MODE] = {.name = "mode",
                         CHOICE(config.mode),
                         .choices = mt_mode_names,
                         .help = "no gradients, gradients kept, or a full training step (fwd_bwd)",
                         .axis = MT_AXIS_ALWAYS,
                         .is_plain = true,
                         RANKS(100, 0, 0, 10)},
    [MT_SETTING_AUTOCAST] = {.name = "autocast",
                             CHOICE(config.autocast),
                             .choices = autocast_names,
                             .help = "mixed precision (off); fp16, with a loss scaler, on sim alone",
                             .axis = MT_AXIS_ALWAYS,
                             RANKS(110, 0, 30, 20),
                             .change = {.is_one = mt_change_is_of_precision,
                                        .apply = mt_change_of_precision,
                                        .is_felt = true}},
    [MT_SETTING_AUTOCAST_END] = {.name = "autocast_end",
                                 CHOICE(config.autocast_end),
                                 .choices = autocast_end_names,
                                 .help = "eager only: when autocast and its copies of weights end (before-backward)",
                                 .former = "before-backward",
                                 .title = "autocast end",
                                 .axis = MT_AXIS_IF_VARIED,
                                 RANKS(115, 85, 7, 25),
                                 .change = {.is_one = mt_change_is_of_held_casts,
                                            .value = MT_REGION_END_BEFORE_BACKWARD}},
    [MT_SETTING_ATTENTION] =
        {.name = "attention",
         CHOICE(config.attention),
         .choices = mt_attention_names,
         .help = "which steps of attention are one op; 3, 1, 1 or no matrices are kept; fused supports the last two "
                 "(custom; fused: flash, or weights if flash does not support the head size)",
         .former = "custom",
         .title = "attention",
         .axis = MT_AXIS_IF_VARIED,
         RANKS(170, 60, 40, 30),
         .change = {.is_one = mt_change_is_to_least_attention, .apply = mt_change_to_least_attention},
         .settle = settle_attention,
         .is_told = is_attention_told},
    [MT_SETTING_SEQ] = {.name = "seq",
                        INTEGER(config.seq, 1, 1 << 24),
                        .help = "tokens in a sequence (256)",
                        .axis = MT_AXIS_ALWAYS,
                        RANKS(50, 0, 100, 100),
                        .change = {.is_cut = true, .most_parts = 4, .is_felt = true},
                        .is_told = is_always_told},
    [MT_SETTING_BATCH] = {.name = "batch",
                          INTEGER(config.batch, 1, 1 << 20),
                          .help = "sequences in a step (4)",
                          .title = "batch",
                          .axis = MT_AXIS_ALWAYS,
                          RANKS(60, 20, 90, 90),
                          .change = {.value = 1, .is_cut = true, .is_felt = true},
                          .is_told = is_always_told},
    [MT_SETTING_OPTIMIZER] = {.name = "optimizer",
                              CHOICE(config.optimizer),
                              .choices = optimizer_names,
                              .help = "none: a full step ends with backward (adamw)",
                              .former = "adamw",
                              .title = "optimizer",
                              .axis = MT_AXIS_IF_VARIED,
                              RANKS(185, 105, 0, 75)},
    [MT_SETTING_ZERO_GRAD] = {.name = "zero_grad",
                              CHOICE(config.zero_grad),
                              .choices = zero_grad_names,
                              .help = "when the last step's gradients go (before-backward)",
                              .title = "zero grad",
                              .axis = MT_AXIS_IF_VARIED,
                              RANKS(190, 110, 10, 80),
                              .change = {.is_one = mt_change_is_of_kept_gradients,
                                         .value = MT_ZERO_GRAD_BEFORE_FORWARD}},
    [MT_SETTING_KEEP_OUTPUT] = {.name = "keep_output",
                                SWITCH(config.keep_output),
                                .choices = switch_names,
                                .help = "eager only: keep the last output and its graph until the next one (off)",
                                .former = "off",
                                .title = "output kept",
                                .axis = MT_AXIS_IF_VARIED,
                                RANKS(195, 115, 5, 85),
                                .change = {.value = false}},
    [MT_SETTING_MATMUL] = {.name = "matmul",
                           CHOICE(config.math),
                           .choices = mt_matmul_names,
                           .help = "how fp32 matmuls are computed (fp32); fp8: matmuls of a layer with its weights, "
                                   "fused under autocast bf16",
                           .title = "products",
                           .axis = MT_AXIS_IF_VARIED,
                           RANKS(180, 40, 0, 0)},
    [MT_SETTING_STEPS] = {.name = "steps",
                          INTEGER(config.steps, 1, 1000000),
                          .help = "how many steps (3)",
                          .effect = MT_EFFECT_OF_MEMORY,
                          RANKS(70, 0, 0, 0)},
    [MT_SETTING_WARMUP] = {.name = "warmup",
                           INTEGER(config.warmup, 0, 1000000),
                           .help = "warm-up steps; traced, numbered first, not timed (0)",
                           .axis = MT_AXIS_IF_VARIED,
                           .effect = MT_EFFECT_OF_STEPS,
                           RANKS(80, 0, 0, 0)},
    [MT_SETTING_INIT] = {.name = "init",
                         CHOICE(config.init),
                         .choices = init_names,
                         .help = "initial values of parameters (random)",
                         .effect = MT_EFFECT_NONE,
                         RANKS(200, 0, 0, 0)},
    [MT_SETTING_DATA] = {.name = "data",
                         .kind = MT_SETTING_IS_TEXT,
                         .choices = data_names,
                         .value = "random|reference|FILE",
                         .help = "the tokens (random), or the bytes of a file",
                         .effect = MT_EFFECT_OF_MEMORY,
                         RANKS(210, 0, 0, 0),
                         .parse = parse_data,
                         .format = format_data},
    [MT_SETTING_SEED] = {.name = "seed",
                         INTEGER(config.seed, 0, 0),
                         .help = "of random parameters and tokens (0)",
                         .effect = MT_EFFECT_NONE,
                         RANKS(90, 0, 0, 0)},
    [MT_SETTING_IMPL] = {.name = "impl",
                         CHOICE(config.implementation),
                         .choices = mt_implementation_names,
                         .help = "op by op, or by hand for speed and size (eager)",
                         .title = "implementation",
                         .axis = MT_AXIS_IF_VARIED,
                         RANKS(120, 50, 50, 40),
                         .change = {.is_one = mt_change_is_to_fused, .apply = mt_change_to_fused}},
    [MT_SETTING_WEIGHT_CAST] = {.name = "weight_cast",
                                CHOICE(config.weight_cast),
                                .choices = weight_cast_names,
                                .value = "persistent|region|layer",
                                .help = "how long bf16 copies of weights live (persistent; of eager: region)",
                                .former = "region",
                                .title = "weight casts",
                                .axis = MT_AXIS_IF_VARIED,
                                RANKS(130, 80, 60, 50),
                                .change = {.is_one = mt_change_is_to_casts_by_layer, .value = MT_WEIGHT_CAST_LAYER},
                                .settle = settle_weight_cast,
                                .is_told = is_weight_cast_told},
    [MT_SETTING_CHECKPOINT] = {.name = "checkpoint",
                               CHOICE(config.checkpoint),
                               .choices = checkpoint_names,
                               .help =
                                   "fused only: keep only a block's input, and recompute the block in backward (off)",
                               .former = "off",
                               .title = "checkpoint",
                               .axis = MT_AXIS_IF_VARIED,
                               .is_of_fused = true,
                               RANKS(140, 90, 80, 60),
                               .change = {.is_one = mt_change_is_to_checkpoints, .value = MT_CHECKPOINT_BLOCK}},
    [MT_SETTING_OPTIMIZER_IN_BACKWARD] = {.name = "optimizer_in_backward",
                                          CHOICE(config.optimizer_in_backward),
                                          .choices = optimizer_in_backward_names,
                                          .help = "fused only: update a parameter once its gradient is complete, then "
                                                  "free the gradient; beside: on a second stream (off)",
                                          .former = "off",
                                          .title = "optimizer in backward",
                                          .axis = MT_AXIS_IF_VARIED,
                                          .is_of_fused = true,
                                          RANKS(150, 100, 70, 70),
                                          .change = {.is_one = mt_change_is_of_late_updates,
                                                     .value = MT_OPTIMIZER_IN_BACKWARD_ON}},
    [MT_SETTING_MOMENTS] = {.name = "moments",
                            CHOICE(config.moments),
                            .choices = moments_names,
                            .help = "fused only: dtype of AdamW's two moments; 8bit: for the weights of matmuls (fp32)",
                            .former = "fp32",
                            .title = "moments",
                            .axis = MT_AXIS_IF_VARIED,
                            .is_of_fused = true,
                            RANKS(155, 102, 85, 72),
                            .change = {.is_one = mt_change_is_to_small_moments,
                                       .value = MTK_MOMENTS_8BIT,
                                       .is_felt = true}},
    [MT_SETTING_LOSS_SLICES] = {.name = "loss_slices",
                                INTEGER(config.loss_slices, 1, 1 << 20),
                                .help = "fused only: compute logits for one of N parts of the tokens at a time (1)",
                                .former = "1",
                                .title = "loss slices",
                                .axis = MT_AXIS_IF_VARIED,
                                .is_of_fused = true,
                                RANKS(158, 104, 65, 74),
                                .change = {.is_one = mt_change_is_to_more_slices, .value = MT_FEW_LOSS_SLICES}},
    [MT_SETTING_CUDA_GRAPH] = {.name = "cuda_graph",
                               SWITCH(config.cuda_graph),
                               .choices = switch_names,
                               .help = "queue forward and backward as one, once they repeat (off)",
                               .former = "off",
                               .title = "CUDA graph",
                               .effect = MT_EFFECT_OF_STEPS,
                               RANKS(160, 130, 0, 0)},
    [MT_SETTING_ALLOC] = {.name = "alloc",
                          .kind = MT_SETTING_IS_TEXT,
                          .value = "SETTINGS",
                          .help = "policy=tight or policy=torch,max_split=…,… (policy=tight)",
                          .title = "allocator",
                          .list_begin = "policy=",
                          .axis = MT_AXIS_IF_VARIED,
                          .is_plain = true,
                          RANKS(220, 70, 20, 110),
                          .change = {.is_one = mt_change_is_to_tight, .apply = mt_change_to_tight},
                          .parse = parse_alloc,
                          .format = format_alloc,
                          .format_short = format_alloc_short},
    [MT_SETTING_PLAN] = {.name = "plan",
                         SWITCH(follows_plan),
                         .choices = switch_names,
                         .help = "plan the place of every block beforehand, by simulating the first steps (off)",
                         .former = "off",
                         .title = "plan",
                         RANKS(230, 120, 0, 120)},
    [MT_SETTING_DEVICE] = {.name = "device",
                           FIELD(device),
                           .kind = MT_SETTING_IS_TEXT,
                           .title = "device",
                           RANKS(10, 140, 0, 0),
                           .is_told = is_always_told},
    [MT_SETTING_KERNELS] = {.name = "kernels",
                            SWITCH(watches_kernels),
                            .choices = switch_names,
                            .effect = MT_EFFECT_NONE},
};
