"""Calls of PyTorch's operators that take memory inside, of many shapes: in all forms that models have, and at the sizes where
PyTorch changes its way. bench/operator_memory.py compares what they take on a card and dry.

    memtrace dry-run --steps 1000 --trace calls.db -- python3 bench/operator_cases.py [PART OF A NAME...]

Each call is made once to get warm. Before and after the second time, a block of MARK_BYTES is taken and freed, by which it is
found in the trace. The names of the calls that have marks are printed as JSON, and why calls failed.

    python3 bench/operator_cases.py --history FILE [PART OF A NAME...]

needs no memtrace, but a card: what the second time takes is read from PyTorch's own memory history, and written to FILE, a line
of JSON for each call.
"""
from __future__ import annotations

import argparse
import contextlib
import functools
import json
import pathlib
from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from dry_stage import MARK_BYTES
from operator_case import (CASES, Given, Shape, backward, bf16, below, both, c64, call, f16, f32, f64, forward, i32, i64, leaf, listed,
                           mask, net, noise, on_host, packed_sizes, positive, positive_definite, repeated)
from torch.nn.attention import SDPBackend, sdpa_kernel

# ---- calls that PyTorch has under no name ----


@call
def index(x: Any, where: Any) -> Any:
    return x[where]


@call
def index_assign(x: Any, where: Any) -> None:
    x[where] = 0.0


@call
def stft(x: Any) -> Any:
    return torch.stft(x, 400, 160, return_complex=True, window=torch.hann_window(400, device="cuda"))


@call
def recurrent(x: Any, module: Any) -> Any:
    return module(x)


@call
def recurrent_evaluated(x: Any, module: Any) -> Any:
    with torch.no_grad():
        return module.eval()(x)


@call
def recurrent_narrow(x: Any, module: Any, dtype: torch.dtype) -> Any:
    with torch.autocast("cuda", dtype):
        return module(x)


@call
def recurrent_cells(x: Any, module: Any) -> Any:
    with torch.backends.cudnn.flags(enabled=False):
        return module(x)


@call
def recurrent_packed(words: Any, sizes: Any, module: Any) -> Any:
    return module(torch.nn.utils.rnn.PackedSequence(words, sizes))[0].data


@call
def dropout_state() -> Any:
    return torch._cudnn_init_dropout_state(0.5, True, 0, dtype=torch.uint8, device=torch.device("cuda"))


@call
def istft(x: Any) -> Any:
    return torch.istft(x, 400, 160, window=torch.hann_window(400, device="cuda"))


@call
def flash_attention(*given: Any) -> Any:
    return attention_by(SDPBackend.FLASH_ATTENTION, *given)


@call
def efficient_attention(*given: Any) -> Any:
    return attention_by(SDPBackend.EFFICIENT_ATTENTION, *given)


@call
def math_attention(*given: Any) -> Any:
    return attention_by(SDPBackend.MATH, *given)


def attention_by(kernel: SDPBackend, *given: Any) -> Any:
    with sdpa_kernel(kernel):
        return torch.nn.functional.scaled_dot_product_attention(*given)


@call
def unpooled(x: Any, dims: int) -> Any:
    pooled, places = getattr(torch.nn.functional, f"max_pool{dims}d")(x, 2, return_indices=True)
    return getattr(torch.nn.functional, f"max_unpool{dims}d")(pooled, places, 2)


@call
def without_cudnn(name: str, *given: Any, **named: Any) -> Any:
    with torch.backends.cudnn.flags(enabled=False):
        return getattr(torch.nn.functional, name)(*given, **named)


@call
def dirichlet(x: Any) -> Any:
    return torch._sample_dirichlet(x)


@call
def unpacked(factors: Any, pivots: Any) -> Any:
    return torch.lu_unpack(factors, pivots)


# ---- the list ----


def list_sorts() -> None:
    for n in (100, 4096, 5000, 100_000, 1_000_000):
        for dtype in (f32, i64, bf16):
            forward("sort", noise(n, dtype=dtype))
        forward("sort", noise(n), stable=True)
        forward("argsort", noise(n))
    for shape in ((4, 50257), (64, 1000), (8, 4096), (300, 6000), (16, 128256)):
        list_choices(shape)
    forward("topk", noise(10_000_000), 1000)


def list_choices(shape: tuple[int, ...]) -> None:
    for dim in (-1, 0):
        forward("sort", noise(*shape), dim=dim)
    for k in (1, 50, 1000):
        forward("topk", noise(*shape), k)
    forward("topk", noise(*shape, dtype=bf16), 50)
    forward("kthvalue", noise(*shape), 5)
    forward("median", noise(*shape), dim=-1)
    forward("multinomial", positive(*shape), 1)
    forward("multinomial", positive(*shape), 5, replacement=True)
    forward("cumsum", noise(*shape), -1)
    forward("cumsum", noise(*shape), 0)
    forward("logsumexp", noise(*shape), -1)
    forward("cummax", noise(*shape), -1)


def list_one_dimension() -> None:
    for n in (10, 1000, 8192, 100_000, 2_000_000):
        for given in (noise(n), below(9, n), mask(n)):
            forward("cumsum", given, 0)
        forward("cumprod", noise(n), 0)
        list_values(n)
        list_places(n)
        list_counts(n)


def list_values(n: int) -> None:
    """Lists calls whose results' size depends on values, and calls with a mask."""
    forward("unique", below(100, n))
    forward("unique", below(100, n), return_inverse=True, return_counts=True)
    forward("unique_consecutive", below(100, n))
    for given in (below(2, n), mask(n), below(2, max(n // 10, 1), 10)):
        forward("nonzero", given)
    forward("index", noise(n), mask(n))
    forward("where", mask(n))
    forward("masked_fill_", noise(n), mask(n), 0)
    forward("index_assign", noise(n), mask(n))
    forward("masked_scatter_", noise(n), mask(n), noise(n))


def list_searches() -> None:
    """Lists more sizes of calls that search: by them, the tiles of CUB's kernels can be found."""
    for n in (3000, 4096, 4097, 20_000, 300_000, 1_000_000, 10_000_000, 50_000_000):
        for given in (mask(n), noise(n), noise(n, dtype=bf16)):
            forward("nonzero", given)
        forward("index", noise(n, 2), mask(n))
        forward("unique", below(100, n))
        forward("unique", noise(n), return_counts=True)
        forward("unique_consecutive", below(100, n))
        forward("masked_select", noise(n), mask(n))
        forward("masked_scatter_", noise(n), mask(n), noise(n))
        forward("repeat_interleave", below(3, n))
        forward("randperm", n, device="cuda")


def list_places(n: int) -> None:
    """Lists calls with indices."""
    if n < 1_000_000:
        forward("index_put_", noise(1000, 16), (below(1000, n),), noise(n, 16), accumulate=True)
    forward("index_put_", noise(1000, 16), (below(1000, n), below(16, n)), noise(n), accumulate=True)
    forward("index_put_", noise(1000), (below(1000, n),), noise(n))
    if n < 1_000_000:
        backward("index", leaf(1000, 16), below(1000, n))
    forward("index_add_", noise(1000), 0, below(1000, n), noise(n))
    forward("scatter_add_", noise(1000), 0, below(1000, n), noise(n))
    forward("scatter_reduce_", noise(1000), 0, below(1000, n), noise(n), "amax")
    backward("gather", leaf(1000), 0, below(1000, n))


def list_counts(n: int) -> None:
    forward("bincount", below(100, n))
    forward("histc", noise(n), 64)
    forward("searchsorted", Given("sorted-f32[1000]", lambda: torch.arange(1000.0, device="cuda")), noise(n))
    forward("repeat_interleave", below(3, n))
    forward("randperm", n, device="cuda")


def list_embeddings() -> None:
    for rows, width in ((10, 64), (31, 64), (32, 64), (1000, 64), (50257, 768), (2, 768)):
        for n in (100, 3072, 3073, 8192, 40000):
            for dtype in (f32, bf16):
                backward("embedding", below(rows, n), leaf(rows, width, dtype=dtype))
            forward("embedding_bag", below(rows, 1, n), noise(rows, width))
            if n in (100, 8192):
                backward("embedding_bag", below(rows, 1, n), leaf(rows, width), mode="mean")


def list_attention() -> None:
    kinds: dict[str, dict[str, Any]] = {"plain": {}, "causal": {"is_causal": True}, "mask": {}, "drop": {"dropout_p": 0.1}}
    sizes = (8, 8, 128), (8, 8, 1000), (32, 8, 512)  # heads, of keys, tokens
    for width, dtype, kind, size in product((32, 64, 72, 80, 96, 128, 160, 192, 256), (f32, f16, bf16), kinds, sizes):
        if kind in ("plain", "causal") or size[2] == 128 or width in (64, 80, 128):
            list_kernels_choice(width, dtype, kind == "mask", size, kinds[kind])


def list_kernels_choice(width: int, dtype: torch.dtype, is_masked: bool, size: tuple[int, int, int], named: dict[str, Any]) -> None:
    """Lists attention whose kernel PyTorch chooses."""
    heads, key_heads, tokens = size
    given = [leaf(2, count, tokens, width, dtype=dtype) for count in (heads, key_heads, key_heads)]
    if is_masked:
        given.append(noise(2, 1, tokens, tokens, dtype=dtype))
    both("scaled_dot_product_attention", *given, **named, **({} if heads == key_heads else {"enable_gqa": True}))


def list_attention_kernels() -> None:
    lengths = (128, 128), (1000, 1000), (1, 4096), (64, 8192), (512, 300)
    for kernel, width, (queries, keys) in product(("flash", "efficient", "math"), (32, 64, 72, 96, 128, 160, 256), lengths):
        both(f"{kernel}_attention", *(leaf(2, 8, tokens, width, dtype=bf16) for tokens in (queries, keys, keys)))


def list_norms() -> None:
    for rows, width in ((100, 768), (8192, 768), (65536, 768), (65537, 768), (100_000, 1024), (70_000, 64), (200_000, 32),
                        (70_000, 8192)):
        for dtype in (bf16,) if rows * width > 300_000_000 else (f32, bf16):
            x, weight = leaf(rows, width, dtype=dtype), leaf(width, dtype=dtype)
            backward("layer_norm", x, (width,), weight, weight)
            backward("rms_norm", x, (width,), weight)
    for shape, groups in (((2, 32, 16, 16), 8), ((4, 64, 64, 64), 32), ((8, 128, 7, 7), 1), ((2, 320, 64, 64), 32)):
        for dtype in (f32, bf16):
            forward("group_norm", noise(*shape, dtype=dtype), groups, *[noise(shape[1], dtype=dtype)] * 2)
            backward("group_norm", leaf(*shape, dtype=dtype), groups, *[leaf(shape[1], dtype=dtype)] * 2)
            for channels_last in (False, True):
                list_batch_norms(leaf(*shape, dtype=dtype, channels_last=channels_last), shape[1])
    for shape in ((1024, 2048), (100_000, 64), (4, 64, 64, 64), (2, 320, 16, 16)):
        list_shared_norms(noise(*shape), shape[1])


def list_batch_norms(x: Given, channels: int) -> None:
    given = [x, noise(channels), positive(channels), leaf(channels), leaf(channels)]
    both("batch_norm", *given, training=True)
    backward("batch_norm", *given, training=False)
    forward("batch_norm", *given, training=False)


def list_shared_norms(x: Given, channels: int) -> None:
    """Lists the operators of SyncBatchNorm."""
    mean, factor = noise(channels), positive(channels)
    counts = Given("f32[2]=100", lambda: torch.full((2,), 100.0, device="cuda"))
    sizes = Given("i32[2]=100", lambda: torch.full((2,), 100, dtype=i32, device="cuda"))
    forward("batch_norm_stats", x, 1e-5)
    forward("batch_norm_gather_stats_with_counts", x, noise(2, channels), positive(2, channels), mean, factor, 0.1, 1e-5, counts)
    forward("batch_norm_elemt", x, mean, mean, mean, factor, 1e-5)
    forward("batch_norm_backward_reduce", x, x, mean, factor, mean, True, True, True)
    forward("batch_norm_backward_elemt", x, x, mean, factor, mean, mean, mean, sizes)


REDUCTIONS = ("sum", "mean", "amax", "max", "argmax", "var", "std", "norm", "prod", "any", "all", "amin", "nansum", "logsumexp",
              "count_nonzero")


def list_reductions() -> None:
    for shape in ((8, 16384), (16384, 8), (8192, 768), (8192, 3072), (64, 64, 64), (1, 10_000_000), (3, 1000, 50), (1000, 3),
                  (100_000_000,), (2, 32, 128, 128)):
        for name in REDUCTIONS:
            list_reduction(name, shape)
        if len(shape) > 1:
            forward("sum", noise(*shape), dim=(0, 1))
            forward("sum", noise(*shape, dtype=bf16), dim=0, dtype=f32)
            forward("sum", below(5, *shape))
    forward("sum", noise(3 << 18, 1024), dim=0)
    forward("sum", noise(3 << 28))
    forward("sum", noise(3 << 18, 1024), dim=1)
    for count, n in ((40, 768 * 768), (100, 1000), (300, 65537), (5, 10)):
        forward("_foreach_norm", [noise(n)] * count, 2.0)
        forward("nn.utils.get_total_norm", [noise(n)] * count)


def list_reduction(name: str, shape: tuple[int, ...]) -> None:
    dims: list[dict[str, int]] = [{}, *({"dim": dim} for dim in range(len(shape)))]
    for named in dims[1:] if name == "logsumexp" else dims:
        for dtype in (f32, bf16) if name in ("sum", "mean", "amax", "norm") else (f32,):
            forward(name, noise(*shape, dtype=dtype), **named)


def list_products() -> None:
    for size, dtype in product(((64, 64, 64), (128, 1024, 1024), (1000, 77, 33), (8192, 768, 3072)), (f32, bf16)):
        list_matrix_products(*size, dtype)
    for groups in (4, 8, 64):
        weight = noise(groups, 512, 1024, dtype=bf16)
        forward("_grouped_mm", noise(groups * 128, 512, dtype=bf16), weight, offs=ends_of(groups))
        forward("_grouped_mm", noise(groups, 128, 512, dtype=bf16), weight)
    scale, f8 = Given("f32[]", lambda: torch.ones((), device="cuda")), torch.float8_e4m3fn
    forward("_scaled_mm", noise(256, 512, dtype=f8), noise(1024, 512, dtype=f8).seen(".t()"), scale, scale, out_dtype=bf16)


def ends_of(groups: int) -> Given:
    """Returns where groups of 128 rows end."""
    return Given(f"i32[{groups}]", lambda: torch.arange(128, groups * 128 + 1, 128, device="cuda", dtype=i32))


def list_matrix_products(m: int, k: int, n: int, dtype: torch.dtype) -> None:
    def made(*shape: int) -> Given:
        return noise(*shape, dtype=dtype)

    batch = 4 if m < 5000 else 1
    forward("mm", made(m, k), made(k, n))
    forward("addmm", made(n), made(m, k), made(k, n))
    forward("linear", made(2, m, k), made(n, k), made(n))
    forward("_addmm_activation", made(n), made(m, k), made(k, n), use_gelu=True)
    forward("baddbmm", made(batch, m, n), made(batch, m, k), made(batch, k, n))
    forward("addmv", made(m), made(m, k), made(k))
    forward("matmul", made(k, m).seen(".t()"), made(n, k).seen(".t()"))


CONVOLUTIONS: tuple[tuple[tuple[int, ...], tuple[int, ...], int, int, int], ...] = (
    # images, weight, stride, padding, groups
    ((8, 3, 224, 224), (64, 3, 7, 7), 2, 3, 1), ((8, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    ((8, 256, 14, 14), (256, 256, 3, 3), 1, 1, 1), ((8, 64, 56, 56), (256, 64, 1, 1), 1, 0, 1),
    ((4, 96, 56, 56), (96, 1, 7, 7), 1, 3, 96), ((2, 320, 64, 64), (320, 320, 3, 3), 1, 1, 1),
    ((8, 512, 7, 7), (512, 512, 3, 3), 1, 1, 1), ((32, 1, 28, 28), (32, 1, 3, 3), 1, 0, 1))


def list_convolutions() -> None:
    for (images, weight, stride, padding, groups), dtype, last in product(CONVOLUTIONS, (f32, bf16, f16), (False, True)):
        x, kernel = (leaf(*shape, dtype=dtype, channels_last=last) for shape in (images, weight))
        both("conv2d", x, kernel, leaf(weight[0], dtype=dtype), stride=stride, padding=padding, groups=groups)


def list_nets() -> None:
    for dtype in (f32, bf16):
        both("conv1d", leaf(4, 80, 3000, dtype=dtype), leaf(384, 80, 3, dtype=dtype), padding=1)
        both("conv3d", leaf(2, 16, 16, 32, 32, dtype=dtype), leaf(32, 16, 3, 3, 3, dtype=dtype), padding=1)
        both("conv_transpose2d", leaf(4, 64, 16, 16, dtype=dtype), leaf(64, 32, 2, 2, dtype=dtype), stride=2)
        for kind, (layers, both_ways) in product(("LSTM", "GRU", "RNN"), ((1, False), (2, True))):
            both("recurrent", leaf(16, 50, 128, dtype=dtype), recurrent_module(kind, layers, both_ways, dtype))


def recurrent_module(kind: str, layers: int, both_ways: bool, dtype: torch.dtype) -> Given:
    def make() -> Any:
        return getattr(torch.nn, kind)(128, 256, layers, bidirectional=both_ways, batch_first=True).cuda().to(dtype)

    return Given(f"{kind}(256,layers={layers},both_ways={both_ways})", make)


NETS = ("LSTM", "GRU", "RNN")
NET_SIZES = ((35, 20, 200, 200), (100, 32, 512, 512), (7, 3, 65, 33), (64, 64, 256, 128), (1, 1, 10, 20), (200, 8, 80, 320),
             (12, 136, 48, 1024))  # length, batch, input, hidden


def list_recurrent_nets() -> None:
    for kind, dtype, (length, batch, inputs, hidden) in product(NETS, (f32, f16, bf16), NET_SIZES):
        both("recurrent", leaf(length, batch, inputs, dtype=dtype), net(kind, inputs, hidden, dtype))
        if hidden > 200:
            forward("recurrent_evaluated", noise(length, batch, inputs, dtype=dtype), net(kind, inputs, hidden, dtype))
    options: tuple[dict[str, Any], ...] = ({"num_layers": 2, "dropout": 0.2}, {"num_layers": 3, "bidirectional": True},
                                           {"batch_first": True}, {"bias": False}, {"num_layers": 2, "bidirectional": True, "dropout": 0.5})
    for kind, dtype, option in product(NETS, (f32, f16), options):
        both("recurrent", leaf(40, 24, 96, dtype=dtype), net(kind, 96, 256, dtype, **option))
    for dtype, hidden, projection in product((f32, f16), (256, 100), (64, 32)):
        both("recurrent", leaf(40, 24, 96, dtype=dtype), net("LSTM", 96, hidden, dtype, proj_size=projection))
    for kind in NETS:
        list_other_nets(kind)
    forward("dropout_state")


def list_other_nets(kind: str) -> None:
    """Lists nets in double and full precision, under autocast, of packed sequences, and cells."""
    both("recurrent", leaf(20, 8, 64, dtype=f64), net(kind, 64, 128, f64))
    both("recurrent_cells", leaf(40, 24, 96), net(kind, 96, 256, f32))
    for dtype, layers in product((f16, bf16), (1, 2)):
        both("recurrent_narrow", leaf(40, 24, 96), net(kind, 96, 256, f32, num_layers=layers), dtype)
    for dtype, (length, batch, inputs, hidden), both_ways in product((f32, f16), ((50, 16, 128, 256), (33, 7, 40, 300)), (False, True)):
        sizes = packed_sizes(length, batch)
        both("recurrent_packed", leaf(int(sizes.make().sum()), inputs, dtype=dtype), sizes,
             net(kind, inputs, hidden, dtype, bidirectional=both_ways))
    for dtype in (f32, bf16):
        both("recurrent", leaf(24, 96, dtype=dtype), net(f"{kind}Cell", 96, 256, dtype))


def list_copies() -> None:
    here, turned = noise(1000, 1000), noise(1000, 1000).seen(".t()")
    host, turned_host, narrow = on_host(1000, 1000), on_host(1000, 1000).seen(".t()"), noise(1000, 1000, dtype=bf16)
    forward("to", turned, bf16)
    forward("contiguous", turned)
    forward("copy_", narrow, turned)
    forward("to", host, "cuda")
    forward("to", turned_host, "cuda")
    forward("to", host, "cuda", bf16)
    forward("copy_", narrow, host)
    forward("copy_", turned, host)
    for given in (here, turned, here.seen("[:,::2]")):
        forward("cpu", given)
    forward("to", here, "cpu", bf16)
    forward("item", here.seen("[3,4]"))
    forward("tolist", here.seen("[0]"))
    forward("cat", [noise(100, 100)] * 200)
    forward("stack", [noise(100)] * 50)


def list_images() -> None:
    image, grid = leaf(2, 3, 64, 64), leaf(2, 32, 32, 2)
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        both("interpolate", image, scale_factor=2, mode=mode)
    forward("pixel_shuffle", noise(2, 16, 32, 32), 2)
    both("grid_sample", image, grid, align_corners=False)
    both("unfold", image, 3)
    both("max_pool2d", image, 2)
    backward("adaptive_avg_pool2d", image, 7)
    both("adaptive_max_pool2d", image, 7)
    forward("avg_pool2d", image, 2)


def list_resampling() -> None:
    """Lists resampling, pooling and padding in one to three dimensions, also of tensors that are not contiguous."""
    for dims, turned in product((1, 2, 3), (False, True)):
        images = leaf(2, 8, *[16] * dims).seen(".transpose(0,1)" * turned)
        for mode in ("nearest", "nearest-exact", ("linear", "bilinear", "trilinear")[dims - 1]):
            both("interpolate", images, scale_factor=3, mode=mode)
        for mode in ("reflect", "replicate"):
            both("pad", images, (2,) * 2 * dims, mode=mode)
        for name in ("avg_pool", "max_pool", "adaptive_avg_pool", "adaptive_max_pool"):
            both(f"{name}{dims}d", images, 3)
        if dims > 1:
            both("unpooled", images, dims)
    for channels, mode in product((3, 8), ("nearest-exact", "bilinear", "bicubic")):
        both("interpolate", leaf(2, channels, 32, 32, channels_last=True), scale_factor=2, mode=mode)
    for mode in ("bilinear", "bicubic"):
        both("interpolate", leaf(2, 8, 32, 32, channels_last=True), scale_factor=0.5, mode=mode, antialias=True)
    both("grid_sample", leaf(2, 3, 8, 16, 16), leaf(2, 8, 8, 8, 3), align_corners=False)
    both("grid_sample", leaf(2, 3, 32, 32), leaf(2, 16, 16, 2), align_corners=True)
    both("affine_grid", leaf(2, 2, 3), (2, 3, 32, 32), align_corners=False)
    for dims, size in ((2, 8), (3, 4)):
        forward(f"fractional_max_pool{dims}d", noise(2, 8, *[16] * dims), 2, output_size=size)


def list_slow_convolutions() -> None:
    for name, images, weight, named in (("conv2d", (4, 16, 32, 32), (32, 16, 3, 3), {"padding": 1}),
                                        ("conv2d", (4, 16, 32, 32), (32, 16, 3, 3), {"dilation": 2}),
                                        ("conv3d", (2, 8, 16, 16, 16), (16, 8, 3, 3, 3), {"dilation": 2}),
                                        ("conv_transpose2d", (4, 32, 16, 16), (32, 16, 3, 3), {"stride": 2})):
        bias = leaf(weight[1 if "transpose" in name else 0])
        both("without_cudnn", name, leaf(*images), leaf(*weight), bias, **named)
    both("conv3d", leaf(2, 16, 16, 16, 16), leaf(16, 1, 3, 3, 3), leaf(16), padding=1, groups=16)


def list_choices_of_values() -> None:
    """Lists searches, medians and modes, of rows and of all elements."""
    for given in (noise(300, 1000), noise(300, 1000).seen(".t()"), below(9, 300, 1000)):
        for name in ("median", "nanmedian"):
            forward(name, given)
            forward(name, given, dim=0)
        forward("mode", given)
        forward("mode", given, dim=0)
        forward("trace", given)
    forward("median", noise(1_000_000))
    forward("logcumsumexp", noise(1_000_000), 0)
    forward("logcumsumexp", noise(300, 1000).seen(".t()"), 1)
    forward("bucketize", below(1000, 100_000), noise(100))
    forward("bucketize", noise(300, 1000).seen(".t()"), noise(100))
    for n in (10, 20_000, 3_000_000):
        forward("nonzero_static", mask(n), size=100)
        forward("nonzero_static", noise(n), size=100)
    for rows, n in product((100, 50257), (100, 8192)):
        forward("embedding", below(rows, n), noise(rows, 64), max_norm=1.0)


def list_sums_inside() -> None:
    """Lists operators that count, or sum tensors of their own."""
    for reduce, keeps in product(("sum", "mean", "amax"), (True, False)):
        forward("scatter_reduce", noise(1000), 0, below(1000, 10_000), noise(10_000), reduce, include_self=keeps)
    for reduce, index in product(("mean", "amax"), (below(100, 500), below(100, 500).seen(".int()"))):
        forward("index_reduce", noise(100, 64), 0, index, noise(500, 64), reduce, include_self=False)
    for reduction in ("none", "mean"):
        both("multi_margin_loss", leaf(1000, 10), below(10, 1000), reduction=reduction)
        both("multilabel_margin_loss", leaf(1000, 10), below(10, 1000, 10), reduction=reduction)
    for p in (1.0, 2.0):
        both("cdist", leaf(3, 20, 8), leaf(3, 25, 8), p=p)
        both("pdist", leaf(100, 8), p=p)
    for dtype in (f32, bf16):
        forward("renorm", noise(300, 1000, dtype=dtype), 2, 0, 1.0)
        forward("_foreach_max", [noise(100_000, dtype=dtype)] * 10)
    forward("dirichlet", positive(300, 1000))
    forward("fake_quantize_per_channel_affine", noise(64, 100), positive(64), repeated((64,), 0, i32), 0, 0, 255)
    forward("addbmm", noise(64, 32), noise(4, 64, 16), noise(4, 16, 32))
    forward("unpacked", noise(3, 20, 20), repeated((3, 20), 1, i32))
    both("_weight_norm", leaf(64, 100), leaf(64, 1))


def list_transforms() -> None:
    forward("fft.fft", noise(64, 1024))
    forward("fft.rfft2", noise(8, 256, 256))
    forward("fft.irfft", noise(64, 513, dtype=torch.complex64))
    forward("fft.fft", noise(64, 1009))
    forward("stft", noise(4, 16000))


SIGNALS = ((64, 1000), (8, 4096), (3, 44100), (16, 65536), (1, 1 << 20), (128, 241), (16, 360), (2, 1, 11025), (5, 10_007))
IMAGES = ((20, 64, 64), (16, 32, 85, 85), (4, 20, 128, 128), (2, 3, 721, 1440), (4, 40, 100, 100), (8, 256, 256), (3, 37, 211))


def list_more_transforms() -> None:
    for shape in SIGNALS:
        both("fft.rfft", leaf(*shape))
        both("fft.irfft", leaf(*shape, dtype=c64), n=2 * shape[-1] - 2)
        both("fft.fft", leaf(*shape, dtype=c64))
    for shape in IMAGES:
        both("fft.rfft2", leaf(*shape))
        both("fft.irfft2", leaf(*shape, dtype=c64), s=(shape[-2], 2 * shape[-1] - 2))
        both("fft.fft2", leaf(*shape, dtype=c64))
        forward("fft.ifft2", noise(*shape, dtype=c64), norm="ortho")
    for shape in ((4, 32, 32, 32), (2, 8, 48, 48, 48), (1, 20, 13, 64, 100)):
        both("fft.rfftn", leaf(*shape), dim=(-3, -2, -1))
        both("fft.irfftn", leaf(*shape, dtype=c64), dim=(-3, -2, -1))
        forward("fft.fftn", noise(*shape, dtype=c64), dim=(-3, -2, -1))
    list_unusual_transforms()


def list_unusual_transforms() -> None:
    for shape, dim in (((4, 1000, 32), 1), ((256, 64), 0), ((1009, 16), 0), ((16, 128, 8), -2)):
        both("fft.rfft", leaf(*shape), dim=dim)
        both("fft.fft", leaf(*shape, dtype=c64), dim=dim)
    for dtype, size in product((f64, f16), (64, 1024)):
        forward("fft.rfft", noise(16, size, dtype=dtype))
        forward("fft.rfft2", noise(4, size, size, dtype=dtype))
    forward("fft.fft", noise(16, 1000), norm="ortho")
    forward("fft.fft", noise(16, 1000).seen("[:,::2]"))
    forward("fft.hfft", noise(16, 501, dtype=c64))
    forward("fft.ihfft", noise(16, 1000))
    forward("fft.fftn", noise(4, 5, 6, 7, 8, dtype=c64))
    for samples in (16000, 50_000):
        backward("stft", leaf(4, samples))
        both("istft", leaf(4, 201, samples // 160, dtype=c64))


SQUARES = ((5, 5), (32, 32), (100, 100), (256, 256), (513, 513), (1000, 1000), (4, 16, 16), (16, 32, 32), (3, 128, 128), (600, 8, 8),
           (2, 3, 40, 40), (2, 512, 512))
RECTANGLES = ((100, 40), (40, 100), (1000, 64), (8, 60, 20), (8, 20, 60))
OF_POSITIVE = ("cholesky", "cholesky_ex", "inv", "inv_ex", "eigh", "eigvalsh", "ldl_factor")
OF_SQUARE = ("det", "slogdet", "lu_factor", "lu", "eig", "eigvals", "matrix_rank", "cond")
OF_ANY = ("svd", "svdvals", "qr", "pinv")
ITERATED = ("eigh", "eigvalsh", "eig", "eigvals", "svd", "svdvals", "pinv", "matrix_rank", "cond")  # which take long


def list_more_decompositions() -> None:
    for name, size in product((*OF_POSITIVE, *OF_SQUARE, *OF_ANY), SQUARES):
        if size[-1] < 513 or name not in ITERATED:
            forward(f"linalg.{name}", positive_definite(*size) if name in OF_POSITIVE else noise(*size))
    for name, size in product(OF_ANY, RECTANGLES):
        forward(f"linalg.{name}", noise(*size))
    for size in ((32, 32), (100, 40), (8, 60, 20), (3, 128, 128)):
        forward("linalg.svd", noise(*size), full_matrices=False)
        forward("linalg.qr", noise(*size), mode="complete")
        forward("linalg.qr", noise(*size), mode="r")
    for name, dtype in product((*OF_POSITIVE, *OF_SQUARE, *OF_ANY), (f64, c64)):
        forward(f"linalg.{name}", positive_definite(48, 48, dtype=dtype) if name in OF_POSITIVE else noise(48, 48, dtype=dtype))
    for size in SQUARES:
        list_solutions(size)
    for size in ((100, 40), (1000, 64), (8, 60, 20)):
        forward("linalg.lstsq", noise(*size), noise(*size[:-1], 7))
    list_decompositions_backward()


def list_solutions(size: tuple[int, ...]) -> None:
    for columns in (1, 30):
        right = noise(*size[:-1], columns)
        forward("linalg.solve", positive_definite(*size), right)
        forward("cholesky_solve", right, positive_definite(*size))
        forward("linalg.solve_triangular", positive_definite(*size), right, upper=False)
        forward("linalg.lu_solve", noise(*size), repeated(size[:-1], 1, i32), right)
    forward("cholesky_inverse", positive_definite(*size))
    forward("linalg.matrix_power", noise(*size), 5)
    forward("geqrf", noise(*size))
    forward("linalg.householder_product", noise(*size), noise(*size[:-1]))
    forward("ormqr", noise(*size), noise(*size[:-1]), noise(*size))


def list_decompositions_backward() -> None:
    for size in ((48, 48), (5, 24, 24)):
        good = positive_definite(*size, grad=True)
        for name in ("cholesky", "inv", "eigh", "eigvalsh", "det", "qr", "svdvals", "pinv"):
            backward(f"linalg.{name}", good)
        backward("logdet", good)
        backward("linalg.svd", good, full_matrices=False)
        backward("linalg.solve", good, leaf(*size[:-1], 3))
        backward("linalg.solve_triangular", good, leaf(*size[:-1], 3), upper=False)
        backward("cholesky_solve", leaf(*size[:-1], 3), good)


def list_long_rows() -> None:
    for shape in ((1, 20_000), (20, 19_999), (21, 10_000), (40, 50257), (60, 8000), (100, 5000), (150, 32_000), (200, 3000), (1000, 800),
                  (800, 799), (4001, 400), (2, 151_936), (4, 32_000), (64, 151_936), (5000, 1000), (1 << 20,)):
        for k in (5, 300):
            forward("topk", noise(*shape), k)
        forward("topk", noise(*shape, dtype=f16), 50)
    for given in (below(9, 4, 32_000), noise(4, 32_000, dtype=f64), below(9, 4, 32_000).seen(".int()"), noise(32_000, 4).seen(".t()")):
        forward("topk", given, 50)
    for named in ({"largest": False}, {"sorted": False}, {"dim": 0}):
        forward("topk", noise(20_000, 3), 2, **named)
        forward("topk", noise(3, 20_000), 3, **named)
    for k in (1024, 4096, 4097, 10_000):
        forward("topk", noise(4, 32_000), k)
        forward("topk", noise(400, 6000), k // 2 + k % 2)
    for shape in ((3, 20_000), (130, 20_000), (200, 5000), (1000, 6000), (2000, 4500), (127, 50257), (128, 50257), (10, 1_000_000), (129, 4097),
                  (2, 2, 9000)):
        list_long_sorts(noise(*shape), below(1000, *shape))


def list_long_sorts(numbers: Given, whole: Given) -> None:
    for given in (numbers, numbers.seen(".half()"), numbers.seen(".double()"), whole, whole.seen(".int()")):
        forward("sort", given)
    forward("sort", numbers, stable=True, descending=True)
    forward("argsort", numbers, dim=0)


def list_decompositions() -> None:
    size: Shape
    for name in ("svd", "eigh", "cholesky", "inv", "solve", "qr", "det", "lu_factor", "pinv"):
        for size in ((64, 64), (8, 64, 64)):
            given = positive_definite(*size) if name in ("eigh", "cholesky", "inv", "solve") else noise(*size)
            forward(f"linalg.{name}", given, *([given] if name == "solve" else []))
    forward("matrix_exp", noise(64, 64))
    forward("matrix_exp", noise(8, 64, 64))


def list_losses() -> None:
    def lengths(value: int) -> Given:
        return Given(f"host-i64[4]={value}", lambda: torch.full((4,), value, dtype=i64))

    scores, classes = leaf(8192, 1000), below(1000, 8192)
    forward("cdist", noise(100, 64), noise(200, 64))
    forward("cdist", noise(1000, 64), noise(1000, 64))
    both("cross_entropy", scores, classes)
    backward("cross_entropy", scores, classes, label_smoothing=0.1)
    backward("binary_cross_entropy_with_logits", leaf(1000, 10), positive(1000, 10))
    backward("kl_div", leaf(100, 1000), positive(100, 1000), reduction="batchmean")
    forward("ctc_loss", leaf(50, 4, 20), below(20, 4, 10), lengths(50), lengths(10))
    for length, batch, kinds, longest in ((50, 4, 20, 12), (100, 16, 32, 20), (300, 8, 29, 60), (20, 2, 1000, 5), (400, 32, 32, 100)):
        list_ctc_losses(leaf(length, batch, kinds), length, batch, longest)


def list_ctc_losses(scores: Given, length: int, batch: int, longest: int) -> None:
    """Lists losses by PyTorch's kernel, by cuDNN's, and with lengths on the card."""
    lengths, targets = repeated((batch,), length, i64, "cpu"), repeated((batch,), longest, i64, "cpu")
    both("ctc_loss", scores, below(9, batch, longest), lengths, targets)
    forward("ctc_loss", scores, below(9, batch * longest), lengths, targets, zero_infinity=True)
    both("ctc_loss", scores, below(9, batch, longest), repeated((batch,), length, i64), repeated((batch,), longest, i64))
    both("ctc_loss", scores, repeated((batch * longest,), 1, i32), repeated((batch,), length, i32), repeated((batch,), longest, i32))


def list_backward(dtype: torch.dtype) -> None:
    def made(*shape: int) -> Given:
        return leaf(*shape, dtype=dtype)

    square, table, image = made(1000, 1000), made(100, 1000), made(4, 16, 32, 32)
    forward("dropout", noise(1000, 1000, dtype=dtype), 0.1)
    backward("softmax", square, -1)
    backward("softmax", square, 0)
    backward("gelu", square)
    backward("prelu", made(100, 64, 30), made(64))
    backward("linear", made(64, 100, 768), made(3072, 768), made(3072))
    backward("bilinear", made(64, 32), made(64, 32), made(16, 32, 32))
    backward("einsum", "bhqd,bhkd->bhqk", made(2, 8, 64, 32), made(2, 8, 64, 32))
    backward("cumsum", table, -1)
    backward("max", table, -1)
    backward("norm", table, dim=-1)
    backward("var", table, -1)
    backward("std", table)
    backward("scatter", table, 1, below(1000, 100, 5), 0.0)
    backward("index_select", table, 0, below(100, 50))
    backward("instance_norm", image)
    backward("pad", image, (1, 1, 1, 1), mode="reflect")
    backward("roll", table, 3, 1)


def list_optimizers() -> None:
    kinds: list[tuple[str, dict[str, Any]]] = [("AdamW", {"fused": True}), ("Adam", {"foreach": True}),
                                               ("SGD", {"fused": True, "momentum": 0.9})]
    kinds += [(kind, {}) for kind in ("Adafactor", "RMSprop", "NAdam", "Adamax", "RAdam", "ASGD", "Rprop", "Adadelta", "Muon")]
    for kind, named in kinds:
        listed(f"{kind}.step", [f"{name}={value}" for name, value in named.items()] + ["10*f32[500,500]"],
               functools.partial(optimizer_step, kind, named))


def optimizer_step(kind: str, named: dict[str, Any]) -> Any:
    parameters = [torch.nn.Parameter(torch.randn(500, 500, device="cuda")) for _ in range(10)]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    optimizer = getattr(torch.optim, kind)(parameters, lr=0.1, **named)
    optimizer.step()
    return optimizer.step


def list_all() -> None:
    for part in (list_sorts, list_one_dimension, list_searches, list_embeddings, list_attention, list_attention_kernels, list_norms,
                 list_reductions, list_products, list_convolutions, list_nets, list_copies, list_images, list_transforms,
                 list_decompositions, list_losses, list_recurrent_nets, list_more_transforms, list_more_decompositions,
                 list_long_rows, list_resampling, list_slow_convolutions, list_choices_of_values, list_sums_inside):
        part()
    for dtype in (f32, bf16):
        list_backward(dtype)
    list_optimizers()


# ---- their run ----


def mark() -> None:
    torch.empty(MARK_BYTES, dtype=torch.uint8, device="cuda")


@contextlib.contextmanager
def between_marks(name: str, marked: list[str]) -> Iterator[None]:
    marked.append(name)
    mark()
    try:
        yield
    finally:
        mark()


@contextlib.contextmanager
def in_history(events: list[str]) -> Iterator[None]:
    """Adds to `events` what the block allocates, and frees of it: "alloc 512", "free 512"."""
    torch.cuda.memory._record_memory_history(context=None, max_entries=1_000_000, clear_history=True)
    yield
    taken = set[int]()
    for entry in torch.cuda.memory._snapshot()["device_traces"][torch.cuda.current_device()]:
        if entry["action"] == "alloc":
            taken.add(entry["addr"])
            events.append(f"alloc {entry['size']}")
        elif entry["action"] == "free_requested" and entry["addr"] in taken:
            events.append(f"free {entry['size']}")


def run(name: str, around: contextlib.AbstractContextManager[None]) -> None:
    """Makes a call twice, the second time within a block of `around`."""
    torch.manual_seed(0)
    wanted = CASES[name].make()
    wanted()
    with around:
        kept = wanted()
    del kept


def wanted_calls(parts: list[str]) -> list[str]:
    """Returns the names that have one of the parts; all without any."""
    list_all()
    return [name for name in CASES if not parts or any(part in name for part in parts)]


def run_marked(names: list[str]) -> None:
    marked: list[str] = []
    failed: dict[str, str] = {}
    for name in names:
        try:
            run(name, between_marks(name, marked))
        except Exception as error:  # of any kind: an operator that this PyTorch has not, or not for these inputs
            failed[name] = f"{type(error).__name__}: {error}"
    print(json.dumps({"marked": marked, "failed": failed}))


def run_with_history(names: list[str], path: pathlib.Path) -> None:
    with path.open("w") as file:
        for name in names:
            events = list[str]()
            told: dict[str, Any] = {"name": name, "events": events}
            try:
                run(name, in_history(events))
            except Exception as error:  # as above
                told = {"name": name, "failed": f"{type(error).__name__}: {error}"}
            print(json.dumps(told), file=file, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="of names: only calls that have one of them")
    parser.add_argument("--history", type=pathlib.Path, metavar="FILE", help="writes what calls take on this card to FILE")
    given = parser.parse_args()
    names = wanted_calls(given.parts)
    if given.history:
        run_with_history(names, given.history)
    else:
        run_marked(names)


if __name__ == "__main__":
    main()
