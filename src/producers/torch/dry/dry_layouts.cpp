#include "producers/torch/dry/dry_layouts.h"

#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_dispatcher.h"
#include "producers/torch/dry/dry_library.h"

#include <deque>

namespace mt_dry
{

using c10::DispatchKey;
using c10::OperatorHandle;

namespace
{

using Stack = torch::jit::Stack;

/* Refuses tensors that are not dense, and names the place in the program as PyTorch's error does. */
void refuse_operator(const OperatorHandle &op, c10::DispatchKeySet, Stack *)
{
    TORCH_CHECK_NOT_IMPLEMENTED(false, "memtrace: a dry run has no ", op.operator_name(),
                                " of sparse, nested or quantized tensors: leave them out, or use dense ones");
}

/* Runs the function that PyTorch has for both devices. */
template <DispatchKey on_host> void run_shared(const OperatorHandle &op, c10::DispatchKeySet keys, Stack *stack)
{
    kernels_of::kernel(op, on_host).callBoxed(op, keys, stack);
}

torch::CppFunction shared_of(DispatchKey on_card)
{
    return on_card == DispatchKey::SparseCUDA
               ? torch::CppFunction::makeFromBoxedFunction<&run_shared<DispatchKey::SparseCPU>>()
               : torch::CppFunction::makeFromBoxedFunction<&run_shared<DispatchKey::NestedTensorCPU>>();
}

/* Registers a function. Returns 1 if this PyTorch does not know the operator. */
int register_known(torch::Library &library, const char *name, torch::CppFunction function)
{
    const silent_registration silent;
    try {
        library.impl(name, std::move(function));
    } catch (const c10::Error &) {
        return 1;
    }
    return 0;
}

void refuse_others(torch::Library &library)
{
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&refuse_operator>());
}

} // namespace

layout_kernels::layout_kernels(DispatchKey on_card)
    : on_card_(on_card), others_(torch::Library::IMPL, "_", on_card, __FILE__, __LINE__),
      aten_(torch::Library::IMPL, "aten", on_card, __FILE__, __LINE__)
{
    refuse_others(others_);
}

int layout_kernels::use(const char *name, bool is_shared)
{
    if (own_.count(name) != 0)
        return 0;
    return register_known(
        aten_, name, is_shared ? shared_of(on_card_) : torch::CppFunction::makeFromBoxedFunction<&refuse_operator>());
}

layout_kernels &sparse_kernels()
{
    static layout_kernels kernels(DispatchKey::SparseCUDA);
    return kernels;
}

layout_kernels &nested_kernels()
{
    static layout_kernels kernels(DispatchKey::NestedTensorCUDA);
    return kernels;
}

void refuse_other_layouts()
{
    const silent_registration silent;
    static std::deque<torch::Library> libraries;
    for (DispatchKey key : {DispatchKey::SparseCsrCUDA, DispatchKey::QuantizedCUDA}) {
        libraries.emplace_back(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
        refuse_others(libraries.back());
    }
}

} // namespace mt_dry

int memtrace_dry_shared(const char *name)
{
    using namespace mt_dry;
    static torch::Library dense(torch::Library::IMPL, "aten", DispatchKey::CUDA, __FILE__, __LINE__);
    return register_known(dense, name, torch::CppFunction::makeFromBoxedFunction<&run_shared<DispatchKey::CPU>>());
}

int memtrace_dry_sparse(const char *name, int is_shared)
{
    return mt_dry::sparse_kernels().use(name, is_shared != 0);
}

int memtrace_dry_nested(const char *name, int is_shared)
{
    return mt_dry::nested_kernels().use(name, is_shared != 0);
}
