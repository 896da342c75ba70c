/* A CUDA device without a card, behind PyTorch's own name, for a PyTorch that was built without CUDA.
 *
 *   tensor (device="cuda") ──▶ StorageImpl ──▶ DataPtr: an address that memtrace's allocator gave, and a block
 *
 * Nothing lies at the address. A small block has values on the host, so that programs may branch on them: is_known is true
 * while they are what a card would have, up to rounding, and false if one of them was assumed. New blocks are zeros.
 *
 * This folder alone includes PyTorch's headers. It is compiled for one version of PyTorch at a time.
 *
 * Threads: any, as with PyTorch. */
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/Stream.h>
#include <c10/util/ArrayRef.h>

#include <memory>
#include <optional>

namespace mt_dry
{

/* Larger blocks have no values. */
constexpr uint64_t MOST_VALUE_BYTES = 1 << 20;

/* What all elements hold: a value, or in a mask (kBool) the fraction of elements that are true. */
struct filled {
    c10::Scalar value;
    c10::ScalarType type;
};

/* Writes it into memory on the host, which is aligned for the type. Types that a c10::Scalar does not convert to become zeros. */
void write(const filled &with, char *values, uint64_t bytes);

struct block final {
    uint64_t address, bytes;
    c10::DeviceIndex device;
    bool is_known;                      /* false: large, or written from what was assumed */
    std::unique_ptr<char[]> values;     /* nullptr: as all_are says, until they are needed */
    std::optional<filled> all_are = {}; /* of a large block: what is assumed. None: zeros, or the usual assumption */

    bool has_values() const
    {
        return bytes <= MOST_VALUE_BYTES;
    }

    /* Fills the block. Writes nothing until the values are needed, which most never are. */
    void fill(const filled &with)
    {
        values.reset();
        all_are = with;
    }

    /* Returns the values; only of a block that has them. */
    char *host();

    /* Returns where the bytes of a storage begin in the block. Not 0 for a slice of a storage, or a view through DLPack. */
    uint64_t offset_of(const c10::StorageImpl *storage) const
    {
        return reinterpret_cast<uint64_t>(storage->data()) - address;
    }
};

/* Returns the allocator of device "cuda". Its blocks come from memtrace_torch_take. */
c10::Allocator *allocator();

/* Gives the label of the thread's next block a dtype and sizes, if the block is allocated while the object lives. */
class shape_of_next
{
  public:
    shape_of_next(c10::ScalarType type, c10::IntArrayRef sizes);
    ~shape_of_next();
    shape_of_next(const shape_of_next &) = delete;
    shape_of_next &operator=(const shape_of_next &) = delete;
};

/* Returns the block of a storage, also where another storage owns it; nullptr if it has none, or another allocator's. */
block *block_of(const c10::StorageImpl *storage);

/* True if a storage owns a block of ours, and so frees it. */
bool owns_block(const c10::StorageImpl *storage);

/* Has a storage forget its block, which stays allocated, and keep the address. */
void disown_block(c10::StorageImpl *storage);

/* Has a storage, which owns no block, own the block of `bytes` that was taken at its address. */
void adopt_block(c10::StorageImpl *storage, uint64_t bytes);

/* Marks the values of all blocks on the current card unknown: a kernel that was skipped may have written any. */
void forget_values();

/* Gives a storage other bytes, as at::native::resize_bytes_cuda does: the new block is allocated before the old one is freed.
 * Fails with c10::Error if the storage cannot be resized. */
void resize(c10::StorageImpl *storage, size_t bytes);

/* Returns the number of the private pool that this thread's next allocation for a stream comes from; 0: none (dry_capture.cpp). */
uint32_t pool_of_next(c10::Stream stream);

constexpr int MOST_CARDS = 64;

/* Registers the guard of so many cards (dry_guard.cpp). */
void begin_guard(int count);
int card_count();

/* Returns the current device of this thread, and its current stream there. */
c10::DeviceIndex current_device();
c10::Stream current_stream(c10::DeviceIndex device);

/* Changes nothing if there is no such card. */
void set_current_device(c10::DeviceIndex device);

/* Register the kernels of device "cuda" (dry_kernels.cpp), shapes that PyTorch has not (dry_shapes.cpp), or only in Python
 * (dry_common_shapes.cpp), or for CUDA alone (dry_sync_shapes.cpp), recurrent nets (dry_recurrent.cpp), encoders
 * (dry_encoder.cpp), sparse and nested tensors (dry_sparse.cpp, dry_nested.cpp), no others (dry_layouts.cpp), and weights on the
 * host (dry_weights.cpp). */
void register_kernels();
void register_shapes();
void register_common_shapes();
void register_sync_shapes();
void register_recurrent();
void register_encoder();
void register_sparse();
void register_nested();
void refuse_other_layouts();
void register_weights();

} // namespace mt_dry
