#include "cli/run/fit_changes.h"

int64_t mt_fit_size(const struct mt_run_plan *plan, mt_fit_change change)
{
    return change == MT_CHANGE_BATCH ? plan->config.batch : plan->config.seq;
}

struct mt_run_plan mt_fit_with_size(struct mt_run_plan plan, mt_fit_change change, int64_t size)
{
    *(change == MT_CHANGE_BATCH ? &plan.config.batch : &plan.config.seq) = size;
    return plan;
}

/* The attention that keeps least of those that the heads allow. */
static mt_attention_kind least_attention(const struct mt_training_config *config)
{
    struct mt_training_config flash = *config;
    flash.attention = MT_ATTENTION_FLASH;
    return mt_training_config_check(&flash) == MT_OK ? MT_ATTENTION_FLASH : MT_ATTENTION_WEIGHTS;
}

bool mt_fit_change_is_one(const struct mt_run_plan *plan, mt_fit_change change)
{
    const struct mt_training_config *config = &plan->config;
    switch (change) {
    case MT_CHANGE_ZERO_GRAD:
        return config->mode == MT_MODE_FWD_BWD && config->zero_grad != MT_ZERO_GRAD_BEFORE_FORWARD &&
               config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_ON;
    case MT_CHANGE_ALLOC:
        return plan->alloc.policy != MT_POLICY_TIGHT;
    case MT_CHANGE_AUTOCAST:
        return config->parameter_dtype == MT_F32 &&
               !(config->implementation == MT_IMPLEMENTATION_FUSED && config->autocast);
    case MT_CHANGE_ATTENTION:
        return config->attention < least_attention(config);
    case MT_CHANGE_IMPL:
        return config->implementation != MT_IMPLEMENTATION_FUSED;
    case MT_CHANGE_WEIGHT_CAST:
        return config->implementation == MT_IMPLEMENTATION_FUSED && config->autocast &&
               config->weight_cast != MT_WEIGHT_CAST_LAYER;
    case MT_CHANGE_OPTIMIZER:
        return config->mode == MT_MODE_FWD_BWD && config->optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_ON;
    case MT_CHANGE_CHECKPOINT:
        return config->mode != MT_MODE_INFER && config->checkpoint != MT_CHECKPOINT_BLOCK;
    case MT_CHANGE_BATCH:
        return config->batch > 1;
    case MT_CHANGE_SEQ:
        return config->seq > 1;
    case MT_CHANGE_COUNT:
        break;
    }
    return false;
}

/* The other one, with casts that the implementation knows. */
static void apply_autocast(struct mt_training_config *config)
{
    config->autocast = !config->autocast;
    if (config->implementation != MT_IMPLEMENTATION_FUSED)
        config->weight_cast = MT_WEIGHT_CAST_REGION;
}

/* What `run` takes with --impl fused and nothing else said, but for the casts of autocast, where it takes the fastest. */
static void apply_fused(struct mt_training_config *config)
{
    config->implementation = MT_IMPLEMENTATION_FUSED;
    config->attention = least_attention(config);
    config->weight_cast = config->autocast ? MT_WEIGHT_CAST_LAYER : MT_WEIGHT_CAST_PERSISTENT;
}

static void apply(struct mt_run_plan *plan, mt_fit_change change)
{
    switch (change) {
    case MT_CHANGE_ZERO_GRAD:
        plan->config.zero_grad = MT_ZERO_GRAD_BEFORE_FORWARD;
        return;
    case MT_CHANGE_ALLOC:
        plan->alloc = (struct mt_alloc_settings){.policy = MT_POLICY_TIGHT, .max_split_bytes = UINT64_MAX};
        return;
    case MT_CHANGE_AUTOCAST:
        apply_autocast(&plan->config);
        return;
    case MT_CHANGE_ATTENTION:
        plan->config.attention = least_attention(&plan->config);
        return;
    case MT_CHANGE_IMPL:
        apply_fused(&plan->config);
        return;
    case MT_CHANGE_WEIGHT_CAST:
        plan->config.weight_cast = MT_WEIGHT_CAST_LAYER;
        return;
    case MT_CHANGE_OPTIMIZER:
        plan->config.optimizer_in_backward = MT_OPTIMIZER_IN_BACKWARD_ON;
        return;
    case MT_CHANGE_CHECKPOINT:
        plan->config.checkpoint = MT_CHECKPOINT_BLOCK;
        return;
    case MT_CHANGE_BATCH:
    case MT_CHANGE_SEQ:
        *plan = mt_fit_with_size(*plan, change, 1);
        return;
    case MT_CHANGE_COUNT:
        return;
    }
}

struct mt_fit_changes mt_fit_changes_for(const struct mt_run_plan *plan, mt_fit_change change)
{
    struct mt_fit_changes changes = {0};
    changes.has[change] = true;
    if (change == MT_CHANGE_OPTIMIZER || change == MT_CHANGE_CHECKPOINT)
        changes.has[MT_CHANGE_IMPL] = plan->config.implementation != MT_IMPLEMENTATION_FUSED;
    return changes;
}

bool mt_fit_change_is_cut(mt_fit_change change)
{
    return change == MT_CHANGE_BATCH || change == MT_CHANGE_SEQ;
}

mt_fit_change mt_fit_changes_dearest(struct mt_fit_changes changes)
{
    mt_fit_change dearest = MT_CHANGE_COUNT;
    for (mt_fit_change change = 0; change < MT_CHANGE_COUNT; change++)
        if (changes.has[change])
            dearest = change;
    return dearest;
}

struct mt_fit_changes mt_fit_changes_join(struct mt_fit_changes a, struct mt_fit_changes b)
{
    struct mt_fit_changes both;
    for (int change = 0; change < MT_CHANGE_COUNT; change++)
        both.has[change] = a.has[change] || b.has[change];
    return both;
}

/* Fused comes with an attention of its own, and where gradients update parameters in backward, none are left to let go
 * of. */
struct mt_fit_changes mt_fit_changes_without_overlap(struct mt_fit_changes changes)
{
    if (changes.has[MT_CHANGE_IMPL])
        changes.has[MT_CHANGE_ATTENTION] = false;
    if (changes.has[MT_CHANGE_OPTIMIZER])
        changes.has[MT_CHANGE_ZERO_GRAD] = false;
    return changes;
}

struct mt_run_plan mt_fit_changes_apply(struct mt_run_plan plan, struct mt_fit_changes changes)
{
    for (mt_fit_change change = 0; change < MT_CHANGE_COUNT; change++)
        if (changes.has[change])
            apply(&plan, change);
    return plan;
}
