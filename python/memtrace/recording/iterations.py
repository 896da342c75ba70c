"""Loops without training steps: validation, inference, decoding. An iteration begins when a line of the program calls its model
again. Live memory that rises from iteration to iteration is growth, in any loop."""
from __future__ import annotations

import dataclasses
import os
import sys
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Optional

import torch

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
RISES = 5  # consecutive ones, from which later iterations are estimated
LEAST_GROWTH = 1 << 20  # bytes per iteration; less is not reported


@dataclasses.dataclass
class Growth:
    """Memory that grows in each iteration of a loop."""

    file: str
    line: int
    size: int  # bytes per iteration
    full_at: int  # the first iteration that does not fit the card, counted from 1: an estimate
    loop: Loop
    phase: str  # of the program


class Loop:
    """The calls of one module by one line, in one phase of the program."""

    def __init__(self, frame: Any) -> None:
        self.file, self.line = frame.f_code.co_filename, frame.f_lineno
        self.count = 0
        self.run = self.longest_run = 0  # iterations since live memory last fell, as between two epochs
        self.live: deque[int] = deque(maxlen=RISES + 1)  # bytes at the beginning of the last iterations
        self.census: Optional[dict[Any, Any]] = None  # the sizes of holders
        self.is_compared = False  # True: its holders were compared with the holders of a later iteration

    def visit(self, live: int) -> None:
        self.count += 1
        if self.live and live <= self.live[-1]:
            self.live.clear()
            self.run = 0
        self.run += 1
        self.longest_run = max(self.longest_run, self.run)
        self.live.append(live)

    @property
    def rises(self) -> int:
        """The number of consecutive last iterations that began with more live bytes than the previous one."""
        return len(self.live) - 1

    @property
    def size(self) -> int:
        """The bytes by which live memory grew in each of these iterations: the mean without the largest and the least, since the first may
        leave a workspace, and the allocator may round one request up and not the next."""
        each = sorted(self._each())
        middle = each[1:-1] or each[:1]
        return sum(middle) // len(middle) if middle else 0

    @property
    def least_rise(self) -> int:
        """The smallest growth of live memory in one of these iterations."""
        return min(self._each(), default=0)

    def _each(self) -> list[int]:
        live = list(self.live)
        return [after - before for before, after in zip(live, live[1:])]

    def is_growing(self) -> bool:
        return self.rises >= RISES and self.size >= LEAST_GROWTH


def caller() -> Any:
    """Returns the frame that called the model."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


class Iterations:
    """The loops of a program. `free` returns the free bytes of the card; `on_rise` gets a loop whose live bytes rise, after each
    iteration."""

    def __init__(self, library: Any, free: Callable[[], int]) -> None:
        self.library, self.free = library, free
        self.loops: weakref.WeakKeyDictionary[torch.nn.Module, dict[Any, Loop]] = weakref.WeakKeyDictionary()
        self.growths: dict[tuple[str, int], Growth] = {}  # by line

    def begin(self, module: torch.nn.Module, phase: str) -> Loop:
        """Notes that an iteration begins, and returns its loop."""
        frame = caller()
        loops = self.loops.setdefault(module, {})
        key = frame.f_code, frame.f_lasti, phase
        loop = loops.get(key)
        if loop is None:
            loop = loops[key] = Loop(frame)
        loop.visit(self.library.memtrace_torch_live())
        if loop.is_growing() and phase != "train":  # the growth of training steps is found in the trace
            self.growths[loop.file, loop.line] = Growth(loop.file, loop.line, loop.size,
                                                        loop.run + self.free() // loop.size + 1, loop, phase)
        return loop
