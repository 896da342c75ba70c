/* memtrace_torch_alloc: the one function that throws, and so has no C between itself and PyTorch.
 *
 * PyTorch's exception is made without PyTorch's headers, so that one build of this library serves every PyTorch. The
 * type of c10::OutOfMemoryError and the constructor of c10::Error, its base, are found by their names in the C++ ABI,
 * in the libraries that the process has loaded. The derived class adds nothing, so an object of the base is thrown with
 * the type of the derived class. Handlers of either type find what they expect. */
#include "base/status.h"
#include "producers/torch/memtrace_torch.h"

#include <cassert>
#include <cxxabi.h>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <typeinfo>

namespace
{

/* The source location of an error, as c10 has it. Passed by value. */
struct source_location {
    const char *function;
    const char *file;
    uint32_t line;
};

using constructor = void (*)(void *self, source_location where, std::string text);
using destructor = void (*)(void *self);

constexpr const char *TYPE = "_ZTIN3c1016OutOfMemoryErrorE";
constexpr const char *CONSTRUCTOR =
    "_ZN3c105ErrorC1ENS_14SourceLocationENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE";
constexpr std::size_t ROOM = 4096; /* far more than an object needs */

/* Finds a symbol in PyTorch's libraries, if they are loaded. Loads nothing. */
void *find(const char *symbol)
{
    static const char *const libraries[] = {"libc10.so", "libc10_cuda.so", "libtorch_cuda.so", "libtorch_python.so"};
    for (const char *name : libraries) {
        void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
        void *found = library != nullptr ? dlsym(library, symbol) : nullptr;
        if (library != nullptr)
            dlclose(library);
        if (found != nullptr)
            return found;
    }
    return nullptr;
}

/* Returns the first virtual function of an object. In every std::exception, it is the destructor. */
destructor destructor_of(void *object)
{
    return (*static_cast<destructor **>(object))[0];
}

/* Throws c10::OutOfMemoryError. Returns if this PyTorch does not have it. */
void throw_out_of_memory(const std::string &text)
{
    auto *type = static_cast<std::type_info *>(find(TYPE));
    auto construct = reinterpret_cast<constructor>(find(CONSTRUCTOR));
    if (type == nullptr || construct == nullptr)
        return;
    void *error = abi::__cxa_allocate_exception(ROOM);
    construct(error, {"memtrace_torch_alloc", "libmemtrace_torch.so", 0}, text);
    abi::__cxa_throw(error, type, destructor_of(error));
}

/* Throws MT_OUT_OF_MEMORY as c10::OutOfMemoryError, which Python sees as torch.OutOfMemoryError, and which PyTorch
 * itself catches to try a smaller workspace. Throws every other failure, and this one if there is no such type, as
 * std::runtime_error, which Python sees as RuntimeError. */
[[noreturn]] void throw_failure(mt_status status, const std::string &text)
{
    assert(status != MT_OK);
    if (status == MT_OUT_OF_MEMORY) {
        const std::string message = "CUDA out of memory, says memtrace: " + text;
        throw_out_of_memory(message);
        throw std::runtime_error(message);
    }
    throw std::runtime_error("memtrace: " + text);
}

} // namespace

extern "C" {

int mt_torch_take(int64_t bytes, int device, uint64_t stream, uint64_t *out); /* of torch_library.h, which is C */

void *memtrace_torch_alloc(ssize_t size, int device, void *stream)
{
    uint64_t address = 0;
    const int status = mt_torch_take(size, device, reinterpret_cast<uintptr_t>(stream), &address);
    if (status != MT_OK)
        throw_failure(static_cast<mt_status>(status), memtrace_torch_last_error());
    return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}
}
