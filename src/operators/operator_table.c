/* The table of operators: what each takes inside, where its source says so, and on what it was checked. docs/dry-run.md explains
 * it. An operator that is not here is counted by a dry run. */
#include "operators/operator_plan.h"

#define CUDA_FOLDER "aten/src/ATen/native/cuda/"
#define FLASH_FILE "flash-attention: csrc/flash_attn/flash_api.cpp"
#define FLASH3_FILE "flash-attention: hopper/flash_api.cpp"
#define FBGEMM_FOLDER "FBGEMM: fbgemm_gpu/"
#define VISION_FOLDER "torchvision/csrc/ops/cuda/"
#define CUDNN_FOLDER "aten/src/ATen/native/cudnn/"
#define ATTENTION_FOLDER "aten/src/ATen/native/transformers/cuda/"

mt_operator_rule mt_rule_matmul, mt_rule_addmm, mt_rule_sum, mt_rule_extreme, mt_rule_reduce, mt_rule_reduce_pair,
    mt_rule_loss, mt_rule_huber_loss, mt_rule_entropy_loss, mt_rule_is_in, mt_rule_variance, mt_rule_cudnn_forward,
    mt_rule_cudnn_backward, mt_rule_flash_forward, mt_rule_flash_backward, mt_rule_efficient_forward,
    mt_rule_efficient_backward, mt_rule_embedding_backward, mt_rule_bag, mt_rule_bag_backward, mt_rule_grouped_matmul,
    mt_rule_histogram, mt_rule_top, mt_rule_bin_count, mt_rule_running_sum, mt_rule_layer_norm,
    mt_rule_layer_norm_backward, mt_rule_rms_norm_backward, mt_rule_group_norm, mt_rule_group_norm_backward,
    mt_rule_foreach_norm, mt_rule_split_copy, mt_rule_chunk_cat, mt_rule_convolution, mt_rule_convolution_transpose,
    mt_rule_convolution_forward, mt_rule_convolution_input_gradient, mt_rule_convolution_weight_gradient,
    mt_rule_recurrent, mt_rule_recurrent_backward, mt_rule_dropout_state, mt_rule_cell, mt_rule_count, mt_rule_sort,
    mt_rule_softmax, mt_rule_masked_softmax, mt_rule_softmax_backward, mt_rule_index_put, mt_rule_dropout,
    mt_rule_batch_norm, mt_rule_batch_norm_reduce, mt_rule_batch_norm_backward, mt_rule_cudnn_batch_norm,
    mt_rule_nonzero, mt_rule_unique, mt_rule_unique_run, mt_rule_masked_scatter, mt_rule_repeat, mt_rule_permutation,
    mt_rule_flash_library_forward, mt_rule_flash_library_varlen_forward, mt_rule_flash_library_backward,
    mt_rule_flash3_forward, mt_rule_offsets, mt_rule_permuted_features, mt_rule_dense_to_jagged,
    mt_rule_pooled_table_update, mt_rule_table_update, mt_rule_flash3_backward, mt_rule_nms, mt_rule_boxes,
    mt_rule_transform, mt_rule_transform_to_complex, mt_rule_transform_to_real, mt_rule_ctc_loss,
    mt_rule_ctc_loss_backward, mt_rule_cudnn_ctc_loss, mt_rule_cholesky, mt_rule_cholesky_solve,
    mt_rule_cholesky_inverse, mt_rule_lu_factor, mt_rule_inverse, mt_rule_solve, mt_rule_lu_solve, mt_rule_determinant,
    mt_rule_log_determinant, mt_rule_lu, mt_rule_solve_triangular, mt_rule_any, mt_rule_boxes_backward,
    mt_rule_deform_convolution;

const struct mt_operator_row mt_operator_rows[] = {
    {"mm bmm dot vdot _int_mm", mt_rule_matmul, "cuBLAS's workspace, for each thread and stream, for ever",
     "aten/src/ATen/cuda/CublasHandlePool.cpp:116", "H100, H200"},
    {"addmm addmv baddbmm _addmm_activation", mt_rule_addmm, "the same; with a bias of one row also cublasLt's 1 MiB",
     "aten/src/ATen/cuda/CUDABlas.cpp:188", "H100, H200"},
    {"sum nansum mean prod", mt_rule_sum, "a cast input; partial results and counters", CUDA_FOLDER "Reduce.cuh:994",
     "H100, H200"},
    {"amax amin", mt_rule_extreme, "partial results and counters", CUDA_FOLDER "Reduce.cuh:994", "H200"},
    {"norm linalg_vector_norm", mt_rule_reduce, "partial results and counters", CUDA_FOLDER "Reduce.cuh:994", "H200"},
    {"max min argmax argmin aminmax", mt_rule_reduce_pair, "partial results and counters", CUDA_FOLDER "Reduce.cuh:994",
     "H200: max, argmax"},
    {"mse_loss smooth_l1_loss", mt_rule_loss, "all losses, also room for them in the result; and as a mean",
     "aten/src/ATen/native/BinaryOps.cpp, Loss.cpp", "H200: mse_loss"},
    {"huber_loss", mt_rule_huber_loss, "all losses; and as a mean", "aten/src/ATen/native/Loss.cpp", ""},
    {"binary_cross_entropy", mt_rule_entropy_loss, "a result with room for all losses; and as a mean",
     CUDA_FOLDER "Loss.cu", ""},
    {"isin", mt_rule_is_in, "comparisons with few values; many are sorted, which is not known",
     "aten/src/ATen/native/TensorCompare.cpp", "H200"},
    {"any all", mt_rule_any, "partial results and counters; of one element its truth", CUDA_FOLDER "Reduce.cuh:994",
     "H200"},
    {"var var_mean std std_mean", mt_rule_variance, "partial results and counters", CUDA_FOLDER "Reduce.cuh:994",
     "H200: var, std"},
    {"_scaled_dot_product_cudnn_attention", mt_rule_cudnn_forward, "256 bytes",
     "aten/src/ATen/native/cudnn/MHA.cpp:667", "H100, H200"},
    {"_scaled_dot_product_cudnn_attention_backward", mt_rule_cudnn_backward,
     "B*H*S*(D+1)*4+256 bytes; gradients of keys and values for each head of the query if they have fewer",
     "aten/src/ATen/native/cudnn/MHA.cpp:877", "H100, H200"},
    {"_scaled_dot_product_flash_attention _flash_attention_forward", mt_rule_flash_forward,
     "partial results where the keys are split", ATTENTION_FOLDER "flash_attn/flash_api.cpp:289", "H200"},
    {"_scaled_dot_product_flash_attention_backward _flash_attention_backward", mt_rule_flash_backward,
     "row sums, the query's gradient in fp32, gradients of grouped heads",
     ATTENTION_FOLDER "flash_attn/flash_api.cpp:946", "H200"},
    {"_scaled_dot_product_efficient_attention _efficient_attention_forward", mt_rule_efficient_forward,
     "fp32 results of heads over 128", ATTENTION_FOLDER "attention.cu:1268", "H200"},
    {"_scaled_dot_product_efficient_attention_backward", mt_rule_efficient_backward,
     "row sums, in fp32 with a product and a copy; tiles of the query's gradient",
     ATTENTION_FOLDER "attention_backward.cu:443", "H200"},
    {"embedding_dense_backward", mt_rule_embedding_backward,
     "over 3,072 indices: their sort, segments, and partial sums", CUDA_FOLDER "EmbeddingBackwardKernel.cu:212",
     "H100, H200"},
    {"_embedding_bag _embedding_bag_forward_only", mt_rule_bag, "nothing; sizes and bags of the words come first",
     CUDA_FOLDER "EmbeddingBag.cu", "H200"},
    {"_embedding_bag_backward", mt_rule_bag_backward, "sort, segments, and partial sums; not of maxima",
     CUDA_FOLDER "EmbeddingBag.cu", "H200"},
    {"_grouped_mm", mt_rule_grouped_matmul, "on Hopper 60 bytes a group, and 512 a multiprocessor",
     CUDA_FOLDER "GroupMM.cu (2026)", "H200"},
    {"histc", mt_rule_histogram, "its bounds, unless they are given", CUDA_FOLDER "SummaryOps.cu", "H200"},
    {"topk", mt_rule_top,
     "nothing of short rows; of long ones what several blocks need to search each; where over 4,096 are sought, their "
     "sort",
     CUDA_FOLDER "TensorTopK.cu (2.11)", "H200"},
    {"bincount", mt_rule_bin_count, "its bounds", CUDA_FOLDER "SummaryOps.cu", "H200"},
    {"cumsum cumprod", mt_rule_running_sum, "a cast input; along the only dimension CUB's scan",
     CUDA_FOLDER "ScanKernels.cpp:25", "H100, H200"},
    {"native_layer_norm", mt_rule_layer_norm, "a copy of an input that is not contiguous",
     CUDA_FOLDER "layer_norm_kernel.cu", "H200"},
    {"native_layer_norm_backward", mt_rule_layer_norm_backward,
     "copies of inputs that are not contiguous; over 65,536 rows: parts of the weight's gradient, and their sums",
     CUDA_FOLDER "layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel (2026)", "H200"},
    {"_fused_rms_norm_backward", mt_rule_rms_norm_backward, "as layer norm, without a bias",
     CUDA_FOLDER "layer_norm_kernel.cu, LaunchGammaBetaBackwardCUDAKernel (2026)", "H200"},
    {"native_group_norm", mt_rule_group_norm, "two factors for each image and channel",
     CUDA_FOLDER "group_norm_kernel.cu:606", "H200"},
    {"native_group_norm_backward", mt_rule_group_norm_backward, "sums for each image and channel",
     CUDA_FOLDER "group_norm_kernel.cu:838", "H200"},
    {"native_batch_norm batch_norm_stats batch_norm_update_stats", mt_rule_batch_norm,
     "with channels last: parts of moments, and counters", CUDA_FOLDER "Normalization.cuh (2026)",
     "H200: native_batch_norm"},
    {"batch_norm_backward_reduce", mt_rule_batch_norm_reduce, "with channels last: parts of sums, and counters",
     CUDA_FOLDER "Normalization.cuh (2026)", ""},
    {"native_batch_norm_backward", mt_rule_batch_norm_backward,
     "with channels last: sums, their parts, and counters; in evaluation a factor",
     CUDA_FOLDER "Normalization.cu (2026)", "H200"},
    {"batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_elemt batch_norm_backward_elemt", NULL,
     "nothing", CUDA_FOLDER "Normalization.cu", ""},
    {"cudnn_batch_norm cudnn_batch_norm_backward", mt_rule_cudnn_batch_norm,
     "nothing; with channels last a workspace, which is not known", "aten/src/ATen/native/cudnn/BatchNorm.cpp", "H200"},
    {"_foreach_norm", mt_rule_foreach_norm, "norms of chunks of 65,536 elements", CUDA_FOLDER "ForeachReduceOp.cu:435",
     "H200"},
    {"split_with_sizes_copy", mt_rule_split_copy, "a table of the kernel's grid", CUDA_FOLDER "TensorShape.cu (2026)",
     "H200"},
    {"_chunk_cat", mt_rule_chunk_cat, "a table of the kernel's grid", CUDA_FOLDER "TensorShape.cu (2026)", "H200"},
    {"cudnn_convolution", mt_rule_convolution,
     "the workspace of the kernel that cuDNN chooses; copies of tensors in another memory format",
     CUDNN_FOLDER "Conv_v8.cpp, ConvShared.cpp (2.11)", "H200"},
    {"cudnn_convolution_transpose", mt_rule_convolution_transpose, "the same", CUDNN_FOLDER "ConvShared.cpp (2.11)",
     "H200"},
    {"cudnn_convolution_forward", mt_rule_convolution_forward, "the same: the input's gradient of a transposed one",
     CUDNN_FOLDER "ConvShared.cpp (2.11)", "H200"},
    {"cudnn_convolution_input_gradient", mt_rule_convolution_input_gradient, "the same",
     CUDNN_FOLDER "ConvShared.cpp (2.11)", "H200"},
    {"cudnn_convolution_weight_gradient", mt_rule_convolution_weight_gradient, "the same",
     CUDNN_FOLDER "ConvShared.cpp (2.11)", "H200"},
    {"_cudnn_rnn", mt_rule_recurrent,
     "cuDNN's workspace, what training keeps for backward, weights that do not lie in one buffer; a copy of the input",
     CUDNN_FOLDER "RNN.cpp (2.11)", "H200"},
    {"_cudnn_rnn_backward", mt_rule_recurrent_backward,
     "zeros for last states that were not used; copies of the input; cuDNN's workspace, twice",
     CUDNN_FOLDER "RNN.cpp (2.11)", "H200"},
    {"_cudnn_init_dropout_state", mt_rule_dropout_state, "nothing; 24 bytes for each thread of the card",
     CUDNN_FOLDER "RNN.cpp (2.11)", "H200"},
    {"_thnn_fused_lstm_cell _thnn_fused_gru_cell", mt_rule_cell, "nothing; what backward needs comes first",
     CUDA_FOLDER "RNN.cu", "H200"},
    {"_thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell_backward", NULL, "nothing", CUDA_FOLDER "RNN.cu",
     "H200"},
    {"_fft_r2c", mt_rule_transform_to_complex,
     "cuFFT's workspace; a copy of an input whose other dimensions are not one", CUDA_FOLDER "SpectralOps.cpp (2.11)",
     "H200"},
    {"_fft_c2r", mt_rule_transform_to_real, "a copy of the input; cuFFT's workspace",
     CUDA_FOLDER "SpectralOps.cpp (2.11)", "H200"},
    {"_fft_c2c", mt_rule_transform, "cuFFT's workspace; over three dimensions the first three's result",
     CUDA_FOLDER "SpectralOps.cpp (2.11)", "H200"},
    {"_ctc_loss", mt_rule_ctc_loss, "lengths, and where targets begin", CUDA_FOLDER "LossCTC.cu (2.11)", "H200"},
    {"_ctc_loss_backward", mt_rule_ctc_loss_backward,
     "the same; likelihoods of all suffixes; of large problems sums over the blanks", CUDA_FOLDER "LossCTC.cu (2.11)",
     "H200"},
    {"_cudnn_ctc_loss", mt_rule_cudnn_ctc_loss, "cuDNN's workspace", CUDNN_FOLDER "LossCTC.cpp (2.11)", "H200"},
    {"linalg_cholesky_ex", mt_rule_cholesky, "cuSOLVER's workspace; of a batch pointers",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"_cholesky_solve_helper", mt_rule_cholesky_solve, "a copy of the factors, and a status",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"cholesky_inverse", mt_rule_cholesky_inverse, "a copy of the factors, and a status",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"linalg_lu_factor_ex", mt_rule_lu_factor, "cuSOLVER's workspace; of a batch pointers",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"linalg_inv_ex", mt_rule_inverse,
     "factors, pivots, cuSOLVER's workspace, a permutation and its inverse; of a batch pointers",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"_linalg_solve_ex", mt_rule_solve, "cuSOLVER's workspace; a permutation and its inverse; of a batch pointers",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"linalg_lu_solve", mt_rule_lu_solve, "a copy of the factors; as above",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"_linalg_det", mt_rule_determinant, "cuSOLVER's workspace, and what pivots are not in place",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"_linalg_slogdet", mt_rule_log_determinant, "the same, and signs of the diagonal",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"linalg_lu", mt_rule_lu, "factors, pivots, cuSOLVER's workspace, a permutation",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"linalg_solve_triangular", mt_rule_solve_triangular, "of small matrices and of large batches pointers",
     CUDA_FOLDER "linalg/BatchLinearAlgebra.cpp (2.11)", "H200"},
    {"count_nonzero", mt_rule_count, "a comparison, whole numbers, and as a sum", CUDA_FOLDER "Reduce.cuh:994", "H200"},
    {"sort", mt_rule_sort, "places; of rows over 4,096 elements CUB's sort", CUDA_FOLDER "Sort.cpp:70", "H200"},
    {"nonzero", mt_rule_nonzero, "a count, CUB's sum and selection", CUDA_FOLDER "Nonzero.cu (2026)", "H200"},
    {"_unique2", mt_rule_unique, "sorted elements, CUB's sort, selection and counts of runs",
     CUDA_FOLDER "UniqueCub.cu (2026)", "H200"},
    {"unique_consecutive", mt_rule_unique_run,
     "a count, CUB's selection; for other results than the elements it is not known", CUDA_FOLDER "UniqueCub.cu (2026)",
     "H200"},
    {"masked_scatter", mt_rule_masked_scatter, "places of the mask's elements, CUB's scan",
     CUDA_FOLDER "IndexKernel.cpp", "H200"},
    {"repeat_interleave", mt_rule_repeat, "running sums, and whether counts are negative",
     "aten/src/ATen/native/Repeat.cpp", "H200"},
    {"randperm", mt_rule_permutation, "numbers, random keys, CUB's sort", CUDA_FOLDER "Randperm.cu", "H200"},
    {"_softmax _log_softmax", mt_rule_softmax, "a copy of an input that is not contiguous", CUDA_FOLDER "SoftMax.cu",
     "H200"},
    {"_masked_softmax", mt_rule_masked_softmax, "over 1,024 columns: a masked copy, and a result that is not used",
     CUDA_FOLDER "SoftMax.cu, masked_softmax_cuda", ""},
    {"_transform_bias_rescale_qkv", NULL, "nothing", ATTENTION_FOLDER "attention.cu", ""},
    {"_softmax_backward_data", mt_rule_softmax_backward, "the product of gradient and result", CUDA_FOLDER "SoftMax.cu",
     "H200"},
    {"_index_put_impl", mt_rule_index_put, "where it adds: places of elements, and their sort",
     CUDA_FOLDER "Indexing.cu:508", "H200"},
    {"native_dropout", mt_rule_dropout, "nothing; the mask comes first", CUDA_FOLDER "Dropout.cu:389", "H100, H200"},
    {"flash_attn::_flash_attn_forward", mt_rule_flash_library_forward, "partial results where the keys are split",
     FLASH_FILE ":369", ""},
    {"flash_attn::_flash_attn_varlen_forward", mt_rule_flash_library_varlen_forward,
     "nothing; of one row for each sequence, it is not known", FLASH_FILE ":539", ""},
    {"flash_attn::_flash_attn_backward flash_attn::_flash_attn_varlen_backward", mt_rule_flash_library_backward,
     "the query's gradient in fp32, gradients of grouped heads", FLASH_FILE ":801", ""},
    {"flash_attn_3::_flash_attn_forward", mt_rule_flash3_forward,
     "numbers of the scheduler, with a causal or local mask or sequences that vary in length", FLASH3_FILE ":1013", ""},
    {"flash_attn_3::_flash_attn_backward", mt_rule_flash3_backward,
     "sums of rows, the query's gradient in fp32, gradients of grouped heads, locks", FLASH3_FILE ":1479", ""},
    {"fbgemm::asynchronous_complete_cumsum fbgemm::asynchronous_exclusive_cumsum fbgemm::asynchronous_inclusive_cumsum",
     mt_rule_offsets, "CUB's scan", FBGEMM_FOLDER "src/sparse_ops/sparse_async_cumsum.cu", ""},
    {"fbgemm::permute_1D_sparse_data fbgemm::permute_2D_sparse_data", mt_rule_permuted_features,
     "offsets of lengths before and after, and their scans", FBGEMM_FOLDER "src/sparse_ops/sparse_permute_2d.cu", ""},
    {"fbgemm::dense_to_jagged_forward", mt_rule_dense_to_jagged, "the values once more",
     FBGEMM_FOLDER "src/jagged_tensor_ops/dense_to_jagged_forward.cu", ""},
    {"fbgemm::split_embedding_backward_codegen_rowwise_adagrad_unweighted_exact_cuda "
     "fbgemm::split_embedding_backward_codegen_rowwise_adagrad_weighted_exact_cuda "
     "fbgemm::split_embedding_backward_codegen_adagrad_unweighted_exact_cuda "
     "fbgemm::split_embedding_backward_codegen_adam_unweighted_exact_cuda "
     "fbgemm::split_embedding_backward_codegen_adam_weighted_exact_cuda "
     "fbgemm::split_embedding_backward_codegen_sgd_unweighted_exact_cuda "
     "fbgemm::split_embedding_backward_codegen_sgd_weighted_exact_cuda",
     mt_rule_pooled_table_update, "indices of all tables, sorted, and what counts them; sums of frequent rows",
     FBGEMM_FOLDER "codegen/training/backward/embedding_backward_split_template.cu", ""},
    {"fbgemm::split_embedding_nobag_backward_codegen_rowwise_adagrad_unweighted_exact_cuda "
     "fbgemm::split_embedding_nobag_backward_codegen_adagrad_unweighted_exact_cuda "
     "fbgemm::split_embedding_nobag_backward_codegen_adam_unweighted_exact_cuda "
     "fbgemm::split_embedding_nobag_backward_codegen_sgd_unweighted_exact_cuda",
     mt_rule_table_update, "the same, with 8 bytes for each index",
     FBGEMM_FOLDER "codegen/training/backward/embedding_backward_split_template.cu", ""},
    {"torchvision::nms", mt_rule_nms, "sorted boxes, and one bit for each pair of boxes", VISION_FOLDER "nms_kernel.cu",
     ""},
    {"torchvision::roi_align", mt_rule_boxes, "copies of inputs that are not contiguous",
     VISION_FOLDER "roi_align_kernel.cu", ""},
    {"torchvision::_roi_align_backward", mt_rule_boxes_backward, "a copy of boxes that are not contiguous",
     VISION_FOLDER "roi_align_kernel.cu", ""},
    {"torchvision::deform_conv2d", mt_rule_deform_convolution,
     "the result twice, and the samples of up to 32 images for each tap", VISION_FOLDER "deform_conv2d_kernel.cu", ""},
    {"_fused_rms_norm _log_softmax_backward_data "
     "nll_loss_forward nll_loss_backward nll_loss2d_forward nll_loss2d_backward mse_loss_backward "
     "native_dropout_backward embedding cat gather index index_select scatter "
     "where tril triu masked_fill arange linspace max_pool2d_with_indices max_pool2d_with_indices_backward "
     "avg_pool2d avg_pool2d_backward adaptive_avg_pool2d _adaptive_avg_pool2d _adaptive_avg_pool2d_backward "
     "upsample_nearest1d upsample_nearest1d_backward upsample_nearest2d upsample_nearest2d_backward "
     "upsample_bilinear2d upsample_bilinear2d_backward reflection_pad1d reflection_pad2d replication_pad1d "
     "replication_pad2d flip roll scatter_add take im2col col2im tril_indices triu_indices logspace",
     NULL, "nothing", "their kernels under " CUDA_FOLDER, "H100, H200: in the reference programs"},
    {"add sub rsub mul div pow neg exp exp2 expm1 log log1p log2 log10 sqrt rsqrt reciprocal square abs sign sgn sin "
     "cos tan tanh sinh cosh asin acos atan atan2 sigmoid tanh_backward sigmoid_backward relu relu6 threshold "
     "threshold_backward gelu gelu_backward silu silu_backward mish mish_backward elu elu_backward leaky_relu "
     "leaky_relu_backward hardswish hardswish_backward hardsigmoid hardsigmoid_backward hardtanh hardtanh_backward "
     "softplus softplus_backward log_sigmoid_forward log_sigmoid_backward glu glu_backward clamp clamp_min clamp_max "
     "minimum maximum fmin fmax fmod remainder floor ceil round trunc erf erfc erfinv lerp addcmul addcdiv eq ne lt "
     "le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor __and__ "
     "__or__ __xor__ isnan isinf isfinite nan_to_num copysign hypot polar complex angle frac asinh acosh atanh logit "
     "logit_backward xlogy logaddexp logaddexp2 floor_divide digamma polygamma lgamma igamma igammac heaviside "
     "nextafter signbit isposinf isneginf sinc gcd lcm frexp conj_physical bitwise_left_shift bitwise_right_shift "
     "hardshrink hardshrink_backward softshrink softshrink_backward huber_loss_backward "
     "smooth_l1_loss_backward binary_cross_entropy_backward _prelu_kernel _prelu_kernel_backward rrelu_with_noise i0",
     NULL, "nothing: elementwise", CUDA_FOLDER "Loops.cuh", "H100, H200: in the reference programs"},
    {"index_copy", NULL, "nothing", "aten/src/ATen/native/TensorAdvancedIndexing.cpp", ""},
    {"_C::rms_norm _C::fused_add_rms_norm _C::silu_and_mul _C::mul_and_silu _C::gelu_and_mul _C::gelu_tanh_and_mul "
     "_C::fatrelu_and_mul _C::gelu_new _C::gelu_fast _C::gelu_quick _C::rotary_embedding "
     "_C_cache_ops::reshape_and_cache_flash",
     NULL, "nothing: they write into their arguments",
     "vllm: csrc/layernorm_kernels.cu, activation_kernels.cu, pos_encoding_kernels.cu, cache_kernels.cu", ""},
    {"fbgemm::jagged_to_padded_dense_forward fbgemm::jagged_to_padded_dense_backward "
     "fbgemm::expand_into_jagged_permute "
     "fbgemm::split_embedding_codegen_forward_unweighted_cuda fbgemm::split_embedding_codegen_forward_weighted_cuda "
     "fbgemm::split_embedding_nobag_codegen_forward_unweighted_cuda",
     NULL, "nothing", FBGEMM_FOLDER "src/jagged_tensor_ops, codegen/training/forward", ""},
    {"_C::weak_ref_tensor _C::get_cuda_view_from_cpu_tensor", NULL,
     "nothing: the memory is another tensor's, or the host's", "vllm: csrc/libtorch_stable/torch_bindings.cpp", ""},
    {"fill zero normal uniform random bernoulli exponential eye full ones zeros", NULL, "nothing: they fill",
     CUDA_FOLDER "FillKernel.cu, DistributionTemplates.h", "H100, H200"},
    {"view _unsafe_view _reshape_alias as_strided resize set expand permute transpose t alias detach slice select "
     "unsqueeze squeeze split split_with_sizes unbind unfold diagonal view_as_real view_as_complex real imag "
     "lift_fresh chunk narrow",
     NULL, "nothing: views", "aten/src/ATen/native/TensorShape.cpp", "H100, H200"},
    {"_foreach_add _foreach_sub _foreach_mul _foreach_div _foreach_pow _foreach_sqrt _foreach_rsqrt "
     "_foreach_reciprocal _foreach_neg _foreach_abs _foreach_exp _foreach_log _foreach_lerp _foreach_addcmul "
     "_foreach_addcdiv _foreach_maximum _foreach_minimum _foreach_clamp_min _foreach_clamp_max _foreach_zero "
     "_foreach_copy _foreach_sign _fused_adam _fused_adamw _fused_sgd _fused_adagrad "
     "_amp_foreach_non_finite_check_and_unscale _amp_update_scale",
     NULL, "nothing: lists by value", CUDA_FOLDER "MultiTensorApply.cuh", "H100, H200: in the reference programs"},
};

const int mt_operator_row_count = sizeof mt_operator_rows / sizeof mt_operator_rows[0];
