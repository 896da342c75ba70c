/* The loss scaler of training under fp16 autocast. Small gradients would round to 0 in fp16, so the loss is multiplied
 * by a scale, and the gradients are divided by it before the update. Allocations match torch.amp.GradScaler
 * (torch/amp/grad_scaler.py): the scale, and the count of steps since its last change, live as long as the scaler.
 * Infinite gradients are not detected, since fp16 is not computed: no update is skipped. Micikevicius et al., "Mixed
 * precision training", 2018. */
#pragma once

#include "producers/model/parameter.h"

/* Invariant: scale and growth_tracker are both there or both NULL. All 0: a scaler that was not used yet. */
struct mt_loss_scaler {
    struct mt_tensor *scale;          /* fp32, one number */
    struct mt_tensor *growth_tracker; /* int32, one number */
    struct mt_tensor *found_inf;      /* fp32, one number: from unscale to update */
};

/* Returns the loss times the scale, with its gradient. Allocates the scale at its first call. */
struct mt_tensor *mt_loss_scaler_scale(struct mt_runtime *rt, struct mt_loss_scaler *scaler, struct mt_tensor *loss);

/* Divides the existing gradients by the scale. */
void mt_loss_scaler_unscale(struct mt_runtime *rt, struct mt_loss_scaler *scaler, struct mt_parameter *parameters,
                            int64_t count);

/* Ends a step and adjusts the scale. */
void mt_loss_scaler_update(struct mt_runtime *rt, struct mt_loss_scaler *scaler);

void mt_loss_scaler_release(struct mt_runtime *rt, struct mt_loss_scaler *scaler);
