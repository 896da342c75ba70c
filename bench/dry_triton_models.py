"""Programs with Triton kernels: their own, and Liger's."""
from __future__ import annotations

from typing import Any

import torch
from dry_library_models import LLAMA_200M, llama, reads
from dry_stage import Stage, Step, program
from torch import nn


class Gated(nn.Module):
    """A layer whose activation is an autotuned kernel."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.ones(4 * width))

    def forward(self, x: Any) -> Any:
        from dry_triton_kernels import Swish

        return x + self.down(Swish.apply(self.up(x), self.scale))  # type: ignore[no-untyped-call]


class Normed(nn.Module):
    """A layer behind a layer norm that adds up gradients of weights behind locks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        from dry_triton_kernels import Norm

        normed = Norm.apply(x, self.weight, self.bias)  # type: ignore[no-untyped-call]
        return x + self.down(nn.functional.gelu(self.up(normed)))


@program(3, "triton", suite="kernels")
def autotuned_kernels(stage: Stage) -> Step:
    model = stage.made(lambda: nn.Sequential(*(Gated(1024) for _ in range(8))))
    return stage.trained(model, lambda: model(stage.noise(4, 1024, 1024)).square().mean())


@program(3, "triton", suite="kernels")
def locked_sums_and_occupancy(stage: Stage) -> Step:
    from dry_triton_kernels import softmax_of

    model = stage.made(lambda: nn.Sequential(*(Normed(1024) for _ in range(8))))

    def loss() -> Any:
        y = model(stage.noise(4, 1024, 1024))
        with torch.no_grad():
            targets = softmax_of(stage.noise(4096, 1024))
        return nn.functional.cross_entropy(y.flatten(0, 1), targets)

    return stage.trained(model, loss)


@program(10, "triton", "transformers", "liger_kernel", suite="kernels")
def liger_llama(stage: Stage) -> Step:
    from liger_kernel.transformers import apply_liger_kernel_to_llama  # type: ignore[import-not-found]

    apply_liger_kernel_to_llama(rope=True, swiglu=True, rms_norm=True, cross_entropy=False, fused_linear_cross_entropy=True)
    return reads(stage, llama(stage, "bfloat16", **LLAMA_200M), 8, 1024)
