/* Convolutions by cuDNN, which chooses among its kernels as a program runs: a question about one convolution, and the
 * workspace that its kernel needs. A rule of the table asks whoever runs the operators (struct mt_convolution_source).
 * Without a source, or without an answer, the rule estimates the bytes from the shapes (convolution_plan.c).
 *
 * The names are cuDNN's: x is the image, w the filter, y the result of the forward convolution. Of a gradient, the
 * tensor that is computed has the shape and the strides that it will have.
 *
 *   forward          x, w ──▶ y
 *   input gradient   y, w ──▶ x      a transposed convolution, too
 *   weight gradient  y, x ──▶ w */
#pragma once

#include "device/card.h"
#include "operators/operator_call.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

enum { MT_CONVOLUTION_MOST_DIMS = 5, MT_CONVOLUTION_MOST_SPATIAL = 3, MT_CONVOLUTION_MOST_PLANS = 48 };

enum mt_convolution_kind {
    MT_CONVOLUTION_FORWARD,
    MT_CONVOLUTION_INPUT_GRADIENT,
    MT_CONVOLUTION_WEIGHT_GRADIENT,
    MT_CONVOLUTION_FUSED, /* forward, to whose result a tensor of its shape and a bias are added, then ReLU */
    MT_CONVOLUTION_KIND_COUNT
};

/* A tensor (N, C, …). Sizes and strides in elements; unused ones are 0. */
struct mt_convolution_tensor {
    int64_t sizes[MT_CONVOLUTION_MOST_DIMS], strides[MT_CONVOLUTION_MOST_DIMS];
    int64_t alignment_bytes; /* of its address: a power of two, 32 at most, as PyTorch tells cuDNN */
};

/* Questions are compared and stored as bytes, so unused members are 0 and there is no padding. Groups follow from the
 * sizes. */
struct mt_convolution_question {
    int64_t kind;  /* an enum mt_convolution_kind */
    int64_t dtype; /* a c10::ScalarType's number */
    int64_t dims;  /* 4 or 5 */
    int64_t is_deterministic, allows_tf32;
    int64_t wants_all; /* all plans, not the first one alone */
    struct mt_convolution_tensor x, w, y;
    int64_t padding[MT_CONVOLUTION_MOST_SPATIAL], stride[MT_CONVOLUTION_MOST_SPATIAL],
        dilation[MT_CONVOLUTION_MOST_SPATIAL];
};

/* The workspaces of the plans, in the order in which PyTorch tries them: 0 < count <= MT_CONVOLUTION_MOST_PLANS. */
struct mt_convolution_answer {
    int64_t count, workspace_bytes[MT_CONVOLUTION_MOST_PLANS];
    bool is_estimate;           /* of the first plan: not checked on the card, or under this version of cuDNN */
    struct mt_byte_range range; /* of the first plan's workspace, if it is an estimate */
};

/* Returns the range of an estimate of the workspace that rests on the shapes alone, not on the kernel: from nothing to
 * 1.25 times the bytes of the three tensors more. Of 144 convolutions on an H200 (tests/data/cudnn), 19 in 20 are in
 * it. */
struct mt_byte_range mt_convolution_shape_range(int64_t bytes, int64_t tensor_bytes);

/* Returns the range of all plans. */
struct mt_byte_range mt_convolution_choice_range(const struct mt_convolution_answer *answer);

/* How PyTorch calls a convolution. With benchmark (torch.backends.cudnn.benchmark), a thread's first call with these
 * sizes tries all plans, and later ones take the fastest. */
struct mt_convolution_call {
    bool is_benchmarked;
    bool is_short; /* memory was not enough for the first plan of this call: PyTorch tries the others */
};

/* What a call runs: the plans of `answer` from `first` on, until memory is enough for one. Before, if is_trial, all
 * plans in one workspace, the largest that memory is enough for. */
struct mt_convolution_run {
    struct mt_convolution_answer answer;
    int64_t first;
    bool is_trial;
};

/* Answers questions about convolutions on a card. `ask` returns false if it has no answer. Threads: any. */
struct mt_convolution_source {
    bool (*ask)(void *state, const struct mt_card *card, const struct mt_convolution_question *question,
                const struct mt_convolution_call *call, struct mt_convolution_run *out);
    void *state;
};

/* Writes the question about a convolution of three tensors. `x`, `w` and `y` are as PyTorch passes them to the
 * operator; it copies those that do not lie in the memory format that it chose (mt_convolution_is_channels_last). The
 * lists are "padding", "stride" and "dilation" of the call, and the flags "deterministic" and "allow_tf32". False if
 * the convolution is none that cuDNN takes. */
bool mt_convolution_question_of(enum mt_convolution_kind kind, const struct mt_operator_call *call,
                                const struct mt_operand *x, const struct mt_operand *w, const struct mt_operand *y,
                                bool is_channels_last, struct mt_convolution_question *out);

/* True if PyTorch computes a convolution of these two tensors with channels last: one of them lies so, and they are not
 * fp64. (aten/src/ATen/native/ConvUtils.h, cudnn_conv_suggest_memory_format) */
bool mt_convolution_is_channels_last(const struct mt_operand *a, const struct mt_operand *b);

/* True if a tensor is dense in the order of its dimensions, or with channels last. */
bool mt_convolution_is_dense(const struct mt_operand *tensor, bool is_channels_last);

static_assert(sizeof(struct mt_convolution_question) == 48 * sizeof(int64_t), "a question has no padding");
