/* The operators of PyTorch, as it reports them to observers (at::RecordFunction), and its grad mode.
 *
 * No header of PyTorch's is used. An observer is a struct that begins with two functions, a probability and a flag for each
 * kind of operator; _abi.py checks that in PyTorch's header. What follows stays zero: no inputs, no outputs, no numbers. */
#include "base/status.h"
#include "torch/memtrace_torch.h"

#include <dlfcn.h>
#include <memory>

extern "C" {
/* Of torch_operator.h and torch_label.h, which are C. */
void mt_torch_operator_begin(const void *call, const char *name);
void mt_torch_operator_end(const void *call);
void mt_torch_label_grad_mode(bool (*is_enabled)(void));
}

namespace
{

constexpr const char *LIBRARY = "libtorch_cpu.so";
constexpr const char *ADD = "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE";
constexpr const char *REMOVE = "_ZN2at14removeCallbackEm";
constexpr const char *NAME = "_ZNK2at14RecordFunction4nameEv";
constexpr const char *GRAD_MODE = "_ZN3c108GradMode10is_enabledEv";

struct record_function; /* PyTorch's */

/* at::ObserverContext, of which there is none here. */
struct context {
    virtual ~context() = default;
};

/* at::RecordFunctionCallback. It goes by value, in memory, so its size counts: PyTorch's has 6 to 13 kinds. */
struct observer {
    std::unique_ptr<context> (*begin)(const record_function &);
    void (*end)(const record_function &, context *);
    double probability;
    bool is_function, is_backward;
    bool others[14];
};
static_assert(sizeof(observer) == 40, "as PyTorch's");

const char *(*name_of)(const record_function *);
void (*remove_observer)(uint64_t);
uint64_t handle; /* 0: nothing is observed */

std::unique_ptr<context> begin(const record_function &function)
{
    mt_torch_operator_begin(&function, name_of(&function));
    return nullptr;
}

void end(const record_function &function, context *)
{
    mt_torch_operator_end(&function);
}

template <typename T> void find(void *library, const char *symbol, T *out)
{
    *out = reinterpret_cast<T>(library != nullptr ? dlsym(library, symbol) : nullptr);
}

} // namespace

extern "C" int memtrace_torch_operators(void)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    uint64_t (*add)(observer);
    bool (*is_grad_enabled)();
    find(library, ADD, &add);
    find(library, REMOVE, &remove_observer);
    find(library, NAME, &name_of);
    find(library, GRAD_MODE, &is_grad_enabled);
    if (library != nullptr)
        dlclose(library);
    if (add == nullptr || remove_observer == nullptr || name_of == nullptr || is_grad_enabled == nullptr)
        return mt_fail(MT_NO_DEVICE, "this PyTorch does not tell its operators as known");
    mt_torch_label_grad_mode(is_grad_enabled);
    if (handle == 0)
        handle = add({begin, end, 1.0, true, true, {}});
    return MT_OK;
}

extern "C" void memtrace_torch_operators_end(void)
{
    mt_torch_label_grad_mode(nullptr);
    if (handle != 0)
        remove_observer(handle);
    handle = 0;
}
