/* What the files of ops share: the checks before an op, its cost, and its launch. An op checks, notes what it uses
 * (use.h), spends, and then, where mt_op_launches says so, calls the device's kernel and keeps its error. */
#ifndef MT_MODEL_OP_RULES_H
#define MT_MODEL_OP_RULES_H

#include "model/ops.h"

/* Whether an op may run at all: nothing has failed and every tensor is there and alive. */
bool mt_op_ready(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *tensors, int count);

/* An operand may share memory with the output only if it is the very same view of it. */
bool mt_op_alias_allowed(const struct mt_tensor *out, const struct mt_tensor *in);

/* Fails with the shapes of both. */
void mt_op_fail_shapes(struct mt_runtime *rt, const char *op, const struct mt_tensor *out, const struct mt_tensor *in);

/* The view of a tensor, padded to the kernels' four dimensions; with a last dimension of 1 added, as an index has it
 * beside what it selects. */
struct mtk_view mt_op_view(const struct mt_tensor *tensor);
struct mtk_view mt_op_column_view(const struct mt_tensor *tensor);

/* Accounts for `operations` on the tensors, each of which is read or written once; the last one's dtype counts. */
void mt_op_spend(struct mt_runtime *rt, double operations, const struct mt_tensor *const *tensors, int count,
                 bool matrix_product);

/* Whether `op` is to be launched; then kernels that are watched belong to it and to the current scope. */
bool mt_op_launches(struct mt_runtime *rt, const char *op);

/* Keeps a launch's error. */
void mt_op_launched(struct mt_runtime *rt, const char *op, mt_status status);

#endif
