#include "producers/torch/dry/dry_values.h"

#include "producers/torch/dry/dry_assumed.h"
#include "producers/torch/dry/dry_capture.h"
#include "producers/torch/dry/dry_inner.h"
#include "producers/torch/dry/dry_library.h"
#include "producers/torch/dry/dry_random.h"
#include "producers/torch/dry/dry_unknown.h"
#include "producers/torch/dry/dry_writing.h"

#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/ParallelGuard.h>

namespace mt_dry
{

using at::Tensor;
using c10::IValue;

namespace
{

block *block_of_tensor(const Tensor &tensor)
{
    return is_on_card(tensor) && tensor.has_storage() ? block_of(tensor.storage().unsafeGetStorageImpl()) : nullptr;
}

/* Makes the values of a tensor on a card unknown. The content of a part of a large block stands for the whole block. */
void assume(const Tensor &tensor, const filled &with)
{
    block *owner = block_of_tensor(tensor);
    mark(tensor, false);
    if (owner != nullptr && (!owner->has_values() || covers_bytes(tensor, owner->bytes)))
        owner->fill(with);
    else if (has_values(tensor))
        write_into(values_of(tensor), with);
}

/* Copies the results that the CPU computed into the new blocks. */
void keep_values(const Stack &computed, const Stack &results)
{
    for (size_t i = 0; i < results.size(); i++) {
        std::vector<Tensor> from, to;
        each_tensor(computed[i], [&](const Tensor &tensor) { from.push_back(tensor); });
        each_tensor(results[i], [&](const Tensor &tensor) { to.push_back(tensor); });
        for (size_t j = 0; j < to.size() && j < from.size(); j++)
            if (is_on_card(to[j]) && has_values(to[j]) && from[j].storage().data() != values_of(to[j]).storage().data())
                values_of(to[j]).copy_(from[j]);
    }
}

/* Runs the CPU's kernel, with the card's random numbers. Uses one thread: tensors are small, and waking others takes
 * longer. */
Stack run_on_cpu(const call &call, twins *on_cpu)
{
    const c10::ParallelGuard is_parallel(true);
    std::optional<random_loan> loan;
    if (call.op.hasTag(at::Tag::nondeterministic_seeded))
        loan.emplace(call.generator.defined() ? call.generator : default_generator(call.device.index()));
    return call.run(*on_cpu);
}

/* True if the CUDA kernel refuses the same value that the CPU's kernel refused. Division of integers by zero, for
 * example, is no error on a card. */
bool is_refused_on_card(const c10::Error &error)
{
    const std::string_view words = error.what_without_backtrace();
    const auto has = [&](const char *part) { return words.find(part) != std::string_view::npos; };
    return has("should be between 0 and 1") /* binary_cross_entropy */ || has("probability tensor contains") ||
           has("invalid multinomial distribution");
}

/* Computes values with the CPU's kernel. False if there is none, or it refuses assumed values. Fails with c10::Error if
 * it refuses known values that a card refuses, too. */
bool compute(const call &call, const Stack &results)
{
    twins on_cpu(c10::DeviceType::CPU);
    try {
        keep_values(run_on_cpu(call, &on_cpu), results);
    } catch (const c10::Error &error) {
        if (call.is_all_known && is_refused_on_card(error))
            throw;
        return false;
    }
    return true;
}

/* True if the values of results are computed: all tensors have values, and these are known or few. */
bool are_computed(const call &call, const Stack &results)
{
    bool have_values = call.has_all_values;
    size_t bytes = 0;
    const auto add = [&](const Tensor &tensor) {
        have_values = have_values && has_values(tensor);
        bytes += tensor.nbytes();
    };
    for (const Stack *tensors : {&call.arguments, &results})
        for (const IValue &value : *tensors)
            each_tensor(value, add);
    return have_values && (call.is_all_known || bytes <= MOST_GUESSED_BYTES);
}

/* True if a result is an argument, or a view of one. */
bool is_alias(const call &call, size_t result)
{
    return call.op.schema().returns()[result].alias_info() != nullptr;
}

/* True if the operator only makes views: it writes nothing, and no result has values of its own. */
bool only_views(const call &call, const Stack &results)
{
    bool has_values_of_its_own = false;
    call.each_written([&](const Tensor &) { has_values_of_its_own = true; });
    for (size_t i = 0; i < results.size(); i++)
        has_values_of_its_own = has_values_of_its_own || !is_alias(call, i);
    return !has_values_of_its_own;
}

/* Fills a tensor that covers its storage, if the operator does that. Returns true if it does. */
bool fill_whole(const call &call)
{
    const std::string &name = call.op.operator_name().name;
    const bool is_fill = name == "aten::fill_" && call.arguments[1].isScalar();
    if (!is_fill && name != "aten::zero_")
        return false;
    const Tensor &tensor = call.arguments[0].toTensor();
    block *owner = block_of_tensor(tensor);
    if (owner == nullptr || !covers_bytes(tensor, owner->bytes))
        return false;
    owner->fill({is_fill ? call.arguments[1].toScalar() : at::Scalar(0), tensor.scalar_type()});
    mark(tensor, true);
    return true;
}

} // namespace

void mark(const Tensor &tensor, bool is_known)
{
    block *owner = block_of_tensor(tensor);
    if (owner == nullptr)
        return;
    owner->is_known = is_known && owner->has_values() && !is_capturing();
    if (owner->values != nullptr)
        owner->all_are.reset(); /* elements may differ from now on */
}

void assume_written(const Tensor &tensor)
{
    if (is_on_card(tensor))
        assume(tensor, usual_assumption(tensor.scalar_type()));
}

/* On a card, an empty tensor has no block, and a tensor over other code's memory has no known block. A storage that
 * shrank has no values for a tensor that needs more. */
bool has_values(const Tensor &tensor)
{
    const block *owner = block_of_tensor(tensor);
    if (owner == nullptr)
        return !is_on_card(tensor) || tensor.numel() == 0;
    return owner->has_values() &&
           needed_bytes(tensor) <= owner->bytes - owner->offset_of(tensor.storage().unsafeGetStorageImpl());
}

bool is_known(const Tensor &tensor)
{
    if (!is_on_card(tensor))
        return !tensor.has_storage() || !is_unknown(tensor.storage().unsafeGetStorageImpl());
    const block *owner = block_of_tensor(tensor);
    return (owner == nullptr || owner->is_known) && has_values(tensor);
}

void give_values(const call &call, const Stack &results)
{
    if (only_views(call, results) || fill_whole(call))
        return;
    const called called{call.op, call.arguments};
    const bool is_check = !call.is_all_known && is_finite_check(called);
    const bool is_computed = !is_check && are_computed(call, results) && compute(call, results);
    const auto give = [&](const std::string &name, const Tensor &tensor) {
        if (is_computed)
            mark(tensor, call.is_all_known);
        else
            assume(tensor, assumed_result(called, name, tensor));
    };
    call.each_written([&](const Tensor &tensor) { give("", tensor); });
    for (size_t i = 0; i < results.size(); i++)
        if (!is_alias(call, i))
            each_tensor(results[i], [&](const Tensor &tensor) { give(call.op.schema().returns()[i].name(), tensor); });
}

void assume_results(const call &call, const Stack &results)
{
    call.each_written(&assume_written);
    for (size_t i = 0; i < results.size(); i++)
        if (!is_alias(call, i))
            each_tensor(results[i], &assume_written);
}

namespace
{

/* True if the size of repeat_interleave's result is given, so that it does not depend on the counts. */
bool has_output_size(const call &call)
{
    return call.op.operator_name().name == "aten::repeat_interleave" && call.arguments.size() == 2 &&
           call.arguments[1].isInt();
}

/* Returns counts that add up to the size of the result: equal ones, and the first takes the rest. */
Tensor spread_counts(const Tensor &counts, int64_t size)
{
    const int64_t each = size / std::max<int64_t>(counts.numel(), 1);
    Tensor spread = at::full(counts.sizes(), each, counts.options().device(at::kCPU));
    if (spread.numel() > 0)
        spread.flatten()[0].add_(size - each * counts.numel());
    return spread;
}

} // namespace

Stack run_by_values(const call &given)
{
    call call = given;
    const bool is_sized = has_output_size(call);
    if (is_sized && !call.is_all_known)
        call.arguments[0] = spread_counts(call.arguments[0].toTensor(), call.arguments[1].toInt());
    if (!is_sized)
        refuse_if_capturing(); /* the kernel waits for a count */
    const std::string &name = call.op.operator_name().name;
    const bool are_different = name.find("unique") != std::string::npos, finds = name == "aten::nonzero";
    twins on_cpu(c10::DeviceType::CPU,
                 are_different ? filling::COUNT
                 : finds       ? filling::TRUTHS
                               : filling::ONES,
                 &fraction_of);
    const Stack computed = run_on_cpu(call, &on_cpu);
    Stack results(computed.size());
    const device_guard guard(call.device);
    on_cpu.carry_over();
    const auto place = [&](size_t i) { results[i] = on_cpu.real_of(computed[i]); };
    take_inside(call.op, call.arguments, computed, place, place);
    keep_values(computed, results);
    const auto mark_known = [&](const Tensor &tensor) { mark(tensor, call.is_all_known); };
    call.each_written(mark_known);
    for (const IValue &result : results)
        each_tensor(result, mark_known);
    if (!call.is_all_known && !is_sized && (are_different || call.op.hasTag(at::Tag::dynamic_output_shape)))
        note_assumption(name + (are_different ? " (all different)" : ""),
                        finds ? fraction_of(call.arguments[0].toTensor()) : 1);
    return results;
}

namespace
{

/* Copies values if both tensors have some, and records whether the copy is known. */
void copy_known_values(const Tensor &to, const Tensor &from)
{
    const block *owner = block_of_tensor(to);
    const bool covers_all = owner != nullptr && covers_bytes(to, owner->bytes);
    values_of(to).copy_(values_of(from));
    if (is_on_card(to))
        mark(to, is_known(from) && (covers_all || is_known(to)));
    else
        mark_on_host(to, is_known(from));
}

} // namespace

void copy_values(const Tensor &to, const Tensor &from)
{
    if (has_values(from) && has_values(to))
        copy_known_values(to, from);
    else if (is_on_card(to))
        assume(to, content_of_copy(from, to.scalar_type()));
    else
        assume_on_host(to, content_of_copy(from, to.scalar_type()));
}

at::Scalar item(const Tensor &tensor)
{
    refuse_if_capturing();
    if (is_known(tensor))
        return at::_local_scalar_dense(values_of(tensor));
    const at::Scalar value = has_values(tensor) ? at::_local_scalar_dense(values_of(tensor)) : element_of(tensor);
    note_assumption("a number", value.isComplex() ? NAN : value.toDouble());
    return value;
}

bool are_equal(const Tensor &one, const Tensor &other)
{
    refuse_if_capturing();
    if (one.sizes() != other.sizes())
        return false;
    if (one.numel() > 0)
        at::eq(one, other).all(); /* native/cuda/Equal.cpp: allocated, and not used */
    if (is_known(one) && is_known(other))
        return at::equal(values_of(one), values_of(other));
    note_assumption("equal", 1);
    return true;
}

void unscale(at::TensorList gradients, Tensor &found_infinite, const Tensor &factor)
{
    std::vector<Tensor> computed, others;
    for (const Tensor &gradient : gradients)
        if (has_values(gradient))
            (is_known(gradient) ? computed : others).push_back(values_of(gradient));
    Tensor found = values_of(found_infinite), ignored = at::zeros_like(found);
    if (!computed.empty())
        at::_amp_foreach_non_finite_check_and_unscale_(computed, found, values_of(factor));
    if (!others.empty())
        at::_amp_foreach_non_finite_check_and_unscale_(others, ignored, values_of(factor));
}

namespace
{

Tensor tensor_at(void *address)
{
    return Tensor(c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::unsafe_reclaim_from_nonowning(
        static_cast<c10::TensorImpl *>(address)));
}

} // namespace

} // namespace mt_dry

void memtrace_dry_written(void *tensor)
{
    mt_dry::assume_written(mt_dry::tensor_at(tensor));
}

int memtrace_dry_is_known(void *tensor)
{
    return mt_dry::is_known(mt_dry::tensor_at(tensor));
}
