/* Reads the dispatcher's kernels. It returns an operator's kernel for a key only to its friends. Handles with a type are
 * friends, whatever the type. */
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
};

namespace mt_dry
{

/* kernels_of::kernel(op, key) returns the kernel that was registered for a key. Throws c10::Error if there is none. */
using kernels_of = c10::TypedOperatorHandle<reader_of_kernels>;

} // namespace mt_dry
