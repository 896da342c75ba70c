#include "producers/torch/dry/dry_twins.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>

namespace mt_dry
{

using at::Tensor;
using c10::IValue;
using c10::Storage;
using c10::StorageImpl;
using c10::TensorImpl;

namespace
{

/* Gives a new tensor the shape of another. */
Tensor with_shape_of(const Tensor &other, Tensor made)
{
    TensorImpl *impl = made.unsafeGetTensorImpl();
    impl->set_storage_offset(other.storage_offset());
    impl->set_sizes_and_strides(other.sizes(), other.strides());
    if (other.unsafeGetTensorImpl()->is_wrapped_number())
        impl->set_wrapped_number(true);
    impl->_set_conj(other.is_conj());
    impl->_set_neg(other.is_neg());
    return made;
}

Tensor make_tensor(const Tensor &shape, Storage storage, c10::DispatchKey key)
{
    return with_shape_of(
        shape, at::detail::make_tensor<TensorImpl>(std::move(storage), c10::DispatchKeySet(key), shape.dtype()));
}

/* Makes a view with the keys of its base: even in inference mode, a view of a parameter is an ordinary tensor. */
Tensor make_view(const Tensor &shape, Storage storage, c10::DispatchKeySet keys)
{
    return with_shape_of(
        shape, at::detail::make_tensor<TensorImpl>(TensorImpl::VIEW, std::move(storage), keys, shape.dtype()));
}

void check_dense(const Tensor &tensor)
{
    TORCH_CHECK_NOT_IMPLEMENTED(tensor.has_storage() && !tensor.is_nested(),
                                "memtrace: a dry run has dense tensors only, not of kind ",
                                tensor.is_nested() ? "nested" : c10::str(tensor.layout()));
}

/* Fails with c10::Error if the tensor's bytes overflow. Meta kernels do not check this. */
void check_size(const Tensor &twin)
{
    needed_bytes(twin);
}

/* Fails unless the CPU twin of a tensor is within the twin of its storage. Otherwise kernels would read and write
 * beyond it. */
void check_bounds(const Tensor &real, const Storage &twin)
{
    const uint64_t needed = needed_bytes(real);
    TORCH_CHECK(needed <= twin.nbytes(), "memtrace: a tensor of sizes ", real.sizes(), ", strides ", real.strides(),
                " and storage offset ", real.storage_offset(), " needs a storage of ", needed, " bytes; there are ",
                twin.nbytes());
}

c10::DispatchKey key_of(c10::DeviceType kind)
{
    return kind == c10::DeviceType::CPU ? c10::DispatchKey::CPU : c10::DispatchKey::Meta;
}

} // namespace

/* Returns the values of a block, or their filling for the type of the tensor. */
c10::DataPtr twins::values_of(const Tensor &real, block *owner)
{
    const c10::Device cpu(c10::DeviceType::CPU);
    const bool is_mask = real.scalar_type() == at::kBool;
    if (owner->is_known || filling_ == filling::VALUES || (is_mask && owner->has_values()))
        return {owner->host() + owner->offset_of(real.storage().unsafeGetStorageImpl()), cpu};
    const auto elements = static_cast<int64_t>(owner->bytes / real.itemsize()) + 1;
    const c10::impl::ExcludeDispatchKeyGuard plain(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    Tensor values = at::ones({elements}, at::TensorOptions(cpu).dtype(at::kBool));
    if (is_mask || filling_ == filling::TRUTHS)
        write({at::Scalar(fraction_(real)), at::kBool}, static_cast<char *>(values.mutable_data_ptr()),
              values.nbytes());
    else if (filling_ == filling::COUNT)
        values = at::arange(elements, at::TensorOptions(cpu));
    kept_.push_back(values.to(real.scalar_type()));
    return {kept_.back().data_ptr(), cpu};
}

Storage twins::twin_of_storage(const Tensor &tensor)
{
    const Storage &real = tensor.storage();
    const StorageImpl *impl = real.unsafeGetStorageImpl();
    Storage &twin = twin_storages_[impl];
    if (twin)
        return twin;
    block *owner = block_of(impl);
    c10::DataPtr data(nullptr, c10::Device(kind_));
    size_t bytes = impl->nbytes();
    if (kind_ == c10::DeviceType::CPU) {
        bytes = owner != nullptr ? std::min<size_t>(bytes, owner->bytes - owner->offset_of(impl)) : 0;
        data = owner != nullptr ? values_of(tensor, owner) : std::move(data);
    }
    twin = Storage(c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), bytes, std::move(data),
                                                    c10::GetAllocator(kind_), true));
    real_storages_[twin.unsafeGetStorageImpl()] = real;
    return twin;
}

Tensor twins::twin_of_tensor(const Tensor &real)
{
    if (!real.defined() || !is_on_card(real))
        return real;
    check_dense(real);
    Tensor &twin = twin_tensors_[real.unsafeGetTensorImpl()];
    if (twin.defined())
        return twin;
    Storage storage = twin_of_storage(real);
    if (kind_ == c10::DeviceType::CPU)
        check_bounds(real, storage);
    twin = make_tensor(real, std::move(storage), key_of(kind_));
    view_keys_[real.storage().unsafeGetStorageImpl()] = real.key_set();
    real_tensors_[twin.unsafeGetTensorImpl()] = real;
    arguments_.emplace_back(twin, real);
    return twin;
}

IValue twins::twin_of(const IValue &argument)
{
    if (argument.isTensor())
        return twin_of_tensor(argument.toTensor());
    if (argument.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor &tensor : argument.toTensorVector())
            list.push_back(twin_of_tensor(tensor));
        return list;
    }
    if (argument.isOptionalTensorList()) {
        c10::List<std::optional<Tensor>> list;
        for (const std::optional<Tensor> &tensor : argument.toOptionalTensorVector())
            list.push_back(tensor.has_value() ? std::optional<Tensor>(twin_of_tensor(*tensor)) : std::nullopt);
        return list;
    }
    if (argument.isDevice() && argument.toDevice().type() == c10::DeviceType::CUDA)
        return c10::Device(kind_);
    return argument;
}

void twins::carry_over()
{
    for (const auto &[twin, real] : arguments_) {
        StorageImpl *storage = twin.storage().unsafeGetStorageImpl();
        const auto owner = real_storages_.find(storage);
        if (owner == real_storages_.end())
            continue;
        check_size(twin);
        TensorImpl *impl = real.unsafeGetTensorImpl();
        if (owner->second.unsafeGetStorageImpl() != impl->storage().unsafeGetStorageImpl())
            impl->set_storage_keep_dtype(owner->second);
        StorageImpl *target = owner->second.unsafeGetStorageImpl();
        if (storage->nbytes() > target->nbytes())
            resize(target, storage->nbytes());
        if (twin.sizes() != impl->sizes() || twin.strides() != impl->strides() ||
            twin.storage_offset() != impl->storage_offset()) {
            impl->set_storage_offset(twin.storage_offset());
            impl->set_sizes_and_strides(twin.sizes(), twin.strides());
        }
    }
}

Storage twins::real_of_storage(const Tensor &twin)
{
    const Storage &storage = twin.storage();
    Storage &real = real_storages_[storage.unsafeGetStorageImpl()];
    if (real)
        return real;
    const shape_of_next shape(twin.scalar_type(), twin.sizes());
    check_size(twin);
    real =
        Storage(c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), storage.nbytes(), allocator(), true));
    return real;
}

Tensor twins::real_of_tensor(const Tensor &twin)
{
    if (!twin.defined() || twin.device().type() != kind_)
        return twin;
    check_dense(twin);
    const auto known = real_tensors_.find(twin.unsafeGetTensorImpl());
    if (known != real_tensors_.end())
        return known->second;
    kept_.push_back(twin);
    Storage storage = real_of_storage(twin);
    const auto base = view_keys_.find(storage.unsafeGetStorageImpl());
    Tensor real = base != view_keys_.end() ? make_view(twin, std::move(storage), base->second)
                                           : make_tensor(twin, std::move(storage), c10::DispatchKey::CUDA);
    real_tensors_[twin.unsafeGetTensorImpl()] = real;
    return real;
}

IValue twins::real_of(const IValue &result)
{
    if (result.isTensor())
        return real_of_tensor(result.toTensor());
    if (result.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor &tensor : result.toTensorVector())
            list.push_back(real_of_tensor(tensor));
        return list;
    }
    return result;
}

Tensor values_of(const Tensor &tensor)
{
    return twins(c10::DeviceType::CPU).twin_of(tensor).toTensor();
}

} // namespace mt_dry
