#include "study/model_account.h"

#include "base/text.h"
#include "study/formula.h"
#include "trace/query/blocks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char mt_model_account_parameters_formula[] = "2·V·C+L·(4·C²+3·C·F+2·C)+C";

/* The properties of a run that decide which terms apply. */
enum {
    EAGER = 1 << 0,
    FUSED = 1 << 1,
    WIDE = 1 << 2,    /* products in fp32 */
    NARROW = 1 << 3,  /* under autocast */
    CUSTOM = 1 << 4,  /* attention, op by op */
    ONE_OP = 1 << 5,  /* softmax as one op */
    WEIGHTS = 1 << 6, /* scale, mask and softmax as one op */
    FLASH = 1 << 7,
    MASKED = 1 << 8, /* the mask is a tensor */
    GRADIENTS = 1 << 9,
    MOMENTS = 1 << 10,
    CASTS = 1 << 11, /* of weights, live when forward ends */
    SAME_TOKENS = 1 << 12,
    NEXT_TOKENS = 1 << 13, /* targets are the inputs' next tokens */
};

/* The blocks of a term, by their label. NULL: any. */
struct pattern {
    const char *role, *category, *op;
    const char *end; /* of the span */
};

enum { MOST_PATTERNS = 4 };

/* A term, for runs with all properties in `when`. A block belongs to the first matching term. */
struct term {
    const char *what, *formula;
    unsigned when;
    struct pattern patterns[MOST_PATTERNS];
};

#define INPUT(of_category)                                                                                             \
    {                                                                                                                  \
        .role = "input", .category = (of_category)                                                                     \
    }
#define KEPT(of_category, of_op, span_end)                                                                             \
    {                                                                                                                  \
        .role = "activation", .category = (of_category), .op = (of_op), .end = (span_end)                              \
    }

static const struct term terms[] = {
    {"parameters", "4·N", 0, {{.role = "parameter"}}},
    {"gradients of the last step", "4·N", GRADIENTS, {{.role = "gradient"}}},
    {"AdamW's two moments", "8·N", MOMENTS, {{.role = "optimizer state"}}},
    {"bf16 copies of weights", "2·(V·C+L·(4·C²+3·C·F))", CASTS, {{.role = "weight cast"}}},
    {"tokens", "8·B·T", SAME_TOKENS, {INPUT("Data")}},
    {"tokens", "8·B·(T+1)", NEXT_TOKENS, {INPUT("Data")}},
    {"positions", "8·L·T", EAGER, {INPUT("Attn")}},
    {"embedded tokens", "4·B·T·C", 0, {KEPT("Embed", NULL, NULL)}},
    {"residual stream", "8·L·B·T·C", 0, {KEPT("Block", NULL, NULL)}},
    {"norms: reciprocal roots",
     "4·(2·L+1)·B·T",
     0,
     {KEPT("Norm", "norm.rsqrt", NULL), KEPT("Norm", "norm.rstd", NULL)}},
    {"norms: normalized", "4·(2·L+1)·B·T·C", EAGER, {KEPT("Norm", "norm.mul", NULL)}},
    {"norms: times the weight", "4·(2·L+1)·B·T·C", EAGER | WIDE, {KEPT("Norm", "norm.weight", NULL)}},
    {"norms: bf16 copies, one a product",
     "2·(5·L+1)·B·T·C",
     EAGER | NARROW,
     {KEPT("einsum", "cast", "_proj"), KEPT("einsum", "cast", ".w1"), KEPT("einsum", "cast", ".w3"),
      KEPT("einsum", "cast", "lm_head")}},
    {"q, k and v",
     "3·w·L·B·T·C",
     EAGER,
     {KEPT("einsum", "einsum.copy", ".attn"), KEPT("einsum", "einsum", "_proj"), KEPT("Attn", "attn.rope.q", NULL),
      KEPT("Attn", "attn.rope.k", NULL)}},
    {"q, k and v", "3·w·L·B·T·C", FUSED, {KEPT("einsum", "einsum", ".attn.qkv_proj")}},
    {"causal masks", "L·T²", MASKED, {KEPT("Attn", "attn.mask.tril", NULL)}},
    {"roots of the head size", "w·L", MASKED, {KEPT("AttnScores", NULL, NULL)}},
    {"masked scores", "w·L·B·H·T²", CUSTOM, {KEPT("AttnOut", NULL, NULL)}},
    {"softmax: row maxima", "w·L·B·H·T", CUSTOM, {KEPT("Softmax", "softmax.max", NULL)}},
    {"softmax: exponentials", "4·L·B·H·T²", CUSTOM, {KEPT("Softmax", "softmax.exp", NULL)}},
    {"softmax: row sums", "4·L·B·H·T", CUSTOM, {KEPT("Softmax", "softmax.sum", NULL)}},
    {"softmax: weights", "4·L·B·H·T²", CUSTOM | WIDE, {KEPT("Softmax", "softmax.div", NULL)}},
    {"softmax: weights", "2·L·B·H·T²", CUSTOM | NARROW, {KEPT("einsum", "cast", ".attn")}},
    {"softmax: weights", "4·L·B·H·T²", ONE_OP, {KEPT("Softmax", NULL, NULL)}},
    {"softmax: bf16 copies of the weights", "2·L·B·H·T²", ONE_OP | NARROW, {KEPT("einsum", "cast", ".attn")}},
    {"softmax: weights", "w·L·B·H·T²", WEIGHTS, {KEPT("Softmax", NULL, NULL)}},
    {"flash: log-sum-exp", "4·L·B·H·T", FLASH, {KEPT("Attn", "flash.lse", NULL), KEPT("Attn", "attn.lse", NULL)}},
    {"weighted values",
     "w·L·B·T·C",
     0,
     {KEPT("Attn", "attn.merge_heads", NULL), KEPT("einsum", "einsum", ".attn"), KEPT("Attn", "flash", NULL),
      KEPT("Attn", "attn.context", NULL)}},
    {"gate and value",
     "2·w·L·B·T·F",
     0,
     {KEPT("einsum", "einsum", ".w1"), KEPT("einsum", "einsum", ".w3"), KEPT("einsum", "einsum", ".w13")}},
    {"SwiGLU: sigmoid, silu and product", "3·w·L·B·T·F", EAGER, {KEPT("FFN", NULL, NULL)}},
    {"logits", "w·B·T·V", 0, {KEPT("einsum", "einsum", "lm_head")}},
};
enum { TERMS = sizeof terms / sizeof terms[0] };

_Static_assert(sizeof terms / sizeof terms[0] <= MT_MODEL_ACCOUNT_MOST_TERMS, "an account has room for all terms");

bool mt_model_account_is_known(const struct mt_run_plan *plan)
{
    const struct mt_training_config *config = &plan->config;
    return config->mode != MT_MODE_INFER && config->autocast != MT_AUTOCAST_FP16 && !config->keep_output &&
           config->checkpoint == MT_CHECKPOINT_OFF && config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_ON &&
           config->loss_slices == 1 && config->moments == MTK_MOMENTS_FULL && config->parameter_dtype == MT_F32;
}

static unsigned properties_of(const struct mt_training_config *config, int64_t step)
{
    static const unsigned attention[] = {[MT_ATTENTION_CUSTOM] = CUSTOM | MASKED,
                                         [MT_ATTENTION_SOFTMAX] = ONE_OP | MASKED,
                                         [MT_ATTENTION_WEIGHTS] = WEIGHTS,
                                         [MT_ATTENTION_FLASH] = FLASH};
    bool has_state = config->mode == MT_MODE_FWD_BWD && step > 0;
    unsigned properties = attention[config->attention];
    properties |= config->implementation == MT_IMPLEMENTATION_FUSED ? FUSED : EAGER;
    properties |= config->autocast ? NARROW : WIDE;
    properties |= config->autocast && config->weight_cast != MT_WEIGHT_CAST_LAYER ? CASTS : 0;
    properties |= config->data == MT_DATA_RANDOM ? SAME_TOKENS : NEXT_TOKENS;
    properties |= has_state && config->optimizer == MT_OPTIMIZER_ADAMW ? MOMENTS : 0;
    properties |= has_state && config->zero_grad == MT_ZERO_GRAD_BEFORE_BACKWARD ? GRADIENTS : 0;
    return properties;
}

static struct mt_formula_symbols symbols_of(const struct mt_training_config *config)
{
    const struct mt_model_config *model = &config->model;
    struct mt_formula_symbols symbols = {.of = {['B'] = (uint64_t)config->batch,
                                                ['T'] = (uint64_t)config->seq,
                                                ['C'] = (uint64_t)model->d_model,
                                                ['H'] = (uint64_t)model->heads,
                                                ['V'] = (uint64_t)model->vocab,
                                                ['L'] = (uint64_t)model->layers,
                                                ['F'] = (uint64_t)model->d_ff,
                                                ['N'] = mt_model_parameter_count(model),
                                                ['w'] = mt_dtype_bytes(config->autocast ? MT_BF16 : MT_F32)}};
    return symbols;
}

static bool fits(const struct term *term, const struct mt_label_row *label)
{
    for (int i = 0; i < MOST_PATTERNS; i++) {
        const struct pattern *pattern = &term->patterns[i];
        if (pattern->role != NULL && mt_is_text(pattern->role, label->role) &&
            mt_is_text(pattern->category, label->category) && mt_is_text(pattern->op, label->op) &&
            mt_ends_with(label->span, pattern->end))
            return true;
    }
    return false;
}

/* The state of building an account. */
struct maker {
    struct mt_model_account *account;
    const struct term *of[MT_MODEL_ACCOUNT_MOST_TERMS]; /* of the account's terms */
};

/* Adds the terms for runs with these properties, by formula. */
static mt_status add_terms(struct maker *maker, const struct mt_run_plan *plan, unsigned properties)
{
    const struct mt_formula_symbols symbols = symbols_of(&plan->config);
    for (size_t i = 0; i < TERMS; i++) {
        uint64_t bytes;
        if ((terms[i].when & ~properties) != 0)
            continue;
        if (!mt_formula_compute(terms[i].formula, &symbols, &bytes))
            return mt_fail(MT_USAGE, "%s are more bytes than a number holds: %s", terms[i].what, terms[i].formula);
        maker->of[maker->account->count] = &terms[i];
        maker->account->terms[maker->account->count++] =
            (struct mt_model_account_term){.what = terms[i].what, .formula = terms[i].formula, .formula_bytes = bytes};
    }
    maker->account->parameters = symbols.of['N'];
    maker->account->element = symbols.of['w'];
    return MT_OK;
}

/* Returns the sum of the terms by formula with another B and T, which are small. */
static uint64_t sum_at(const struct maker *maker, struct mt_formula_symbols symbols, uint64_t batch, uint64_t seq)
{
    uint64_t sum = 0, bytes = 0;
    symbols.of['B'] = batch;
    symbols.of['T'] = seq;
    for (size_t i = 0; i < maker->account->count; i++) {
        bool fits = mt_formula_compute(maker->of[i]->formula, &symbols, &bytes);
        assert(fits);
        (void)fits;
        sum += bytes;
    }
    return sum;
}

/* Finds the sum as a polynomial in B and T from its values at B = 0 and 1, T = 0, 1 and 2: no formula has higher
 * powers. */
static struct mt_model_account_polynomial find_polynomial(const struct maker *maker, const struct mt_run_plan *plan)
{
    const struct mt_formula_symbols symbols = symbols_of(&plan->config);
    struct mt_model_account_polynomial found;
    for (uint64_t batch = 0; batch < 2; batch++) {
        uint64_t at[3];
        for (uint64_t seq = 0; seq < 3; seq++)
            at[seq] = sum_at(maker, symbols, batch, seq) - (batch > 0 ? sum_at(maker, symbols, 0, seq) : 0);
        found.of[batch][2] = (at[2] - 2 * at[1] + at[0]) / 2;
        found.of[batch][1] = at[1] - at[0] - found.of[batch][2];
        found.of[batch][0] = at[0];
    }
    return found;
}

static void add_block(struct maker *maker, const struct mt_block_row *block, const struct mt_label_row *label)
{
    struct mt_model_account *account = maker->account;
    account->live_bytes += block->requested_bytes;
    for (size_t i = 0; i < account->count; i++)
        if (fits(maker->of[i], label)) {
            account->terms[i].trace_bytes += block->requested_bytes;
            account->terms[i].rounding_bytes += block->block_bytes - block->requested_bytes;
            account->terms[i].blocks++;
            return;
        }
    *(strcmp(label->role, "workspace") == 0 ? &account->workspace_bytes : &account->other_bytes) +=
        block->requested_bytes;
}

/* Finds the event at which forward ends: the first end of the model's span in the step. */
static mt_status find_end(struct mt_trace *trace, const struct mt_run *run, int64_t *out_event)
{
    struct mt_mark_row *marks = NULL;
    size_t count = 0;
    int64_t first, last;
    *out_event = 0;
    MT_TRY(mt_trace_step_events(trace, run, run->last_full_step, &first, &last));
    mt_status status = mt_trace_marks(trace, run, first, last, &marks, &count);
    for (size_t i = 0; i < count && *out_event == 0; i++)
        if (marks[i].kind == MT_EVENT_SPAN_END && strcmp(marks[i].span, "model") == 0)
            *out_event = marks[i].event;
    free(marks);
    return status == MT_OK && *out_event == 0 ? mt_fail(MT_USAGE, "no span of the run is called model") : status;
}

static mt_status add_live(struct maker *maker, struct mt_trace *trace, const struct mt_run *run)
{
    struct mt_label_row *labels = NULL;
    struct mt_block_row *blocks = NULL;
    size_t label_count, block_count;
    int64_t event;
    MT_TRY(find_end(trace, run, &event));
    mt_status status = mt_trace_labels(trace, run, &labels, &label_count);
    MT_THEN(status, mt_trace_live(trace, run, event, &blocks, &block_count));
    for (size_t i = 0; status == MT_OK && i < block_count; i++)
        add_block(maker, &blocks[i], &labels[blocks[i].label]);
    free(labels);
    free(blocks);
    return status;
}

/* Sets the differences and the sum. */
static void add_up(struct mt_model_account *account)
{
    struct mt_model_account_term *sum = &account->sum;
    *sum = (struct mt_model_account_term){.what = "sum", .formula = ""};
    for (size_t i = 0; i < account->count; i++) {
        struct mt_model_account_term *term = &account->terms[i];
        term->difference_bytes = (int64_t)(term->trace_bytes - term->formula_bytes);
        sum->formula_bytes += term->formula_bytes;
        sum->trace_bytes += term->trace_bytes;
        sum->rounding_bytes += term->rounding_bytes;
        sum->blocks += term->blocks;
        sum->difference_bytes += term->difference_bytes;
    }
    assert(sum->trace_bytes + account->workspace_bytes + account->other_bytes == account->live_bytes);
}

mt_status mt_model_account_make(struct mt_trace *trace, const struct mt_run *run, const struct mt_run_plan *plan,
                                struct mt_model_account *out)
{
    struct maker maker = {.account = out};
    assert(mt_model_account_is_known(plan));
    *out = (struct mt_model_account){.step = run->last_full_step};
    if (run->last_full_step < 0)
        return mt_fail(MT_USAGE, "no step of the run has ended, so there is no moment to account for");
    MT_TRY(add_terms(&maker, plan, properties_of(&plan->config, run->last_full_step)));
    MT_TRY(add_live(&maker, trace, run));
    add_up(out);
    out->by_length = find_polynomial(&maker, plan);
    return MT_OK;
}
