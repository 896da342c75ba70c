"""Programs with operators of their own: one in Python, and one in C++ whose kernels a dry run does not run. The second needs a C++
compiler, but not nvcc: its kernels call PyTorch's."""
from __future__ import annotations

import pathlib
import shutil
import subprocess
import tempfile
from typing import Any

import torch
from dry_own_models import Gpt, next_word_loss
from dry_stage import Stage, Step, program
from torch import nn

# silu(gate) * up, without temporaries: what a dry run takes from the fake kernels is all that it allocates.
SOURCE = """
#include <torch/library.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/silu_backward.h>
using at::Tensor;
static Tensor gated(const Tensor &gate, const Tensor &up) {
    Tensor made = at::empty_like(gate);
    at::silu_out(made, gate);
    return made.mul_(up);
}
static std::tuple<Tensor, Tensor> gated_backward(const Tensor &gradient, const Tensor &gate, const Tensor &up) {
    Tensor of_gate = at::empty_like(gate), of_up = at::empty_like(up);
    at::mul_out(of_up, gradient, up);
    at::silu_backward_out(of_gate, of_up, gate);
    at::silu_out(of_up, gate);
    return {of_gate, of_up.mul_(gradient)};
}
static Tensor shape(const Tensor &gate, const Tensor &) { return at::empty_like(gate); }
static std::tuple<Tensor, Tensor> shapes(const Tensor &, const Tensor &gate, const Tensor &up) {
    return {at::empty_like(gate), at::empty_like(up)};
}
TORCH_LIBRARY(memtrace_bench, m) {
    m.def("gated(Tensor gate, Tensor up) -> Tensor");
    m.def("gated_backward(Tensor gradient, Tensor gate, Tensor up) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(memtrace_bench, CUDA, m) {
    m.impl("gated", &gated);
    m.impl("gated_backward", &gated_backward);
}
TORCH_LIBRARY_IMPL(memtrace_bench, Meta, m) {
    m.impl("gated", &shape);
    m.impl("gated_backward", &shapes);
}
"""


@torch.library.custom_op("memtrace_bench_python::scaled", mutates_args=())
def scaled(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Root mean square norm. Temporaries in fp32, as people write it."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * weight


@torch.library.custom_op("memtrace_bench_python::scaled_backward", mutates_args=())
def scaled_backward(gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wide = x.float()
    factor = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    normal, inner = wide * factor, gradient.float() * weight
    of_x = factor * (inner - normal * (inner * normal).mean(-1, keepdim=True))
    return of_x.to(x.dtype), (gradient * normal).flatten(0, -2).sum(0).to(weight.dtype)


@scaled.register_fake
def _(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@scaled_backward.register_fake
def _(gradient: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x), torch.empty_like(weight)


def keep_arguments(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(*inputs)


scaled.register_autograd(lambda context, gradient: scaled_backward(gradient, *context.saved_tensors), setup_context=keep_arguments)


def load_library() -> Any:
    """Compiles the library above, and returns its operators with formulas of their gradients."""
    compiler, folder = shutil.which("c++"), pathlib.Path(torch.__file__).parent
    if compiler is None:
        raise RuntimeError("this program needs a C++ compiler: install g++")
    with tempfile.TemporaryDirectory() as scratch:
        source, made = pathlib.Path(scratch, "gated.cpp"), pathlib.Path(scratch, "gated.so")
        source.write_text(SOURCE)
        abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
        subprocess.run([compiler, "-std=c++20", "-w", "-shared", "-fPIC", abi, f"-isystem{folder}/include", str(source),
                        f"-L{folder}/lib", "-ltorch_cpu", "-lc10", "-o", str(made)], check=True)
        torch.ops.load_library(str(made))
    operators = torch.ops.memtrace_bench
    torch.library.register_autograd(
        "memtrace_bench::gated", lambda context, gradient: operators.gated_backward(gradient, *context.saved_tensors),
        setup_context=keep_arguments)
    return operators


class Scaled(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return scaled(x, self.weight)


class Gated(nn.Module):
    def __init__(self, width: int, operators: Any) -> None:
        super().__init__()
        self.operators = operators
        self.gate, self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        return self.down(self.operators.gated(self.gate(x), self.up(x)))


def trained(stage: Stage, model: Any) -> Step:
    def loss() -> Any:
        text = stage.words(8000, 8, 512)
        return next_word_loss(model(text), text)

    return stage.trained(model, loss, torch.optim.AdamW(model.parameters(), lr=1e-4))


@program(4, suite="kernels")
def operator_in_python(stage: Stage) -> Step:
    model = stage.made(lambda: Gpt(8000, layers=4), "bfloat16")
    for block in model.blocks:
        block.norm1, block.norm2 = (stage.made(lambda: Scaled(512), "bfloat16") for _ in range(2))
    return trained(stage, model)


@program(4, suite="kernels")
def operator_in_cpp(stage: Stage) -> Step:
    model, operators = stage.made(lambda: Gpt(8000, layers=4), "bfloat16"), load_library()
    for block in model.blocks:
        block.mlp = stage.made(lambda: Gated(512, operators), "bfloat16")
    return trained(stage, model)
