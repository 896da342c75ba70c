/* What was written into memory on the host, kept instead of being done.
 *
 *   memory.last ──▶ erfinv_ ──▶ uniform_ (its random numbers)
 *   memory.last ──▶ copy_ ──source──▶ fill_            (another memory's writings, which never change)
 *
 * Threads: any; a lock serves all memory. */
#pragma once

#include "producers/torch/dry/dry_device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <vector>

namespace mt_dry
{

struct writing;

/* The bytes of a storage on the host. It is late while `last` is set, which needs `may_be_late`. */
struct memory final {
    c10::DataPtr bytes;
    std::shared_ptr<const writing> last; /* the newest; nullptr: the bytes are as they were written */
    bool may_be_late = true;             /* false once somebody has read them */
    bool is_unknown = false;             /* the values come from some that were not computed */
    std::optional<filled> content;       /* what is assumed then; none: the usual assumption */
};

/* Returns the memory of a storage that is watched; nullptr for another. */
memory *memory_of(const c10::StorageImpl *storage);

/* True if a storage is late: its memory is not to be read. */
bool is_late(const c10::StorageImpl *storage);

/* Watches a storage on the host from now on. Nothing changes for one that is watched. */
void watch(c10::StorageImpl *storage);

/* True if a tensor is a number that is known, whose value can be kept. */
bool is_number(const at::Tensor &tensor);

/* Keeps a call whose first argument lies in `target`. `replaces` says that no earlier value is left. Random numbers are drawn: the
 * generator advances. False, and nothing has changed, if that is not possible. */
bool add_writing(memory *target, const c10::OperatorHandle &op, const std::vector<c10::IValue> &arguments,
                 bool replaces);

/* Forgets what is kept, since other values follow. */
void forget(memory *target);

/* Makes all of a storage, which becomes watched, hold what is assumed. It is late. */
void make_unknown(c10::StorageImpl *storage, const filled &content);

/* Notes that the values in a storage were computed, or that they were assumed: all as `content` says, if that is given. One with
 * assumed values becomes watched. */
void mark_known(c10::StorageImpl *storage);
void mark_unknown(c10::StorageImpl *storage, const std::optional<filled> &content);

/* True if values were not computed that a storage holds, or will hold once it is written. */
bool is_unknown(const c10::StorageImpl *storage);

/* Returns what is assumed of an unknown storage; none: the usual assumption. */
std::optional<filled> content_of_host(const c10::StorageImpl *storage);

/* Has a storage, which becomes watched, hold what another of the same size holds, which is late. */
void copy_late(c10::StorageImpl *to, const c10::StorageImpl *from);

/* Writes what is kept. The storage is never late again. Does nothing for one that is not watched. Throws c10::Error without
 * memory on the host. */
void settle(c10::StorageImpl *storage);

} // namespace mt_dry
