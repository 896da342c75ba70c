/* Calls that write into memory on the host, kept instead of run.
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
    std::shared_ptr<const writing> last; /* the newest; nullptr: all writings have run */
    bool may_be_late = true;             /* false once something has read the bytes */
    bool is_unknown = false;             /* some value depends on values that were not computed */
    std::optional<filled> content;       /* the assumption then; none: the usual assumption */
};

/* Returns the memory of a watched storage; nullptr for another. */
memory *memory_of(const c10::StorageImpl *storage);

/* True if a storage is late: its memory must not be read. */
bool is_late(const c10::StorageImpl *storage);

/* Watches a storage on the host from now on. Does nothing if it is watched already. */
void watch(c10::StorageImpl *storage);

/* True if a tensor is a known number on the host, whose value can be kept. */
bool is_number(const at::Tensor &tensor);

/* Keeps a call whose first argument is in `target`. `replaces`: the call overwrites all earlier values. If it draws
 * random numbers, the generator advances. Returns false, and changes nothing, if that is not possible. */
bool add_writing(memory *target, const c10::OperatorHandle &op, const std::vector<c10::IValue> &arguments,
                 bool replaces);

/* Forgets the kept writings, since other values follow. */
void forget(memory *target);

/* Gives all of a storage, which becomes watched, its assumed content. It is late. */
void make_unknown(c10::StorageImpl *storage, const filled &content);

/* Record that the values in a storage were computed, or that they were assumed: all are `content`, if that is given. A
 * storage with assumed values becomes watched. */
void mark_known(c10::StorageImpl *storage);
void mark_unknown(c10::StorageImpl *storage, const std::optional<filled> &content);

/* True if some values of a storage, or of its kept writings, were not computed. */
bool is_unknown(const c10::StorageImpl *storage);

/* Returns the assumed content of an unknown storage; none: the usual assumption. */
std::optional<filled> content_of_host(const c10::StorageImpl *storage);

/* Gives a storage, which becomes watched, the content of a late one of the same size. */
void copy_late(c10::StorageImpl *to, const c10::StorageImpl *from);

/* Runs the kept writings. The storage is never late again. Does nothing for a storage that is not watched. Throws
 * c10::Error if the host has too little memory. */
void settle(c10::StorageImpl *storage);

} // namespace mt_dry
