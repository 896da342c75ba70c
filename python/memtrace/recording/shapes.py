"""Shapes of tensors, as labels store them."""
from __future__ import annotations

from typing import Any

import torch

from .._declarations import torch as header
from .spread import local_of

JIT: Any = torch.jit  # its functions have no types

# By the numbers of c10::ScalarType (c10/core/ScalarType.h); "": a type of quantized numbers or of bits.
SCALAR_TYPES = ("uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool".split() + ["", "", ""]
                + ["bfloat16"] + [""] * 7 + "float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64".split())
NUMBERS = {getattr(torch, name): number for number, name in enumerate(SCALAR_TYPES) if name and hasattr(torch, name)}


def shape_of(tensor: torch.Tensor) -> Any:
    """Returns the library's struct for a tensor that has its memory for itself; None for a view of a larger one, an unknown type, or
    too many dimensions, and while torch.jit traces, which would record that sizes are read."""
    if JIT.is_tracing():
        return None
    tensor = local_of(tensor)
    number, most = NUMBERS.get(tensor.dtype), header().constants["MEMTRACE_TORCH_DIMS"]
    if number is None or tensor.dim() > most or tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
        return None
    shape = header().structs["memtrace_torch_shape"](number, tensor.dim())
    shape.sizes[:tensor.dim()] = tensor.shape
    return shape
