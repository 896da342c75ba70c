/* Autocast: which ops run in bf16, which in fp32, and the copies of weights that it keeps.
 *
 * Inside of a region matrix products take their operands in bf16; exp, sum and logsumexp take theirs in fp32; everything
 * else runs in what it is given. The bf16 copy of a parameter is made once and kept until the region ends, and with
 * gradients enabled for longer: until the backward of the product that saved it. This is why autocast can need more
 * memory than fp32. The rules are PyTorch's (torch.autocast, "CUDA ops that autocast to …"), of
 * whose list of fp32 the model uses more than these (pow, rsqrt, log), but only on what is fp32 already. */
#ifndef MT_MODEL_AUTOCAST_H
#define MT_MODEL_AUTOCAST_H

#include "model/runtime.h"

/* Regions do not nest. Ending one lets go of the cached copies. */
void mt_autocast_begin(struct mt_runtime *rt);
void mt_autocast_end(struct mt_runtime *rt);

/* An operand as a matrix product takes it: a new reference to x, or to its copy in bf16, made with `role`. */
struct mt_tensor *mt_autocast_operand(struct mt_runtime *rt, mt_role role, struct mt_tensor *x);

/* A parameter as a matrix product takes it: a new reference to its value, or to its copy in bf16, which the parameter keeps
 * until the region ends; so it must last as long. */
struct mt_parameter;
struct mt_tensor *mt_autocast_weight(struct mt_runtime *rt, struct mt_parameter *parameter);

/* An operand as an op that needs fp32 takes it: a new reference to x, or to its copy in fp32, made with `role`. */
struct mt_tensor *mt_autocast_fp32(struct mt_runtime *rt, mt_role role, struct mt_tensor *x);

#endif
