/* Shapes of cuDNN's operators, for which PyTorch has no meta kernel: convolution and batch normalization.
 *
 * The backward of a convolution is PyTorch's convolution_backward, which calls a stub for the gradients. The stubs
 * below give each gradient the shape of its tensor. */
#include "producers/torch/dry/dry_device.h"
#include "producers/torch/dry/dry_inner.h"

#include <ATen/native/ConvUtils.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

namespace mt_dry
{

using at::IntArrayRef;
using at::Tensor;
using c10::SymIntArrayRef;
using optional_tensor = std::optional<Tensor>;

namespace
{

/* Returns an empty tensor with the layout that cuDNN chooses for the result of these two. */
Tensor empty_beside(const Tensor &input, const Tensor &weight, IntArrayRef sizes)
{
    return at::empty(sizes, input.options(), at::native::cudnn_conv_suggest_memory_format(input, weight));
}

Tensor convolve(const Tensor &input, const Tensor &weight, IntArrayRef padding, IntArrayRef stride,
                IntArrayRef dilation)
{
    return empty_beside(input, weight,
                        at::native::conv_output_size(input.sizes(), weight.sizes(), padding, stride, dilation));
}

/* ---- forward ---- */

Tensor convolution(const Tensor &input, const Tensor &weight, SymIntArrayRef padding, SymIntArrayRef stride,
                   SymIntArrayRef dilation, c10::SymInt, bool, bool, bool)
{
    return convolve(input, weight, C10_AS_INTARRAYREF_SLOW(padding), C10_AS_INTARRAYREF_SLOW(stride),
                    C10_AS_INTARRAYREF_SLOW(dilation));
}

Tensor convolution_transpose(const Tensor &input, const Tensor &weight, SymIntArrayRef padding,
                             SymIntArrayRef output_padding, SymIntArrayRef stride, SymIntArrayRef dilation,
                             c10::SymInt groups, bool, bool, bool)
{
    return empty_beside(input, weight,
                        at::native::conv_input_size(input.sizes(), weight.sizes(), C10_AS_INTARRAYREF_SLOW(padding),
                                                    C10_AS_INTARRAYREF_SLOW(output_padding),
                                                    C10_AS_INTARRAYREF_SLOW(stride), C10_AS_INTARRAYREF_SLOW(dilation),
                                                    groups.expect_int()));
}

Tensor convolution_relu(const Tensor &input, const Tensor &weight, const optional_tensor &, SymIntArrayRef stride,
                        SymIntArrayRef padding, SymIntArrayRef dilation, c10::SymInt)
{
    return convolve(input, weight, C10_AS_INTARRAYREF_SLOW(padding), C10_AS_INTARRAYREF_SLOW(stride),
                    C10_AS_INTARRAYREF_SLOW(dilation));
}

Tensor convolution_add_relu(const Tensor &input, const Tensor &weight, const Tensor &,
                            const std::optional<c10::Scalar> &, const optional_tensor &bias, SymIntArrayRef stride,
                            SymIntArrayRef padding, SymIntArrayRef dilation, c10::SymInt groups)
{
    return convolution_relu(input, weight, bias, stride, padding, dilation, std::move(groups));
}

/* For _conv_depthwise2d, conv_depthwise3d, and slow_conv_dilated2d and 3d, which are not cuDNN's. */
Tensor convolution_by_size(const Tensor &input, const Tensor &weight, SymIntArrayRef, const optional_tensor &,
                           SymIntArrayRef stride, SymIntArrayRef padding, SymIntArrayRef dilation)
{
    return convolve(input, weight, C10_AS_INTARRAYREF_SLOW(padding), C10_AS_INTARRAYREF_SLOW(stride),
                    C10_AS_INTARRAYREF_SLOW(dilation));
}

using four_tensors = std::tuple<Tensor, Tensor, Tensor, Tensor>;

/* cuDNN chooses the reserved bytes; 0 unless its persistent kernel is used. */
four_tensors batch_norm(const Tensor &input, const Tensor &weight, const optional_tensor &, const optional_tensor &,
                        const optional_tensor &, bool training, double, double)
{
    const std::vector<int64_t> saved = training ? weight.sizes().vec() : std::vector<int64_t>{0};
    return {at::empty_like(input, input.suggest_memory_format()), at::empty(saved, weight.options()),
            at::empty(saved, weight.options()), at::empty({0}, input.options().dtype(at::kByte))};
}

Tensor sample_grid(const Tensor &input, const Tensor &grid)
{
    return at::empty({input.size(0), input.size(1), grid.size(1), grid.size(2)}, input.options());
}

/* PyTorch's own kernel takes lists of lengths on the host: cuDNN's would need targets on the host, too, which it then
 * refuses. */
bool never(const Tensor &, const Tensor &, IntArrayRef, IntArrayRef, int64_t)
{
    return false;
}

/* True if cuDNN computes the CTC loss: targets have at most 255 elements and are no longer than their inputs. */
bool is_by_cudnn(const Tensor &scores, const Tensor &targets, const Tensor &lengths, const Tensor &target_lengths,
                 int64_t blank)
{
    return at::globalContext().userEnabledCuDNN() && blank == 0 && targets.dim() == 1 && scores.dim() == 3 &&
           scores.scalar_type() == at::kFloat && targets.scalar_type() == at::kInt && targets.is_contiguous() &&
           lengths.scalar_type() == at::kInt && target_lengths.scalar_type() == at::kInt;
}

bool never_of_tensors(const Tensor &, const Tensor &, const Tensor &, const Tensor &, int64_t)
{
    return false;
}

/* For _cudnn_ctc_loss: the losses, and the gradient. */
std::tuple<Tensor, Tensor> ctc_loss(const Tensor &scores, const Tensor &, const Tensor &, const Tensor &, int64_t, bool,
                                    bool)
{
    return {at::empty({scores.size(1)}, scores.options()), at::empty(scores.sizes(), scores.options())};
}

/* ---- backward ---- */

std::tuple<Tensor, Tensor> sample_grid_backward(const Tensor &input, const Tensor &grid, const Tensor &)
{
    return {at::empty_like(input), at::empty_like(grid)};
}

std::tuple<Tensor, Tensor, Tensor> batch_norm_backward(const Tensor &input, const Tensor &, const Tensor &weight,
                                                       const optional_tensor &, const optional_tensor &,
                                                       const optional_tensor &, const optional_tensor &, double,
                                                       const Tensor &)
{
    return {at::empty_like(input, input.suggest_memory_format()), at::empty_like(weight), at::empty_like(weight)};
}

using two_gradients = std::tuple<Tensor, Tensor>;
using three_gradients = std::tuple<Tensor, Tensor, Tensor>;

/* Returns the requested gradients of input and weight. */
two_gradients gradients_of(const Tensor &input, const Tensor &weight, bool of_input, bool of_weight)
{
    return {of_input ? empty_beside(input, weight, input.sizes()) : Tensor(),
            of_weight ? empty_beside(input, weight, weight.sizes()) : Tensor()};
}

/* The arguments that both gradients of a convolution share. */
struct geometry {
    IntArrayRef padding, stride, dilation;
    bool benchmark, deterministic, allow_tf32;
};

/* Allocates and frees the inner memory of a cuDNN kernel. The tensors have cuDNN's names (operators/convolution.h). */
void take_inside_kernel(const char *name, const Tensor &x, const Tensor &w, const Tensor &y, const geometry &given)
{
    take_without_operator(name, {{"x", x},
                                 {"w", w},
                                 {"y", y},
                                 {"padding", given.padding},
                                 {"stride", given.stride},
                                 {"dilation", given.dilation},
                                 {"benchmark", given.benchmark},
                                 {"deterministic", given.deterministic},
                                 {"allow_tf32", given.allow_tf32}});
}

/* Returns the gradient of a weight, whose convolution of `large` gives `small`. */
Tensor gradient_of_weight(const Tensor &large, const Tensor &small, const Tensor &weight, const geometry &given)
{
    Tensor made = empty_beside(large, small, weight.sizes());
    take_inside_kernel("aten::cudnn_convolution_weight_gradient", large, made, small, given);
    return made;
}

/* Copies the output's gradient if its memory format differs from the input's. Each gradient is computed before the next
 * is allocated. */
two_gradients cudnn_gradients(const Tensor &input, const Tensor &of_output, const Tensor &weight, IntArrayRef padding,
                              IntArrayRef stride, IntArrayRef dilation, int64_t, bool benchmark, bool deterministic,
                              bool allow_tf32, std::array<bool, 2> asked)
{
    const geometry given{padding, stride, dilation, benchmark, deterministic, allow_tf32};
    const Tensor gradient = of_output.contiguous(input.suggest_memory_format());
    Tensor of_input;
    if (asked[0]) {
        of_input = empty_beside(gradient, weight, input.sizes());
        take_inside_kernel("aten::cudnn_convolution_input_gradient", of_input, weight, gradient, given);
    }
    return {of_input, asked[1] ? gradient_of_weight(input, gradient, weight, given) : Tensor()};
}

two_gradients cudnn_transpose_gradients(const Tensor &input, const Tensor &of_output, const Tensor &weight,
                                        IntArrayRef padding, IntArrayRef, IntArrayRef stride, IntArrayRef dilation,
                                        int64_t, bool benchmark, bool deterministic, bool allow_tf32,
                                        std::array<bool, 2> asked)
{
    const geometry given{padding, stride, dilation, benchmark, deterministic, allow_tf32};
    const Tensor gradient = of_output.contiguous(input.suggest_memory_format());
    Tensor of_input;
    if (asked[0]) {
        of_input = empty_beside(gradient, weight, input.sizes());
        take_inside_kernel("aten::cudnn_convolution_forward", gradient, weight, of_input, given);
    }
    return {of_input, asked[1] ? gradient_of_weight(gradient, input, weight, given) : Tensor()};
}

/* The gradient of the weight is computed first. */
two_gradients depthwise_gradients(const Tensor &, const Tensor &input, const Tensor &weight, IntArrayRef, IntArrayRef,
                                  IntArrayRef, IntArrayRef, std::array<bool, 2> asked)
{
    Tensor of_weight = asked[1] ? empty_beside(input, weight, weight.sizes()) : Tensor();
    return {asked[0] ? empty_beside(input, weight, input.sizes()) : Tensor(), of_weight};
}

/* The gradient of a bias is one number for each channel of the output. */
three_gradients dilated_gradients(const Tensor &gradient, const Tensor &input, const Tensor &weight, IntArrayRef,
                                  IntArrayRef, IntArrayRef, IntArrayRef, std::array<bool, 3> asked)
{
    auto [of_input, of_weight] = gradients_of(input, weight, asked[0], asked[1]);
    return {of_input, of_weight, asked[2] ? at::empty({gradient.size(1)}, weight.options()) : Tensor()};
}

three_gradients transpose_gradients(const Tensor &gradient, const Tensor &input, const Tensor &weight, IntArrayRef size,
                                    IntArrayRef stride, IntArrayRef padding, IntArrayRef, IntArrayRef dilation,
                                    std::array<bool, 3> asked)
{
    return dilated_gradients(gradient, input, weight, size, stride, padding, dilation, asked);
}

} // namespace

void register_shapes()
{
    static torch::Library meta(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    meta.impl("cudnn_convolution", &convolution);
    meta.impl("cudnn_convolution_transpose", &convolution_transpose);
    meta.impl("cudnn_convolution_relu", &convolution_relu);
    meta.impl("cudnn_convolution_add_relu", &convolution_add_relu);
    meta.impl("_conv_depthwise2d", &convolution_by_size);
    meta.impl("conv_depthwise3d", &convolution_by_size);
    meta.impl("slow_conv_dilated2d", &convolution_by_size);
    meta.impl("slow_conv_dilated3d", &convolution_by_size);
    meta.impl("cudnn_batch_norm", &batch_norm);
    meta.impl("cudnn_batch_norm_backward", &batch_norm_backward);
    meta.impl("cudnn_grid_sampler", &sample_grid);
    meta.impl("cudnn_grid_sampler_backward", &sample_grid_backward);
    meta.impl("_use_cudnn_ctc_loss", &never);
    meta.impl("_use_cudnn_ctc_loss.Tensor", &is_by_cudnn);
    meta.impl("_cudnn_ctc_loss.Tensor", &ctc_loss);
    if (c10::Dispatcher::singleton().findSchema({"aten::_use_miopen_ctc_loss", ""})) {
        meta.impl("_use_miopen_ctc_loss", &never);
        meta.impl("_use_miopen_ctc_loss.Tensor", &never_of_tensors);
    }
    at::native::cudnn_convolution_backward_stub.set_cuda_dispatch_ptr(&cudnn_gradients);
    at::native::cudnn_convolution_transpose_backward_stub.set_cuda_dispatch_ptr(&cudnn_transpose_gradients);
    at::native::conv_depthwise2d_backward_stub.set_cuda_dispatch_ptr(&depthwise_gradients);
    at::native::conv_depthwise3d_backward_stub.set_cuda_dispatch_ptr(&dilated_gradients);
    at::native::slow_conv_dilated2d_backward_stub.set_cuda_dispatch_ptr(&dilated_gradients);
    at::native::slow_conv_dilated3d_backward_stub.set_cuda_dispatch_ptr(&dilated_gradients);
    at::native::slow_conv_transpose2d_backward_stub.set_cuda_dispatch_ptr(&transpose_gradients);
    at::native::slow_conv_transpose3d_backward_stub.set_cuda_dispatch_ptr(&transpose_gradients);
}

} // namespace mt_dry
