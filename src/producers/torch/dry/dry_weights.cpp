/* Weights on the host that are written only when something reads them.
 *
 *   normal_(weight) ──▶ keeps a writing, advances the generator ──▶ copies keep the same ──▶ the card: never read
 *                                                              └──▶ any other operator: the writings run first
 *
 * A weight is a tensor that became an nn.Parameter with memory of its own, larger than MOST_VALUE_BYTES. It has the
 * dispatch key HOST_KEY, so every operator with such an argument first reaches the fallback of this key. Other tensors
 * cost nothing, unless they are unknown (dry_unknown.h).
 *
 * A storage is late while it has writings that did not run. These are exact: the same operators, arguments and random
 * numbers. A storage that was read is an ordinary one from then on. Memory without values, of a checkpoint without
 * bytes, is late, too: it reads as zeros, which count as an assumption.
 *
 * Threads: any, with one lock around writings. */
#include "producers/torch/dry/dry_library.h"
#include "producers/torch/dry/dry_own.h"
#include "producers/torch/dry/dry_unknown.h"
#include "producers/torch/dry/dry_values.h"
#include "producers/torch/dry/dry_writing.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/set_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/library.h>

#include <algorithm>
#include <unordered_set>

namespace mt_dry
{

using at::Tensor;
using c10::DispatchKey;
using c10::DispatchKeySet;
using c10::IValue;
using c10::OperatorHandle;
using c10::StorageImpl;
using Stack = torch::jit::Stack;

namespace
{

constexpr int OUT_OF_HOST_MEMORY = 1;

const StorageImpl *storage_of(const Tensor &tensor)
{
    return tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

memory *memory_of(const Tensor &tensor)
{
    const StorageImpl *storage = storage_of(tensor);
    return storage != nullptr ? mt_dry::memory_of(storage) : nullptr;
}

bool is_late(const Tensor &tensor)
{
    const StorageImpl *storage = storage_of(tensor);
    return storage != nullptr && mt_dry::is_late(storage);
}

/* ---- the operators that read ---- */

/* True if an operator returns a copy of its first argument. */
bool makes_copy(const OperatorHandle &op)
{
    const auto &name = op.operator_name().name;
    return name == "aten::_to_copy" || name == "aten::clone";
}

/* True if results are views of arguments, or the operator consists of others, which reach the fallback themselves. */
bool reads_nothing(const OperatorHandle &op)
{
    const auto &name = op.operator_name().name;
    const auto &returns = op.schema().returns();
    const auto begins = [&](const char *text) { return name.rfind(text, 0) == 0; };
    const auto is_view = [](const c10::Argument &result) {
        return result.alias_info() != nullptr && !result.alias_info()->isWrite();
    };
    if (!begins("aten::") || begins("aten::fbgemm"))
        return false;
    if (!returns.empty() && std::all_of(returns.begin(), returns.end(), is_view))
        return true;
    return op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd) || begins("aten::new_") ||
           (name.size() > 5 && name.compare(name.size() - 5, 5, "_like") == 0) || makes_copy(op) ||
           name == "aten::set_";
}

/* ---- the writings that are kept ---- */

/* True if autograd takes part in a call that writes into a tensor. */
bool needs_autograd(const Tensor &tensor)
{
    return at::GradMode::is_enabled() && tensor.requires_grad() &&
           !c10::impl::tls_is_dispatch_keyset_excluded(DispatchKeySet(DispatchKey::AutogradCPU));
}

bool covers_storage(const Tensor &tensor)
{
    return covers_bytes(tensor, tensor.storage().nbytes());
}

thread_local int copies_made; /* calls of operators that return a copy, which are under way */

/* True for the memory of an unfinished copy, which nothing else uses. */
bool is_fresh(const Tensor &tensor)
{
    return copies_made > 0 && tensor.storage().use_count() == 1 && tensor.storage().nbytes() > MOST_VALUE_BYTES;
}

/* True if a late tensor can be copied without its values. */
bool keeps_copy(const Tensor &to, const Tensor &from)
{
    if (to.device().type() != c10::DeviceType::CPU || to.layout() != c10::kStrided || needs_autograd(from))
        return false;
    const memory *target = memory_of(to);
    return target != nullptr ? is_late(to) || (target->may_be_late && covers_storage(to))
                             : is_fresh(to) && covers_storage(to);
}

bool replaces_all(const OperatorHandle &op, const Tensor &to)
{
    static const std::unordered_set<std::string> names = {"aten::normal_", "aten::uniform_", "aten::zero_",
                                                          "aten::fill_", "aten::copy_"};
    return names.count(op.operator_name().name) != 0 && covers_storage(to);
}

/* True if an operator writes into its first argument, and its other tensors are only numbers. */
bool is_filling(const OperatorHandle &op, const std::vector<IValue> &arguments)
{
    const auto &schema = op.schema();
    if (schema.arguments().empty() || schema.returns().size() != 1 || !arguments[0].isTensor() ||
        op.hasTag(at::Tag::inplace_view) || op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd))
        return false;
    const auto writes = [](const c10::Argument &one) {
        return one.alias_info() != nullptr && one.alias_info()->isWrite();
    };
    if (!writes(schema.arguments()[0]) || schema.arguments()[0].is_out() || !writes(schema.returns()[0]))
        return false;
    return std::all_of(arguments.begin() + 1, arguments.end(), [](const IValue &argument) {
        return !argument.isList() && (!argument.isTensor() || is_number(argument.toTensor()));
    });
}

/* Keeps a call that writes into a weight instead of running it. False if it must run. */
bool keep(const OperatorHandle &op, const std::vector<IValue> &arguments)
{
    const bool is_copy = op.operator_name().name == "aten::copy_" && is_late(arguments[1].toTensor());
    if (c10::impl::TorchDispatchModeTLS::any_modes_set() || (!is_copy && !is_filling(op, arguments)))
        return false;
    const Tensor &to = arguments[0].toTensor();
    if (needs_autograd(to) || (is_copy && !keeps_copy(to, arguments[1].toTensor())))
        return false;
    if (is_copy && memory_of(to) == nullptr)
        watch(to.storage().unsafeGetStorageImpl());
    memory *target = memory_of(to);
    if (target == nullptr || !target->may_be_late || !(is_late(to) || replaces_all(op, to)))
        return false;
    if (!add_writing(target, op, arguments, replaces_all(op, to)))
        return false;
    add_key(to.unsafeGetTensorImpl());
    if (!to.is_inference())
        to.unsafeGetTensorImpl()->bump_version();
    return true;
}

/* ---- joining tensors ---- */

/* Returns cat of late tensors, as copies into a late one. */
Tensor join_late(const std::vector<Tensor> &parts, int64_t dim)
{
    std::vector<int64_t> sizes = parts[0].sizes().vec();
    sizes[dim] = 0;
    for (const Tensor &part : parts)
        sizes[dim] += part.size(dim);
    Tensor joined = at::empty(sizes, parts[0].options());
    watch(joined.storage().unsafeGetStorageImpl());
    add_key(joined.unsafeGetTensorImpl());
    joined.zero_();
    int64_t begin = 0;
    for (const Tensor &part : parts) {
        joined.narrow(dim, begin, part.size(dim)).copy_(part);
        begin += part.size(dim);
    }
    return joined;
}

/* True if tensors are late and differ in one size at most. */
bool can_join(const std::vector<Tensor> &parts, int64_t dim)
{
    return !parts.empty() && std::all_of(parts.begin(), parts.end(), [&](const Tensor &part) {
        if (part.dim() != parts[0].dim() || part.scalar_type() != parts[0].scalar_type() || needs_autograd(part) ||
            !is_late(part))
            return false;
        for (int64_t i = 0; i < part.dim(); i++)
            if (i != dim && part.size(i) != parts[0].size(i))
                return false;
        return true;
    });
}

/* Runs cat and stack of late tensors, such as the experts of a checkpoint. False for other calls. */
bool join(const OperatorHandle &op, const std::vector<IValue> &arguments, Stack *stack)
{
    const auto &name = op.operator_name();
    const bool is_stack = name.name == "aten::stack";
    if ((name.name != "aten::cat" && !is_stack) || !name.overload_name.empty())
        return false;
    std::vector<Tensor> parts = arguments[0].toTensorVector();
    const int64_t dims = parts[0].dim() + is_stack;
    const int64_t dim = arguments[1].toInt() + (arguments[1].toInt() < 0 ? dims : 0);
    if (dim < 0 || dim >= dims || !can_join(parts, is_stack ? dims : dim))
        return false;
    if (is_stack)
        for (Tensor &part : parts)
            part = part.unsqueeze(dim);
    stack->erase(stack->end() - 2, stack->end());
    stack->push_back(join_late(parts, dim));
    return true;
}

/* ---- the fallback ---- */

/* Counts an unfinished copy. */
class counted_copy
{
  public:
    explicit counted_copy(bool is_copy) : is_copy_(is_copy)
    {
        copies_made += is_copy_;
    }
    ~counted_copy()
    {
        copies_made -= is_copy_;
    }
    counted_copy(const counted_copy &) = delete;
    counted_copy &operator=(const counted_copy &) = delete;

  private:
    bool is_copy_;
};

/* Runs the writings kept for the tensors of a call, except for tensors whose values the call does not need. */
void prepare(const OperatorHandle &op, const std::vector<IValue> &arguments)
{
    if (reads_nothing(op))
        return;
    if (op.operator_name().name == "aten::copy_" && arguments[1].isTensor()) {
        const Tensor &to = arguments[0].toTensor(), &from = arguments[1].toTensor();
        if (is_on_card(to) && !has_values(to))
            return;
        if (is_late(to) && replaces_all(op, to) && !is_late(from)) {
            if (!is_on_card(from))
                forget(memory_of(to));
            return;
        }
    }
    for (const IValue &argument : arguments)
        each_tensor(argument, [](const Tensor &tensor) {
            if (memory_of(tensor) == nullptr)
                return;
            settle(tensor.storage().unsafeGetStorageImpl());
            if (is_known(tensor))
                remove_key(tensor.unsafeGetTensorImpl());
        });
}

/* Views of weights are weights. */
void mark_results(const Stack &stack, size_t count)
{
    for (auto result = stack.end() - static_cast<ptrdiff_t>(count); result != stack.end(); ++result)
        each_tensor(*result, [](const Tensor &tensor) {
            if (memory_of(tensor) != nullptr)
                add_key(tensor.unsafeGetTensorImpl());
        });
}

void run_with_weights(const OperatorHandle &op, DispatchKeySet keys, Stack *stack)
{
    const size_t count = op.schema().arguments().size();
    const std::vector<IValue> arguments(stack->end() - static_cast<ptrdiff_t>(count), stack->end());
    if (keep(op, arguments)) {
        stack->erase(stack->end() - static_cast<ptrdiff_t>(count) + 1, stack->end());
        return;
    }
    if (join(op, arguments, stack))
        return;
    const called called{op, arguments};
    const bool replaces_first = count > 0 && arguments[0].isTensor() && replaces_all(op, arguments[0].toTensor());
    const bool gives_unknown = !reads_nothing(op) && has_unknown(called, replaces_first);
    prepare(op, arguments);
    const counted_copy counted(makes_copy(op));
    op.redispatchBoxed(keys & DispatchKeySet(DispatchKeySet::FULL_AFTER, HOST_KEY), stack);
    if (gives_unknown)
        make_results_unknown(called, stack);
    else if (replaces_first)
        mark_on_host(arguments[0].toTensor(), true);
    mark_results(*stack, op.schema().returns().size());
}

/* ---- tensors over a given storage ---- */

Tensor &set_weights_storage(Tensor &self, c10::Storage storage, int64_t offset, c10::IntArrayRef sizes,
                            c10::IntArrayRef strides)
{
    at::native::set_storage_cpu_(self, std::move(storage), offset, sizes, strides);
    if (memory_of(self) != nullptr)
        add_key(self.unsafeGetTensorImpl());
    return self;
}

Tensor &set_whole_weights_storage(Tensor &self, c10::Storage storage)
{
    at::native::set_(self, std::move(storage));
    if (memory_of(self) != nullptr)
        add_key(self.unsafeGetTensorImpl());
    return self;
}

/* True if an nn.Parameter over the tensor `data` is a weight: memory of PyTorch's allocator that only these two see. */
bool is_weight(const c10::TensorImpl *parameter, const c10::TensorImpl *data)
{
    if (parameter->key_set().has_any(DispatchKeySet({DispatchKey::Python, DispatchKey::Fake})) ||
        !parameter->is_cpu() || parameter->layout() != c10::kStrided || !parameter->has_storage() ||
        !data->has_storage() || !c10::isFloatingType(c10::typeMetaToScalarType(parameter->dtype())))
        return false;
    const c10::Storage &storage = parameter->storage();
    return storage.nbytes() > MOST_VALUE_BYTES && storage.use_count() == 2 && storage.is_alias_of(data->storage()) &&
           storage.data_ptr().get_deleter() == c10::GetCPUAllocator()->raw_deleter();
}

StorageImpl *storage_at(void *address)
{
    return static_cast<StorageImpl *>(address);
}

} // namespace

void register_weights()
{
    const silent_registration silent;
    static torch::Library fallback(torch::Library::IMPL, "_", HOST_KEY, __FILE__, __LINE__);
    static torch::Library aten(torch::Library::IMPL, "aten", DispatchKey::CPU, __FILE__, __LINE__);
    fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&run_with_weights>());
    aten.impl("set_.source_Storage_storage_offset", &set_weights_storage);
    aten.impl("set_.source_Storage", &set_whole_weights_storage);
}

} // namespace mt_dry

void memtrace_dry_weight(void *parameter, void *data)
{
    auto *made = static_cast<c10::TensorImpl *>(parameter), *given = static_cast<c10::TensorImpl *>(data);
    if (!mt_dry::is_weight(made, given))
        return;
    mt_dry::watch(made->storage().unsafeGetStorageImpl());
    mt_dry::add_key(made);
    mt_dry::add_key(given);
}

void memtrace_dry_unknown(void *storage)
{
    mt_dry::make_unknown(mt_dry::storage_at(storage), {at::Scalar(0.), at::kByte});
}

int memtrace_dry_is_late(const void *storage)
{
    return mt_dry::is_late(static_cast<const c10::StorageImpl *>(storage));
}

void memtrace_dry_copy_late(void *to, const void *from)
{
    mt_dry::copy_late(mt_dry::storage_at(to), static_cast<const c10::StorageImpl *>(from));
}

int memtrace_dry_settle(void *storage)
{
    try {
        mt_dry::settle(mt_dry::storage_at(storage));
    } catch (const std::exception &) {
        return mt_dry::OUT_OF_HOST_MEMORY;
    }
    return 0;
}
