/* What a dry run assumes about values that were not computed.
 *
 * All elements of an unknown tensor hold the same: a number or, in a mask, the fraction of true elements. The content
 * of a call's arguments determines the content of its results, as far as programs depend on it:
 *
 *   numbers   their signs: the dot product of a gradient and its negation is negative, so LBFGS follows its usual path. A
 *             difference has the opposite sign, since values shrink during a training
 *   scalars   each is a little smaller than the one before: programs stop at two equal losses
 *   masks     not, and, or; all and any; the sum is the count
 *   checks    isnan, isinf and isfinite say that everything is finite
 *
 * Threads: any. The sequence of scalars is the same in each run, and in ranks that make the same calls. */
#pragma once

#include "producers/torch/dry/dry_call.h"

namespace mt_dry
{

/* An operator and its arguments, which it borrows. */
struct called {
    const c10::OperatorHandle &op;
    const std::vector<c10::IValue> &arguments;
};

/* Returns the assumed content of elements of the dtype if nothing else is known: the number that the user has chosen, 1
 * for integers, the chosen fraction for masks. */
filled usual_assumption(c10::ScalarType type);

/* Returns the content of each element of an unknown tensor, on a card or on the host. A guess if elements differ. */
double content_of(const at::Tensor &tensor);

/* Returns the content of an unknown storage on the host. */
double content_of_storage(const c10::StorageImpl *storage);

/* Returns the assumed element of an unknown tensor without values. */
at::Scalar element_of(const at::Tensor &tensor);

/* Returns the fraction of a tensor's elements that are not zero. */
double fraction_of(const at::Tensor &tensor);

/* Returns the content of a copy of an unknown tensor. */
filled content_of_copy(const at::Tensor &from, c10::ScalarType type);

/* True if an operator checks whether values are finite, or for NaN. Its result is always assumed, never computed from
 * assumed values. */
bool is_finite_check(const called &call);

/* Returns the content of a result, or of a written argument, after a call with unknown arguments. `name` is the
 * result's name in the schema; "" for an argument. */
filled assumed_result(const called &call, const std::string &name, const at::Tensor &result);

/* Writes into each element of a tensor on the host. */
void write_into(const at::Tensor &values, const filled &with);

/* Records that the current line of the program needs a value that was not computed, and which value is assumed. `name`
 * says how the program uses it. */
void note_assumption(const std::string &name, double value);

} // namespace mt_dry
