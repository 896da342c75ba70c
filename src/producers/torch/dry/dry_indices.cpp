#include "producers/torch/dry/dry_indices.h"

#include "producers/torch/dry/dry_values.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/aminmax.h>
#include <ATen/WrapDimUtils.h>
#include <c10/util/ParallelGuard.h>

#include <string>
#include <unordered_map>

namespace mt_dry
{

using at::Tensor;
using c10::IValue;
using c10::OperatorHandle;

namespace
{

/* The size of the first argument that limits the indices. */
enum class limits {
    DIM,      /* the dimension that the argument "dim" names */
    ROWS,     /* the first one */
    CLASSES,  /* the second one, or the only one */
    EACH,     /* the one at the index's place in the list */
    ELEMENTS, /* all elements */
};

/* How an operator uses indices, as asserted by its CUDA kernel. */
struct index_rule {
    const char *argument; /* the name of the indices */
    limits limit;
    bool counts_back; /* true: -1 is the last element */
};

/* By operator name, without the trailing "_" of in-place operators. */
const std::unordered_map<std::string, index_rule> RULES = {
    {"aten::gather", {"index", limits::DIM, false}},
    {"aten::index_add", {"index", limits::DIM, false}},
    {"aten::index_copy", {"index", limits::DIM, false}},
    {"aten::index_fill", {"index", limits::DIM, true}},
    {"aten::index_reduce", {"index", limits::DIM, false}},
    {"aten::index_select", {"index", limits::DIM, false}},
    {"aten::scatter", {"index", limits::DIM, false}},
    {"aten::scatter_add", {"index", limits::DIM, false}},
    {"aten::scatter_reduce", {"index", limits::DIM, false}},
    {"aten::_embedding_bag", {"indices", limits::ROWS, false}},
    {"aten::_embedding_bag_forward_only", {"indices", limits::ROWS, false}},
    {"aten::nll_loss_forward", {"target", limits::CLASSES, false}},
    {"aten::nll_loss2d_forward", {"target", limits::CLASSES, false}},
    {"aten::index", {"indices", limits::EACH, true}},
    {"aten::index_put", {"indices", limits::EACH, true}},
    {"aten::_index_put_impl", {"indices", limits::EACH, true}},
    {"aten::put", {"index", limits::ELEMENTS, true}},
    {"aten::take", {"index", limits::ELEMENTS, true}},
};

/* Returns the rule of an operator, looked up once per thread; nullptr if there is none. */
const index_rule *find_index_rule(const OperatorHandle &op)
{
    static thread_local std::unordered_map<const c10::FunctionSchema *, const index_rule *> all;
    const auto [place, is_new] = all.try_emplace(&op.schema(), nullptr);
    if (is_new) {
        std::string name = op.operator_name().name;
        if (name.back() == '_')
            name.pop_back();
        const auto found = RULES.find(name);
        place->second = found != RULES.end() ? &found->second : nullptr;
    }
    return place->second;
}

/* Returns the argument with a name; None if there is none. */
IValue argument_of(const call &call, const char *name)
{
    const std::optional<int> place = call.op.schema().argumentIndexWithName(name);
    return place.has_value() ? call.arguments[*place] : IValue();
}

/* Returns the values of indices, without ignored classes. */
Tensor values_of_indices(const call &call, const Tensor &index)
{
    const Tensor values = values_of(index);
    const IValue ignored = argument_of(call, "ignore_index");
    return ignored.isInt() ? values.masked_select(values.ne(ignored.toInt())) : values;
}

/* Checks indices against a dimension, or against all elements if there is no dimension. The operator itself reports a
 * dimension that the tensor lacks. */
void check_index(const call &call, const index_rule &rule, const Tensor &index, std::optional<int64_t> dim)
{
    if (!index.defined() || index.nbytes() > MOST_VALUE_BYTES || !is_known(index))
        return;
    const Tensor self = call.arguments[0].toTensor(), values = values_of_indices(call, index);
    if (values.numel() == 0 || dim.value_or(0) >= std::max<int64_t>(self.dim(), 1))
        return;
    const bool is_flat = !dim.has_value() || self.dim() == 0;
    const int64_t size = is_flat ? self.numel() : self.size(*dim);
    const auto [least, greatest] = at::aminmax(values);
    const auto lowest = least.item<int64_t>(), highest = greatest.item<int64_t>();
    const std::string where =
        is_flat ? std::to_string(size) + " elements" : c10::str("dimension ", *dim, " with size ", size);
    TORCH_CHECK_INDEX(lowest >= (rule.counts_back ? -size : 0) && highest < size, call.op.operator_name().name,
                      ": index ", highest < size ? lowest : highest, " is out of bounds for ", where,
                      "; a card fails with \"CUDA error: device-side assert triggered\"");
}

void check_each(const call &call, const index_rule &rule, const IValue &indices)
{
    int64_t dim = 0;
    for (const std::optional<Tensor> &index : indices.toOptionalTensorVector())
        check_index(call, rule, index.value_or(Tensor()), dim++);
}

/* Returns the dimension that limits the indices; nothing if all elements do. */
std::optional<int64_t> dim_of(const call &call, const index_rule &rule)
{
    const Tensor &self = call.arguments[0].toTensor();
    if (rule.limit == limits::ELEMENTS)
        return std::nullopt;
    if (rule.limit == limits::DIM)
        return at::maybe_wrap_dim(argument_of(call, "dim").toInt(), self.dim());
    return rule.limit == limits::CLASSES && self.dim() > 1 ? 1 : 0;
}

} // namespace

void check_indices(const call &call)
{
    const index_rule *rule = find_index_rule(call.op);
    if (rule == nullptr)
        return;
    const c10::ParallelGuard is_parallel(true); /* indices are few: waking other threads takes longer than they save */
    const IValue indices = argument_of(call, rule->argument);
    if (rule->limit == limits::EACH && indices.isOptionalTensorList())
        check_each(call, *rule, indices);
    else if (indices.isTensor())
        check_index(call, *rule, indices.toTensor(), dim_of(call, *rule));
}

bool adds_no_rows(const call &call)
{
    const std::string &name = call.op.operator_name().name;
    const bool adds_rows = name.rfind("aten::index_add", 0) == 0 || name.rfind("aten::index_reduce", 0) == 0;
    return adds_rows && argument_of(call, "index").toTensor().numel() == 0;
}

Tensor add_no_rows(const call &call)
{
    const Tensor &self = call.arguments[0].toTensor();
    const IValue out = argument_of(call, "out");
    if (out.isTensor()) {
        at::native::resize_output(out.toTensor(), self.sizes());
        return out.toTensor().copy_(self);
    }
    return call.op.operator_name().name.back() == '_' ? self : self.clone(at::MemoryFormat::Contiguous);
}

} // namespace mt_dry
