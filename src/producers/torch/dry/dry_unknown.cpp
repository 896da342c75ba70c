#include "producers/torch/dry/dry_unknown.h"

#include "producers/torch/dry/dry_library.h"
#include "producers/torch/dry/dry_pinned.h"
#include "producers/torch/dry/dry_writing.h"

#include <c10/core/CPUAllocator.h>

#include <algorithm>

namespace mt_dry
{

using at::Tensor;
using c10::IValue;
using c10::StorageImpl;

namespace
{

/* The protected field of a tensor with its keys. */
struct keys_of : c10::TensorImpl {
    static void set(c10::TensorImpl *tensor, c10::DispatchKeySet keys)
    {
        tensor->*(&keys_of::key_set_) = keys;
    }
};

/* Returns the storage of a tensor on the host if it can be watched: its memory is PyTorch's own. nullptr for others. */
StorageImpl *watchable(const Tensor &tensor)
{
    if (tensor.device().type() != c10::DeviceType::CPU || !tensor.has_storage() || tensor.numel() == 0)
        return nullptr;
    StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
    const c10::DeleterFnPtr deleter = storage->data_ptr().get_deleter();
    const bool is_own =
        deleter == c10::GetCPUAllocator()->raw_deleter() || deleter == pinned_allocator()->raw_deleter();
    return is_own || memory_of(storage) != nullptr ? storage : nullptr;
}

bool is_unknown_host(const Tensor &tensor)
{
    return !is_on_card(tensor) && !is_known(tensor);
}

/* True if only this tensor uses its memory, and nobody has read it. */
bool is_fresh(const Tensor &tensor, const StorageImpl *storage)
{
    const memory *watched = memory_of(storage);
    return covers_bytes(tensor, storage->nbytes()) && tensor.storage().use_count() == 1 &&
           (watched == nullptr || watched->may_be_late);
}

/* True if results keep the values that the kernel computed from assumed ones: copies, and results of small tensors. */
bool is_guessed(const called &call, const torch::jit::Stack &results)
{
    size_t bytes = 0;
    if (call.op.operator_name().name == "aten::copy_")
        return true;
    for (const auto *values : {&call.arguments, static_cast<const std::vector<IValue> *>(&results)})
        for (const IValue &value : *values)
            each_tensor(value, [&](const Tensor &tensor) { bytes += tensor.nbytes(); });
    return bytes <= MOST_GUESSED_BYTES && !is_finite_check(call);
}

/* Records that elements were chosen by an unknown mask or unknown numbers. */
void note_choice(const called &call)
{
    double fraction = 1;
    for (const IValue &argument : call.arguments)
        each_tensor(argument, [&](const Tensor &tensor) {
            if (is_unknown_host(tensor))
                fraction = fraction_of(tensor);
        });
    note_assumption(call.op.operator_name().name, fraction);
}

/* Records a value that leaves tensors. Tensors of one size count as equal. */
void note_value(const called &call, IValue *value)
{
    if (call.op.operator_name().name == "aten::equal") {
        *value = call.arguments[0].toTensor().sizes() == call.arguments[1].toTensor().sizes();
        note_assumption("equal", 1);
    } else if (value->isScalar()) {
        const at::Scalar number = value->toScalar();
        note_assumption("a number", number.isComplex() ? NAN : number.toDouble());
    }
}

} // namespace

void add_key(c10::TensorImpl *tensor)
{
    keys_of::set(tensor, tensor->key_set().add(HOST_KEY));
}

void remove_key(c10::TensorImpl *tensor)
{
    keys_of::set(tensor, tensor->key_set().remove(HOST_KEY));
}

void mark_on_host(const Tensor &tensor, bool is_known)
{
    StorageImpl *storage = watchable(tensor);
    if (storage == nullptr)
        return;
    if (!is_known) {
        mark_unknown(storage, std::nullopt);
        add_key(tensor.unsafeGetTensorImpl());
    } else if (covers_bytes(tensor, storage->nbytes())) {
        mark_known(storage);
    }
}

void assume_on_host(const Tensor &tensor, const filled &with)
{
    StorageImpl *storage = watchable(tensor);
    const bool is_small = tensor.nbytes() <= MOST_VALUE_BYTES;
    const bool is_late = storage != nullptr && !is_small && is_fresh(tensor, storage);
    if (is_late)
        make_unknown(storage, with);
    else if (storage != nullptr)
        settle(storage);
    if (is_small)
        write_into(tensor, with);
    if (storage == nullptr)
        return;
    if (!is_late)
        mark_unknown(storage, covers_bytes(tensor, storage->nbytes()) ? std::optional<filled>(with) : std::nullopt);
    add_key(tensor.unsafeGetTensorImpl());
}

bool has_unknown(const called &call, bool replaces_first)
{
    bool found = false;
    for (size_t i = replaces_first; i < call.arguments.size(); i++)
        each_tensor(call.arguments[i], [&](const Tensor &tensor) { found = found || is_unknown_host(tensor); });
    return found;
}

void make_results_unknown(const called &call, torch::jit::Stack *results)
{
    const auto &schema = call.op.schema();
    const bool is_guess = is_guessed(call, *results);
    const auto give = [&](const std::string &name, const Tensor &tensor) {
        if (is_on_card(tensor))
            return;
        if (is_guess)
            mark_on_host(tensor, false);
        else
            assume_on_host(tensor, assumed_result(call, name, tensor));
    };
    if (call.op.hasTag(at::Tag::dynamic_output_shape))
        note_choice(call);
    for (size_t i = 0; i < call.arguments.size(); i++)
        if (schema.arguments()[i].alias_info() != nullptr && schema.arguments()[i].alias_info()->isWrite())
            each_tensor(call.arguments[i], [&](const Tensor &tensor) { give("", tensor); });
    const size_t first = results->size() - schema.returns().size();
    for (size_t i = 0; i < schema.returns().size(); i++) {
        if (schema.returns()[i].alias_info() == nullptr)
            each_tensor((*results)[first + i], [&](const Tensor &tensor) { give(schema.returns()[i].name(), tensor); });
        note_value(call, &(*results)[first + i]);
    }
}

} // namespace mt_dry

int memtrace_dry_read(void *storage)
{
    auto *read = static_cast<c10::StorageImpl *>(storage);
    const int status = memtrace_dry_settle(storage);
    if (status == 0 && mt_dry::is_unknown(read))
        mt_dry::note_assumption("an array", mt_dry::content_of_storage(read));
    return status;
}
