"""What Inductor benchmarks before it pads matmuls, kept with a compiled graph: a graph from the cache would otherwise lack that memory
and the choices that the verdict names.

    judging: Inductor's benchmark   ──▶ Judged ──▶ kept in AOTAutograd's entry ──▶ a later run: the same benchmark again
"""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Optional

import torch

KEPT = "memtrace_padding"  # the attribute of an entry
PAD_MM = "torch._inductor.fx_passes.pad_mm."


class Shape(NamedTuple):
    """An operand."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


class Judged(NamedTuple):
    """A matmul whose padding was benchmarked. It takes the place of Inductor's match in a later run."""

    operator: str  # "mm"
    operands: tuple[Optional[Shape], ...]  # the matrices, and the bias
    is_planned: dict[str, bool]  # by operand: padding it takes no time


def shape_of(tensor: Any) -> Optional[Shape]:
    return Shape(tuple(map(int, tensor.shape)), tuple(map(int, tensor.stride())), tensor.dtype) if tensor is not None else None


def is_static(tensor: Any) -> bool:
    return tensor is None or all(type(size) is int for size in (*tensor.shape, *tensor.stride()))


def fake(shape: Optional[Shape], mode: Any) -> Any:
    """Returns a tensor on the card without memory, as the compiler has it."""
    if shape is None:
        return None
    with mode:
        return torch.empty_strided(shape.size, shape.stride, dtype=shape.dtype, device="cuda")


class Padding:
    """Keeps the benchmarks of each compilation, and repeats the benchmarks of a cached graph."""

    def __init__(self, judge: Callable[..., Any]) -> None:
        """`judge` is called as Inductor's _should_pad."""
        self.judge = judge
        self.judged: dict[Any, list[Judged]] = {}  # by compilation
        self.dynamic: set[Any] = set()  # compilations with sizes that are open, whose graphs are not kept
        self.is_planned: dict[str, bool] = {}  # of the matmul that is judged now

    def begin_one(self) -> None:
        self.is_planned = {}

    def planned(self, original: Callable[..., bool], match: Any, name: str) -> bool:
        """Answers whether padding an operand takes no time, as Inductor does, and notes it."""
        self.is_planned[name] = match.is_planned[name] if isinstance(match, Judged) else bool(original(match, name))
        return self.is_planned[name]

    def note(self, compilation: Any, mat1: Any, mat2: Any, operator: Any, bias: Any = None) -> None:
        """Notes the benchmark that was made."""
        if not all(map(is_static, (mat1, mat2, bias))):
            self.dynamic.add(compilation)
            return
        shapes = tuple(map(shape_of, (mat1, mat2, bias)))
        self.judged.setdefault(compilation, []).append(Judged(operator.__name__, shapes, dict(self.is_planned)))

    def keep(self, compilation: Any, entry: Any) -> None:
        setattr(entry, KEPT, self.judged.get(compilation, []))

    def repeat(self, entry: Any) -> None:
        """Makes the benchmarks of an entry of the cache."""
        from torch._subclasses import FakeTensorMode

        mode = FakeTensorMode()
        for one in getattr(entry, KEPT, ()):
            mat1, mat2, bias = (fake(shape, mode) for shape in one.operands)
            self.judge(one, mat1, mat2, getattr(torch.ops.aten, one.operator), bias)
