/* Sparse COO tensors on the card: indices and values, which are dense tensors there.
 *
 * nnz, the number of stored elements, depends on values once equal indices are added up: it follows the rule of unique.
 * Ours allocate what aten/src/ATen/native/sparse/cuda/SparseCUDATensor.cu and SparseCUDATensorMath.cu do, except for
 * scratch memory of thrust and cuSPARSE. */
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_layouts.h"
#include "producers/torch/dry/dry_values.h"
#include "producers/torch/torch_plan.h"

#include <ATen/ExpandUtils.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_unique2.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/copy_sparse_to_sparse.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/zeros.h>

namespace mt_dry
{

using at::Tensor;

namespace
{

/* ---- equal indices ---- */

/* Returns the row-major number of each element of a sparse tensor among its sparse dimensions, (nnz), in new memory. */
Tensor new_numbers(const Tensor &sparse)
{
    const Tensor indices = sparse._indices();
    Tensor numbers = at::zeros({indices.size(1)}, indices.options());
    for (int64_t dim = 0; dim < indices.size(0); dim++)
        numbers.mul_(sparse.size(dim)).add_(indices.select(0, dim));
    return numbers;
}

/* The same; for one sparse dimension, returns the indices themselves. */
Tensor numbers_of(const Tensor &sparse)
{
    return sparse.sparse_dim() == 1 ? sparse._indices().squeeze(0) : new_numbers(sparse);
}

/* Makes indices of (dims, nnz) from numbers of (nnz), which it changes. */
Tensor unflatten(const Tensor &numbers, at::IntArrayRef sizes)
{
    const auto dims = static_cast<int64_t>(sizes.size());
    if (dims == 1)
        return numbers.unsqueeze(0);
    Tensor indices = at::empty({dims, numbers.size(0)}, numbers.options());
    for (int64_t dim = dims - 1; dim >= 0; dim--) {
        Tensor row = indices.select(0, dim);
        row.copy_(numbers);
        numbers.div_(sizes[dim], "trunc");
        row.add_(numbers, -sizes[dim]);
    }
    return indices;
}

Tensor coalesce(const Tensor &self)
{
    if (self._nnz() < 2)
        return self.clone()._coalesced_(true);
    const Tensor values = self._values().contiguous();
    const Tensor numbers = new_numbers(self);
    const auto [kept, places, counts] = at::_unique2(numbers, true, true, false);
    std::vector<int64_t> sizes = values.sizes().vec();
    sizes[0] = kept.size(0);
    const Tensor sums = at::zeros(sizes, values.options()).index_add_(0, places, values);
    const Tensor indices = unflatten(kept, self.sizes().slice(0, self.sparse_dim()));
    return at::_sparse_coo_tensor_unsafe(indices, sums, self.sizes())._coalesced_(true);
}

/* ---- sums and products ---- */

Tensor &add_to_dense(const Tensor &dense, const Tensor &sparse, const at::Scalar &factor, Tensor &out)
{
    TORCH_CHECK(dense.sizes() == sparse.sizes(), "add: expected sizes of 'self' and 'other' to match, but ",
                dense.sizes(), " != ", sparse.sizes());
    if (!out.is_same(dense))
        out.resize_as_(dense).copy_(dense);
    if (sparse._nnz() == 0 || dense.numel() == 0)
        return out;
    const Tensor numbers = numbers_of(sparse);
    const int64_t rows = c10::multiply_integers(dense.sizes().slice(0, sparse.sparse_dim()));
    const Tensor values = sparse._values().to(out.scalar_type()).reshape({sparse._nnz(), -1});
    out.view({rows, -1}).index_add_(0, numbers, values, factor);
    return out;
}

Tensor scaled(const Tensor &values, const at::Scalar &factor)
{
    return factor.equal(1) ? values : values.mul(factor);
}

Tensor &add(const Tensor &self, const Tensor &other, const at::Scalar &factor, Tensor &out)
{
    if (!self.is_sparse())
        return add_to_dense(self, other, factor, out);
    TORCH_CHECK(other.is_sparse(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
    TORCH_CHECK(self.sizes() == other.sizes(), "add: expected sizes of 'self' and 'other' to match, but ", self.sizes(),
                " != ", other.sizes());
    if (other._nnz() == 0)
        return at::copy_sparse_to_sparse_(out, self);
    const auto type = at::result_type(self, other);
    const Tensor values = scaled(other._values(), factor);
    const Tensor all_indices = at::cat({self._indices(), other._indices()}, 1);
    const Tensor all_values = at::cat({self._values().to(type), values.to(type)}, 0).to(out.scalar_type());
    out.resize_as_sparse_(self);
    at::sparse::alias_into_sparse(out, all_indices, all_values);
    out._coalesced_(false);
    return out;
}

/* Returns the elements of a dense tensor at the indices of a sparse one of the same size. */
Tensor elements_at(const Tensor &dense, const Tensor &sparse)
{
    const int64_t rows = c10::multiply_integers(dense.sizes().slice(0, sparse.sparse_dim()));
    const Tensor numbers = numbers_of(sparse);
    return dense.reshape({rows, -1}).index_select(0, numbers).view_as(sparse._values());
}

Tensor &multiply(const Tensor &self, const Tensor &other, Tensor &out)
{
    const Tensor &sparse = self.is_sparse() ? self : other, &factor = self.is_sparse() ? other : self;
    TORCH_CHECK_NOT_IMPLEMENTED(!factor.is_sparse() && (factor.dim() == 0 || factor.sizes() == sparse.sizes()),
                                "memtrace: a dry run has no aten::mul of two sparse tensors, or of a sparse and a "
                                "smaller dense one: use dense ones");
    const Tensor values = sparse._values().mul(factor.dim() == 0 ? factor : elements_at(factor, sparse));
    const Tensor indices = out.is_same(sparse) ? sparse._indices() : sparse._indices().clone();
    const bool is_coalesced = sparse.is_coalesced();
    out.resize_as_sparse_(sparse);
    at::sparse::alias_into_sparse(out, indices, values.to(out.scalar_type()));
    out._coalesced_(is_coalesced);
    return out;
}

/* ---- products of matrices ---- */

/* Computes the values of a product if all operands have values. */
void multiply_values(const Tensor &added, const Tensor &sparse, const Tensor &dense, const at::Scalar &beta,
                     const at::Scalar &alpha, const Tensor &out)
{
    const Tensor indices = sparse._indices(), values = sparse._values();
    bool is_known = true, is_there = has_values(out);
    for (const Tensor &tensor : {added, indices, values, dense}) {
        is_known = is_known && mt_dry::is_known(tensor);
        is_there = is_there && has_values(tensor);
    }
    if (is_there && is_known)
        values_of(out).copy_(at::addmm(
            values_of(added), at::_sparse_coo_tensor_unsafe(values_of(indices), values_of(values), sparse.sizes()),
            values_of(dense), beta, alpha));
    mark(out, is_there && is_known);
}

/* Computes beta * added + alpha * sparse @ dense: (M, N), of (M, K) and (K, N). cuSPARSE takes row offsets, 32-bit
 * indices and a result by columns. */
Tensor &multiply_matrices(const Tensor &added, const Tensor &sparse, const Tensor &dense, const at::Scalar &beta,
                          const at::Scalar &alpha, Tensor &out)
{
    TORCH_CHECK_NOT_IMPLEMENTED(sparse.is_sparse() && !dense.is_sparse() && sparse.dense_dim() == 0,
                                "memtrace: a dry run has no aten::addmm of a dense and a sparse matrix, or of two "
                                "sparse ones: use dense ones");
    TORCH_CHECK(sparse.size(1) == dense.size(0), "addmm: Argument #3 (dense): Expected dim 0 size ", sparse.size(1),
                ", got ", dense.size(0));
    const int64_t M = sparse.size(0), N = dense.size(1);
    const Tensor broadcast = *at::expand_size(added, {M, N}, "addmm");
    out.resize_({M, N});
    const Tensor coalesced = sparse.coalesce();
    const auto numbers = dense.options().dtype(at::kInt);
    const Tensor rows = coalesced._indices().select(0, 0).to(at::kInt), offsets = at::empty({M + 1}, numbers);
    const Tensor columns = coalesced._indices().select(0, 1).to(at::kInt);
    const Tensor by_columns = at::empty({N, M}, out.options());
    multiply_values(broadcast, coalesced, dense, beta, alpha, out);
    memtrace_torch_count_unknown("aten::addmm (sparse)", out.nbytes());
    return out;
}

Tensor multiply_matrices_new(const Tensor &added, const Tensor &sparse, const Tensor &dense, const at::Scalar &beta,
                             const at::Scalar &alpha)
{
    Tensor out = at::empty({0}, dense.options());
    return multiply_matrices(added, sparse, dense, beta, alpha, out);
}

Tensor &multiply_matrices_in_place(Tensor &added, const Tensor &sparse, const Tensor &dense, const at::Scalar &beta,
                                   const at::Scalar &alpha)
{
    return multiply_matrices(added, sparse, dense, beta, alpha, added);
}

} // namespace

void register_sparse()
{
    const silent_registration silent;
    layout_kernels &kernels = sparse_kernels();
    kernels.add("_coalesce", &coalesce);
    kernels.add("add.out", &add);
    kernels.add("mul.out", &multiply);
    kernels.add("addmm", &multiply_matrices_new);
    kernels.add("addmm.out", &multiply_matrices);
    kernels.add("addmm_", &multiply_matrices_in_place);
}

} // namespace mt_dry
