/* Failures as PyTorch understands them. C++ alone. */
#ifndef MT_TORCH_TORCH_THROW_H
#define MT_TORCH_TORCH_THROW_H

#include "base/status.h"

/* MT_OUT_OF_MEMORY is thrown as PyTorch's own c10::OutOfMemoryError, which Python code gets as torch.OutOfMemoryError and
 * PyTorch's own code catches, to try a smaller workspace. Everything else, or if PyTorch is built so that it can't be made
 * from outside, is a std::runtime_error, which Python gets as RuntimeError. */
[[noreturn]] void mt_torch_throw(mt_status status, const char *text);

#endif
