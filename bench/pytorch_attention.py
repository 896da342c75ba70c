#!/usr/bin/env python3
"""Attention in PyTorch as a peer: scaled_dot_product_attention by itself, and a layer of it with its four projections, as
memtrace attention measures one. Causal, one head, batch 8.

Needs torch and a GPU, nothing else. Answers on stdin, as bench/peer.h says, medians in milliseconds:

    attention PRECISION LENGTH FEATURES    forward and backward of the op
    layer PRECISION LENGTH FEATURES        forward and backward of the layer, and the bytes live before backward
    heads BATCH HEADS LENGTH FEATURES      forward and backward of the op, in bf16
    precision HEADS LENGTH FEATURES        how far out, dq, dk and dv in bf16 are from double precision, as a share
"""
import statistics

import torch
from torch.nn import functional

from pytorch_serve import serve

BATCH, REPETITIONS, WARM_UP = 8, 15, 2
DTYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16}


class Layer(torch.nn.Module):
    def __init__(self, features, dtype):
        super().__init__()
        self.projections = torch.nn.ModuleList(
            torch.nn.Linear(features, features, bias=False, dtype=dtype, device="cuda") for _ in range(4)
        )

    def forward(self, x):
        query, key, value = (projection(x).unsqueeze(1) for projection in self.projections[:3])
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.projections[3](mixed.squeeze(1))


def dtype_of(precision):
    """What tensors of a precision are; from now on its products are computed so."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    return DTYPES[precision]


def timed(forward, inputs):
    """Milliseconds forward and backward, once."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
    marks[0].record()
    out = forward()
    marks[1].record()
    gradient = torch.ones_like(out)
    marks[2].record()
    out.backward(gradient)
    marks[3].record()
    torch.cuda.synchronize()
    for tensor in inputs:
        tensor.grad = None
    return marks[0].elapsed_time(marks[1]), marks[2].elapsed_time(marks[3])


def measure(forward, inputs):
    times = [timed(forward, inputs) for _ in range(WARM_UP + REPETITIONS)][WARM_UP:]
    return [statistics.median(part) for part in zip(*times)]


def kept_bytes(forward):
    """What is live before backward, workspaces of matrix products aside."""
    out = forward()
    torch.cuda.synchronize()
    torch._C._cuda_clearCublasWorkspaces()
    kept = torch.cuda.memory_allocated()
    del out
    return kept


def attention(precision, length, features):
    shape = (BATCH, 1, int(length), int(features))
    dtype = dtype_of(precision)
    inputs = [torch.randn(shape, dtype=dtype, device="cuda", requires_grad=True) for _ in range(3)]
    return measure(lambda: functional.scaled_dot_product_attention(*inputs, is_causal=True), inputs)


def heads(batch, count, length, features):
    shape = [int(size) for size in (batch, count, length, features)]
    inputs = [torch.randn(shape, dtype=torch.bfloat16, device="cuda", requires_grad=True) for _ in range(3)]
    return measure(lambda: functional.scaled_dot_product_attention(*inputs, is_causal=True), inputs)


def results(inputs, gradient):
    """The op's output and the gradients of its operands."""
    inputs = [tensor.detach().requires_grad_() for tensor in inputs]
    out = functional.scaled_dot_product_attention(*inputs, is_causal=True)
    return [out.detach(), *torch.autograd.grad(out, inputs, gradient)]


def precision(count, length, features):
    shape = (1, int(count), int(length), int(features))
    *inputs, gradient = (torch.rand(shape, device="cuda").mul(2).sub(1).bfloat16() for _ in range(4))
    near = results(inputs, gradient)
    true = results([tensor.double() for tensor in inputs], gradient.double())
    return [((a.double() - b).norm() / b.norm()).item() for a, b in zip(near, true)]


def layer(precision, length, features):
    dtype = dtype_of(precision)
    module = Layer(int(features), dtype)
    x = torch.randn(BATCH, int(length), int(features), dtype=dtype, device="cuda", requires_grad=True)
    return [*measure(lambda: module(x), [x, *module.parameters()]), kept_bytes(lambda: module(x))]


def main():
    torch.cuda.init()
    serve({"attention": attention, "layer": layer, "heads": heads, "precision": precision})


if __name__ == "__main__":
    main()
