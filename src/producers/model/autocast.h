/* Casts and autocast: the ops that run in bf16 or fp16, the ops in fp32, and the cached copies of weights.
 *
 * Inside a region, matrix products take their operands in its dtype; exp, sum and logsumexp take theirs in fp32;
 * every other op runs in the dtype of its operands. The copy of a parameter is made once and kept until the
 * region ends. With gradients enabled it is kept longer, until the backward of the product that saved it. This is
 * why autocast can need more memory than fp32. The rules are PyTorch's (torch.autocast, "CUDA ops that autocast to
 * …"). The model uses more ops of its fp32 list (pow, rsqrt, log), but only on tensors that are fp32 already. */
#pragma once

#include "producers/model/parameter.h"

/* Begin and end a region of bf16 or fp16; regions do not nest. The end releases the cached copies. Without a region it
 * does nothing. */
void mt_autocast_begin(struct mt_runtime *rt, mt_dtype dtype);
void mt_autocast_end(struct mt_runtime *rt);

/* Returns an operand of a matrix product: a new reference to x, or to its copy in the region's dtype, made with
 * `role`. */
struct mt_tensor *mt_autocast_operand(struct mt_runtime *rt, mt_role role, struct mt_tensor *x);

/* Returns a parameter as an operand of a matrix product: a new reference to its value, or to its copy. The
 * parameter keeps the copy until the region ends, so it must live as long. */
struct mt_tensor *mt_autocast_weight(struct mt_runtime *rt, struct mt_parameter *parameter);

/* Returns an operand of an op that needs fp32: a new reference to x, or to its copy in fp32, made with `role`. */
struct mt_tensor *mt_autocast_fp32(struct mt_runtime *rt, mt_role role, struct mt_tensor *x);
