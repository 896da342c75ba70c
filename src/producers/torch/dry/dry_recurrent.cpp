/* Recurrent nets by cuDNN: the stubs that lstm, gru and rnn call on a card, the shapes of their results and gradients,
 * and their casts. The rules for their inner memory are in the table of operators (src/operators/recurrent_plan.c). */
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_inner.h"
#include "producers/torch/dry/dry_own.h"

#include <ATen/autocast_mode.h>
#include <ATen/native/RNN.h>
#include <ATen/ops/_cudnn_init_dropout_state.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>

#include <map>
#include <mutex>

namespace mt_dry
{

using at::Tensor;
using at::TensorList;
using c10::SymIntArrayRef;
using optional_tensor = std::optional<Tensor>;
using results = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

namespace
{

enum class net { RELU, TANH, LSTM, GRU }; /* with cuDNN's numbers */

struct layers {
    net kind;
    TensorList weights;
    bool has_biases;
    int64_t count;
    double dropout;
    bool is_training, is_bidirectional, is_batch_first;
};

/* ---- weights ---- */

int64_t elements_of(TensorList weights)
{
    int64_t elements = 0;
    for (const Tensor &weight : weights)
        elements += weight.numel();
    return elements;
}

/* Returns the number of elements of cuDNN's buffer. A net without biases has room for them, too. The first weight of
 * each cell has a row for each element of its gates. */
int64_t buffer_elements(TensorList weights, int64_t stride)
{
    int64_t elements = elements_of(weights);
    for (size_t i = 0; stride < 4 && i < weights.size(); i += static_cast<size_t>(stride))
        elements += 2 * weights[i].size(0);
    return elements;
}

/* Returns a tensor over the buffer with all weights, as flatten_parameters creates it; none if they are in separate
 * buffers. */
optional_tensor buffer_of(TensorList weights, int64_t stride)
{
    const c10::Storage &storage = weights[0].storage();
    const auto bytes = static_cast<size_t>(buffer_elements(weights, stride)) * weights[0].element_size();
    for (const Tensor &weight : weights)
        if (!weight.storage().is_alias_of(storage))
            return std::nullopt;
    return storage.nbytes() >= bytes ? optional_tensor(weights[0].detach()) : std::nullopt;
}

/* Returns parts of one new buffer, with the sizes of the weights, as separate tensors. */
std::vector<Tensor> parts_like(TensorList weights, int64_t stride, c10::ScalarType dtype, bool has_zeros)
{
    const at::NoGradGuard no_gradients;
    std::vector<Tensor> parts;
    const std::vector<int64_t> sizes{buffer_elements(weights, stride)};
    const c10::TensorOptions options = weights[0].options().dtype(dtype);
    const Tensor buffer = has_zeros ? at::zeros(sizes, options) : at::empty(sizes, options);
    int64_t place = 0;
    for (const Tensor &weight : weights) {
        parts.push_back(buffer.narrow(0, place, weight.numel()).view(weight.sizes()).detach());
        place += weight.numel();
    }
    return parts;
}

/* For flatten_parameters: moves the weights into one buffer. */
Tensor flatten(TensorList weights, int64_t stride, c10::SymInt, int64_t, c10::SymInt, c10::SymInt, int64_t, bool, bool)
{
    const std::vector<Tensor> parts = parts_like(weights, stride, weights[0].scalar_type(), true);
    for (size_t i = 0; i < parts.size(); i++) {
        parts[i].copy_(weights[i]);
        weights[i].set_(parts[i]);
    }
    return parts[0];
}

/* ---- calls ---- */

/* Returns the state of the random numbers for dropout between layers, one for each card. */
optional_tensor dropout_state(const layers &net, const Tensor &input)
{
    static std::mutex lock;
    static auto *states = new std::map<int, Tensor>; /* not freed when the process ends, as PyTorch's */
    if (!net.is_training || net.dropout == 0)
        return std::nullopt;
    const std::lock_guard<std::mutex> hold(lock);
    const auto [place, is_new] = states->try_emplace(input.get_device());
    if (is_new)
        place->second = at::_cudnn_init_dropout_state(net.dropout, true, 0, input.options().dtype(at::kByte));
    return place->second;
}

/* An input with the batch first is transposed for the call, and its output is transposed back. */
std::tuple<Tensor, Tensor, Tensor> run(const layers &net, const Tensor &input, const Tensor &hidden,
                                       const optional_tensor &cell, at::IntArrayRef batch_sizes)
{
    const int64_t cell_size = cell.has_value() ? cell->size(2) : hidden.size(2);
    const int64_t projection = hidden.size(2) != cell_size ? hidden.size(2) : 0;
    const int64_t stride = (net.has_biases ? 4 : 2) + (projection != 0 ? 1 : 0);
    auto [output, last_hidden, last_cell, reserve, weights] = at::_cudnn_rnn(
        net.is_batch_first ? input.transpose(0, 1) : input, net.weights, stride, buffer_of(net.weights, stride), hidden,
        cell, static_cast<int64_t>(net.kind), cell_size, projection, net.count, false, net.dropout, net.is_training,
        net.is_bidirectional, batch_sizes, dropout_state(net, input));
    return {net.is_batch_first ? output.transpose(0, 1) : output, last_hidden, last_cell};
}

at::IntArrayRef sizes_of(const Tensor &batch_sizes)
{
    return {batch_sizes.data_ptr<int64_t>(), static_cast<size_t>(batch_sizes.numel())};
}

template <net kind>
void run_plain(Tensor &output, Tensor &last, const Tensor &input, const Tensor &hidden, TensorList weights,
               bool has_biases, int64_t count, double dropout, bool is_training, bool is_bidirectional,
               bool is_batch_first)
{
    std::tie(output, last, std::ignore) =
        run({kind, weights, has_biases, count, dropout, is_training, is_bidirectional, is_batch_first}, input, hidden,
            std::nullopt, {});
}

template <net kind>
void run_packed(Tensor &output, Tensor &last, const Tensor &input, const Tensor &batch_sizes, const Tensor &hidden,
                TensorList weights, bool has_biases, int64_t count, double dropout, bool is_training,
                bool is_bidirectional)
{
    std::tie(output, last, std::ignore) =
        run({kind, weights, has_biases, count, dropout, is_training, is_bidirectional, false}, input, hidden,
            std::nullopt, sizes_of(batch_sizes));
}

void run_lstm(Tensor &output, Tensor &last, Tensor &last_cell, const Tensor &input, TensorList hidden,
              TensorList weights, bool has_biases, int64_t count, double dropout, bool is_training,
              bool is_bidirectional, bool is_batch_first)
{
    std::tie(output, last, last_cell) =
        run({net::LSTM, weights, has_biases, count, dropout, is_training, is_bidirectional, is_batch_first}, input,
            hidden[0], hidden[1], {});
}

void run_packed_lstm(Tensor &output, Tensor &last, Tensor &last_cell, const Tensor &input, const Tensor &batch_sizes,
                     TensorList hidden, TensorList weights, bool has_biases, int64_t count, double dropout,
                     bool is_training, bool is_bidirectional)
{
    std::tie(output, last, last_cell) =
        run({net::LSTM, weights, has_biases, count, dropout, is_training, is_bidirectional, false}, input, hidden[0],
            hidden[1], sizes_of(batch_sizes));
}

/* ---- shapes ---- */

/* Returns the sizes of the output. Its dimensions are in the order of the input's. */
std::vector<int64_t> output_sizes(const Tensor &input, int64_t width)
{
    std::vector<int64_t> sizes = input.sizes().vec();
    sizes.back() = width;
    return sizes;
}

/* The weights' buffer is a result, too. The table lists what is kept for backward. */
results shapes(const Tensor &input, TensorList weights, int64_t stride, const optional_tensor &buffer,
               const Tensor &hidden, const optional_tensor &cell, int64_t mode, c10::SymInt hidden_size,
               c10::SymInt projection, int64_t count, bool is_batch_first, double dropout, bool is_training,
               bool is_bidirectional, SymIntArrayRef batch_sizes, const optional_tensor &)
{
    enum { RESERVE = 3 };
    const int64_t reserve = listed_bytes("aten::_cudnn_rnn",
                                         {{"input", input},
                                          {"weight_buf", buffer.value_or(weights[0])},
                                          {"mode", mode},
                                          {"hidden_size", hidden_size.expect_int()},
                                          {"proj_size", projection.expect_int()},
                                          {"num_layers", count},
                                          {"batch_first", is_batch_first},
                                          {"dropout", dropout},
                                          {"train", is_training},
                                          {"bidirectional", is_bidirectional},
                                          {"batch_sizes", C10_AS_INTARRAYREF_SLOW(batch_sizes).vec()}},
                                         RESERVE);
    const bool has_cell = cell.has_value() && cell->defined();
    const bool has_buffer = buffer.has_value() && buffer->defined();
    return {at::empty(output_sizes(input, hidden.size(2) * (is_bidirectional ? 2 : 1)), input.options()),
            at::empty_like(hidden), has_cell ? at::empty_like(*cell) : at::empty({0}, hidden.options()),
            at::empty({reserve}, input.options().dtype(at::kByte)),
            has_buffer ? buffer->detach() : at::empty({buffer_elements(weights, stride)}, input.options())};
}

/* Without biases, gradients of weights are copies from the buffer. */
std::vector<Tensor> weight_gradients(TensorList weights, int64_t stride)
{
    std::vector<Tensor> copies;
    if (stride >= 4)
        return parts_like(weights, stride, weights[0].scalar_type(), false);
    for (const Tensor &weight : weights)
        copies.push_back(at::empty_like(weight));
    return copies;
}

std::tuple<Tensor, Tensor, Tensor, std::vector<Tensor>>
run_backward(const Tensor &input, TensorList weights, int64_t stride, const Tensor &, const Tensor &hidden,
             const optional_tensor &cell, const Tensor &, const optional_tensor &, const optional_tensor &,
             const optional_tensor &, int64_t, c10::SymInt, c10::SymInt, int64_t, bool, double, bool, bool,
             SymIntArrayRef, const optional_tensor &, const Tensor &, std::array<bool, 4> asked)
{
    return {at::empty(input.sizes(), input.options()), at::empty_like(hidden),
            cell.has_value() && cell->defined() ? at::empty_like(*cell) : Tensor(),
            asked[3] ? weight_gradients(weights, stride) : std::vector<Tensor>(weights.size())};
}

Tensor state_shape(double, bool, int64_t, std::optional<c10::ScalarType> dtype, std::optional<c10::Layout> layout,
                   std::optional<c10::Device> device, std::optional<bool> is_pinned)
{
    const int64_t bytes = listed_bytes("aten::_cudnn_init_dropout_state", {}, 0);
    return at::empty({bytes}, dtype, layout, device, is_pinned, std::nullopt);
}

/* For _thnn_fused_gru_cell: backward needs five numbers for each element. */
std::tuple<Tensor, Tensor> cell_shapes(const Tensor &, const Tensor &, const Tensor &hidden, const optional_tensor &,
                                       const optional_tensor &)
{
    return {at::empty_like(hidden), at::empty({hidden.size(0), 5 * hidden.size(1)}, hidden.options())};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> cell_gradients(const Tensor &gradient, const Tensor &,
                                                                  bool has_biases)
{
    const int64_t width = 3 * gradient.size(1);
    const auto gates = [&] { return at::empty({gradient.size(0), width}, gradient.options()); };
    const auto bias = [&] { return has_biases ? at::empty({width}, gradient.options()) : Tensor(); };
    return {gates(), gates(), at::empty_like(gradient), bias(), bias()};
}

/* ---- autocast, always to float16 (aten/src/ATen/cudnn/AutocastRNN.cpp) ---- */

Tensor narrow(const Tensor &tensor)
{
    return at::autocast::cached_cast(at::kHalf, tensor, c10::DeviceType::CUDA);
}

/* Returns the weights as parts of one float16 buffer. Gradients reach the weights through these copies. */
std::vector<Tensor> narrow_weights(TensorList weights, int64_t stride)
{
    std::vector<Tensor> parts = parts_like(weights, stride, at::kHalf, true);
    for (size_t i = 0; i < parts.size(); i++)
        parts[i].copy_(weights[i].view_as(parts[i]));
    return parts;
}

results run_narrow(const Tensor &input, TensorList weights, int64_t stride, const optional_tensor &buffer,
                   const Tensor &hidden, const optional_tensor &cell, int64_t mode, c10::SymInt hidden_size,
                   c10::SymInt projection, int64_t count, bool is_batch_first, double dropout, bool is_training,
                   bool is_bidirectional, SymIntArrayRef batch_sizes, const optional_tensor &state)
{
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastCUDA);
    std::vector<Tensor> parts;
    const bool casts = weights[0].scalar_type() == at::kFloat || weights[0].scalar_type() == at::kBFloat16;
    if (casts)
        parts = narrow_weights(weights, stride);
    const optional_tensor narrow_cell = cell.has_value() && cell->defined() ? optional_tensor(narrow(*cell)) : cell;
    const Tensor narrow_hidden = narrow(hidden), narrow_input = narrow(input);
    return at::_cudnn_rnn_symint(narrow_input, casts ? TensorList(parts) : weights, stride,
                                 casts ? optional_tensor(parts[0].detach()) : buffer, narrow_hidden, narrow_cell, mode,
                                 hidden_size, projection, count, is_batch_first, dropout, is_training, is_bidirectional,
                                 batch_sizes, state);
}

} // namespace

void register_recurrent()
{
    static torch::Library card(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    register_own(card, "_cudnn_rnn_flatten_weight", &flatten);
    static torch::Library meta(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    meta.impl("_cudnn_rnn", &shapes);
    meta.impl("_cudnn_rnn_backward", &run_backward);
    meta.impl("_cudnn_init_dropout_state", &state_shape);
    meta.impl("_thnn_fused_gru_cell", &cell_shapes);
    meta.impl("_thnn_fused_gru_cell_backward", &cell_gradients);
    static torch::Library autocast(torch::Library::IMPL, "aten", c10::DispatchKey::AutocastCUDA, __FILE__, __LINE__);
    autocast.impl("_cudnn_rnn", &run_narrow);
    at::native::lstm_cudnn_stub.set_cuda_dispatch_ptr(&run_lstm);
    at::native::gru_cudnn_stub.set_cuda_dispatch_ptr(&run_plain<net::GRU>);
    at::native::rnn_tanh_cudnn_stub.set_cuda_dispatch_ptr(&run_plain<net::TANH>);
    at::native::rnn_relu_cudnn_stub.set_cuda_dispatch_ptr(&run_plain<net::RELU>);
    at::native::lstm_packed_cudnn_stub.set_cuda_dispatch_ptr(&run_packed_lstm);
    at::native::gru_packed_cudnn_stub.set_cuda_dispatch_ptr(&run_packed<net::GRU>);
    at::native::rnn_tanh_packed_cudnn_stub.set_cuda_dispatch_ptr(&run_packed<net::TANH>);
    at::native::rnn_relu_packed_cudnn_stub.set_cuda_dispatch_ptr(&run_packed<net::RELU>);
}

} // namespace mt_dry
