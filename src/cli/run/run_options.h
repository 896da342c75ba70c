/* The options that describe a run: `run` takes them as they are, `sweep` a grid of them, and whoever asks what another
 * setting would do takes those of a run that was traced. */
#ifndef MT_CLI_RUN_OPTIONS_H
#define MT_CLI_RUN_OPTIONS_H

#include "cli/command.h"
#include "cli/run/run_session.h"
#include "cli/run/run_settings.h"
#include "trace/query/trace.h"

/* As given; what was not given is NULL or MT_UNSET, and keeps the model's or the default value. What a number may be is
 * checked where the whole configuration is. */
enum { MT_UNSET = -1 };
struct mt_run_options {
    bool help, json, no_trace, kernels, no_grad_norms;
    const char *model, *device, *alloc, *trace, *name, *data;
    int64_t vocab, d_model, d_ff, layers, heads;
    int64_t batch, seq, steps, warmup, seed;
    int rope, mode, autocast, attention, matmul, zero_grad, init, impl, weight_cast, checkpoint, optimizer_in_backward,
        cuda_graph, plan;
};

/* What is trained and how, in the order of the help: AXIS for what `sweep` takes lists of, in the order of its grid, and
 * PLAIN for the rest; each with the kind of the value, the field, the option, what the help calls the value, its choices
 * and the help. AXIS has a name for the axis before them. */
#define MT_RUN_OPTIONS(AXIS, PLAIN)                                                                                    \
    AXIS(MODEL, TEXT, model, "--model", "NAME|FILE.json", mt_model_names,                                              \
         "small, medium, large, xl, 2.7B (the default), or a file with sizes"),                                        \
        PLAIN(INTEGER, vocab, "--vocab", "N", NULL, "size of the vocabulary, in place of the model's"),                \
        PLAIN(INTEGER, d_model, "--d-model", "N", NULL, "width of the residual stream"),                               \
        PLAIN(INTEGER, d_ff, "--d-ff", "N", NULL, "width of the feed-forward net"),                                    \
        PLAIN(INTEGER, layers, "--layers", "N", NULL, "how many layers"),                                              \
        PLAIN(INTEGER, heads, "--heads", "N", NULL, "attention heads of a layer"),                                     \
        PLAIN(CHOICE, rope, "--rope", "CHOICE", mt_switch_names, "rotary position embedding (off)"),                   \
        AXIS(MODE, CHOICE, mode, "--mode", "infer|fwd|fwd_bwd", mt_mode_names,                                         \
             "no gradients, gradients kept, or a full training step (fwd_bwd)"),                                       \
        AXIS(AUTOCAST, CHOICE, autocast, "--autocast", "off|bf16", mt_autocast_names, "mixed precision (off)"),        \
        AXIS(ATTENTION, CHOICE, attention, "--attention", "custom|softmax|weights|flash", mt_attention_names,          \
             "its steps that are one op: 3, 2, 1 or no matrices are kept; fused has the last two (custom; of fused: "  \
             "flash, or weights where flash does not take the heads)"),                                                \
        AXIS(SEQ, INTEGER, seq, "--seq", "N", NULL, "tokens in a sequence (256)"),                                     \
        AXIS(BATCH, INTEGER, batch, "--batch", "N", NULL, "sequences in a step (4)"),                                  \
        AXIS(ZERO_GRAD, CHOICE, zero_grad, "--zero-grad", "before-backward|before-forward", mt_zero_grad_names,        \
             "when the last step's gradients go (before-backward)"),                                                   \
        PLAIN(CHOICE, matmul, "--matmul", "CHOICE", mt_matmul_names,                                                   \
              "how matrix products of fp32 are computed (fp32)"),                                                      \
        PLAIN(INTEGER, steps, "--steps", "N", NULL, "how many steps (3)"),                                             \
        PLAIN(INTEGER, warmup, "--warmup", "N", NULL, "steps before them; traced, numbered first, not timed (0)"),     \
        PLAIN(CHOICE, init, "--init", "CHOICE", mt_init_names, "how parameters begin (random)"),                       \
        PLAIN(TEXT, data, "--data", "random|reference|FILE", mt_data_names,                                            \
              "the tokens (random), or the bytes of a file"),                                                          \
        PLAIN(INTEGER, seed, "--seed", "N", NULL, "of random parameters and tokens (0)"),                              \
        AXIS(IMPL, CHOICE, impl, "--impl", "eager|fused", mt_implementation_names,                                     \
             "op by op, or by hand for speed and size (eager)"),                                                       \
        AXIS(WEIGHT_CAST, CHOICE, weight_cast, "--weight-cast", "persistent|region|layer", mt_weight_cast_names,       \
             "how long bf16 copies of weights live (persistent; of eager: region)"),                                   \
        AXIS(CHECKPOINT, CHOICE, checkpoint, "--checkpoint", "off|block", mt_checkpoint_names,                         \
             "of fused: keep of a block its input alone, and compute it again in backward (off)"),                     \
        AXIS(OPTIMIZER_IN_BACKWARD, CHOICE, optimizer_in_backward, "--optimizer-in-backward", "off|on|beside",         \
             mt_optimizer_in_backward_names,                                                                           \
             "of fused: a complete gradient updates its parameter and goes; beside: on a second stream (off)"),        \
        PLAIN(CHOICE, cuda_graph, "--cuda-graph", "CHOICE", mt_switch_names,                                           \
              "queue forward and backward as one, once they repeat (off)"),                                            \
        AXIS(ALLOC, TEXT, alloc, "--alloc", "SETTINGS", NULL,                                                          \
             "policy=tight or policy=torch,max_split=…,… (policy=tight)"),                                             \
        PLAIN(CHOICE, plan, "--plan", "CHOICE", mt_switch_names,                                                       \
              "find the place of every block beforehand, by simulating the first steps (off)")

/* One of them in the table of a command that keeps `struct mt_run_options` at an offset in a struct of its own. */
#define MT_RUN_OPTION(at, value_kind, field, flag, value_name, value_choices, text)                                    \
    {                                                                                                                  \
        .name = flag, .value = value_name, .help = text, .kind = MT_OPTION_##value_kind,                               \
        .offset = (at) + offsetof(struct mt_run_options, field), .low = 0, .high = INT64_MAX, .choices = value_choices \
    }

/* Nothing given, as an initializer. */
#define MT_RUN_OPTIONS_NONE                                                                                            \
    {                                                                                                                  \
        .trace = MT_DEFAULT_TRACE, .vocab = MT_UNSET, .d_model = MT_UNSET, .d_ff = MT_UNSET, .layers = MT_UNSET,       \
        .heads = MT_UNSET, .batch = MT_UNSET, .seq = MT_UNSET, .steps = MT_UNSET, .warmup = MT_UNSET,                  \
        .seed = MT_UNSET, .rope = MT_UNSET, .mode = MT_UNSET, .autocast = MT_UNSET, .attention = MT_UNSET,             \
        .matmul = MT_UNSET, .zero_grad = MT_UNSET, .init = MT_UNSET, .impl = MT_UNSET, .weight_cast = MT_UNSET,        \
        .checkpoint = MT_UNSET, .optimizer_in_backward = MT_UNSET, .cuda_graph = MT_UNSET, .plan = MT_UNSET            \
    }

/* The table of `run`, which ends with a NULL name, and nothing given. */
extern const struct mt_option mt_run_option_table[];
extern const struct mt_run_options mt_run_options_none;

/* Whether any of MT_RUN_OPTIONS was given. */
bool mt_run_options_given(const struct mt_run_options *options);

/* The plan that the options describe, checked. Borrows their texts. MT_USAGE for what can't be run. */
mt_status mt_run_options_plan(const struct mt_run_options *options, struct mt_run_plan *out);

/* The plan of a run that `run` has traced, by its settings; not traced itself. Texts are borrowed from the trace, the
 * device is the one that it ran on by its full name, which of a card is no spelling to open it by.
 * MT_USAGE if its settings are not those of such a run (an imported one has none). */
mt_status mt_run_plan_of_run(struct mt_trace *trace, const struct mt_run *run, struct mt_run_plan *out);

#endif
