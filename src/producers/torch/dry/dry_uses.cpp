/* The uses of blocks by operators: the dispatcher shows each call to an observer, with its arguments and results.
 *
 * Making a view of a tensor, or querying its sizes, reads nothing. Only operators that need the values do. */
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_library.h"
#include "producers/torch/dry/dry_twins.h"
#include "producers/torch/memtrace_torch.h"

#include <ATen/core/function_schema.h>
#include <ATen/record_function.h>

#include <string_view>
#include <unordered_map>

namespace mt_dry
{

using at::RecordFunction;
using at::Tensor;
using c10::FunctionSchema;
using c10::IValue;

namespace
{

/* How an operator uses memory. */
enum class kind { NONE, READS, FILLS };

bool begins_with(std::string_view name, std::string_view begin)
{
    return name.substr(0, begin.size()) == begin;
}

bool ends_with(std::string_view name, std::string_view end)
{
    return name.size() >= end.size() && name.substr(name.size() - end.size()) == end;
}

/* True if a result is a view of an argument. */
bool makes_view(const FunctionSchema &schema)
{
    for (const c10::Argument &result : schema.returns())
        if (result.alias_info() != nullptr && !result.alias_info()->isWrite())
            return true;
    return false;
}

/* True if an operator's results are properties of tensors, not their values. */
bool only_asks(const FunctionSchema &schema)
{
    for (const c10::Argument &result : schema.returns())
        if (result.type()->isSubtypeOf(*c10::TensorType::get()) || result.type()->kind() == c10::TypeKind::ListType)
            return false;
    return !schema.returns().empty() && !ends_with(schema.name(), "_local_scalar_dense") &&
           !ends_with(schema.name(), "::equal");
}

kind kind_of(const FunctionSchema &schema)
{
    static constexpr std::string_view nothing[] = {"aten::set_",           "aten::set_data", "aten::resize_",
                                                   "aten::requires_grad_", "aten::empty",    "aten::new_",
                                                   "aten::record_stream"};
    static constexpr std::string_view fills[] = {"aten::copy_",         "aten::fill_",    "aten::zero_",
                                                 "aten::normal_",       "aten::uniform_", "aten::random_",
                                                 "aten::_foreach_copy_"};
    const std::string_view name = schema.name();
    if (makes_view(schema) || only_asks(schema) || ends_with(name, "_like"))
        return kind::NONE;
    for (const std::string_view &one : nothing)
        if (begins_with(name, one))
            return kind::NONE;
    for (const std::string_view &one : fills)
        if (name == one)
            return kind::FILLS;
    return kind::READS;
}

/* The uses to record for an operator's calls: of each argument, and of all results. */
struct plan {
    struct access {
        bool is_read, is_written;
    };
    std::vector<access> arguments;
    bool makes_results, copies;
};

plan plan_of(const FunctionSchema &schema)
{
    const kind use = kind_of(schema);
    plan made{{}, use != kind::NONE, schema.name() == "aten::copy_"};
    for (const c10::Argument &argument : schema.arguments()) {
        const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
        const bool is_filled = is_written && (use == kind::FILLS || argument.is_out());
        made.arguments.push_back({use != kind::NONE && !is_filled, use != kind::NONE && is_written});
    }
    return made;
}

/* Returns the plan of an operator, computed once. Each operator's name has a unique address. */
const plan &known_plan_of(const RecordFunction &function)
{
    thread_local std::unordered_map<const char *, plan> known;
    const auto found = known.find(function.name());
    if (found != known.end())
        return found->second;
    const auto schema = function.operator_schema();
    return known.emplace(function.name(), schema.has_value() ? plan_of(*schema) : plan{}).first->second;
}

/* Returns the block of a tensor on a card; NULL if it has none. */
const block *owner_of(const c10::TensorImpl &tensor)
{
    return tensor.device().type() == c10::DeviceType::CUDA && tensor.has_storage()
               ? block_of(tensor.storage().unsafeGetStorageImpl())
               : nullptr;
}

void note_copy(const Tensor &to, const Tensor &from)
{
    const block *target = owner_of(*to.unsafeGetTensorImpl()), *source = owner_of(*from.unsafeGetTensorImpl());
    if (target != nullptr && source != nullptr && target->device == source->device)
        memtrace_torch_copied(target->device, target->address, source->address);
}

void note_tensor(const c10::TensorImpl &tensor, bool is_write)
{
    const block *owner = owner_of(tensor);
    if (owner != nullptr)
        memtrace_torch_use(owner->device, owner->address, is_write);
}

void note(const IValue &value, bool is_write)
{
    each_tensor(value, [&](const Tensor &tensor) { note_tensor(*tensor.unsafeGetTensorImpl(), is_write); });
}

std::unique_ptr<at::ObserverContext> begin(const RecordFunction &function)
{
    const plan &plan = known_plan_of(function);
    const c10::ArrayRef<const IValue> values = function.inputs();
    for (size_t i = 0; i < values.size() && i < plan.arguments.size(); i++) {
        if (plan.arguments[i].is_read)
            note(values[i], false);
        if (plan.arguments[i].is_written)
            note(values[i], true);
    }
    if (plan.copies && values[0].isTensor() && values[1].isTensor())
        note_copy(values[0].toTensor(), values[1].toTensor());
    return nullptr;
}

/* A result that is a written argument is recorded again, which only increases a count. */
void end(const RecordFunction &function, at::ObserverContext *)
{
    if (!known_plan_of(function).makes_results)
        return;
    for (const IValue &result : function.outputs())
        note(result, true);
}

} // namespace

} // namespace mt_dry

void memtrace_dry_follow_uses(void)
{
    at::addGlobalCallback(at::RecordFunctionCallback(&mt_dry::begin, &mt_dry::end)
                              .needsInputs(true)
                              .needsOutputs(true)
                              .scopes({at::RecordScope::FUNCTION}));
}

void memtrace_dry_used(void *tensor)
{
    mt_dry::note_tensor(*static_cast<c10::TensorImpl *>(tensor), false);
    mt_dry::note_tensor(*static_cast<c10::TensorImpl *>(tensor), true);
}
