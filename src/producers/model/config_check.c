/* Checks of a configuration: ranges, sizes that depend on each other, and settings that exclude each other. */
#include "base/checked.h"
#include "kernels/fp8.h"
#include "producers/model/settings.h"

#include <inttypes.h>

/* Fails if a number is not in the range of its setting. */
static mt_status check_ranges(const struct mt_training_config *config)
{
    const struct mt_run_plan plan = {.config = *config};
    for (mt_setting setting = 0; setting < MT_SETTING_COUNT; setting++) {
        const struct mt_setting_entry *entry = &mt_setting_table[setting];
        if (entry->high == 0)
            continue;
        int64_t value = *(const int64_t *)((const char *)&plan + entry->offset);
        if (value < entry->low || value > entry->high)
            return mt_fail(MT_USAGE, "%s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64, entry->name, value,
                           entry->low, entry->high);
    }
    return MT_OK;
}

/* The largest tensors are the scores (B,H,T,T), the logits (B,T,V) and the gate (B,T,F), times 8 bytes. */
static mt_status check_products(const struct mt_training_config *config)
{
    const struct mt_model_config *m = &config->model;
    const int64_t widest[] = {m->heads * config->seq, m->vocab, m->d_ff, m->d_model};
    for (size_t i = 0; i < sizeof widest / sizeof widest[0]; i++) {
        uint64_t bytes = 8;
        if (!mt_checked_mul(bytes, (uint64_t)config->batch, &bytes) ||
            !mt_checked_mul(bytes, (uint64_t)config->seq, &bytes) ||
            !mt_checked_mul(bytes, (uint64_t)widest[i], &bytes) || bytes > INT64_MAX)
            return mt_fail(MT_USAGE, "batch %" PRId64 " with seq %" PRId64 ": a tensor would not fit into 63 bits",
                           config->batch, config->seq);
    }
    return MT_OK;
}

/* Kernels hold a head's row in registers, cut into pieces of 8. */
enum { LEAST_FEATURES = 16, FEATURE_PIECE = 8 };

bool mt_attention_takes_flash(const struct mt_model_config *m)
{
    int64_t features = m->heads > 0 ? m->d_model / m->heads : 0;
    return features >= LEAST_FEATURES && features <= MTK_MOST_HEAD_FEATURES && features % FEATURE_PIECE == 0;
}

static mt_status check_flash(const struct mt_model_config *m)
{
    if (mt_attention_takes_flash(m))
        return MT_OK;
    return mt_fail(MT_USAGE,
                   "flash attention supports heads of %d to %d features, in multiples of 8; d_model / heads = %" PRId64
                   " / %" PRId64 " = %" PRId64,
                   LEAST_FEATURES, MTK_MOST_HEAD_FEATURES, m->d_model, m->heads, m->d_model / m->heads);
}

/* Checks that fp8 products are possible. */
static mt_status check_fp8(const struct mt_training_config *config)
{
    const struct mt_model_config *m = &config->model;
    if (config->implementation != MT_IMPLEMENTATION_FUSED || config->autocast != MT_AUTOCAST_BF16)
        return mt_fail(MT_USAGE, "matmul fp8 casts the fused model's bf16 operands: it needs impl fused and "
                                 "autocast bf16");
    if (m->d_model % MTK_FP8_UNIT == 0 && m->d_ff % MTK_FP8_UNIT == 0)
        return MT_OK;
    return mt_fail(MT_USAGE, "products in fp8 take sizes in sixteens; d_model is %" PRId64 " and d_ff %" PRId64,
                   m->d_model, m->d_ff);
}

static mt_status check_implementation(const struct mt_training_config *config)
{
    bool is_fused = config->implementation == MT_IMPLEMENTATION_FUSED;
    if (!is_fused && config->autocast && config->weight_cast != MT_WEIGHT_CAST_REGION)
        return mt_fail(MT_USAGE, "the eager model casts weights once a region, as autocast does; "
                                 "impl fused knows weight-cast layer and persistent, too");
    if (is_fused && config->attention != MT_ATTENTION_WEIGHTS && config->attention != MT_ATTENTION_FLASH)
        return mt_fail(MT_USAGE, "the fused model keeps the weights of attention or nothing of its size: "
                                 "attention weights or flash");
    if (!is_fused && config->checkpoint != MT_CHECKPOINT_OFF)
        return mt_fail(MT_USAGE, "the eager model keeps what its operations keep; impl fused knows checkpoint block");
    if (!is_fused && config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_OFF)
        return mt_fail(MT_USAGE, "the eager model updates parameters after backward; "
                                 "impl fused supports optimizer-in-backward on and beside");
    if (!is_fused && config->moments != MTK_MOMENTS_FULL)
        return mt_fail(MT_USAGE, "the eager model's AdamW keeps moments in the parameters' dtype; "
                                 "impl fused knows moments bf16 and 8bit");
    if (!is_fused && config->loss_slices > 1)
        return mt_fail(MT_USAGE,
                       "the eager model makes the logits of all tokens at once; impl fused knows loss-slices");
    if (config->parameter_dtype != MT_F32 && config->moments != MTK_MOMENTS_FULL)
        return mt_fail(MT_USAGE, "moments in bf16 or 8 bits need fp32 parameters, not %s",
                       mt_dtype_name(config->parameter_dtype));
    if (config->optimizer == MT_OPTIMIZER_NONE && config->moments != MTK_MOMENTS_FULL)
        return mt_fail(MT_USAGE, "optimizer none has no moments: it needs moments fp32");
    if (is_fused && config->autocast == MT_AUTOCAST_FP16)
        return mt_fail(MT_USAGE, "the fused model has no loss scaler: autocast bf16");
    if (is_fused && config->keep_output)
        return mt_fail(MT_USAGE, "the fused model has no graph that an output could hold: keep-output off");
    if (is_fused && config->autocast_end != MT_REGION_END_BEFORE_BACKWARD)
        return mt_fail(MT_USAGE, "the fused model casts as weight-cast says, in backward, too: "
                                 "autocast-end before-backward");
    if (config->optimizer == MT_OPTIMIZER_NONE && config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_OFF)
        return mt_fail(MT_USAGE, "optimizer none updates nothing: it needs optimizer-in-backward off");
    if (config->cuda_graph && config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_OFF)
        return mt_fail(MT_USAGE, "an update's step size changes with each step, and a graph repeats it: "
                                 "cuda-graph on needs optimizer-in-backward off");
    return MT_OK;
}

mt_status mt_training_config_check(const struct mt_training_config *config)
{
    const struct mt_model_config *m = &config->model;
    MT_TRY(check_ranges(config));
    MT_TRY(check_products(config));
    if (m->d_model % m->heads != 0)
        return mt_fail(MT_USAGE, "%" PRId64 " heads do not divide d_model %" PRId64, m->heads, m->d_model);
    if (m->rope && m->d_model / m->heads % 2 != 0)
        return mt_fail(MT_USAGE, "RoPE rotates pairs; d_model / heads = %" PRId64 " is odd", m->d_model / m->heads);
    if (config->attention == MT_ATTENTION_FLASH)
        MT_TRY(check_flash(m));
    MT_TRY(check_implementation(config));
    if (config->math == MTK_MATH_FP8)
        MT_TRY(check_fp8(config));
    if (config->data == MT_DATA_FILE && m->vocab < 256)
        return mt_fail(MT_USAGE, "the bytes of a file need a vocabulary of 256; this model has %" PRId64, m->vocab);
    if (config->parameter_dtype != MT_F32 && config->parameter_dtype != MT_F64)
        return mt_fail(MT_USAGE, "parameters are fp32 or fp64, not %s", mt_dtype_name(config->parameter_dtype));
    if (config->autocast && config->parameter_dtype != MT_F32)
        return mt_fail(MT_USAGE, "autocast starts from fp32 parameters, not %s",
                       mt_dtype_name(config->parameter_dtype));
    return MT_OK;
}
