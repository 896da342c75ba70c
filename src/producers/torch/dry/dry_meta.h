/* PyTorch's compiled meta kernels, which compute the shapes, strides and dtypes of results.
 *
 * As torch is imported, Python registers meta functions of its own for half of the operators. They support symbolic
 * sizes, and take a hundred times as long. They hide the compiled kernels, which are used again while shapes are
 * computed for a call on a card, also for the operators that it calls. At other times, as for fake tensors, Python's
 * are used.
 *
 *   before Python's ──▶ keep_compiled_shapes
 *   after           ──▶ use_compiled_shapes
 *
 * Threads: the two functions: one, before the first call on a card. */
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace mt_dry
{

/* Keeps the compiled meta kernels, and this folder's. */
void keep_compiled_shapes();

/* Prefers the kept kernels to those that Python has registered since, while a shapes_of_call lives. */
void use_compiled_shapes();

/* While it lives, the thread computes shapes for a call on a card. */
class shapes_of_call
{
  public:
    shapes_of_call();
    ~shapes_of_call();
    shapes_of_call(const shapes_of_call &) = delete;
    shapes_of_call &operator=(const shapes_of_call &) = delete;

  private:
    bool before_;
};

} // namespace mt_dry
