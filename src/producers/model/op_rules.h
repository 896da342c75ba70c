/* Code that all ops share. An op checks its tensors, records how it uses them (use.h), accounts for its cost, and
 * then, if the device computes, calls its kernel and keeps its error. */
#pragma once

#include "kernels/fp8.h"
#include "producers/model/use.h"

/* True if an op may run: nothing has failed, and every tensor exists and is alive. Fails with MT_FAILED if one is
 * not. */
bool mt_op_ready(struct mt_runtime *rt, const char *op, const struct mt_tensor *const *tensors, int count);

/* Returns `fits`. If that is false, fails with MT_FAILED and the shapes of both tensors. */
bool mt_op_expect(struct mt_runtime *rt, bool fits, const char *op, const struct mt_tensor *out,
                  const struct mt_tensor *in);

/* True if `in` shares no memory with `out`, or is exactly the same view. */
bool mt_op_alias_allowed(const struct mt_tensor *out, const struct mt_tensor *in);

/* True if several elements of a tensor are one in memory, so that it can't be written. */
bool mt_op_repeats(const struct mt_tensor *tensor);

/* Computes the view of `tensor` broadcast to `dims` dimensions of `shape`, padded to the kernels' four. False if it
 * can't be broadcast to that shape. */
bool mt_op_broadcast(const struct mt_tensor *tensor, int dims, const int64_t *shape, struct mtk_view *out);

/* True if a tensor is the scale of another in fp8 (kernels/fp8.h). */
static inline bool mt_op_fp8_scale_fits(const struct mt_tensor *scale)
{
    return scale->dtype == MT_F32 && scale->dims == 1 && scale->shape[0] == MTK_FP8_NUMBERS && scale->stride[0] == 1;
}

/* Returns the view of a tensor, padded to the kernels' four dimensions; a view without an address for NULL. */
struct mtk_view mt_op_view(const struct mt_tensor *tensor);

/* Returns the view of a tensor with an added last dimension of 1, as for an index of rows. */
struct mtk_view mt_op_column_view(const struct mt_tensor *tensor);

/* Return addresses of such views, valid in the enclosing block. The third returns NULL for a NULL tensor. */
#define MT_OP_VIEW(tensor) ((const struct mtk_view[]){mt_op_view(tensor)})
#define MT_OP_COLUMN_VIEW(tensor) ((const struct mtk_view[]){mt_op_column_view(tensor)})
#define MT_OP_OPTIONAL_VIEW(tensor) ((tensor) != NULL ? MT_OP_VIEW(tensor) : NULL)

/* Returns the work of `operations` of `op`, a static name, on the tensors that are not NULL. Each is read or
 * written once. The last one, which must not be NULL, decides the dtype. */
struct mt_work mt_op_work(const struct mt_runtime *rt, const char *op, double operations,
                          const struct mt_tensor *const *tensors, int count, bool matrix_product);

/* Accounts for the work of an op. Watched kernels belong to the op and to the current scope from here on. */
void mt_op_spend_work(struct mt_runtime *rt, const struct mt_work *work);

/* Calls mt_op_work and mt_op_spend_work. */
void mt_op_spend(struct mt_runtime *rt, const char *op, double operations, const struct mt_tensor *const *tensors,
                 int count, bool matrix_product);

/* Keeps a launch's error. */
void mt_op_launched(struct mt_runtime *rt, const char *op, mt_status status);

/* If the device computes, calls its kernel `kernel` with the arguments that follow, on the runtime's stream, and keeps
 * its error. */
#define MT_OP_LAUNCH(rt, op, kernel, ...)                                                                              \
    do {                                                                                                               \
        if (mt_device_executes((rt)->device))                                                                          \
            mt_op_launched((rt), (op),                                                                                 \
                           (rt)->device->kernels->kernel(__VA_ARGS__, mt_device_queue((rt)->device, (rt)->stream)));   \
    } while (0)
