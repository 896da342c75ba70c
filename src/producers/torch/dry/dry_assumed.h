/* What a dry run assumes of values that were not computed.
 *
 * An unknown tensor holds the same in all its elements: a number, or in a mask a fraction of elements that are true. From what the
 * arguments of a call hold follows what its results hold, as far as programs depend on it:
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

/* An operator and the arguments that it gets, which it borrows. */
struct called {
    const c10::OperatorHandle &op;
    const std::vector<c10::IValue> &arguments;
};

/* Returns what elements of the dtype are assumed to hold where nothing else is known: the number that the user has chosen, 1 for
 * integers, the chosen fraction for masks. */
filled usual_assumption(c10::ScalarType type);

/* Returns what an unknown tensor, on a card or on the host, holds in each element. A guess where elements differ. */
double content_of(const at::Tensor &tensor);

/* Returns what an unknown storage of the host holds. */
double content_of_storage(const c10::StorageImpl *storage);

/* Returns what the element is assumed to be that an unknown tensor without values has. */
at::Scalar element_of(const at::Tensor &tensor);

/* Returns the fraction of a tensor's elements that are not zero. */
double fraction_of(const at::Tensor &tensor);

/* Returns what a copy of an unknown tensor holds. */
filled content_of_copy(const at::Tensor &from, c10::ScalarType type);

/* True if an operator checks whether values are finite, or for NaN. Its result is assumed, and never computed from what is. */
bool is_finite_check(const called &call);

/* Returns what a result, or an argument that is written, holds after a call with unknown arguments. `name` is the result's in the
 * schema; "" for an argument. */
filled assumed_result(const called &call, const std::string &name, const at::Tensor &result);

/* Writes into each element of a tensor on the host. */
void write_into(const at::Tensor &values, const filled &with);

/* Counts, for the line of the program, that a value which was not computed is needed and what is assumed. `name` says how the
 * program uses it. */
void note_assumption(const std::string &name, double value);

} // namespace mt_dry
