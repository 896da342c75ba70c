/* PyTorch's exception is made without PyTorch's headers, so that one build of this library serves every PyTorch: this takes the
 * type of c10::OutOfMemoryError, and the constructor of c10::Error, of which that is a kind with nothing added, by the names
 * that the C++ ABI gives them, from the libraries that the process has loaded. The object is one of the base, thrown as of the
 * type: who catches either finds what it expects. */
#include "torch/torch_throw.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <typeinfo>

namespace
{

/* As c10 has it: where an error comes from. Passed by value. */
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
constexpr std::size_t ROOM = 4096; /* far more than an object takes */

/* The symbol in one of PyTorch's libraries that is loaded; nothing is loaded for it. */
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

/* The first virtual function of an object: its destructor, which every kind of std::exception has there. */
destructor destructor_of(void *object)
{
    return (*static_cast<destructor **>(object))[0];
}

/* Returns if it can't. */
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

} // namespace

void mt_torch_throw(mt_status status, const char *text)
{
    const std::string copy = text;
    if (status == MT_OUT_OF_MEMORY) {
        const std::string message = "CUDA out of memory, says memtrace: " + copy;
        throw_out_of_memory(message);
        throw std::runtime_error(message);
    }
    throw std::runtime_error("memtrace: " + copy);
}
