"""Measures the card memory that a test uses, as counted by PyTorch's allocator."""
from __future__ import annotations

import gc
import pathlib
import subprocess
import tempfile
from collections.abc import Sequence
from typing import Optional, Protocol

import torch

from ._library import find_program
from ._rows import Block
from ._trace import Trace

MOST_HOLDERS = 5


class Meter(Protocol):
    """Measures one test, from begin to end. A conftest.py may provide its own meter (pytest_memtrace_meter)."""

    def begin(self) -> None: ...

    def peak_bytes(self) -> int:
        """Returns the highest peak of any one card since the beginning, in bytes."""

    def left_bytes(self) -> int:
        """Returns the increase of bytes on all cards since the beginning."""

    def holders(self) -> Sequence[Block]:
        """Returns the largest blocks at the peak, for a failing test's message; none if they are unknown."""

    def end(self) -> None: ...


class TorchMeter:
    """PyTorch's own counters, and its memory history for the holders. At its beginning it resets the peaks of all cards to
    the current bytes. It does not change a history that the program records."""

    def __init__(self) -> None:
        torch.cuda.init()
        self._cards = range(torch.cuda.device_count())
        self._before = 0
        self._keeps_history = False

    def begin(self) -> None:
        self._before = self._live()
        for card in self._cards:
            torch.cuda.reset_peak_memory_stats(card)
        self._keeps_history = begin_history()

    def peak_bytes(self) -> int:
        return max((torch.cuda.max_memory_allocated(card) for card in self._cards), default=0)

    def left_bytes(self) -> int:
        return self._live() - self._before

    def holders(self) -> Sequence[Block]:
        if not self._keeps_history:
            return ()
        with tempfile.TemporaryDirectory() as folder:
            snapshot, path = pathlib.Path(folder) / "test.pickle", pathlib.Path(folder) / "test.db"
            torch.cuda.memory._dump_snapshot(str(snapshot))
            told = subprocess.run([find_program(), "import", snapshot, "--trace", path], capture_output=True)
            if told.returncode != 0:
                return ()
            with Trace(path) as trace:
                return trace.top(MOST_HOLDERS)

    def end(self) -> None:
        if self._keeps_history:
            torch.cuda.memory._record_memory_history(None)

    def _live(self) -> int:
        gc.collect()
        return sum(torch.cuda.memory_allocated(card) for card in self._cards)


def begin_history() -> bool:
    """Starts PyTorch's memory history. False if it is already on, or if the allocator has none, such as a pluggable one."""
    try:
        if getattr(torch._C, "_cuda_isHistoryEnabled", lambda: False)():
            return False
        torch.cuda.memory._record_memory_history(stacks="python")
    except RuntimeError:
        return False
    return True


def find_meter() -> Optional[Meter]:
    """Returns a meter of the cards that PyTorch sees; None if it sees none."""
    return TorchMeter() if torch.cuda.is_available() else None
