/* The workspaces that PyTorch's own allocator provides for cuBLAS and cublasLt. They are blocks like others, and PyTorch
 * does not say which; the order of a product's blocks does. The result comes first:
 *
 *   aten::addmm    result, cuBLAS's workspace, cublasLt's workspace
 *
 * A thread's first product on a stream has cuBLAS's, which lives on. In backward, products are the blocks of the nodes
 * of autograd, and a node may have several results, so only the thread's second block of such nodes is considered.
 *
 * Threads: any; each has its own products. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* True if a block of the calling thread is a workspace of a matrix product. `name` is the innermost operator that does
 * more than allocate, `call` numbers the thread's calls; 0: the name is the class of a node of autograd. Call it for each
 * block, in order. */
bool mt_torch_is_matmul_workspace(const char *name, uint64_t call, uint64_t bytes);
