#include "torch/dry/dry_twins.h"

#include <ATen/EmptyTensor.h>
#include <c10/core/CPUAllocator.h>

#include <cstring>

namespace mt_dry
{

using at::Tensor;
using c10::IValue;
using c10::Storage;
using c10::StorageImpl;
using c10::TensorImpl;

namespace
{

/* Returns a tensor over a storage with the shape of another. */
Tensor with_shape_of(const Tensor &other, Storage storage, c10::DispatchKey key)
{
    Tensor made = at::detail::make_tensor<TensorImpl>(std::move(storage), c10::DispatchKeySet(key), other.dtype());
    TensorImpl *impl = made.unsafeGetTensorImpl();
    impl->set_storage_offset(other.storage_offset());
    impl->set_sizes_and_strides(other.sizes(), other.strides());
    if (other.unsafeGetTensorImpl()->is_wrapped_number())
        impl->set_wrapped_number(true);
    if (other.is_conj())
        impl->_set_conj(true);
    if (other.is_neg())
        impl->_set_neg(true);
    return made;
}

c10::DispatchKey key_of(c10::DeviceType kind)
{
    return kind == c10::DeviceType::CPU ? c10::DispatchKey::CPU : c10::DispatchKey::Meta;
}

} // namespace

Storage twins::twin_of_storage(const Storage &real)
{
    const StorageImpl *impl = real.unsafeGetStorageImpl();
    Storage &twin = twin_storages_[impl];
    if (twin)
        return twin;
    block *owner = block_of(impl);
    c10::DataPtr data(nullptr, c10::Device(kind_));
    if (kind_ == c10::DeviceType::CPU && owner != nullptr)
        data = c10::DataPtr(owner->host(), c10::Device(kind_));
    twin = Storage(c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), impl->nbytes(), std::move(data),
                                                    c10::GetAllocator(kind_), true));
    real_storages_[twin.unsafeGetStorageImpl()] = real;
    return twin;
}

Tensor twins::twin_of_tensor(const Tensor &real)
{
    if (!real.defined() || !is_on_card(real))
        return real;
    Tensor &twin = twin_tensors_[real.unsafeGetTensorImpl()];
    if (twin.defined())
        return twin;
    twin = with_shape_of(real, twin_of_storage(real.storage()), key_of(kind_));
    real_tensors_[twin.unsafeGetTensorImpl()] = real;
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
    if (argument.isStorage() && argument.toStorage().device_type() == c10::DeviceType::CUDA)
        return twin_of_storage(argument.toStorage());
    if (argument.isDevice() && argument.toDevice().type() == c10::DeviceType::CUDA)
        return c10::Device(kind_);
    return argument;
}

void twins::carry_over()
{
    for (auto &[twin, real] : real_tensors_) {
        StorageImpl *storage = twin->storage().unsafeGetStorageImpl();
        const auto owner = real_storages_.find(storage);
        if (owner == real_storages_.end())
            continue;
        TensorImpl *impl = real.unsafeGetTensorImpl();
        if (owner->second.unsafeGetStorageImpl() != impl->storage().unsafeGetStorageImpl())
            impl->set_storage_keep_dtype(owner->second);
        StorageImpl *target = owner->second.unsafeGetStorageImpl();
        if (kind_ == c10::DeviceType::Meta && storage->nbytes() > target->nbytes())
            resize(target, storage->nbytes());
        if (twin->sizes() != impl->sizes() || twin->strides() != impl->strides() ||
            twin->storage_offset() != impl->storage_offset()) {
            impl->set_storage_offset(twin->storage_offset());
            impl->set_sizes_and_strides(twin->sizes(), twin->strides());
        }
    }
}

Storage twins::real_of_storage(const Tensor &twin)
{
    const Storage &storage = twin.storage();
    Storage &real = real_storages_[storage.unsafeGetStorageImpl()];
    if (real)
        return real;
    describe_next(twin.scalar_type(), twin.sizes());
    real =
        Storage(c10::make_intrusive<StorageImpl>(StorageImpl::use_byte_size_t(), storage.nbytes(), allocator(), true));
    return real;
}

Tensor twins::real_of_tensor(const Tensor &twin, c10::Device device)
{
    if (!twin.defined() || twin.device().type() != kind_)
        return twin;
    const auto known = real_tensors_.find(twin.unsafeGetTensorImpl());
    if (known != real_tensors_.end())
        return known->second;
    kept_.push_back(twin);
    (void)device;
    Tensor real = with_shape_of(twin, real_of_storage(twin), c10::DispatchKey::CUDA);
    real_tensors_[twin.unsafeGetTensorImpl()] = real;
    return real;
}

IValue twins::real_of(const IValue &result, c10::Device device)
{
    if (result.isTensor())
        return real_of_tensor(result.toTensor(), device);
    if (result.isTensorList()) {
        c10::List<Tensor> list;
        for (const Tensor &tensor : result.toTensorVector())
            list.push_back(real_of_tensor(tensor, device));
        return list;
    }
    return result;
}

std::vector<uint64_t> twins::new_bytes(const IValue &result) const
{
    std::vector<uint64_t> found;
    std::vector<const StorageImpl *> seen;
    each_tensor(result, [&](const Tensor &tensor) {
        if (tensor.device().type() != kind_ || real_tensors_.count(tensor.unsafeGetTensorImpl()) != 0)
            return;
        const StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
        if (real_storages_.count(storage) != 0 || std::find(seen.begin(), seen.end(), storage) != seen.end())
            return;
        seen.push_back(storage);
        found.push_back(storage->nbytes());
    });
    return found;
}

} // namespace mt_dry
