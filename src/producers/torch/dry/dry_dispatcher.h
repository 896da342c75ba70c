/* Reads the dispatcher's kernels, and adds some under its lock. Only friends of the dispatcher may do so. Typed
 * operator handles are friends, whatever their type. */
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace mt_dry
{

struct reader_of_kernels;

} // namespace mt_dry

template <> class c10::TypedOperatorHandle<mt_dry::reader_of_kernels>
{
  public:
    static const KernelFunction &kernel(const OperatorHandle &op, DispatchKey key)
    {
        return op.operatorDef_->op.kernelForDispatchKey(key);
    }

    static void add(const OperatorHandle &op, DispatchKey key, KernelFunction kernel)
    {
        op.operatorDef_->op.registerKernel(Dispatcher::singleton(), key, std::move(kernel), std::nullopt, nullptr,
                                           "memtrace");
    }
};

namespace mt_dry
{

/* kernels_of::kernel(op, key) returns the kernel that was registered for a key. Throws c10::Error if there is none.
 * kernels_of::add(op, key, kernel) registers one for as long as the operator is defined. The caller holds the
 * dispatcher's lock, as a listener does. */
using kernels_of = c10::TypedOperatorHandle<reader_of_kernels>;

} // namespace mt_dry
