/* Twins: tensors without a card that stand in for the tensors of a call while another device's kernel runs on them.
 *
 *   argument (cuda) ──twin_of──▶ twin (meta: only shapes; cpu: the values, in the block's own host memory)
 *   result (meta)   ──real_of──▶ the argument that it is, a view of an argument's storage, or a new tensor on the card
 *
 * Twins of arguments that share a storage share one, too, so views and writes have the same effect as on a card.
 *
 * Threads: one object, one thread. */
#pragma once

#include "producers/torch/dry/dry_device.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>
#include <ATen/EmptyTensor.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace mt_dry
{

/* The content of a CPU twin of an unknown block: its values, which it must have; ones; ones and zeros as in a mask; or
 * 0, 1, 2 and so on. A mask always has its assumed content. */
enum class filling { VALUES, ONES, TRUTHS, COUNT };

class twins
{
  public:
    /* `kind` is kMeta or kCPU. */
    explicit twins(c10::DeviceType kind, filling filling = filling::VALUES,
                   double (*fraction)(const at::Tensor &) = nullptr)
        : kind_(kind), filling_(filling), fraction_(fraction)
    {
    }

    /* Returns the argument with twins instead of its tensors on a card, alone or in lists. A card as an argument
     * becomes `kind`. */
    c10::IValue twin_of(const c10::IValue &argument);

    /* Gives arguments the shapes, and storages the sizes, that their twins have now. */
    void carry_over();

    /* Returns a result with real tensors instead of tensors of `kind`. New tensors are on the current device. */
    c10::IValue real_of(const c10::IValue &result);

  private:
    at::Tensor twin_of_tensor(const at::Tensor &real);
    c10::Storage twin_of_storage(const at::Tensor &real);
    c10::DataPtr values_of(const at::Tensor &real, block *owner);
    at::Tensor real_of_tensor(const at::Tensor &twin);
    c10::Storage real_of_storage(const at::Tensor &twin);

    c10::DeviceType kind_;
    filling filling_;
    double (*fraction_)(const at::Tensor &);
    std::unordered_map<const c10::TensorImpl *, at::Tensor> twin_tensors_; /* by the real one */
    std::unordered_map<const c10::TensorImpl *, at::Tensor> real_tensors_; /* by the twin */
    std::vector<std::pair<at::Tensor, at::Tensor>> arguments_;             /* twin and real one, in their order */
    std::unordered_map<const c10::StorageImpl *, c10::Storage> twin_storages_, real_storages_;
    std::unordered_map<const c10::StorageImpl *, c10::DispatchKeySet> view_keys_; /* of views, by the real storage */
    std::vector<at::Tensor> kept_; /* twins and fillings, kept so that no address is reused */
};

/* Returns a CPU tensor over the values of a tensor on a card, which must have some; another tensor itself. */
at::Tensor values_of(const at::Tensor &tensor);

/* Calls `visit` with each tensor of a value: alone, or in lists. */
template <typename function> void each_tensor(const c10::IValue &value, function visit)
{
    if (value.isTensor()) {
        if (value.toTensor().defined())
            visit(value.toTensor());
    } else if (value.isList()) {
        for (const c10::IValue &item : value.toListRef())
            each_tensor(item, visit);
    }
}

/* Returns the bytes that a storage needs to hold the tensor; 0 if it is empty. Fails with c10::Error if they
 * overflow. */
inline uint64_t needed_bytes(const at::Tensor &tensor)
{
    return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize(),
                                            tensor.storage_offset());
}

/* True if a tensor has all elements of a storage or block of `bytes`. */
inline bool covers_bytes(const at::Tensor &tensor, uint64_t bytes)
{
    return tensor.nbytes() == bytes && tensor.is_non_overlapping_and_dense();
}

/* True if a tensor is on a card. */
inline bool is_on_card(const at::Tensor &tensor)
{
    return tensor.device().type() == c10::DeviceType::CUDA;
}

} // namespace mt_dry
