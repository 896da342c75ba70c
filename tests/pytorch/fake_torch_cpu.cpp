/* The parts of PyTorch that the library for PyTorch needs, under PyTorch's symbol names: the numbers of autograd's
 * nodes and the node that runs, and the engine that runs it; operators and ranges, with the observers of torch/include;
 * grad mode. There is one observer of operators and one of ranges, and operators end in the opposite order. */
#include "torch/include/ATen/record_function.h"

#include <dlfcn.h>
#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

static std::vector<at::RecordFunctionCallback> observers, paused, range_observers; /* none or one */
enum { OPERATORS = 7, RANGES = 8 };                                                /* handles */
static thread_local std::vector<std::unique_ptr<at::RecordFunction>> open;
static thread_local bool is_grad_enabled = true;
static thread_local uint64_t next_number = 1;
static thread_local void *running_node;

struct FakeBackward0 {
    virtual ~FakeBackward0() = default;
};

namespace at
{

const char *RecordFunction::name() const
{
    return name_;
}

uint64_t addGlobalCallback(RecordFunctionCallback callback)
{
    if (!callback.needs_nothing() || callback.is_for(RecordScope::BACKWARD_FUNCTION) ||
        callback.is_for(RecordScope::FUNCTION) == callback.is_for(RecordScope::USER_SCOPE))
        return 0;
    const bool is_of_operators = callback.is_for(RecordScope::FUNCTION);
    (is_of_operators ? observers : range_observers).assign(1, callback);
    return is_of_operators ? OPERATORS : RANGES;
}

void removeCallback(uint64_t handle)
{
    if (handle == OPERATORS)
        observers.clear();
    if (handle == RANGES)
        range_observers.clear();
}

void disableCallback(uint64_t handle)
{
    if (handle == OPERATORS)
        observers.swap(paused);
}

void reenableCallback(uint64_t handle)
{
    if (handle == OPERATORS && observers.empty())
        observers.swap(paused);
}

} // namespace at

namespace at::sequence_number
{

__attribute__((visibility("default"))) uint64_t peek();
uint64_t peek()
{
    return next_number;
}

} // namespace at::sequence_number

namespace torch::autograd
{

struct Node;

__attribute__((visibility("default"))) std::shared_ptr<Node> get_current_node();
std::shared_ptr<Node> get_current_node()
{
    return {std::shared_ptr<void>(), static_cast<Node *>(running_node)};
}

} // namespace torch::autograd

namespace c10
{
struct GradMode {
    static bool is_enabled();
};

bool GradMode::is_enabled()
{
    return is_grad_enabled;
}
} // namespace c10

static void begin_in(const std::vector<at::RecordFunctionCallback> &called, const char *name)
{
    open.push_back(std::make_unique<at::RecordFunction>(name));
    for (const auto &observer : called)
        observer.start()(*open.back());
}

static void end_in(const std::vector<at::RecordFunctionCallback> &called)
{
    for (const auto &observer : called)
        observer.end()(*open.back(), nullptr);
    open.pop_back();
}

EXPORTED void fake_cpu_operator_begin(const char *name)
{
    begin_in(observers, name);
}
EXPORTED void fake_cpu_operator_end()
{
    end_in(observers);
}
EXPORTED void fake_cpu_range_begin(const char *name)
{
    begin_in(range_observers, name);
}
EXPORTED void fake_cpu_range_end()
{
    end_in(range_observers);
}
EXPORTED void fake_cpu_enable_grad(int enables)
{
    is_grad_enabled = enables != 0;
}
EXPORTED int fake_cpu_observers()
{
    return static_cast<int>(observers.size());
}
EXPORTED uint64_t fake_torch_number()
{
    return next_number++;
}
/* Sets the node that runs in this thread. */
EXPORTED void fake_torch_run(void *node)
{
    running_node = node;
}
/* Returns the virtual functions of a node's class. */
EXPORTED const void *fake_torch_class()
{
    static const FakeBackward0 node;
    return *reinterpret_cast<const void *const *>(&node);
}

/* ---- the engine: an object of Python with a method in C ---- */

struct _object;

template <typename T> static T python(const char *name)
{
    return reinterpret_cast<T>(dlsym(RTLD_DEFAULT, name));
}

/* run_backward(function, argument, **names): calls the function. */
static _object *run_backward(_object *, _object *arguments, _object *)
{
    static const auto item = python<_object *(*)(_object *, ptrdiff_t)>("PyTuple_GetItem");
    static const auto slice = python<_object *(*)(_object *, ptrdiff_t, ptrdiff_t)>("PyTuple_GetSlice");
    static const auto call = python<_object *(*)(_object *, _object *, _object *)>("PyObject_Call");
    static const auto release = python<void (*)(_object *)>("Py_DecRef");
    _object *rest = slice(arguments, 1, 2), *result = call(item(arguments, 0), rest, nullptr);
    release(rest);
    return result;
}

/* Returns the type of the engine. Called with Python's lock held. */
EXPORTED _object *fake_torch_engine_type()
{
    static struct {
        const char *name;
        _object *(*function)(_object *, _object *, _object *);
        int flags;
        const char *documentation;
    } methods[] = {{"run_backward", run_backward, 0x2 | 0x1, nullptr}, {nullptr, nullptr, 0, nullptr}};
    static struct {
        int slot;
        void *value;
    } slots[] = {{64 /* Py_tp_methods */, methods}, {0, nullptr}};
    static struct {
        const char *name;
        int basic_bytes, item_bytes;
        unsigned flags;
        void *slots;
    } description = {"torch._C._EngineBase", 16, 0, 0, slots};
    return python<_object *(*)(void *)>("PyType_FromSpec")(&description);
}
