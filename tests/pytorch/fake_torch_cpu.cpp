/* The part of PyTorch's autograd that the library for PyTorch needs: the numbers of nodes, and the node that runs. */
#include <cstdint>
#include <memory>

#define EXPORTED __attribute__((visibility("default")))

static thread_local uint64_t next_number = 1;
static thread_local void *running_node;

namespace at::sequence_number
{

EXPORTED uint64_t peek();
uint64_t peek()
{
    return next_number;
}

} // namespace at::sequence_number

namespace torch::autograd
{

struct Node;

EXPORTED std::shared_ptr<Node> get_current_node();
std::shared_ptr<Node> get_current_node()
{
    return {std::shared_ptr<void>(), static_cast<Node *>(running_node)};
}

} // namespace torch::autograd

extern "C" {

EXPORTED uint64_t fake_torch_number()
{
    return next_number++;
}

/* Sets the node that runs in this thread. */
EXPORTED void fake_torch_run(void *node)
{
    running_node = node;
}
}
