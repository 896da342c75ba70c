/* The memory that a card's operators allocate inside, besides their results. memtrace's table of operators lists it
 * (torch/torch_plan.h). It is allocated and freed here around the results.
 *
 * Threads: one object, one thread. */
#pragma once

#include "operators/operator_call.h"

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

namespace mt_dry
{

/* Describes a tensor for memtrace's rules. Borrows its sizes. */
mt_operand operand_of(const at::Tensor &tensor);

/* Allocates and frees a call's inner memory, and allocates its results in between: `take` allocates the result with a
 * number; `to_host` puts it on the host instead. `results` come from the meta kernel, or the CPU's. Counts the call if
 * the table lacks the operator. */
void take_inside(const c10::OperatorHandle &op, const std::vector<c10::IValue> &arguments,
                 const std::vector<c10::IValue> &results, const std::function<void(size_t)> &take,
                 const std::function<void(size_t)> &to_host);

/* Allocates and frees the inner memory that the table lists for `name`, a kernel that PyTorch calls without an
 * operator. Its arguments have the names that the rule looks for. Its results exist already and may be among them. */
void take_without_operator(const char *name, const std::vector<std::pair<const char *, c10::IValue>> &arguments);

/* Returns the bytes that the table lists for result `number` of such a call; 0 if it does not name that result. */
int64_t listed_bytes(const char *name, const std::vector<std::pair<const char *, c10::IValue>> &arguments, int number);

/* True if the table has an operator. */
bool is_in_table(const c10::OperatorHandle &op);

/* For a call that only writes into its arguments: allocates and frees the inner memory that the table lists. */
void take_before(const c10::OperatorHandle &op, const std::vector<c10::IValue> &arguments);

/* Counts a call whose scratch memory is unknown, unless the table has the operator. */
void count_unless_known(const c10::OperatorHandle &op, const std::vector<c10::IValue> &results);

} // namespace mt_dry
