/* PyTorch's operators and the program's ranges, as PyTorch reports them to observers (at::RecordFunction), and its grad
 * mode.
 *
 * Uses no PyTorch headers. An observer is a struct that begins with two functions, a probability and a flag for each
 * kind of operator; recording/abi.py checks that in PyTorch's header. The other fields stay zero: no inputs, outputs or
 * numbers. */
#include "base/status.h"
#include "producers/torch/memtrace_torch.h"
#include "producers/torch/torch_range.h"

#include <dlfcn.h>
#include <memory>

extern "C" {
/* Of torch_operator.h and torch_label.h, which are C. */
void mt_torch_operator_begin(const void *call, const char *name);
void mt_torch_operator_end(const void *call);
struct mt_torch_observer {
    void (*pause)(void), (*resume)(void);
};
void mt_torch_operator_observe(const struct mt_torch_observer *observer);
void mt_torch_label_grad_mode(bool (*is_enabled)(void));
}

namespace
{

constexpr const char *LIBRARY = "libtorch_cpu.so";
constexpr const char *ADD = "_ZN2at17addGlobalCallbackENS_22RecordFunctionCallbackE";
constexpr const char *REMOVE = "_ZN2at14removeCallbackEm";
constexpr const char *PAUSE = "_ZN2at15disableCallbackEm";
constexpr const char *RESUME = "_ZN2at16reenableCallbackEm";
constexpr const char *NAME = "_ZNK2at14RecordFunction4nameEv";
constexpr const char *GRAD_MODE = "_ZN3c108GradMode10is_enabledEv";

struct record_function; /* PyTorch's */

/* at::ObserverContext. Our observers create none. */
struct context {
    virtual ~context() = default;
};

/* at::RecordFunctionCallback. It is passed by value in memory, so its size matters: PyTorch's has 6 to 13 kinds. */
struct observer {
    std::unique_ptr<context> (*begin)(const record_function &);
    void (*end)(const record_function &, context *);
    double probability;
    bool is_function;
    bool others[15];
};
static_assert(sizeof(observer) == 40, "as PyTorch's");

/* PyTorch's functions, once they are found. */
uint64_t (*add_observer)(observer);
void (*remove_observer)(uint64_t), (*pause_observer)(uint64_t), (*resume_observer)(uint64_t);
const char *(*name_of)(const record_function *);

uint64_t handle, range_handle; /* of the observers; 0: there is none */

std::unique_ptr<context> begin(const record_function &function)
{
    mt_torch_operator_begin(&function, name_of(&function));
    return nullptr;
}

void end(const record_function &function, context *)
{
    mt_torch_operator_end(&function);
}

std::unique_ptr<context> begin_range(const record_function &function)
{
    mt_torch_range_begin(name_of(&function));
    return nullptr;
}

void end_range(const record_function &function, context *)
{
    mt_torch_range_end(name_of(&function));
}

void pause()
{
    pause_observer(handle);
}

void resume()
{
    resume_observer(handle);
}

const mt_torch_observer functions = {pause, resume};

/* Finds a function of PyTorch's. False if it is not there. */
template <typename T> bool find(const char *symbol, T *out)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    *out = library != nullptr ? reinterpret_cast<T>(dlsym(library, symbol)) : nullptr;
    if (library != nullptr)
        dlclose(library);
    return *out != nullptr;
}

bool find_functions()
{
    return find(ADD, &add_observer) && find(REMOVE, &remove_observer) && find(PAUSE, &pause_observer) &&
           find(RESUME, &resume_observer) && find(NAME, &name_of);
}

} // namespace

extern "C" int memtrace_torch_grad_mode(void)
{
    bool (*is_enabled)();
    if (!find(GRAD_MODE, &is_enabled))
        return mt_fail(MT_NO_DEVICE, "this PyTorch does not report its grad mode in a known way");
    mt_torch_label_grad_mode(is_enabled);
    return MT_OK;
}

extern "C" int memtrace_torch_operators(void)
{
    if (handle != 0)
        return MT_OK;
    if (!find_functions())
        return mt_fail(MT_NO_DEVICE, "this PyTorch does not report its operators in a known way");
    handle = add_observer({begin, end, 1.0, true, {}});
    mt_torch_operator_observe(&functions);
    return MT_OK;
}

extern "C" void memtrace_torch_operators_end(void)
{
    if (handle == 0)
        return;
    mt_torch_operator_observe(nullptr);
    remove_observer(handle);
    handle = 0;
}

extern "C" int memtrace_torch_ranges(uint32_t kind)
{
    observer ranges = {begin_range, end_range, 1.0, false, {}};
    if (range_handle != 0)
        return MT_OK;
    if (kind == 0 || kind > sizeof ranges.others || !find_functions())
        return mt_fail(MT_NO_DEVICE, "this PyTorch does not report its ranges in a known way");
    ranges.others[kind - 1] = true;
    range_handle = add_observer(ranges);
    return MT_OK;
}

extern "C" void memtrace_torch_ranges_end(void)
{
    if (range_handle != 0)
        remove_observer(range_handle);
    range_handle = 0;
}
