/* The changes of the table of settings that a value alone does not make: when there is one, and what it sets.
 *
 * "Is" functions are true if the change is one of the plan; the others make it. */
#pragma once

#include "producers/model/settings.h"

/* The allocator. */
bool mt_change_is_to_tight(const struct mt_run_plan *plan);
void mt_change_to_tight(struct mt_run_plan *plan);

/* True if autocast, and with it the copies of weights, ends only after backward. */
bool mt_change_is_of_held_casts(const struct mt_run_plan *plan);

/* Attention that keeps least of those that the heads allow. */
bool mt_change_is_to_least_attention(const struct mt_run_plan *plan);
void mt_change_to_least_attention(struct mt_run_plan *plan);

/* True if the fused model casts, and longer than for a layer. */
bool mt_change_is_to_casts_by_layer(const struct mt_run_plan *plan);

/* The fused model. Attention and casts become what they are by themselves, but under autocast the casts that take least. There
 * is no graph that an output could hold. */
bool mt_change_is_to_fused(const struct mt_run_plan *plan);
void mt_change_to_fused(struct mt_run_plan *plan);

/* Autocast on or off, since it may cost more than it saves; not of fused, where casts of a layer take less. Takes casts of
 * weights that the implementation knows. */
bool mt_change_is_of_precision(const struct mt_run_plan *plan);
void mt_change_of_precision(struct mt_run_plan *plan);

/* True if gradients live through the next forward pass. */
bool mt_change_is_of_kept_gradients(const struct mt_run_plan *plan);

/* True if all gradients wait for the optimizer, and an update in backward is known. */
bool mt_change_is_of_late_updates(const struct mt_run_plan *plan);

/* True if AdamW keeps moments of more than 8 bits, and parameters are of fp32. */
bool mt_change_is_to_small_moments(const struct mt_run_plan *plan);

/* The slices of logits that `fit` tries: an eighth is left of them, and products have rows enough. */
enum { MT_FEW_LOSS_SLICES = 8 };

/* True if the logits of a full step are in fewer slices. */
bool mt_change_is_to_more_slices(const struct mt_run_plan *plan);

/* True if layers keep blocks for backward that could be computed again. */
bool mt_change_is_to_checkpoints(const struct mt_run_plan *plan);
