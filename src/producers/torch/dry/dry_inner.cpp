#include "producers/torch/dry/dry_inner.h"

#include "producers/torch/dry/dry_capture.h"
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/memtrace_torch.h"
#include "producers/torch/torch_plan.h"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>

namespace mt_dry
{

using at::Tensor;
using c10::IValue;

namespace
{

/* ---- a call as the rules describe it ---- */

/* The names of a call's arguments, in their order. */
using names = std::vector<const char *>;

/* The call borrows from here, so the elements must not move. */
struct description {
    std::deque<std::vector<mt_operand>> tensors;
    std::deque<std::vector<int64_t>> integers;
    std::vector<mt_argument> arguments;
    std::vector<mt_operand> outputs;

    static mt_argument of_kind(mt_argument_kind kind)
    {
        mt_argument made{};
        made.kind = kind;
        return made;
    }

    static mt_argument of_integer(mt_argument_kind kind, int64_t value)
    {
        mt_argument made = of_kind(kind);
        made.integer = value;
        return made;
    }

    mt_argument of_tensors(std::vector<mt_operand> list)
    {
        tensors.push_back(std::move(list));
        mt_argument made = of_kind(MT_ARGUMENT_TENSORS);
        made.tensors = tensors.back().data();
        made.count = static_cast<int64_t>(tensors.back().size());
        return made;
    }

    /* For a dimension without an index, all fields are zero. */
    mt_argument of_optional_tensors(c10::ArrayRef<IValue> values)
    {
        std::vector<mt_operand> list;
        for (const IValue &value : values)
            list.push_back(value.isTensor() && value.toTensor().defined() ? operand_of(value.toTensor())
                                                                          : mt_operand{});
        return of_tensors(std::move(list));
    }

    mt_argument of_integers(std::vector<int64_t> list)
    {
        integers.push_back(std::move(list));
        mt_argument made = of_kind(MT_ARGUMENT_INTEGERS);
        made.integers = integers.back().data();
        made.count = static_cast<int64_t>(integers.back().size());
        return made;
    }

    mt_argument of(const IValue &value)
    {
        if (value.isTensor() && value.toTensor().defined())
            return of_tensors({operand_of(value.toTensor())});
        if (value.isTensorList()) {
            std::vector<mt_operand> list;
            for (const Tensor &tensor : value.toTensorVector())
                list.push_back(operand_of(tensor));
            return of_tensors(std::move(list));
        }
        if (value.isIntList())
            return of_integers(value.toIntVector());
        if (value.isList() && value.toList().elementType()->kind() == c10::TypeKind::OptionalType)
            return of_optional_tensors(value.toListRef());
        if (value.isBool())
            return of_integer(MT_ARGUMENT_BOOL, value.toBool());
        if (value.isInt())
            return of_integer(MT_ARGUMENT_INTEGER, value.toInt());
        mt_argument made = of_kind(MT_ARGUMENT_NONE);
        if (value.isDouble()) {
            made.kind = MT_ARGUMENT_NUMBER;
            made.number = value.toDouble();
        } else if (value.isString()) {
            made.kind = MT_ARGUMENT_TEXT;
            made.text = value.toStringRef().c_str();
        }
        return made;
    }

    description(const names &given_names, const std::vector<IValue> &given, const std::vector<IValue> &results)
    {
        TORCH_INTERNAL_ASSERT(given_names.size() == given.size());
        for (size_t i = 0; i < given.size(); i++) {
            arguments.push_back(of(given[i]));
            arguments.back().name = given_names[i];
        }
        for (const IValue &value : results)
            outputs.push_back(value.isTensor() && value.toTensor().defined() ? operand_of(value.toTensor())
                                                                             : mt_operand{});
    }

    mt_operator_call call(const char *name) const
    {
        return {name,
                arguments.data(),
                outputs.data(),
                static_cast<int32_t>(arguments.size()),
                static_cast<int32_t>(outputs.size()),
                false};
    }
};

uint64_t bytes_of(const std::vector<IValue> &results)
{
    uint64_t bytes = 0;
    for (const IValue &value : results)
        if (value.isTensor() && value.toTensor().defined())
            bytes += value.toTensor().nbytes();
    return bytes;
}

/* ---- blocks ---- */

c10::DataPtr take_block(int64_t bytes, const mt_byte_range &range = {})
{
    if (range.high > 0)
        memtrace_torch_about(current_device(), bytes, &range);
    return allocator()->allocate(static_cast<size_t>(bytes));
}

/* The workspaces of all handles of cuBLAS, by handle, number, device and stream. Like PyTorch's, they are not freed
 * when the process ends. */
struct workspaces {
    using key = std::tuple<int, int, int, c10::StreamId>;
    std::mutex lock;
    std::map<key, c10::DataPtr> kept;
    std::map<int, std::vector<int>> idle; /* by device: handles of threads that have ended */
    int handles = 0;
};

workspaces &all_workspaces()
{
    static auto *all = new workspaces;
    return *all;
}

/* A thread's handles, one for each device. Later threads reuse them (ATen/cuda/detail/DeviceThreadHandles.h). */
class thread_handles
{
  public:
    ~thread_handles()
    {
        workspaces &all = all_workspaces();
        const std::lock_guard<std::mutex> hold(all.lock);
        for (const auto &[device, handle] : by_device_)
            all.idle[device].push_back(handle);
    }

    /* Returns the handle of a device. The lock of `all` is held. */
    int of(workspaces &all, int device)
    {
        const auto [place, is_new] = by_device_.try_emplace(device, all.handles);
        std::vector<int> &idle = all.idle[device];
        if (is_new && idle.empty())
            all.handles++;
        else if (is_new) {
            place->second = idle.back();
            idle.pop_back();
        }
        return place->second;
    }

  private:
    std::map<int, int> by_device_;
};

/* Allocates a workspace of this thread's handle for the current stream, unless the handle has one. */
void keep_workspace(int number, int64_t bytes)
{
    static thread_local thread_handles handles;
    workspaces &all = all_workspaces();
    const int device = current_device();
    std::unique_lock<std::mutex> hold(all.lock);
    const workspaces::key wanted{handles.of(all, device), number, device, current_stream(device).id()};
    if (all.kept.count(wanted) != 0)
        return;
    hold.unlock();
    c10::DataPtr taken = take_block(bytes);
    /* It stays with the handle, whichever module requested it first. */
    memtrace_torch_relabel(taken.get(), memtrace_torch_span(0, "cuBLAS", "workspace"),
                           memtrace_torch_category("Workspace"), nullptr);
    hold.lock();
    all.kept.emplace(wanted, std::move(taken));
}

/* An operator: the result of memtrace_torch_has_plan, and the argument names of its schema. */
struct known_operator {
    int plan;
    names arguments;
};

/* Returns the plan and names of an operator, looked up once per thread. */
const known_operator &find_known(const c10::OperatorHandle &op)
{
    static thread_local std::unordered_map<const c10::FunctionSchema *, known_operator> all;
    const auto [place, is_new] = all.try_emplace(&op.schema());
    known_operator &known = place->second;
    if (is_new)
        known.plan = memtrace_torch_has_plan(op.schema().name().c_str());
    if (is_new && known.plan > 0)
        for (const c10::Argument &argument : op.schema().arguments())
            known.arguments.push_back(argument.name().c_str());
    return known;
}

/* Grows the storage of a result to at least `bytes`. */
void widen(const IValue &result, int64_t bytes)
{
    if (result.isTensor() && result.toTensor().defined() &&
        result.toTensor().storage().nbytes() < static_cast<size_t>(bytes))
        result.toTensor().storage().set_nbytes(bytes);
}

/* True if memory is enough for so many bytes, which are taken and freed. */
bool is_enough(int64_t bytes, const mt_byte_range &range = {})
{
    try {
        take_block(bytes, range);
        return true;
    } catch (const c10::OutOfMemoryError &) {
        return false;
    }
}

/* Returns the bytes that PyTorch's allocator counts as available: the card's free ones, or its own largest free
 * block. */
int64_t most_available()
{
    memtrace_torch_figures figures;
    memtrace_torch_statistics(current_device(), MEMTRACE_TORCH_ALL, &figures);
    return static_cast<int64_t>(std::max(figures.capacity - figures.reserved, figures.largest_free));
}

/* A call's actions while they are carried out. */
class inner_call
{
  public:
    inner_call(const char *name_of, const names &argument_names, const std::vector<IValue> &arguments,
               const std::vector<IValue> &made)
        : name(name_of), results(made), described(argument_names, arguments, made), call(described.call(name_of))
    {
        count = memtrace_torch_plan(&call, plan.data());
    }

    /* Calls `make` for each result that the plan names. */
    void carry_out(const std::function<void(const mt_inner &)> &make)
    {
        for (int i = 0; i < count; i++) {
            const mt_inner &action = plan[i];
            if (action.kind == MT_INNER_TAKE)
                blocks[action.number] = take_block(action.bytes, action.range);
            else if (action.kind == MT_INNER_GIVE)
                blocks[action.number].clear();
            else if (action.kind == MT_INNER_TRIAL)
                try_all(i + 1);
            else if (action.kind == MT_INNER_TRY)
                i = try_from(i);
            else if (action.kind == MT_INNER_KEEP)
                keep_workspace(action.number, action.bytes);
            else if (action.kind == MT_INNER_GUESS)
                memtrace_torch_count_guess(name);
            else if (action.kind == MT_INNER_UNCOUNTED)
                memtrace_torch_count_unknown(name, bytes_of(results));
            else
                make(action);
        }
    }

  private:
    /* Returns the position after the alternatives that begin at `first`. */
    int end_of_tries(int first) const
    {
        while (first < count && plan[first].kind == MT_INNER_TRY)
            first++;
        return first;
    }

    /* Allocates and frees the largest of the alternatives from `first` on. While memory is insufficient, halves the
     * limit and leaves out alternatives that need more (Conv_v8.cpp, generate_and_filter_plans). */
    void try_all(int first)
    {
        const int64_t available = most_available();
        most = 0;
        for (int i = first; i < end_of_tries(first); i++)
            if (plan[i].bytes <= available)
                most = std::max(most, plan[i].bytes);
        while (most > 0 && !is_enough(most))
            most /= 2;
        memtrace_torch_tried();
    }

    /* Allocates and frees the first alternative from `first` on that fits into memory, and returns the position of the
     * last one. Plans further alternatives only as they are needed. */
    int try_from(int first)
    {
        int end = end_of_tries(first);
        for (int i = first; i < end; i++) {
            if (plan[i].bytes <= most && is_enough(plan[i].bytes, plan[i].range)) {
                memtrace_torch_took(plan[i].number);
                return end - 1;
            }
            if (i + 1 == end && !call.is_short) {
                call.is_short = true;
                count = memtrace_torch_plan(&call, plan.data());
                return first - 1; /* the actions before are the same */
            }
        }
        take_block(plan[first].bytes); /* throws the reason */
        return end - 1;
    }

    const char *name;
    const std::vector<IValue> &results;
    const description described;
    mt_operator_call call;
    int64_t most = INT64_MAX; /* bytes of an alternative */
    std::array<mt_inner, MT_INNER_MOST> plan;
    std::array<c10::DataPtr, MT_INNER_MOST> blocks;
    int count;
};

} // namespace

void clear_workspaces()
{
    workspaces &all = all_workspaces();
    std::map<workspaces::key, c10::DataPtr> freed;
    const std::lock_guard<std::mutex> hold(all.lock);
    freed.swap(all.kept);
}

mt_operand operand_of(const Tensor &tensor)
{
    mt_operand made{};
    made.sizes = tensor.sizes().data();
    made.strides = tensor.strides().data();
    made.dims = static_cast<int32_t>(tensor.dim());
    made.dtype = static_cast<int32_t>(tensor.scalar_type());
    made.offset = tensor.storage_offset();
    made.elements = tensor.numel();
    made.item_bytes = static_cast<int64_t>(tensor.element_size());
    made.is_contiguous = tensor.is_contiguous();
    return made;
}

bool is_in_table(const c10::OperatorHandle &op)
{
    return find_known(op).plan != MT_INNER_UNKNOWN;
}

void take_before(const c10::OperatorHandle &op, const std::vector<IValue> &arguments)
{
    const known_operator &known = find_known(op);
    if (known.plan > 0)
        inner_call(op.schema().name().c_str(), known.arguments, arguments, {}).carry_out([](const mt_inner &) {});
}

void count_unless_known(const c10::OperatorHandle &op, const std::vector<IValue> &results)
{
    if (find_known(op).plan == MT_INNER_UNKNOWN)
        memtrace_torch_count_unknown(op.schema().name().c_str(), bytes_of(results));
}

using named_values = std::vector<std::pair<const char *, IValue>>;

/* Splits arguments into names and values. */
static std::pair<names, std::vector<IValue>> split(const named_values &arguments)
{
    std::pair<names, std::vector<IValue>> parts;
    for (const auto &[argument, value] : arguments) {
        parts.first.push_back(argument);
        parts.second.push_back(value);
    }
    return parts;
}

void take_without_operator(const char *name, const named_values &arguments)
{
    const auto [argument_names, values] = split(arguments);
    inner_call(name, argument_names, values, {}).carry_out([](const mt_inner &) {});
}

int64_t listed_bytes(const char *name, const named_values &arguments, int number)
{
    const auto [argument_names, values] = split(arguments);
    const std::vector<IValue> results(static_cast<size_t>(number) + 1);
    const description described(argument_names, values, results);
    const mt_operator_call call = described.call(name);
    std::array<mt_inner, MT_INNER_MOST> plan;
    int64_t bytes = 0;
    const int count = memtrace_torch_plan(&call, plan.data());
    for (int i = 0; i < count; i++)
        if (plan[i].kind == MT_INNER_OUTPUT && plan[i].number == number)
            bytes = plan[i].bytes;
    return bytes;
}

void take_inside(const c10::OperatorHandle &op, const std::vector<IValue> &arguments,
                 const std::vector<IValue> &results, const std::function<void(size_t)> &take,
                 const std::function<void(size_t)> &to_host)
{
    std::vector<bool> is_there(results.size());
    const known_operator &known = find_known(op);
    count_unless_known(op, results);
    if (known.plan > 0)
        inner_call(op.schema().name().c_str(), known.arguments, arguments, results)
            .carry_out([&](const mt_inner &action) {
                const size_t result = action.number;
                if (is_there[result])
                    return;
                widen(results[result], action.bytes);
                (action.kind == MT_INNER_HOST ? to_host : take)(result);
                is_there[result] = true;
            });
    for (size_t i = 0; i < results.size(); i++)
        if (!is_there[i])
            take(i);
}

} // namespace mt_dry
