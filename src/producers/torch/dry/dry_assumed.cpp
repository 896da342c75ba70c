#include "producers/torch/dry/dry_assumed.h"

#include "producers/torch/dry/dry_library.h"
#include "producers/torch/dry/dry_writing.h"

#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/empty.h>

#include <atomic>
#include <cmath>
#include <string_view>
#include <unordered_map>

namespace mt_dry
{

using at::Tensor;
using c10::IValue;

namespace
{

/* ---- what the user has chosen, and who counts ---- */

double assumed_number = 1, assumed_masks = 1;
void (*on_assumption)(const char *name, double value);

/* ---- rules ---- */

/* How an operator's arguments determine its results. */
enum class rule {
    FIRST,      /* the content of the first argument that does not hold zeros */
    OPPOSITE,   /* the negation of the first argument */
    PRODUCT,    /* the product of all */
    DIFFERENCE, /* the opposite of the first argument if the second one has its sign */
    LEAST,      /* of masks: the smaller fraction */
    MOST,       /* of masks: the larger fraction */
    ALL,        /* true if all elements are */
    ANY,        /* true if one element is */
    SCATTERED,  /* of a mask: also as many true, or false, elements as there are indices */
    EXCEEDS,    /* false if the limit is above the assumed numbers, as for outliers */
    NEVER       /* false: nothing is infinite or NaN */
};

/* In-place operators have the same name with a trailing underscore. */
const std::unordered_map<std::string_view, rule> rules = {
    {"aten::add", rule::FIRST},
    {"aten::all", rule::ALL},
    {"aten::any", rule::ANY},
    {"aten::bitwise_and", rule::LEAST},
    {"aten::bitwise_not", rule::OPPOSITE},
    {"aten::bitwise_or", rule::MOST},
    {"aten::bmm", rule::PRODUCT},
    {"aten::cat", rule::FIRST},
    {"aten::div", rule::PRODUCT},
    {"aten::dot", rule::PRODUCT},
    {"aten::gather", rule::FIRST},
    {"aten::ge", rule::EXCEEDS},
    {"aten::gt", rule::EXCEEDS},
    {"aten::index", rule::FIRST},
    {"aten::index_select", rule::FIRST},
    {"aten::isinf", rule::NEVER},
    {"aten::isnan", rule::NEVER},
    {"aten::isneginf", rule::NEVER},
    {"aten::isposinf", rule::NEVER},
    {"aten::lerp", rule::FIRST},
    {"aten::logical_and", rule::LEAST},
    {"aten::logical_not", rule::OPPOSITE},
    {"aten::logical_or", rule::MOST},
    {"aten::mean", rule::FIRST},
    {"aten::mm", rule::PRODUCT},
    {"aten::mul", rule::PRODUCT},
    {"aten::mv", rule::PRODUCT},
    {"aten::neg", rule::OPPOSITE},
    {"aten::scatter", rule::SCATTERED},
    {"aten::stack", rule::FIRST},
    {"aten::sub", rule::DIFFERENCE},
    {"aten::sum", rule::FIRST},
    {"aten::vdot", rule::PRODUCT},
};

std::string_view base_name(const called &call)
{
    std::string_view name = call.op.operator_name().name;
    return name.back() == '_' ? name.substr(0, name.size() - 1) : name;
}

const rule *find_rule(const called &call)
{
    const auto found = rules.find(base_name(call));
    return found != rules.end() ? &found->second : nullptr;
}

bool is_mask(const Tensor &tensor)
{
    return tensor.scalar_type() == at::kBool;
}

/* Returns the content of the numbers and tensors among the arguments, in order. */
std::vector<double> contents_of(const called &call)
{
    std::vector<double> contents;
    for (const IValue &argument : call.arguments) {
        each_tensor(argument, [&](const Tensor &tensor) { contents.push_back(content_of(tensor)); });
        if (argument.isDouble() || argument.isInt())
            contents.push_back(argument.toScalar().toDouble());
    }
    return contents;
}

double sign_of(double value)
{
    return value > 0 ? 1 : value < 0 ? -1 : 0;
}

double first_sign(const std::vector<double> &contents)
{
    for (const double content : contents)
        if (content != 0)
            return sign_of(content);
    return 0;
}

/* Returns the sign of a result that is a number. */
double sign_by_rule(const called &call)
{
    const rule *rule = find_rule(call);
    if (rule == nullptr)
        return 1;
    const std::vector<double> contents = contents_of(call);
    const double first = first_sign(contents);
    double product = 1;
    switch (*rule) {
    case rule::OPPOSITE:
        return -first;
    case rule::DIFFERENCE:
        return contents.size() > 1 && first * contents[1] > 0 && base_name(call) == call.op.operator_name().name
                   ? -first
                   : first;
    case rule::PRODUCT:
        for (const double content : contents)
            product *= sign_of(content);
        return product;
    default:
        return first;
    }
}

/* True if a call compares a tensor of assumed numbers with a number above them. */
bool has_high_limit(const called &call)
{
    const IValue &number = call.arguments[0], &limit = call.arguments[1];
    return number.isTensor() && at::isFloatingType(number.toTensor().scalar_type()) && limit.isDouble() &&
           limit.toDouble() > std::max(assumed_number, content_of(number.toTensor()));
}

/* scatter(mask, dim, index, value), as of the experts that a router chooses */
double scattered_fraction(const called &call, double before)
{
    const IValue &mask = call.arguments[0], &index = call.arguments[2], &value = call.arguments[3];
    if (!mask.isTensor() || !index.isTensor())
        return before;
    const auto all = static_cast<double>(std::max<int64_t>(mask.toTensor().numel(), 1));
    const double change = static_cast<double>(index.toTensor().numel()) / all;
    const bool is_true = value.isTensor() ? content_of(value.toTensor()) != 0 : value.toScalar().toDouble() != 0;
    return is_true ? std::min(before + change, 1.) : std::max(before - change, 0.);
}

/* Returns the fraction of true elements in a mask. */
double fraction_by_rule(const called &call)
{
    const rule *rule = find_rule(call);
    const std::vector<double> contents = contents_of(call);
    if (rule == nullptr || contents.empty())
        return assumed_masks;
    const double first = std::abs(contents[0]), second = contents.size() > 1 ? std::abs(contents[1]) : first;
    switch (*rule) {
    case rule::OPPOSITE:
        return 1 - std::min(first, 1.);
    case rule::LEAST:
    case rule::PRODUCT:
        return std::min(first, second);
    case rule::MOST:
        return std::max(first, second);
    case rule::ALL:
        return first >= 1 ? 1 : 0;
    case rule::ANY:
        return first > 0 ? 1 : 0;
    case rule::SCATTERED:
        return scattered_fraction(call, first);
    case rule::EXCEEDS:
        return has_high_limit(call) ? 0 : assumed_masks;
    case rule::NEVER:
        return 0;
    default:
        return first;
    }
}

/* ---- comparisons that check for NaN and infinity; isfinite calls them ---- */

/* True if a call compares a tensor with itself or with infinity. */
bool compares_for_check(const called &call)
{
    if (call.arguments.size() < 2)
        return false;
    const IValue &left = call.arguments[0], &right = call.arguments[1];
    if (left.isTensor() && right.isTensor())
        return left.toTensor().is_same(right.toTensor());
    return right.isDouble() && !std::isfinite(right.toDouble());
}

/* Returns the answer of a check: everything is finite. The call must be a check. */
double answer_of_check(const called &call)
{
    const std::string_view name = base_name(call);
    if (name != "aten::eq" && name != "aten::ne")
        return 0;
    return (name == "aten::eq") == call.arguments[1].isTensor() ? 1 : 0;
}

/* ---- numbers ---- */

/* Returns a factor that is a little smaller at each call, and never 0. */
double shrink()
{
    static std::atomic<uint64_t> count;
    return 1 / (1 + static_cast<double>(count++) / 1024);
}

/* True if a call counts the elements in each of several ranges. */
bool is_histogram(const called &call)
{
    const std::string_view name = base_name(call);
    return name == "aten::bincount" || name == "aten::histc";
}

/* True if a call counts the true elements of a mask, or all elements by range. */
bool is_count(const called &call)
{
    const std::string_view name = base_name(call);
    return is_histogram(call) || ((name == "aten::sum" || name == "aten::count_nonzero") &&
                                  call.arguments[0].isTensor() && is_mask(call.arguments[0].toTensor()));
}

/* The elements are spread evenly over the results. */
filled count_of(const called &call, const Tensor &result)
{
    const Tensor &counted = call.arguments[0].toTensor();
    const int64_t each = counted.numel() / std::max<int64_t>(result.numel(), 1);
    const double fraction = is_histogram(call) ? 1 : content_of(counted);
    const double most = std::ldexp(1, static_cast<int>(8 * result.itemsize() - 1)) - 1; /* of an integer */
    return {at::Scalar(std::min(std::floor(fraction * static_cast<double>(each)), most)), result.scalar_type()};
}

/* True if a tensor has one element that can be read without the dispatcher. */
bool is_plain_number(const Tensor &tensor)
{
    return tensor.numel() == 1 && tensor.has_storage() && (is_on_card(tensor) || tensor.is_cpu()) &&
           has_values(tensor) && !tensor.is_complex() && !tensor.key_set().has(c10::DispatchKey::Python);
}

/* Returns the value of such a tensor. */
double number_in(const Tensor &tensor)
{
    const c10::impl::ExcludeDispatchKeyGuard unread(c10::DispatchKey::DeferredInit);
    return at::_local_scalar_dense(values_of(tensor)).toDouble();
}

std::optional<filled> held_by(const Tensor &tensor)
{
    const c10::StorageImpl *storage = tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
    if (storage == nullptr)
        return std::nullopt;
    if (!is_on_card(tensor))
        return content_of_host(storage);
    const block *owner = block_of(storage);
    return owner != nullptr ? owner->all_are : std::nullopt;
}

} // namespace

filled usual_assumption(c10::ScalarType type)
{
    if (type == at::kBool)
        return {at::Scalar(assumed_masks), type};
    return {at::isFloatingType(type) || at::isComplexType(type) ? at::Scalar(assumed_number) : at::Scalar(1.), type};
}

double content_of(const Tensor &tensor)
{
    if (is_plain_number(tensor))
        return number_in(tensor);
    const std::optional<filled> held = held_by(tensor);
    if (!held.has_value() || held->value.isComplex())
        return usual_assumption(tensor.scalar_type()).value.toDouble();
    const double value = held->value.toDouble();
    return is_mask(tensor) && held->type != at::kBool ? sign_of(std::abs(value)) : value;
}

double content_of_storage(const c10::StorageImpl *storage)
{
    const std::optional<filled> held = content_of_host(storage);
    return held.has_value() && !held->value.isComplex() ? held->value.toDouble() : assumed_number;
}

at::Scalar element_of(const Tensor &tensor)
{
    const double content = content_of(tensor);
    if (is_mask(tensor))
        return at::Scalar(content >= 1);
    return at::isFloatingType(tensor.scalar_type()) ? at::Scalar(content) : at::Scalar(static_cast<int64_t>(content));
}

double fraction_of(const Tensor &tensor)
{
    const double content = content_of(tensor);
    return is_mask(tensor) ? content : content == 0 ? 0 : assumed_masks;
}

filled content_of_copy(const Tensor &from, c10::ScalarType type)
{
    const double content = content_of(from);
    if (is_mask(from) == (type == at::kBool))
        return {at::Scalar(content), type};
    return content == 0 ? filled{at::Scalar(0.), type} : usual_assumption(type);
}

bool is_finite_check(const called &call)
{
    const std::string_view name = base_name(call);
    const rule *rule = find_rule(call);
    return (rule != nullptr && *rule == rule::NEVER) ||
           ((name == "aten::eq" || name == "aten::ne") && compares_for_check(call));
}

filled assumed_result(const called &call, const std::string &name, const Tensor &result)
{
    const c10::ScalarType type = result.scalar_type();
    if (name == "info") /* 0: a factorization has gone well */
        return {at::Scalar(0.), type};
    if (type == at::kBool)
        return {at::Scalar(is_finite_check(call) ? answer_of_check(call) : fraction_by_rule(call)), type};
    if (is_count(call))
        return count_of(call, result);
    filled usual = usual_assumption(type);
    if (!at::isFloatingType(type))
        return usual;
    const double factor = sign_by_rule(call) * (result.numel() == 1 ? shrink() : 1);
    return {at::Scalar(usual.value.toDouble() * factor), type};
}

void write_into(const Tensor &values, const filled &with)
{
    const c10::impl::ExcludeDispatchKeyGuard plain(c10::autograd_dispatch_keyset_with_ADInplaceOrView |
                                                   c10::DispatchKeySet(c10::DispatchKey::DeferredInit));
    if (values.numel() == 0)
        return;
    if (with.type != at::kBool) {
        values.fill_(with.value);
        return;
    }
    const Tensor pattern = at::empty({values.numel()}, at::TensorOptions(at::kBool));
    write(with, static_cast<char *>(pattern.mutable_data_ptr()), pattern.nbytes());
    values.copy_(pattern.view(values.sizes()));
}

void note_assumption(const std::string &name, double value)
{
    if (on_assumption != nullptr)
        on_assumption(name.c_str(), value);
}

} // namespace mt_dry

void memtrace_dry_assume(double number, double masks, void (*note)(const char *name, double value))
{
    mt_dry::assumed_number = number;
    mt_dry::assumed_masks = masks;
    mt_dry::on_assumption = note;
}
