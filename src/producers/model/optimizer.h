/* AdamW, and its eager form: parameter by parameter, with a temporary for the denominator. Loshchilov, Hutter, 2019. */
#pragma once

#include "producers/model/transformer.h"

/* Makes step number `step` (from 1): p -= lr·decay·p, then p -= lr·sqrt(1-b2^t)/(1-b1^t) · m/(sqrt(v)+eps). Allocates
 * the moments at a parameter's first step. Skips parameters without gradient. */
void mt_optimizer_step(struct mt_runtime *rt, struct mt_transformer *model, int64_t step);

/* Returns the numbers of step `step` (from 1), for parameters of fp32. */
struct mtk_adamw mt_adamw_of_step(int64_t step);

/* Releases every gradient. */
void mt_optimizer_zero_grad(struct mt_runtime *rt, struct mt_transformer *model);
