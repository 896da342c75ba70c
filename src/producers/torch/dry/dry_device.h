/* A simulated CUDA device under PyTorch's own name "cuda", for a PyTorch that was built without CUDA.
 *
 *   tensor (device="cuda") ──▶ StorageImpl ──▶ DataPtr: an address from memtrace's allocator, and a block
 *
 * There is no memory at the address. A small block has values on the host, so that programs may branch on them.
 * is_known is true while they equal a card's values, up to rounding, and false once one of them was assumed. New blocks
 * are zeros.
 *
 * Only this folder includes PyTorch's headers. It is compiled for one version of PyTorch at a time.
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

/* The content of all elements: a value or, in a mask (kBool), the fraction of true elements. */
struct filled {
    c10::Scalar value;
    c10::ScalarType type;
};

/* Writes the content into memory on the host that is aligned for the type. Types to which c10::Scalar does not convert
 * become zeros. */
void write(const filled &with, char *values, uint64_t bytes);

struct block final {
    uint64_t address, bytes;
    c10::DeviceIndex device;
    bool is_known;                      /* false: large, or an assumed value was written into it */
    std::unique_ptr<char[]> values;     /* nullptr: as all_are says, until they are needed */
    std::optional<filled> all_are = {}; /* of a large block: its assumed content. None: zeros, or the usual one */

    bool has_values() const
    {
        return bytes <= MOST_VALUE_BYTES;
    }

    /* Fills the block. Writes nothing until the values are needed, which is rare. */
    void fill(const filled &with)
    {
        values.reset();
        all_are = with;
    }

    /* Returns the values. The block must have some. */
    char *host();

    /* Returns the offset of a storage's bytes in the block. Not 0 for a slice of a storage, or a view through
     * DLPack. */
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

/* Returns the block of a storage, even if another storage owns it; nullptr if it has none, or another allocator's. */
block *block_of(const c10::StorageImpl *storage);

/* True if a storage owns a block of ours, and so frees it. */
bool owns_block(const c10::StorageImpl *storage);

/* Makes a storage forget its block, which stays allocated. The storage keeps the address. */
void disown_block(c10::StorageImpl *storage);

/* Gives a storage without a block the block of `bytes` that was allocated at its address. */
void adopt_block(c10::StorageImpl *storage, uint64_t bytes);

/* Marks the values of all blocks on the current card unknown, since a skipped kernel may have written any. */
void forget_values();

/* Changes the size of a storage, like at::native::resize_bytes_cuda: the new block is allocated before the old one is
 * freed. Fails with c10::Error if the storage cannot be resized. */
void resize(c10::StorageImpl *storage, size_t bytes);

/* Returns the private pool that serves this thread's next allocation for a stream; 0: none (dry_capture.cpp). */
uint32_t pool_of_next(c10::Stream stream);

constexpr int MOST_CARDS = 64;

/* Registers the guard for `count` cards (dry_guard.cpp). */
void begin_guard(int count);
int card_count();

/* Return this thread's current device, and its current stream there. */
c10::DeviceIndex current_device();
c10::Stream current_stream(c10::DeviceIndex device);

/* Does nothing if there is no such card. */
void set_current_device(c10::DeviceIndex device);

/* Registers the kernels of device "cuda" (dry_kernels.cpp); shapes that PyTorch lacks (dry_shapes.cpp), has only in
 * Python (dry_common_shapes.cpp) or only for CUDA (dry_sync_shapes.cpp); recurrent nets (dry_recurrent.cpp), encoders
 * (dry_encoder.cpp), sparse and nested tensors (dry_sparse.cpp, dry_nested.cpp; dry_layouts.cpp refuses their other
 * operators), and weights on the host (dry_weights.cpp). */
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
