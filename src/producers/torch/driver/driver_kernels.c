/* Modules, kernels and launches of the stand-in for libcuda.so.1: programs that compile kernels while they run load
 * them here, as torch.cuda._compile_kernel does. Modules are not read, and launches do nothing.
 *
 * Handles are numbers that are never dereferenced. */
#include "producers/torch/driver/driver.h"

#include <stdatomic.h>
#include <stddef.h>

static _Atomic uintptr_t handles;
static void (*note_launch)(void); /* NULL: launches are not noted */

void memtrace_driver_on_launch(void (*function)(void))
{
    note_launch = function;
}

/* Functions that set their first argument to a handle, and whose other arguments are not needed. */
#define CREATING(X)                                                                                                    \
    X(ModuleLoad)                                                                                                      \
    X(ModuleLoadData)                                                                                                  \
    X(ModuleLoadDataEx)                                                                                                \
    X(ModuleLoadFatBinary)                                                                                             \
    X(ModuleGetFunction)                                                                                               \
    X(LibraryLoadData)                                                                                                 \
    X(LibraryLoadFromFile)                                                                                             \
    X(LibraryGetKernel)                                                                                                \
    X(LibraryGetModule)                                                                                                \
    X(KernelGetFunction)
#define X(name)                                                                                                        \
    MT_EXPORTED int cu##name(void **out)                                                                               \
    {                                                                                                                  \
        *out = (void *)++handles;                                                                                      \
        return 0;                                                                                                      \
    }
CREATING(X)
#undef X

/* Functions that change how a kernel runs, or unload it. */
#define IDLE(X)                                                                                                        \
    X(ModuleUnload)                                                                                                    \
    X(LibraryUnload)                                                                                                   \
    X(FuncLoad)                                                                                                        \
    X(FuncSetAttribute)                                                                                                \
    X(FuncSetCacheConfig)                                                                                              \
    X(KernelSetAttribute)                                                                                              \
    X(KernelSetCacheConfig)
#define X(name)                                                                                                        \
    MT_EXPORTED int cu##name(void)                                                                                     \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }
IDLE(X)
#undef X

#define LAUNCHES(X)                                                                                                    \
    X(LaunchKernel)                                                                                                    \
    X(LaunchKernelEx)                                                                                                  \
    X(LaunchCooperativeKernel)
#define X(name)                                                                                                        \
    MT_EXPORTED int cu##name(void)                                                                                     \
    {                                                                                                                  \
        if (note_launch != NULL)                                                                                       \
            note_launch();                                                                                             \
        return 0;                                                                                                      \
    }
LAUNCHES(X)
#undef X
