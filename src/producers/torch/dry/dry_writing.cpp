#include "producers/torch/dry/dry_writing.h"

#include "producers/torch/dry/dry_mersenne.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <map>
#include <mutex>
#include <tuple>

namespace mt_dry
{

using at::Tensor;
using c10::IValue;
using c10::OperatorHandle;
using c10::StorageImpl;
using Stack = torch::jit::Stack;

namespace
{

constexpr int MOST_WRITINGS = 1024; /* one after another; with more, running them is better */
constexpr int64_t BLOCK = 16;       /* elements that are drawn together; fewer are drawn in another way */

/* The layout of a tensor in its storage. */
struct place {
    c10::ScalarType type;
    std::vector<int64_t> sizes, strides;
    int64_t offset;
    size_t storage_bytes;
};

/* A generator's state before a call, and the index of the generator among the arguments. */
struct draw {
    size_t argument;
    at::mt19937 engine;
};

} // namespace

/* One call. The first argument, and a source as the second, are tensors at places. */
struct writing {
    std::shared_ptr<const writing> before, source; /* nullptr: none */
    int count = 1;                                 /* of writings, with those before */
    bool has_unknown = false;                      /* one of them, or of the source's, has no values */
    std::optional<OperatorHandle> op;              /* nothing: memory is filled with `content` */
    filled content;
    Stack arguments;
    place to, from;
    std::optional<draw> random;
};

namespace
{

std::mutex lock; /* of every memory's fields */

void give_memory(void *context)
{
    delete static_cast<memory *>(context);
}

place place_of(const Tensor &tensor)
{
    return {tensor.scalar_type(), tensor.sizes().vec(), tensor.strides().vec(), tensor.storage_offset(),
            tensor.storage().nbytes()};
}

/* Returns an ordinary tensor. */
Tensor tensor_at(const place &place, c10::Storage storage)
{
    Tensor made = at::detail::make_tensor<c10::TensorImpl>(
        std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(place.type));
    made.unsafeGetTensorImpl()->set_storage_offset(place.offset);
    made.unsafeGetTensorImpl()->set_sizes_and_strides(place.sizes, place.strides);
    return made;
}

/* ---- random numbers ---- */

at::CPUGeneratorImpl *generator_of(const IValue &argument)
{
    return at::check_generator<at::CPUGeneratorImpl>(argument.isNone() ? at::detail::getDefaultCPUGenerator()
                                                                       : argument.toGenerator());
}

/* Returns the count of numbers that an operator draws to fill `count` elements. */
int64_t drawn_by(const OperatorHandle &op, Stack arguments, size_t generator, c10::ScalarType type, int64_t count)
{
    at::Generator own = at::detail::createCPUGenerator();
    arguments[0] = at::detail::empty_cpu({count}, type);
    arguments[generator] = own;
    op.callBoxed(arguments);
    return generator_of(own)->engine().data().next_;
}

/* Returns the count of numbers that an operator draws to fill a contiguous tensor; -1 if unknown. Each full block of 16
 * elements draws the same count. The count for the rest depends on the dtype and on PyTorch's version. Both are
 * measured. */
int64_t draws_of(const OperatorHandle &op, const Stack &arguments, size_t generator)
{
    static std::map<std::tuple<std::string, c10::ScalarType, int64_t>, std::pair<int64_t, int64_t>> measured;
    const Tensor &to = arguments[0].toTensor();
    const int64_t rest = to.numel() % BLOCK;
    const auto key = std::make_tuple(op.operator_name().name, to.scalar_type(), rest);
    auto found = measured.find(key);
    if (found == measured.end()) {
        const int64_t whole = drawn_by(op, arguments, generator, to.scalar_type(), 2 * BLOCK);
        const int64_t all = drawn_by(op, arguments, generator, to.scalar_type(), 2 * BLOCK + rest);
        found = measured.emplace(key, std::make_pair(whole % 2 == 0 ? whole / 2 : 0, all - whole)).first;
    }
    const auto [of_block, of_rest] = found->second;
    return of_block == 0 ? -1 : to.numel() / BLOCK * of_block + of_rest;
}

/* True for operators whose draws can be counted. */
bool draws_by_count(const OperatorHandle &op, const Tensor &to)
{
    const auto &name = op.operator_name().name;
    return (name == "aten::normal_" || name == "aten::uniform_") && to.is_contiguous() && to.numel() >= BLOCK;
}

/* Keeps the state of a call's generator, and advances the generator. Returns nothing if that is not possible. */
std::optional<draw> draw_numbers(const OperatorHandle &op, const Stack &arguments)
{
    const auto &inputs = op.schema().arguments();
    const size_t generator =
        std::find_if(inputs.begin(), inputs.end(), [](const c10::Argument &one) { return one.name() == "generator"; }) -
        inputs.begin();
    if (!draws_by_count(op, arguments[0].toTensor()) || generator == inputs.size())
        return std::nullopt;
    const int64_t count = draws_of(op, arguments, generator);
    at::CPUGeneratorImpl *owner = generator_of(arguments[generator]);
    if (count < 0)
        return std::nullopt;
    const std::lock_guard<std::mutex> hold(owner->mutex_);
    const draw before{generator, owner->engine()};
    at::mt19937 after = before.engine;
    skip_numbers(&after, static_cast<uint64_t>(count));
    owner->set_engine(after);
    return before;
}

/* ---- running the writings ---- */

void run(const writing &one, const c10::Storage &storage)
{
    if (one.before != nullptr)
        run(*one.before, storage);
    if (!one.op.has_value()) {
        write(one.content, static_cast<char *>(storage.mutable_data()), storage.nbytes());
        return;
    }
    Stack stack = one.arguments;
    stack[0] = tensor_at(one.to, storage);
    if (one.source != nullptr) {
        const c10::Storage source(c10::Storage::use_byte_size_t(), one.from.storage_bytes, c10::GetCPUAllocator(),
                                  true);
        run(*one.source, source);
        stack[1] = tensor_at(one.from, source);
    }
    if (one.random.has_value()) {
        at::Generator generator = at::detail::createCPUGenerator();
        generator_of(generator)->set_engine(one.random->engine);
        stack[one.random->argument] = generator;
    }
    one.op->callBoxed(stack);
}

/* Takes the kept writings. */
std::shared_ptr<const writing> take(memory *target)
{
    target->may_be_late = false;
    return std::exchange(target->last, nullptr);
}

} // namespace

memory *memory_of(const StorageImpl *storage)
{
    const c10::DataPtr &data = storage->data_ptr();
    return data.get_deleter() == &give_memory ? static_cast<memory *>(data.get_context()) : nullptr;
}

void watch(StorageImpl *storage)
{
    const std::lock_guard<std::mutex> hold(lock);
    if (memory_of(storage) != nullptr)
        return;
    auto *made = new memory();
    made->bytes = storage->set_data_ptr({storage->mutable_data(), made, &give_memory, storage->device()});
}

bool is_late(const StorageImpl *storage)
{
    const std::lock_guard<std::mutex> hold(lock);
    const memory *found = memory_of(storage);
    return found != nullptr && found->last != nullptr;
}

bool is_number(const Tensor &tensor)
{
    return tensor.dim() == 0 && tensor.device().type() == c10::DeviceType::CPU && !tensor.requires_grad() &&
           memory_of(tensor.storage().unsafeGetStorageImpl()) == nullptr;
}

bool add_writing(memory *target, const OperatorHandle &op, const std::vector<IValue> &arguments, bool replaces)
{
    auto made = std::make_shared<writing>();
    const std::lock_guard<std::mutex> hold(lock);
    made->op = op;
    made->arguments = arguments;
    made->to = place_of(arguments[0].toTensor());
    if (!replaces && target->last != nullptr) {
        made->before = target->last;
        made->count += target->last->count;
        made->has_unknown = target->last->has_unknown;
    }
    for (size_t i = 1; i < arguments.size(); i++) {
        if (!arguments[i].isTensor())
            continue;
        const Tensor &other = arguments[i].toTensor();
        const memory *source = memory_of(other.storage().unsafeGetStorageImpl());
        if (source == nullptr || source->last == nullptr) {
            made->arguments[i] = other.unsafeGetTensorImpl()->is_wrapped_number() ? other : other.clone();
            continue;
        }
        made->source = source->last;
        made->from = place_of(other);
        made->has_unknown = made->has_unknown || source->last->has_unknown;
        made->arguments[i] = IValue();
    }
    if (made->count > MOST_WRITINGS)
        return false;
    if (op.hasTag(at::Tag::nondeterministic_seeded)) {
        made->random = draw_numbers(op, arguments);
        if (!made->random.has_value())
            return false;
    }
    made->arguments[0] = IValue();
    target->is_unknown = made->has_unknown;
    target->last = std::move(made);
    return true;
}

void forget(memory *target)
{
    const std::lock_guard<std::mutex> hold(lock);
    take(target);
}

void make_unknown(StorageImpl *storage, const filled &content)
{
    watch(storage);
    auto made = std::make_shared<writing>();
    made->has_unknown = true;
    made->content = content;
    const std::lock_guard<std::mutex> hold(lock);
    memory *target = memory_of(storage);
    target->last = std::move(made);
    target->is_unknown = true;
    target->content = content;
}

void mark_known(StorageImpl *storage)
{
    const std::lock_guard<std::mutex> hold(lock);
    if (memory *target = memory_of(storage))
        target->is_unknown = false;
}

void mark_unknown(StorageImpl *storage, const std::optional<filled> &content)
{
    watch(storage);
    const std::lock_guard<std::mutex> hold(lock);
    memory *target = memory_of(storage);
    target->is_unknown = true;
    target->content = content;
}

bool is_unknown(const StorageImpl *storage)
{
    if (memory_of(storage) == nullptr)
        return false;
    const std::lock_guard<std::mutex> hold(lock);
    return memory_of(storage)->is_unknown;
}

std::optional<filled> content_of_host(const StorageImpl *storage)
{
    if (memory_of(storage) == nullptr)
        return std::nullopt;
    const std::lock_guard<std::mutex> hold(lock);
    return memory_of(storage)->content;
}

void copy_late(StorageImpl *to, const StorageImpl *from)
{
    watch(to);
    const std::lock_guard<std::mutex> hold(lock);
    const memory *source = memory_of(from);
    memory *target = memory_of(to);
    target->last = source->last;
    target->is_unknown = source->is_unknown;
    target->content = source->content;
}

void settle(StorageImpl *storage)
{
    const std::lock_guard<std::mutex> hold(lock);
    memory *target = memory_of(storage);
    const auto last = target != nullptr ? take(target) : nullptr;
    if (last == nullptr)
        return;
    const c10::impl::ExcludeDispatchKeyGuard plain(
        c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
        c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}));
    run(*last, c10::Storage(c10::intrusive_ptr<StorageImpl>::reclaim_copy(storage)));
}

} // namespace mt_dry
