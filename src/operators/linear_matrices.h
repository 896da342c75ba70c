/* Matrices of torch.linalg, as its rules see them. Private to this folder. */
#pragma once

#include "operators/operator_plan.h"
#include "operators/solver_memory.h"

enum { MT_POINTER_BYTES = 8, MT_STATUS_BYTES = 4 };

/* A batch of m x n matrices. */
struct mt_matrices {
    int64_t batch, m, n, item_bytes;
};

/* False also for sizes that no card has room for. */
static inline bool mt_matrices_read(const struct mt_operand *tensor, struct mt_matrices *out)
{
    if (tensor == NULL || tensor->dims < 2 || tensor->elements == 0)
        return false;
    const int64_t n = tensor->sizes[tensor->dims - 1], m = tensor->sizes[tensor->dims - 2];
    *out = (struct mt_matrices){tensor->elements / (m * n), m, n, tensor->item_bytes};
    return m <= MT_SOLVER_MOST && n <= MT_SOLVER_MOST;
}

/* Adds what tells on the host whether all matrices converged: the status of one matrix is cast. */
static inline void mt_matrices_check_status(struct mt_operator_plan *plan, int64_t batch)
{
    const int any = mt_inner_take(plan, 1);
    if (batch == 1)
        mt_inner_use(plan, 1);
    mt_inner_give(plan, any);
}
