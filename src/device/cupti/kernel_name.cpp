/* In C++, since only its runtime can demangle names. */
#include <cxxabi.h>

/* Declared in cupti_client.h. */
extern "C" char *mt_kernel_name_spell(const char *name)
{
    int status = 0;
    return abi::__cxa_demangle(name, nullptr, nullptr, &status);
}
