#include "producers/torch/torch_matmul.h"

#include "device/card.h"
#include "operators/operator_plan.h"

#include <stdlib.h>
#include <string.h>

/* The thread's products so far. */
static _Thread_local struct products {
    uint64_t call;        /* the last one of an operator, which has its result */
    uint32_t node_blocks; /* of nodes of autograd */
} products;

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool is_product(const char *name)
{
    static const char *const names[] = {"aten::mm",
                                        "aten::addmm",
                                        "aten::bmm",
                                        "aten::baddbmm",
                                        "aten::addmv",
                                        "aten::addmv_",
                                        "aten::dot",
                                        "aten::vdot",
                                        "aten::addmm_",
                                        "aten::baddbmm_",
                                        "aten::_addmm_activation",
                                        "aten::_scaled_mm",
                                        "aten::_int_mm"};
    return is_among(name, names, sizeof names / sizeof names[0]);
}

static bool is_node_of_product(const char *name)
{
    static const char *const names[] = {"MmBackward0", "AddmmBackward0", "BmmBackward0", "BaddbmmBackward0",
                                        "MvBackward0", "AddmvBackward0", "DotBackward0"};
    return is_among(name, names, sizeof names / sizeof names[0]);
}

/* True for the bytes of cuBLAS's workspace: configured, or PyTorch's default for one of the cards. */
static bool is_size_of_cublas(uint64_t bytes)
{
    static const int capabilities[] = {80, 90};
    for (size_t i = 0; i < sizeof capabilities / sizeof capabilities[0]; i++) {
        struct mt_card card = {.capability = capabilities[i]};
        mt_card_complete(&card);
        if (bytes == mt_matmul_workspace(secure_getenv("CUBLAS_WORKSPACE_CONFIG"), card.matmul_workspace_bytes))
            return true;
    }
    return false;
}

bool mt_torch_is_matmul_workspace(const char *name, uint64_t call, uint64_t bytes)
{
    if (call == 0)
        return is_node_of_product(name) && ++products.node_blocks == 2 && is_size_of_cublas(bytes);
    if (!is_product(name))
        return false;
    const bool has_result = products.call == call;
    products.call = call;
    return has_result && (is_size_of_cublas(bytes) || bytes == MT_CUBLASLT_WORKSPACE_BYTES);
}
