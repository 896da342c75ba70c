/* Recurrent nets by cuDNN: the stubs that lstm, gru and rnn call on a card, and the shapes of their gradients. What cuDNN
 * keeps for backward is a rule of the table of operators (src/operators/recurrent_plan.c). The weights are taken for parts of one buffer, as flatten_parameters
 * leaves them on a card. */
#include "producers/torch/dry/dry_own.h"

#include <ATen/native/RNN.h>
#include <ATen/ops/_cudnn_rnn.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace mt_dry
{

using at::Tensor;
using at::TensorList;
using c10::SymIntArrayRef;
using optional_tensor = std::optional<Tensor>;

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

/* Of batches that come first cuDNN sees the transposed input, and its output is one, too. */
std::tuple<Tensor, Tensor, Tensor> run(const layers &net, const Tensor &input, const Tensor &hidden,
                                       const optional_tensor &cell, at::IntArrayRef batch_sizes)
{
    const int64_t cell_size = cell.has_value() ? cell->size(2) : hidden.size(2);
    const int64_t projection = hidden.size(2) != cell_size ? hidden.size(2) : 0;
    const int64_t stride = (net.has_biases ? 4 : 2) + (projection != 0 ? 1 : 0);
    auto [output, last_hidden, last_cell, reserve, weights] =
        at::_cudnn_rnn(net.is_batch_first ? input.transpose(0, 1) : input, net.weights, stride, net.weights[0].detach(),
                       hidden, cell, static_cast<int64_t>(net.kind), cell_size, projection, net.count, false,
                       net.dropout, net.is_training, net.is_bidirectional, batch_sizes, std::nullopt);
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

/* Returns parts of one new buffer with the sizes of the weights. */
std::vector<Tensor> parts_like(TensorList weights)
{
    std::vector<Tensor> parts;
    int64_t elements = 0;
    for (const Tensor &weight : weights)
        elements += weight.numel();
    const Tensor buffer = at::empty({elements}, weights[0].options());
    elements = 0;
    for (const Tensor &weight : weights) {
        parts.push_back(buffer.narrow(0, elements, weight.numel()).view(weight.sizes()));
        elements += weight.numel();
    }
    return parts;
}

/* Of flatten_parameters: moves the weights into one buffer. */
Tensor flatten(TensorList weights, int64_t, c10::SymInt, int64_t, c10::SymInt, c10::SymInt, int64_t, bool, bool)
{
    const std::vector<Tensor> parts = parts_like(weights);
    for (size_t i = 0; i < parts.size(); i++) {
        parts[i].copy_(weights[i]);
        weights[i].set_(parts[i]);
    }
    return parts[0];
}

std::tuple<Tensor, Tensor, Tensor, std::vector<Tensor>>
run_backward(const Tensor &input, TensorList weights, int64_t, const Tensor &, const Tensor &hidden,
             const optional_tensor &cell, const Tensor &, const optional_tensor &, const optional_tensor &,
             const optional_tensor &, int64_t, c10::SymInt, c10::SymInt, int64_t, bool, double, bool, bool,
             SymIntArrayRef, const optional_tensor &, const Tensor &, std::array<bool, 4> asked)
{
    return {at::empty_like(input), at::empty_like(hidden),
            cell.has_value() && cell->defined() ? at::empty_like(*cell) : Tensor(),
            asked[3] ? parts_like(weights) : std::vector<Tensor>(weights.size())};
}

} // namespace

void register_recurrent()
{
    static torch::Library card(torch::Library::IMPL, "aten", c10::DispatchKey::CUDA, __FILE__, __LINE__);
    register_own(card, "_cudnn_rnn_flatten_weight", &flatten);
    static torch::Library meta(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    meta.impl("_cudnn_rnn_backward", &run_backward);
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
