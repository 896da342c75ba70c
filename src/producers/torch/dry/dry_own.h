/* Registering kernels. Ours replace PyTorch's without a warning. Operators with a kernel of our own on the card do not
 * use the one that serves every operator. */
#pragma once

#include <c10/util/Exception.h>
#include <torch/library.h>

#include <string>
#include <unordered_set>

namespace mt_dry
{

/* While it lives, the thread's warnings are dropped: where PyTorch has a kernel, it warns that ours replaces it. */
class silent_registration
{
    class silence final : public c10::WarningHandler
    {
      public:
        void process(const c10::Warning &) override
        {
        }
    };

    silence silence_;
    c10::WarningUtils::WarningHandlerGuard guard_{&silence_};
};

/* The names of these operators: "aten::copy_". */
inline std::unordered_set<std::string> own_kernels;

/* Registers such a kernel in a library of aten: of "copy_". */
template <typename kernel> void register_own(torch::Library &aten, const char *name, kernel *function)
{
    own_kernels.insert(std::string("aten::") + name);
    aten.impl(name, function);
}

} // namespace mt_dry
