#include "producers/model/setting_changes.h"

static bool is_fused(const struct mt_run_plan *plan)
{
    return plan->config.implementation == MT_IMPLEMENTATION_FUSED;
}

/* True if the fused implementation supports the run. It has no loss scaler. */
static bool has_fused_twin(const struct mt_run_plan *plan)
{
    return plan->config.autocast != MT_AUTOCAST_FP16;
}

static bool is_full_step(const struct mt_run_plan *plan)
{
    return plan->config.mode == MT_MODE_FWD_BWD;
}

bool mt_change_is_to_tight(const struct mt_run_plan *plan)
{
    return plan->alloc.policy != MT_POLICY_TIGHT;
}

void mt_change_to_tight(struct mt_run_plan *plan)
{
    plan->alloc = mt_alloc_settings_of(MT_POLICY_TIGHT);
}

bool mt_change_is_of_held_casts(const struct mt_run_plan *plan)
{
    return plan->config.autocast && plan->config.autocast_end == MT_REGION_END_AFTER_BACKWARD;
}

/* Returns the attention with the least saved memory that the heads allow. */
static mt_attention_kind least_attention(const struct mt_training_config *config)
{
    struct mt_training_config flash = *config;
    flash.attention = MT_ATTENTION_FLASH;
    return mt_training_config_check(&flash) == MT_OK ? MT_ATTENTION_FLASH : MT_ATTENTION_WEIGHTS;
}

bool mt_change_is_to_least_attention(const struct mt_run_plan *plan)
{
    return plan->config.attention < least_attention(&plan->config);
}

void mt_change_to_least_attention(struct mt_run_plan *plan)
{
    plan->config.attention = least_attention(&plan->config);
}

bool mt_change_is_to_casts_by_layer(const struct mt_run_plan *plan)
{
    return is_fused(plan) && plan->config.autocast && plan->config.weight_cast != MT_WEIGHT_CAST_LAYER;
}

bool mt_change_is_to_fused(const struct mt_run_plan *plan)
{
    return !is_fused(plan) && has_fused_twin(plan);
}

void mt_change_to_fused(struct mt_run_plan *plan)
{
    struct mt_training_config *config = &plan->config;
    config->implementation = MT_IMPLEMENTATION_FUSED;
    config->autocast_end = MT_REGION_END_BEFORE_BACKWARD;
    config->keep_output = false;
    config->attention = least_attention(config);
    config->weight_cast = config->autocast ? MT_WEIGHT_CAST_LAYER : MT_WEIGHT_CAST_PERSISTENT;
}

bool mt_change_is_of_precision(const struct mt_run_plan *plan)
{
    return plan->config.parameter_dtype == MT_F32 && !(is_fused(plan) && plan->config.autocast);
}

void mt_change_of_precision(struct mt_run_plan *plan)
{
    plan->config.autocast = plan->config.autocast == MT_AUTOCAST_OFF ? MT_AUTOCAST_BF16 : MT_AUTOCAST_OFF;
    if (!is_fused(plan))
        plan->config.weight_cast = MT_WEIGHT_CAST_REGION;
}

bool mt_change_is_of_kept_gradients(const struct mt_run_plan *plan)
{
    return is_full_step(plan) && plan->config.zero_grad != MT_ZERO_GRAD_BEFORE_FORWARD &&
           plan->config.optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_ON;
}

bool mt_change_is_of_late_updates(const struct mt_run_plan *plan)
{
    return is_full_step(plan) && has_fused_twin(plan) && plan->config.optimizer != MT_OPTIMIZER_NONE &&
           plan->config.optimizer_in_backward != MT_OPTIMIZER_IN_BACKWARD_ON;
}

bool mt_change_is_to_small_moments(const struct mt_run_plan *plan)
{
    return is_full_step(plan) && has_fused_twin(plan) && plan->config.optimizer != MT_OPTIMIZER_NONE &&
           plan->config.parameter_dtype == MT_F32 && plan->config.moments != MTK_MOMENTS_8BIT;
}

bool mt_change_is_to_more_slices(const struct mt_run_plan *plan)
{
    return is_full_step(plan) && has_fused_twin(plan) && plan->config.loss_slices < MT_FEW_LOSS_SLICES;
}

bool mt_change_is_to_checkpoints(const struct mt_run_plan *plan)
{
    return plan->config.mode != MT_MODE_INFER && has_fused_twin(plan) && plan->config.checkpoint != MT_CHECKPOINT_BLOCK;
}
