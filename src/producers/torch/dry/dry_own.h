/* Operators that have a kernel of our own on the card, instead of the one that serves every operator. */
#pragma once

#include <torch/library.h>

#include <string>
#include <unordered_set>

namespace mt_dry
{

/* The names of these operators: "aten::copy_". */
inline std::unordered_set<std::string> own_kernels;

/* Registers such a kernel in a library of aten: of "copy_". */
template <typename kernel> void register_own(torch::Library &aten, const char *name, kernel *function)
{
    own_kernels.insert(std::string("aten::") + name);
    aten.impl(name, function);
}

} // namespace mt_dry
