#include "producers/torch/dry/dry_custom.h"

#include "producers/torch/dry/dry_assumed.h"
#include "producers/torch/dry/dry_dispatcher.h"
#include "producers/torch/dry/dry_inner.h"
#include "producers/torch/dry/dry_kernels.h"
#include "producers/torch/dry/dry_known.h"
#include "producers/torch/dry/dry_library.h"
#include "producers/torch/dry/dry_meta.h"
#include "producers/torch/dry/dry_values.h"

#include <ATen/core/dispatch/OperatorOptions.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

namespace mt_dry
{

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using c10::OperatorHandle;

namespace
{

/* ---- calls that run unchanged ---- */

/* The operators whose CUDA kernel is a Python function: "library::name.overload". */
struct {
    std::mutex lock;
    std::unordered_set<std::string> names;
} in_python;

/* True if the body of the next operator in Python is skipped, since it failed before. */
thread_local bool skips_body = false;

bool is_in_python(const OperatorHandle &op)
{
    const std::lock_guard<std::mutex> guard(in_python.lock);
    return in_python.names.count(c10::toString(op.operator_name())) != 0;
}

/* True if one kernel serves all devices by calling other operators. */
bool is_made_of_others(const OperatorHandle &op)
{
    return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) ||
           op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

/* True if the kernel that the dispatcher would call for this key must not run. A Python body is not run either if the
 * operator is in the table: it calls native code, such as flash-attn's, which ends the process without a driver. */
bool is_simulated(const OperatorHandle &op, DispatchKey key)
{
    const bool skips = std::exchange(skips_body, false);
    if (c10::toBackendComponent(key) != c10::BackendComponent::CUDABit)
        return false;
    const bool is_body = op.hasKernelForDispatchKey(key) ? is_in_python(op) : is_made_of_others(op);
    return skips || !is_body || is_in_table(op);
}

/* ---- sizes that depend on values ---- */

/* The size that a fake kernel may request during a call on a card. */
struct size_request {
    int64_t assumed; /* the first dimension of the argument with the most elements */
    bool is_made = false;
};

thread_local size_request *current_request = nullptr;

/* While it lives, fake kernels of this thread take sizes from a request. */
class answering
{
  public:
    explicit answering(size_request *request) : before_(std::exchange(current_request, request))
    {
    }
    ~answering()
    {
        current_request = before_;
    }
    answering(const answering &) = delete;
    answering &operator=(const answering &) = delete;

  private:
    size_request *before_;
};

int64_t assumed_size(const call &call)
{
    int64_t most = -1, size = 1;
    for (const IValue &argument : call.arguments)
        each_tensor(argument, [&](const Tensor &tensor) {
            if (tensor.dim() > 0 && tensor.numel() > most) {
                most = tensor.numel();
                size = tensor.size(0);
            }
        });
    return size;
}

/* ---- results ---- */

bool has_cpu_kernel(const call &call)
{
    return call.op.hasKernelForDispatchKey(DispatchKey::CPU);
}

/* Returns the argument that a result aliases, by the schema: "(a!)". None for a new tensor. */
std::optional<IValue> argument_of(const call &call, const c10::Argument &result)
{
    if (result.alias_info() == nullptr)
        return std::nullopt;
    const auto &arguments = call.op.schema().arguments();
    for (size_t i = 0; i < arguments.size(); i++)
        if (arguments[i].alias_info() != nullptr &&
            arguments[i].alias_info()->beforeSets() == result.alias_info()->beforeSets())
            return call.arguments[i];
    return std::nullopt;
}

/* Returns the arguments that the results alias; none if a result is a new tensor. */
std::optional<Stack> written_arguments(const call &call)
{
    Stack results;
    for (const c10::Argument &result : call.op.schema().returns()) {
        const auto argument = argument_of(call, result);
        if (!argument.has_value())
            return std::nullopt;
        results.push_back(*argument);
    }
    return results;
}

/* Makes written arguments unknown. An operator without results whose schema names no written argument may write all. */
void assume_arguments(const call &call)
{
    bool writes = !call.op.schema().returns().empty();
    call.each_written([&](const Tensor &) { writes = true; });
    assume_results(call, {});
    if (!writes)
        for (const IValue &argument : call.arguments)
            each_tensor(argument, &assume_written);
}

Stack write_arguments(const call &call, const Stack &results)
{
    const device_guard guard(call.device);
    take_before(call.op, call.arguments);
    count_unless_known(call.op, results);
    assume_arguments(call);
    return results;
}

/* Computes the values of results with the CPU's kernel if all arguments are known and there is one. Others become
 * unknown. */
void give_custom_values(const call &call, const Stack &results)
{
    if (call.is_all_known && has_cpu_kernel(call))
        give_values(call, results);
    else
        assume_results(call, results);
}

/* Returns the results of the fake or meta kernel. Shapes that depend on values are computed if those values are
 * known. */
Stack run_fake(const call &call)
{
    twins shapes(c10::DeviceType::Meta);
    size_request request{assumed_size(call)};
    Stack results;
    {
        const shapes_of_call compiled;
        const answering answers(&request);
        results = call.run(shapes);
    }
    if (request.is_made && call.is_all_known && has_cpu_kernel(call))
        return run_by_values(call);
    if (request.is_made)
        note_assumption(call.op.operator_name().name + " (a size)", static_cast<double>(request.assumed));
    results = place_results(call, &shapes, std::move(results));
    for (size_t i = 0; i < results.size(); i++)
        results[i] = argument_of(call, call.op.schema().returns()[i]).value_or(results[i]);
    give_custom_values(call, results);
    return results;
}

/* Returns the Python module with an operator's fake kernel, if its library names one that is not imported yet. */
std::string missing_module(const OperatorHandle &op)
{
    const auto stub = c10::Dispatcher::singleton().getPyStub(op.operator_name());
    return stub.has_value() ? c10::str("import ", stub->first, ", which has one, or ") : "";
}

[[noreturn]] void refuse(const OperatorHandle &op)
{
    const std::string &name = op.operator_name().name;
    TORCH_CHECK_NOT_IMPLEMENTED(false, "memtrace: the shapes of the results of ", name, " (", op.debug(),
                                ") are unknown: a dry run does not run CUDA kernels of other libraries, and this "
                                "operator has no fake kernel. Please ",
                                missing_module(op), "register one: @torch.library.register_fake(\"", name,
                                "\"), a function that returns empty tensors of these shapes");
}

Stack simulate(const call &call)
{
    if (const known_kernel known = find_known_kernel(call.op)) {
        Stack results = known(call);
        count_unless_known(call.op, results);
        return results;
    }
    if (call.op.hasKernelForDispatchKey(DispatchKey::Meta))
        return run_fake(call);
    if (const auto written = written_arguments(call))
        return write_arguments(call, *written);
    if (call.is_all_known && has_cpu_kernel(call))
        return run_by_values(call);
    refuse(call.op);
}

void run_custom(const OperatorHandle &op, DispatchKeySet keys, Stack *stack)
{
    const DispatchKeySet below = keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, DispatchKey::BackendSelect);
    if (!is_simulated(op, below.highestPriorityTypeId()) && find_known_kernel(op) == nullptr) {
        op.redispatchBoxed(below, stack);
        return;
    }
    const call call(op, *stack);
    torch::jit::drop(*stack, op.schema().arguments().size());
    for (IValue &result : simulate(call))
        stack->push_back(std::move(result));
}

/* ---- the operators that are followed ---- */

class definitions final : public c10::OpRegistrationListener
{
  public:
    explicit definitions(const bool *are_pytorchs) : are_pytorchs_(are_pytorchs)
    {
    }

    /* Called with the dispatcher's lock held. Registering a kernel needs that lock. */
    void onOperatorRegistered(const OperatorHandle &op) override
    {
        const std::string library(op.operator_name().getNamespace().value_or(""));
        if (*are_pytorchs_)
            pytorchs_.insert(library);
        else if (pytorchs_.count(library) == 0 && !op.hasKernelForDispatchKey(DispatchKey::BackendSelect))
            kernels_of::add(op, DispatchKey::BackendSelect, c10::KernelFunction::makeFromBoxedFunction<&run_custom>());
    }

    void onOperatorDeregistered(const OperatorHandle &) override
    {
    }

  private:
    const bool *are_pytorchs_;
    std::unordered_set<std::string> pytorchs_; /* namespaces */
};

} // namespace

void follow_custom_operators()
{
    static bool are_pytorchs = true; /* the listener is first called for operators that are defined already */
    static const auto handle =
        c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<definitions>(&are_pytorchs));
    are_pytorchs = false;
}

} // namespace mt_dry

void memtrace_dry_python_kernel(const char *name)
{
    const std::lock_guard<std::mutex> guard(mt_dry::in_python.lock);
    mt_dry::in_python.names.insert(name);
}

void memtrace_dry_skip_body(void)
{
    mt_dry::skips_body = true;
}

int memtrace_dry_makes_shapes(void)
{
    return mt_dry::current_request != nullptr;
}

int64_t memtrace_dry_dynamic_size(int64_t most)
{
    mt_dry::size_request &request = *mt_dry::current_request;
    request.is_made = true;
    if (most >= 0)
        request.assumed = std::min(request.assumed, most);
    return request.assumed;
}

void memtrace_dry_imported(void)
{
    mt_dry::use_compiled_shapes();
    mt_dry::follow_custom_operators();
}
