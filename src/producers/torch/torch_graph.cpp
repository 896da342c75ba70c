/* PyTorch's graph of autograd, as its library exports it and as its nodes lie in memory. The places of a node's fields
 * are found by python/memtrace/recording/watching.py, which compares a node's memory with Python's answers of it. */
#include "base/status.h"
#include "producers/torch/memtrace_torch.h"

extern "C" {
/* Of torch_backward.h, which is C. */
struct mt_torch_node {
    const char *class_name;
    bool is_known;
    uint64_t number;
};
struct mt_torch_graph_functions {
    uint64_t (*next)(void);
    bool (*running)(mt_torch_node *out);
};
void mt_torch_backward_begin(const struct mt_torch_graph_functions *graph);
}

#include <atomic>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <typeinfo>

namespace
{

constexpr const char *LIBRARY = "libtorch_cpu.so";
constexpr const char *NEXT = "_ZN2at15sequence_number4peekEv";
constexpr const char *RUNNING = "_ZN5torch8autograd16get_current_nodeEv";

/* Offset of a node's number in both layouts. A node held by std::shared_ptr has a weak pointer to itself before the
 * number; a node that counts its own references has one word there. */
constexpr uint32_t SHARED_OFFSET = 24, COUNTED_OFFSET = 16;

struct counted {
    char *node;
    ~counted()
    {
        if (node != nullptr) /* never the last reference: autograd has one while the node runs */
            reinterpret_cast<std::atomic<uint64_t> *>(node + sizeof(void *))->fetch_sub(1, std::memory_order_acq_rel);
    }
};

uint64_t (*next_number)();
void *running_node;
uint32_t number_offset, thread_offset;
uint64_t owner; /* autograd's number of the thread whose nodes are known */

uint64_t read_word(const char *node, uint32_t offset)
{
    uint64_t word;
    std::memcpy(&word, node + offset, sizeof word);
    return word;
}

/* Returns the name of an object's class, from the type information in its table of virtual functions. */
const char *class_of(const char *object)
{
    const std::type_info *const *table = *reinterpret_cast<const std::type_info *const *const *>(object);
    return table[-1]->name();
}

bool read_node(const char *node, mt_torch_node *out)
{
    if (node == nullptr)
        return false;
    *out = {class_of(node), read_word(node, thread_offset) == owner, read_word(node, number_offset)};
    return true;
}

bool running(mt_torch_node *out)
{
    if (number_offset == SHARED_OFFSET) {
        const std::shared_ptr<char> node = reinterpret_cast<std::shared_ptr<char> (*)()>(running_node)();
        return read_node(node.get(), out);
    }
    const counted node = reinterpret_cast<counted (*)()>(running_node)();
    return read_node(node.node, out);
}

uint64_t next()
{
    return next_number();
}

const mt_torch_graph_functions functions = {next, running};

} // namespace

extern "C" int memtrace_torch_graph(uint32_t number_at, uint32_t thread_at, uint64_t thread)
{
    void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    next_number = library != nullptr ? reinterpret_cast<uint64_t (*)()>(dlsym(library, NEXT)) : nullptr;
    running_node = library != nullptr ? dlsym(library, RUNNING) : nullptr;
    if (library != nullptr)
        dlclose(library);
    if (next_number == nullptr || running_node == nullptr ||
        (number_at != SHARED_OFFSET && number_at != COUNTED_OFFSET))
        return mt_fail(MT_NO_DEVICE, "this PyTorch's graph is not known");
    number_offset = number_at;
    thread_offset = thread_at;
    owner = thread;
    mt_torch_backward_begin(&functions);
    return MT_OK;
}
