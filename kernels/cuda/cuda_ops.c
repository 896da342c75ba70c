#include "kernels/cuda/cuda_ops.h"

#define X(op, parameters, views) .op = mtk_cuda_##op,
const struct mtk_table mtk_cuda = {.name = "cuda", MTK_OPS(X)};
#undef X
