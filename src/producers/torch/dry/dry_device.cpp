/* The device's allocator, and its initialization. */
#include "producers/torch/dry/dry_device.h"

#include "producers/torch/dry/dry_library.h"
#include "producers/torch/dry/dry_meta.h"
#include "producers/torch/memtrace_torch.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iomanip>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <utility>

namespace mt_dry
{

using c10::Device;
using c10::DeviceType;

namespace
{

constexpr int OUT_OF_MEMORY = 5; /* MT_OUT_OF_MEMORY */

thread_local std::optional<memtrace_torch_shape> next_shape; /* of a living shape_of_next */

/* ---- blocks ---- */

/* The existing blocks, by card and address. */
class index_of_blocks
{
  public:
    void add(block *made)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        blocks_[{made->device, made->address}] = made;
    }
    void remove(const block *gone)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        blocks_.erase({gone->device, gone->address});
    }
    /* Returns the block that contains the address, or nullptr. */
    block *find(c10::DeviceIndex device, uint64_t address)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        const auto next = blocks_.upper_bound({device, address});
        if (next == blocks_.begin())
            return nullptr;
        block *found = std::prev(next)->second;
        return found->device == device && address - found->address < found->bytes ? found : nullptr;
    }
    void forget_values(c10::DeviceIndex device)
    {
        const std::lock_guard<std::mutex> hold(lock_);
        for (auto next = blocks_.lower_bound({device, 0}); next != blocks_.end() && next->first.first == device; ++next)
            next->second->is_known = false;
    }

  private:
    std::mutex lock_;
    std::map<std::pair<c10::DeviceIndex, uint64_t>, block *> blocks_;
};

/* Is never destroyed: tensors are freed until the process ends. */
index_of_blocks &all_blocks()
{
    static auto *all = new index_of_blocks;
    return *all;
}

void give(void *context)
{
    auto *owned = static_cast<block *>(context);
    all_blocks().remove(owned); /* first, since another thread may get the address at once */
    memtrace_torch_free(reinterpret_cast<void *>(owned->address), static_cast<ssize_t>(owned->bytes), owned->device,
                        nullptr);
    delete owned;
}

/* Returns a size as c10::CachingAllocator::format_size writes it. */
std::string in_words(uint64_t bytes)
{
    std::ostringstream words;
    words << std::fixed << std::setprecision(2);
    if (bytes <= 1024)
        words << bytes << " bytes";
    else if (bytes <= 1u << 20)
        words << static_cast<double>(bytes) / 1024 << " KiB";
    else if (bytes <= 1u << 30)
        words << static_cast<double>(bytes) / (1u << 20) << " MiB";
    else
        words << static_cast<double>(bytes) / (1u << 30) << " GiB";
    return words.str();
}

/* Returns PyTorch's message for a refused request. Programs look for its words. */
std::string refusal(size_t bytes)
{
    struct memtrace_torch_figures figures;
    struct memtrace_torch_description card;
    std::ostringstream words;
    memtrace_torch_statistics(current_device(), MEMTRACE_TORCH_ALL, &figures);
    memtrace_torch_describe(nullptr, &card);
    const uint64_t held = memtrace_torch_held(current_device()), own = figures.reserved + held;
    const uint64_t used = std::min(card.total_bytes, own + card.others_bytes);
    words << "CUDA out of memory. Tried to allocate " << in_words(bytes) << ". GPU "
          << static_cast<int>(current_device()) << " has a total capacity of " << in_words(card.total_bytes)
          << " of which " << in_words(card.total_bytes - used)
          << " is free. Including non-PyTorch memory, this process has " << in_words(own) << " memory in use. ";
    if (figures.capacity + held + card.others_bytes < card.total_bytes)
        words << in_words(figures.capacity) << " allowed; ";
    words << "Of the allocated memory " << in_words(figures.allocated) << " is allocated by PyTorch, and "
          << in_words(figures.reserved - figures.allocated)
          << " is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting "
             "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory "
             "Management  "
             "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
    return words.str();
}

/* Allocates a block for the current stream. Throws c10::OutOfMemoryError as PyTorch's allocator does. */
c10::DataPtr take(size_t bytes)
{
    const Device device(DeviceType::CUDA, current_device());
    uint64_t address = 0;
    const auto shape = std::exchange(next_shape, std::nullopt);
    if (bytes == 0)
        return {nullptr, nullptr, &c10::detail::deleteNothing, device};
    TORCH_CHECK_WITH(OutOfMemoryError, bytes <= INT64_MAX, refusal(bytes));
    const c10::Stream stream = current_stream(current_device());
    const int status =
        memtrace_torch_take(static_cast<int64_t>(bytes), current_device(), static_cast<uint64_t>(stream.id()),
                            pool_of_next(stream), shape.has_value() ? &*shape : nullptr, &address);
    TORCH_CHECK_WITH(OutOfMemoryError, status != OUT_OF_MEMORY, refusal(bytes));
    TORCH_CHECK(status == 0, memtrace_torch_last_error());
    auto *made = new block{address, bytes, current_device(), bytes <= MOST_VALUE_BYTES, nullptr};
    all_blocks().add(made);
    return {reinterpret_cast<void *>(address), made, &give, device};
}

class card_allocator final : public c10::Allocator
{
  public:
    c10::DataPtr allocate(size_t bytes) override
    {
        return take(bytes);
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return nullptr;
    }
    void copy_data(void *, const void *, size_t) const override
    {
    }
};

card_allocator the_allocator;

/* Writes a mask whose true elements are spread evenly. */
void write_mask(double fraction, char *values, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        values[i] = std::floor(static_cast<double>(i + 1) * fraction) > std::floor(static_cast<double>(i) * fraction);
}

} // namespace

void write(const filled &with, char *values, uint64_t bytes)
{
    if (with.type == c10::ScalarType::Bool) {
        write_mask(with.value.toDouble(), values, bytes);
        return;
    }
    switch (with.type) {
#define X(type, name)                                                                                                  \
    case c10::ScalarType::name:                                                                                        \
        std::fill_n(reinterpret_cast<type *>(values), bytes / sizeof(type), with.value.to<type>());                    \
        break;
        AT_FORALL_SCALAR_TYPES_WITH_COMPLEX(X)
#undef X
    default:
        std::memset(values, 0, bytes);
        break;
    }
}

char *block::host()
{
    TORCH_INTERNAL_ASSERT(has_values());
    if (values != nullptr)
        return values.get();
    values.reset(new char[bytes]());
    if (all_are.has_value())
        write(*all_are, values.get(), bytes);
    return values.get();
}

c10::Allocator *allocator()
{
    return &the_allocator;
}

shape_of_next::shape_of_next(c10::ScalarType type, c10::IntArrayRef sizes)
{
    if (sizes.size() > MEMTRACE_TORCH_DIMS)
        return;
    next_shape.emplace();
    next_shape->dtype = static_cast<int32_t>(type);
    next_shape->dims = static_cast<int32_t>(sizes.size());
    std::copy(sizes.begin(), sizes.end(), next_shape->sizes);
}

shape_of_next::~shape_of_next()
{
    next_shape.reset();
}

block *block_of(const c10::StorageImpl *storage)
{
    const c10::DataPtr &data = storage->data_ptr();
    if (data.get_deleter() == &give)
        return static_cast<block *>(data.get_context());
    const bool is_foreign = data.get() != nullptr && data.device().type() == DeviceType::CUDA;
    return is_foreign ? all_blocks().find(data.device().index(), reinterpret_cast<uint64_t>(data.get())) : nullptr;
}

bool owns_block(const c10::StorageImpl *storage)
{
    return storage->data_ptr().get_deleter() == &give;
}

void disown_block(c10::StorageImpl *storage)
{
    if (!owns_block(storage))
        return;
    void *data = storage->data_ptr().get();
    const auto *owned = static_cast<block *>(storage->_mutable_data_ptr_no_checks().release_context());
    all_blocks().remove(owned);
    delete owned;
    storage->set_data_ptr_noswap({data, storage->device()});
}

void adopt_block(c10::StorageImpl *storage, uint64_t bytes)
{
    void *data = storage->data_ptr().get();
    auto *made = new block{reinterpret_cast<uint64_t>(data), bytes, storage->device().index(), false, nullptr};
    all_blocks().add(made);
    storage->set_data_ptr_noswap({data, made, &give, storage->device()});
}

void forget_values()
{
    all_blocks().forget_values(current_device());
}

void resize(c10::StorageImpl *storage, size_t bytes)
{
    TORCH_CHECK(storage->resizable(), "Trying to resize storage that is not resizable");
    const c10::DeviceGuard guard(storage->device());
    c10::DataPtr fresh = take(bytes);
    block *before = block_of(storage);
    auto *after = static_cast<block *>(fresh.get_context());
    if (after != nullptr && before != nullptr) {
        after->is_known = after->is_known && before->is_known;
        if (after->has_values() && before->has_values())
            std::memcpy(after->host(), before->host(), std::min(before->bytes, after->bytes));
    }
    storage->set_data_ptr_noswap(std::move(fresh));
    storage->set_nbytes(bytes);
}

} // namespace mt_dry

void memtrace_dry_begin(int count)
{
    c10::SetAllocator(c10::DeviceType::CUDA, mt_dry::allocator(), UINT8_MAX);
    mt_dry::begin_guard(count);
    mt_dry::register_kernels();
    mt_dry::register_shapes();
    mt_dry::register_common_shapes();
    mt_dry::register_sync_shapes();
    mt_dry::register_recurrent();
    mt_dry::register_encoder();
    mt_dry::register_sparse();
    mt_dry::register_nested();
    mt_dry::refuse_other_layouts();
    mt_dry::register_weights();
    mt_dry::keep_compiled_shapes();
}

const void *memtrace_dry_values(const void *storage)
{
    const auto *impl = static_cast<const c10::StorageImpl *>(storage);
    mt_dry::block *owner = mt_dry::block_of(impl);
    return owner != nullptr && owner->has_values() ? owner->host() + owner->offset_of(impl) : nullptr;
}

int memtrace_dry_resize(void *storage, uint64_t bytes)
{
    try {
        const mt_dry::shape_of_next shape(c10::ScalarType::Byte, static_cast<int64_t>(bytes));
        mt_dry::resize(static_cast<c10::StorageImpl *>(storage), bytes);
    } catch (const std::exception &) {
        return mt_dry::OUT_OF_MEMORY;
    }
    return 0;
}

int memtrace_dry_owns(const void *storage)
{
    return mt_dry::owns_block(static_cast<const c10::StorageImpl *>(storage));
}

void memtrace_dry_disown(void *storage)
{
    mt_dry::disown_block(static_cast<c10::StorageImpl *>(storage));
}

void memtrace_dry_adopt(void *storage, uint64_t bytes)
{
    mt_dry::adopt_block(static_cast<c10::StorageImpl *>(storage), bytes);
}

void memtrace_dry_forbid_tensor(void *tensor, const char *words)
{
    static_cast<c10::TensorImpl *>(tensor)->release_storage_and_set_meta_custom_data_ptr_error_msg_(words);
}

void memtrace_dry_forbid_storage(void *storage, const char *words)
{
    static_cast<c10::StorageImpl *>(storage)->release_data_and_set_meta_custom_data_ptr_error_msg_(words);
}
