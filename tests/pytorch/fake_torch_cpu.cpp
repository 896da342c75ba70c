/* The parts of PyTorch that the library for PyTorch needs, under PyTorch's symbol names: the numbers of autograd's nodes and
 * the node that runs; operators, with the observer of torch/include; grad mode. There is one observer, and operators end in
 * the opposite order. */
#include "torch/include/ATen/record_function.h"

#include <vector>

#define EXPORTED extern "C" __attribute__((visibility("default")))

static std::vector<at::RecordFunctionCallback> observers, paused; /* none or one */
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
    const bool is_right = callback.needs_nothing() && callback.is_for(RecordScope::FUNCTION) &&
                          !callback.is_for(RecordScope::BACKWARD_FUNCTION) && !callback.is_for(RecordScope::USER_SCOPE);
    if (is_right)
        observers.assign(1, callback);
    return 7;
}

void removeCallback(uint64_t handle)
{
    if (handle == 7)
        observers.clear();
}

void disableCallback(uint64_t handle)
{
    if (handle == 7)
        observers.swap(paused);
}

void reenableCallback(uint64_t handle)
{
    if (handle == 7 && observers.empty())
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

EXPORTED void fake_cpu_operator_begin(const char *name)
{
    open.push_back(std::make_unique<at::RecordFunction>(name));
    for (const auto &observer : observers)
        observer.start()(*open.back());
}
EXPORTED void fake_cpu_operator_end()
{
    for (const auto &observer : observers)
        observer.end()(*open.back(), nullptr);
    open.pop_back();
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
