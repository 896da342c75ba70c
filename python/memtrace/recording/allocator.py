"""memtrace's allocator as a replacement for PyTorch's own, with its statistics."""
from __future__ import annotations

import atexit
import ctypes
import dataclasses
import os
import pathlib
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Optional, Union

import torch

from .._declarations import load_torch_library, plain
from .._declarations import torch as header
from .._library import find_torch_library
from .._sizes import in_words
from .labels import RULES, Labels

if TYPE_CHECKING:
    Device = Union[None, int, str, torch.device]

ALL = -1
OUT_OF_MEMORY = 5  # an outcome of a program


def plug_in(path: str, library: Any) -> Any:
    """Installs the library as PyTorch's allocator."""
    plugged = torch.cuda.memory.CUDAPluggableAllocator(path, "memtrace_torch_alloc", "memtrace_torch_free")
    hooks = plugged._allocator  # the hooks have no other name in Python
    for hook in ("init", "reset", "memory_fraction", "base_alloc", "record_stream"):
        setter = getattr(hooks, f"set_{hook}_fn", None)
        if setter is not None:
            setter(ctypes.cast(getattr(library, "memtrace_torch_" + hook), ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(plugged)
    return plugged


@dataclasses.dataclass(frozen=True)
class Figures:
    """Bytes of one card, in one category or in all, like struct memtrace_torch_figures."""

    requested: int
    allocated: int
    blocks: int
    peak_requested: int
    peak_allocated: int
    allocations: int
    reserved: int
    peak_reserved: int
    capacity: int
    segments: int
    largest_free: int
    refusals: int
    unknown_frees: int


class Allocator(Labels):
    """The installed allocator. Cards have PyTorch's numbers; None is the current one."""

    plugged: Any = None  # PyTorch's object, which must live as long as the allocator is PyTorch's

    def figures(self, device: Device = None, category: int = ALL) -> Figures:
        """Returns all figures of a card, or of one category on it (its number)."""
        figures = header().structs["memtrace_torch_figures"]()
        self._check(self.library.memtrace_torch_statistics(card(device), category, ctypes.byref(figures)))
        return plain(figures, Figures)

    def memory_allocated(self, device: Device = None) -> int:
        return self.figures(device).allocated

    def max_memory_allocated(self, device: Device = None) -> int:
        return self.figures(device).peak_allocated

    def memory_reserved(self, device: Device = None) -> int:
        return self.figures(device).reserved

    def max_memory_reserved(self, device: Device = None) -> int:
        return self.figures(device).peak_reserved

    def reset_peak_memory_stats(self, device: Device = None) -> None:
        self.library.memtrace_torch_reset_peaks(card(device))

    def categories(self, device: Device = None) -> dict[str, Figures]:
        """Returns the figures by name of the category, for categories with allocations."""
        found: dict[str, Figures] = {}
        number = 0
        while (name := self.library.memtrace_torch_category_name(number)) is not None:
            figures = self.figures(device, number)
            if figures.allocations:
                found[name.decode()] = figures
            number += 1
        return found

    def summary(self, device: Device = None) -> str:
        """Returns a text table."""
        whole = self.figures(device)
        rows = [("category", "now", "at its peak", "blocks", "allocations")]
        by_peak = sorted(self.categories(device).items(), key=lambda item: -item[1].peak_allocated)
        for name, figures in [*by_peak, ("all", whole)]:
            rows.append((name, in_words(figures.allocated), in_words(figures.peak_allocated), f"{figures.blocks:,}",
                         f"{figures.allocations:,}"))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                           for column, (cell, width) in enumerate(zip(row, widths))) for row in rows]
        lines.append(f"reserved {in_words(whole.reserved)}, at its peak {in_words(whole.peak_reserved)}, "
                     f"of {in_words(whole.capacity)}; requests refused: {whole.refusals}")
        return "\n".join(lines)


def card(device: Device) -> int:
    """Returns the number of a card, from any argument that PyTorch's functions accept."""
    if isinstance(device, int):
        return device
    index = None if device is None else torch.device(device).index
    return int(torch.cuda.current_device() if index is None else index)


def replace_statistics(allocator: Allocator) -> None:
    """Makes torch.cuda's own statistics work. They fail with a pluggable allocator otherwise."""
    owners: tuple[Any, ...] = (torch.cuda, torch.cuda.memory)
    for owner in owners:
        for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
                     "reset_peak_memory_stats"):
            setattr(owner, name, getattr(allocator, name))
        owner.memory_summary = lambda device=None, abbreviated=False: allocator.summary(device)


def outcome_of(error: Optional[BaseException]) -> int:
    """Returns the outcome of a program that ends with this exception: 0 done, 1 failed, 5 out of memory."""
    if error is None:
        return 0
    return OUT_OF_MEMORY if isinstance(error, getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)) else 1


def close_at_exit(labels: Labels) -> None:
    """Ends the trace at the program's exit, with its outcome."""
    shown = sys.excepthook

    def excepthook(kind: Any, error: BaseException, trace: Any) -> None:
        labels.error = error
        shown(kind, error, trace)

    def close() -> None:
        try:
            labels.close(outcome_of(labels.error))
        except RuntimeError as failure:
            print(f"memtrace: {failure}", file=sys.stderr)

    sys.excepthook = excepthook
    atexit.register(close)


def install_allocator(
    trace: Union[None, str, os.PathLike[str]] = None,
    alloc: str = "",
    rules: Iterable[tuple[str, str]] = RULES,
    program: Optional[str] = None,
) -> Allocator:
    """Makes memtrace's allocator PyTorch's and returns it. Call it before any tensor is on a card.

    trace: the path of the trace; None: none is written.
    alloc: the allocator's settings, as for `memtrace run --alloc`; "policy=torch" reserves memory like PyTorch.
    rules: (pattern, category) for modules, in order.
    program: the run's name in the trace.
    """
    path = find_torch_library()
    allocator = Allocator(load_torch_library(path), rules)
    name = program or pathlib.Path(sys.argv[0]).name or "PyTorch"
    allocator._check(allocator.library.memtrace_torch_configure(
        alloc.encode(), os.fsencode(trace) if trace else None, os.fsencode(name)))
    allocator.plugged = plug_in(path, allocator.library)
    replace_statistics(allocator)
    close_at_exit(allocator)
    return allocator
