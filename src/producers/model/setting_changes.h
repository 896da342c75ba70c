/* Changes of the table of settings that need a function: when they apply, and which settings they change.
 *
 * "Is" functions are true if the change applies to the plan; the others make it. */
#pragma once

#include "producers/model/settings.h"

/* The allocator. */
bool mt_change_is_to_tight(const struct mt_run_plan *plan);
void mt_change_to_tight(struct mt_run_plan *plan);

/* True if autocast, and with it the copies of weights, ends only after backward. */
bool mt_change_is_of_held_casts(const struct mt_run_plan *plan);

/* To the attention with the least saved memory that the heads allow. */
bool mt_change_is_to_least_attention(const struct mt_run_plan *plan);
void mt_change_to_least_attention(struct mt_run_plan *plan);

/* True if the fused model casts weights for longer than a layer. */
bool mt_change_is_to_casts_by_layer(const struct mt_run_plan *plan);

/* To the fused model. Attention and casts get their defaults, except that autocast gets the casts with the least
 * memory. There is no graph that an output could hold. */
bool mt_change_is_to_fused(const struct mt_run_plan *plan);
void mt_change_to_fused(struct mt_run_plan *plan);

/* Switches autocast on or off, since it may cost more than it saves; not for the fused model, where casts by layer need
 * less. Uses casts of weights that the implementation supports. */
bool mt_change_is_of_precision(const struct mt_run_plan *plan);
void mt_change_of_precision(struct mt_run_plan *plan);

/* True if gradients stay allocated during the next forward pass. */
bool mt_change_is_of_kept_gradients(const struct mt_run_plan *plan);

/* True if all gradients wait for the optimizer, and the implementation supports updates in backward. */
bool mt_change_is_of_late_updates(const struct mt_run_plan *plan);

/* True if AdamW keeps moments with more than 8 bits, and parameters are fp32. */
bool mt_change_is_to_small_moments(const struct mt_run_plan *plan);

/* The number of logit slices that `fit` tries: an eighth of the logits remains, and products have enough rows. */
enum { MT_FEW_LOSS_SLICES = 8 };

/* True if the logits of a full step are in fewer slices than that. */
bool mt_change_is_to_more_slices(const struct mt_run_plan *plan);

/* True if layers keep blocks for backward that could be recomputed. */
bool mt_change_is_to_checkpoints(const struct mt_run_plan *plan);
