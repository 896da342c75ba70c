/* What a card's operators take inside, beside their results: told by memtrace's table of operators (torch/torch_plan.h), taken
 * and given back here around the results.
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

/* Returns a tensor as memtrace's rules see it. Borrows its sizes. */
mt_operand operand_of(const at::Tensor &tensor);

/* Takes what the call of an operator takes, and its results in between: `take` makes the result of that number; `to_host` puts
 * one on the host instead. `results` come from the meta kernel, or the CPU's. Counts the call if the table lacks the operator. */
void take_inside(const c10::OperatorHandle &op, const std::vector<c10::IValue> &arguments,
                 const std::vector<c10::IValue> &results, const std::function<void(size_t)> &take,
                 const std::function<void(size_t)> &to_host);

/* Allocates and frees what the table lists for `name`, a kernel that PyTorch calls without an operator. Its arguments have the
 * names that the rule looks for; its results, which are there, may be among them. */
void take_without_operator(const char *name, const std::vector<std::pair<const char *, c10::IValue>> &arguments);

/* Returns the bytes that the table lists for result `number` of such a call; 0 if it does not name that result. */
int64_t listed_bytes(const char *name, const std::vector<std::pair<const char *, c10::IValue>> &arguments, int number);

/* True if the table has an operator. */
bool is_in_table(const c10::OperatorHandle &op);

/* Of a call that only writes into its arguments: takes and gives back what the table says. */
void take_before(const c10::OperatorHandle &op, const std::vector<c10::IValue> &arguments);

/* Counts a call whose scratch memory is unknown, unless the table has the operator. */
void count_unless_known(const c10::OperatorHandle &op, const std::vector<c10::IValue> &results);

} // namespace mt_dry
