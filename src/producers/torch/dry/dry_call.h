/* A call of an operator on a card, with its arguments as they came. */
#pragma once

#include "producers/torch/dry/dry_twins.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace mt_dry
{

using device_guard = c10::impl::InlineDeviceGuard<c10::impl::VirtualGuardImpl>;

/* Calls whose tensors have at most this many bytes in total, such as an average of two losses, are computed from
 * assumed values, too. */
constexpr size_t MOST_GUESSED_BYTES = 4096;

/* True if a tensor has values on the host; true if they equal a card's values. Both are true for a tensor on the
 * host. */
bool has_values(const at::Tensor &tensor);
bool is_known(const at::Tensor &tensor);

/* Returns the device with an index: the current card if it has none. */
inline c10::Device card(std::optional<c10::Device> device)
{
    return device.has_value() && device->has_index() ? *device : c10::Device(c10::DeviceType::CUDA, current_device());
}

struct call {
    const c10::OperatorHandle &op;
    std::vector<c10::IValue> arguments;
    c10::Device device;                              /* of the first argument that has one */
    at::Generator generator;                         /* defined if the call has one; it is removed from the arguments */
    bool has_all_values = true, is_all_known = true; /* of all arguments */

    call(const c10::OperatorHandle &op, const torch::jit::Stack &stack)
        : op(op), arguments(stack.end() - static_cast<ptrdiff_t>(op.schema().arguments().size()), stack.end()),
          device(card(std::nullopt))
    {
        bool is_found = false;
        for (c10::IValue &argument : arguments) {
            if (argument.isGenerator())
                take_generator(&argument);
            if (argument.isDevice() && argument.toDevice().type() == c10::DeviceType::CUDA)
                device = card(argument.toDevice());
            each_tensor(argument, [&](const at::Tensor &tensor) {
                has_all_values = has_all_values && has_values(tensor);
                is_all_known = is_all_known && is_known(tensor);
                if (!is_found && is_on_card(tensor)) {
                    device = tensor.device();
                    is_found = true;
                }
            });
        }
    }

    /* Removes the generator from the arguments. Throws c10::Error for a generator of the host, as kernels on a card
     * do. */
    void take_generator(c10::IValue *argument)
    {
        generator = std::exchange(*argument, c10::IValue()).toGenerator();
        TORCH_CHECK(generator.device().type() == c10::DeviceType::CUDA,
                    "Expected a 'cuda' device type for generator but found '", generator.device().type(), "'");
    }

    /* Calls the operator with twins instead of the arguments, and returns its results. */
    torch::jit::Stack run(twins &twins) const
    {
        torch::jit::Stack stack;
        stack.reserve(arguments.size());
        for (const c10::IValue &argument : arguments)
            stack.push_back(twins.twin_of(argument));
        op.callBoxed(stack);
        return stack;
    }

    /* Calls `visit` with each tensor that the operator writes into. */
    template <typename function> void each_written(function visit) const
    {
        for (size_t i = 0; i < arguments.size(); i++) {
            const c10::AliasInfo *alias = op.schema().arguments()[i].alias_info();
            if (alias != nullptr && alias->isWrite())
                each_tensor(arguments[i], visit);
        }
    }
};

} // namespace mt_dry
