"""Triton kernels of the programs in bench/dry_triton_models.py. Importing needs triton. Parameters of kernels have no types, since
Triton reads them as its own."""
from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]

# ---- x·sigmoid(x)·scale, and its gradients: autotuned, with arguments that benchmarks reset and restore ----

WIDTHS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((512, 4), (1024, 4), (2048, 8))]


@triton.autotune(configs=WIDTHS, key=["count"])
@triton.jit
def swish(x, scale, y, count, width, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + places, mask=places < count, other=0.0).to(tl.float32)
    factors = tl.load(scale + places % width, mask=places < count, other=0.0)
    tl.store(y + places, values * tl.sigmoid(values) * factors, mask=places < count)


@triton.autotune(configs=WIDTHS, key=["count"], restore_value=["gradient"], reset_to_zero=["of_scale"])
@triton.jit
def swish_backward(x, scale, gradient, of_scale, count, width, BLOCK: tl.constexpr):
    """Writes the gradient of x in place of the output's, and adds up the gradient of scale."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + places, mask=places < count, other=0.0).to(tl.float32)
    given = tl.load(gradient + places, mask=places < count, other=0.0).to(tl.float32)
    factors = tl.load(scale + places % width, mask=places < count, other=0.0)
    gate = tl.sigmoid(values)
    tl.store(gradient + places, given * factors * gate * (1 + values * (1 - gate)), mask=places < count)
    tl.atomic_add(of_scale + places % width, given * values * gate, mask=places < count)


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        y = torch.empty_like(x)
        swish[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, scale, y, x.numel(), scale.numel())
        context.save_for_backward(x, scale)
        return y

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, scale = context.saved_tensors
        of_x, of_scale = gradients[0].clone(), torch.zeros_like(scale)
        swish_backward[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, scale, of_x, of_scale, x.numel(), scale.numel())
        return of_x, of_scale


# ---- layer norm: partial sums of the weights' gradients behind locks, and a kernel that adds them up ----

@triton.jit
def norm(x, y, weight, bias, means, scales, stride, width, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    mask = columns < width
    values = tl.load(x + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(values, axis=0) / width
    centred = tl.where(mask, values - mean, 0.0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / width + 1e-5)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)
    out = centred * scale * tl.load(weight + columns, mask=mask, other=0.0) + tl.load(bias + columns, mask=mask, other=0.0)
    tl.store(y + row * stride + columns, out, mask=mask)


@triton.jit
def norm_backward(of_x, given, of_weight, of_bias, x, weight, means, scales, lock, stride, width, GROUPS: tl.constexpr,
                  BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    mask = columns < width
    gradient = tl.load(given + row * stride + columns, mask=mask, other=0.0).to(tl.float32)
    normed = tl.load(x + row * stride + columns, mask=mask, other=0.0).to(tl.float32) - tl.load(means + row)
    normed *= tl.load(scales + row)
    weighted = gradient * tl.load(weight + columns, mask=mask, other=0.0)
    one, two = tl.sum(normed * weighted, axis=0) / width, tl.sum(weighted, axis=0) / width
    tl.store(of_x + row * stride + columns, (weighted - normed * one - two) * tl.load(scales + row), mask=mask)
    group = row % GROUPS
    partial_weight, partial_bias = of_weight + group * width + columns, of_bias + group * width + columns
    while tl.atomic_cas(lock + group, 0, 1) == 1:
        pass
    is_later = tl.load(lock + GROUPS + group)
    weights, biases = gradient * normed, gradient
    if is_later == 0:
        tl.atomic_xchg(lock + GROUPS + group, 1)
    else:
        weights += tl.load(partial_weight, mask=mask)
        biases += tl.load(partial_bias, mask=mask)
    tl.store(partial_weight, weights, mask=mask)
    tl.store(partial_bias, biases, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(lock + group, 0)


@triton.jit
def add_groups(partial, total, groups, width, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    sums = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for first in range(0, groups, ROWS):
        rows = first + tl.arange(0, ROWS)
        mask = (rows[:, None] < groups) & (columns[None, :] < width)
        sums += tl.load(partial + rows[:, None] * width + columns[None, :], mask=mask, other=0.0)
    tl.store(total + columns, tl.sum(sums, axis=0), mask=columns < width)


class Norm(torch.autograd.Function):
    """Layer norm over the last dimension, as in Triton's tutorial."""

    GROUPS = 64

    @staticmethod
    def forward(context: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        rows, y = x.reshape(-1, x.shape[-1]), torch.empty_like(x)
        means, scales = torch.empty(len(rows), dtype=torch.float32, device=x.device), torch.empty(len(rows), device=x.device)
        block = triton.next_power_of_2(rows.shape[1])
        norm[(len(rows),)](rows, y, weight, bias, means, scales, rows.stride(0), rows.shape[1], BLOCK=block)
        context.save_for_backward(x, weight, means, scales)
        return y

    @staticmethod
    def backward(context: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x, weight, means, scales = context.saved_tensors
        given, width, groups = gradients[0].contiguous(), x.shape[-1], Norm.GROUPS
        rows, of_x = x.reshape(-1, width), torch.empty_like(given)
        lock = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
        partial = torch.zeros(2, groups, width, device=x.device)
        norm_backward[(len(rows),)](of_x, given, partial[0], partial[1], rows, weight, means, scales, lock, rows.stride(0), width,
                                    GROUPS=groups, BLOCK=triton.next_power_of_2(width))
        total = torch.empty(2, width, device=x.device)
        for index in range(2):
            add_groups[(triton.cdiv(width, 128),)](partial[index], total[index], groups, width, ROWS=32, COLUMNS=128)
        return of_x, total[0], total[1]


# ---- softmax by as many programs as fit the card at once, which depends on the registers of the compiled kernel ----

@triton.jit
def softmax(out, x, stride, rows, width, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    for row in range(tl.program_id(0), rows, tl.num_programs(0)):
        values = tl.load(x + row * stride + columns, mask=columns < width, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * stride + columns, powers / tl.sum(powers, axis=0), mask=columns < width)


def softmax_of(x: torch.Tensor) -> torch.Tensor:
    """Returns the softmax of a matrix's rows."""
    properties = triton.runtime.driver.active.utils.get_device_properties(x.device.index)
    out, block, warps = torch.empty_like(x), triton.next_power_of_2(x.shape[1]), 8
    kernel = softmax.warmup(out, x, x.stride(0), x.shape[0], x.shape[1], BLOCK=block, num_warps=warps, grid=(1,))
    kernel._init_handles()
    resident = properties["max_num_regs"] // (kernel.n_regs * properties["warpSize"] * warps)
    programs = min(x.shape[0], properties["multiprocessor_count"] * resident)
    scratch = torch.empty(programs, block, device=x.device)  # so that registers decide bytes
    softmax[(programs,)](out, x, x.stride(0), x.shape[0], x.shape[1], BLOCK=block, num_warps=warps)
    del scratch
    return out
