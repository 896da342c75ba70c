/* Sparse and nested tensors on the card. They consist of dense tensors.
 *
 *   a function of PyTorch for both host and card ──▶ runs on the card's tensors
 *   a function for CUDA only ──▶ ours (dry_sparse.cpp, dry_nested.cpp), or refused by name */
#pragma once

#include "producers/torch/dry/dry_own.h"

#include <c10/core/DispatchKey.h>
#include <torch/library.h>

#include <string>
#include <unordered_set>

namespace mt_dry
{

/* The kernels of one layout. */
class layout_kernels
{
  public:
    /* Refuses every operator of the layout that is not registered later. */
    explicit layout_kernels(c10::DispatchKey on_card);

    /* Registers a kernel of our own for an operator of aten ("mul.out"). */
    template <typename kernel> void add(const char *name, kernel *function)
    {
        own_.insert(std::string("aten::") + name);
        aten_.impl(name, function);
    }

    /* Makes an operator ("aten::mul.out") use PyTorch's function for both devices, or refuses the operator if there is
     * none. One with a kernel of our own keeps it. Returns 1 if this PyTorch does not know the operator. */
    int use(const char *name, bool is_shared);

  private:
    c10::DispatchKey on_card_;
    torch::Library others_, aten_;
    std::unordered_set<std::string> own_;
};

/* Return the kernels of a layout. Called first while memtrace's kernels are registered. */
layout_kernels &sparse_kernels();
layout_kernels &nested_kernels();

} // namespace mt_dry
