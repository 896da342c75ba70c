#include "producers/torch/dry/dry_meta.h"

#include "producers/torch/dry/dry_dispatcher.h"
#include "producers/torch/dry/dry_own.h"

#include <unordered_map>
#include <utility>

namespace mt_dry
{

namespace
{

using c10::DispatchKey;
using c10::KernelFunction;
using c10::OperatorHandle;
using kernel_table = std::unordered_map<const c10::FunctionSchema *, KernelFunction>;

kernel_table compiled, pythons;
thread_local bool is_for_card = false;

const KernelFunction &kernel_of(const kernel_table &all, const OperatorHandle &op)
{
    return all.at(&op.schema());
}

void run(const OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    kernel_of(is_for_card ? compiled : pythons, op).callBoxed(op, keys, stack);
}

/* Calls `visit` with each of PyTorch's operators that has a meta kernel. */
template <typename function> void each_with_shapes(function visit)
{
    c10::Dispatcher &dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName &name : dispatcher.getRegistrationsForDispatchKey(DispatchKey::Meta)) {
        const auto op = dispatcher.findSchema(name);
        if (op.has_value() && name.getNamespace() == "aten" && !op->isKernelFallthroughKernel(DispatchKey::Meta))
            visit(*op, kernels_of::kernel(*op, DispatchKey::Meta));
    }
}

/* True if the compiled kernel requires tensors on CUDA, which twins are not. Python's function does not. */
bool asks_for_cuda(const OperatorHandle &op)
{
    return op.operator_name().name == "aten::_linalg_svd";
}

/* Returns the compiled kernel that was kept or, for an operator that consists of others on every device, the one for
 * every device; nullptr if there is neither. */
const KernelFunction *find_compiled(const OperatorHandle &op)
{
    constexpr auto every = DispatchKey::CompositeExplicitAutograd;
    if (asks_for_cuda(op))
        return nullptr;
    const auto kept = compiled.find(&op.schema());
    if (kept != compiled.end())
        return &kept->second;
    const bool is_made_of_others = op.hasKernelForDispatchKey(every) && !op.hasKernelForDispatchKey(DispatchKey::CUDA);
    return is_made_of_others ? &kernels_of::kernel(op, every) : nullptr;
}

} // namespace

void keep_compiled_shapes()
{
    each_with_shapes(
        [](const OperatorHandle &op, const KernelFunction &kernel) { compiled.emplace(&op.schema(), kernel); });
}

void use_compiled_shapes()
{
    const silent_registration silent;
    static torch::Library meta(torch::Library::IMPL, "aten", DispatchKey::Meta, __FILE__, __LINE__);
    each_with_shapes([](const OperatorHandle &op, const KernelFunction &kernel) {
        const KernelFunction *kept = find_compiled(op);
        if (kept == nullptr || kernel._equalsBoxedAndUnboxed(*kept))
            return;
        compiled.emplace(&op.schema(), *kept);
        pythons.emplace(&op.schema(), kernel);
        meta.impl(c10::toString(op.operator_name()).c_str(), torch::CppFunction::makeFromBoxedFunction<&run>());
    });
}

shapes_of_call::shapes_of_call() : before_(std::exchange(is_for_card, true))
{
}

shapes_of_call::~shapes_of_call()
{
    is_for_card = before_;
}

} // namespace mt_dry
