"""What a test took of the cards, as PyTorch's allocator counts it."""
from __future__ import annotations

import dataclasses
import gc
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Optional, Protocol

import torch

from ._recording import Recording
from ._trace import Block, open as open_trace

MOST_HOLDERS = 5


@dataclasses.dataclass(frozen=True)
class Measured:
    """The highest bytes on any one card, the bytes on all of them that stayed, and the largest blocks at the peak, where a
    watcher saw them."""

    peak_bytes: int
    left_bytes: int
    holders: Sequence[Block] = ()


class Meter(Protocol):
    """What measures a test. A conftest.py may bring its own (pytest_memtrace_meter)."""

    def begin(self) -> None: ...

    def end(self) -> Measured: ...


class TorchMeter:
    """PyTorch's own counters. It sets the peaks of all cards to the current bytes as it begins."""

    def __init__(self) -> None:
        torch.cuda.init()  # type: ignore[no-untyped-call]
        self._cards = range(torch.cuda.device_count())
        self._folder = tempfile.TemporaryDirectory()
        self._recording = Recording(str(pathlib.Path(self._folder.name) / "test.db"))
        self._before = 0

    def begin(self) -> None:
        self._before = self._live()
        for card in self._cards:
            torch.cuda.reset_peak_memory_stats(card)
        self._recording.__enter__()

    def end(self) -> Measured:
        peak = max((torch.cuda.max_memory_allocated(card) for card in self._cards), default=0)
        self._recording.__exit__()
        left = self._live() - self._before
        holders = self._holders()
        self._folder.cleanup()
        return Measured(peak, left, holders)

    def _live(self) -> int:
        gc.collect()
        return sum(torch.cuda.memory_allocated(card) for card in self._cards)

    def _holders(self) -> Sequence[Block]:
        if not pathlib.Path(self._recording.path).exists():
            return ()
        with open_trace(self._recording.path) as trace:
            return trace.top(MOST_HOLDERS)


def find_meter() -> Optional[Meter]:
    """Returns a meter of the cards that PyTorch sees; None if it sees none."""
    return TorchMeter() if torch.cuda.is_available() else None
