"""torch.cuda.FloatTensor and its siblings, which a PyTorch that was built without CUDA has and refuses to make."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

TYPES = {"Bool": torch.bool, "Byte": torch.uint8, "Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64,
         "Half": torch.float16, "BFloat16": torch.bfloat16, "Float": torch.float32, "Double": torch.float64}


class TensorType(type):
    """The type of these types. A call makes a tensor of the sizes or of the values, as PyTorch's own do."""

    dtype: torch.dtype
    layout, is_cuda, is_sparse = torch.strided, True, False

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, torch.Tensor) and value.is_cuda and value.dtype is cls.dtype and value.layout is torch.strided

    def __call__(cls, *given: Any, **named: Any) -> Any:
        if len(given) == 1 and isinstance(given[0], cls):
            return given[0].detach()
        if len(given) == 1 and isinstance(given[0], (list, tuple)) and not isinstance(given[0], torch.Size):
            return torch.tensor(given[0], dtype=cls.dtype, device="cuda")
        return torch.empty(*(given or (0,)), dtype=cls.dtype, device="cuda", **named)


def default_type_setter(original: Callable[[Any], None], note: Callable[[str], None]) -> Callable[[Any], None]:
    """Returns torch.set_default_tensor_type, which sets the default device for a type on a card."""
    def set_default_tensor_type(wanted: Any) -> None:
        name = wanted.rpartition(".")[2] if isinstance(wanted, str) and wanted.startswith("torch.cuda.") else ""
        kind = getattr(torch.cuda, name) if name else wanted
        if not isinstance(kind, TensorType):
            original(wanted)
            torch.set_default_device(None)
            return
        note("the default tensor type becomes the default dtype and device; torch.Tensor(...) stays on the host without a PyTorch "
             "built with CUDA")
        torch.set_default_dtype(kind.dtype)
        torch.set_default_device("cuda")

    return set_default_tensor_type


def add_types() -> None:
    """Replaces the types of torch.cuda."""
    for name, dtype in TYPES.items():
        full = f"torch.cuda.{name}Tensor"  # as x.type() compares it
        setattr(torch.cuda, f"{name}Tensor", TensorType(full, (), {"dtype": dtype, "__module__": "torch.cuda"}))
