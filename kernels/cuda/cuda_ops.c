#include "kernels/cuda/cuda_ops.h"

const struct mtk_table mtk_cuda = {.name = "cuda",
#define X(op, parameters, views) .op = mtk_cuda_##op,
                                   MTK_OPS(X)
#undef X
};
