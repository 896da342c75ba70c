/* What was written into memory on the host, kept instead of being done.
 *
 *   memory.last ──▶ erfinv_ ──▶ uniform_ (its random numbers)
 *   memory.last ──▶ copy_ ──source──▶ fill_            (another memory's writings, which never change)
 *
 * Threads: any; a lock serves all memory. */
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

namespace mt_dry
{

struct writing;

/* The bytes of a storage on the host. It is late while `last` is set, which needs `may_be_late`. */
struct memory final {
    c10::DataPtr bytes;
    std::shared_ptr<const writing> last; /* the newest; nullptr: the bytes are as they were written */
    bool may_be_late = true;             /* false once somebody has read them */
};

/* Returns the memory of a storage that is watched; nullptr for another. */
memory *memory_of(const c10::StorageImpl *storage);

/* True if a storage is late: its memory is not to be read. */
bool is_late(const c10::StorageImpl *storage);

/* Watches a storage on the host from now on. Nothing changes for one that is watched. */
void watch(c10::StorageImpl *storage);

/* True if a tensor is a number, whose value can be kept. */
bool is_number(const at::Tensor &tensor);

/* Keeps a call whose first argument lies in `target`. `replaces` says that no earlier value is left. Random numbers are drawn: the
 * generator advances. False, and nothing has changed, if that is not possible. */
bool add_writing(memory *target, const c10::OperatorHandle &op, const std::vector<c10::IValue> &arguments,
                 bool replaces);

/* Forgets what is kept, since other values follow. */
void forget(memory *target);

/* Makes a storage, which becomes watched, read as zeros that count as assumed. */
void make_unknown(c10::StorageImpl *storage);

/* Has a storage, which becomes watched, hold what another of the same size holds, which is late. */
void copy_late(c10::StorageImpl *to, const c10::StorageImpl *from);

/* Writes what is kept. The storage is ordinary from then on. Does nothing for one that is not watched. Throws c10::Error without
 * memory on the host. */
void settle(c10::StorageImpl *storage);

} // namespace mt_dry
