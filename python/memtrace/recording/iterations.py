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

from .frames import is_of_library
from .live_objects import objects_of

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
TORCH = os.path.dirname(torch.__file__) + os.sep
RISES = 5  # from which later iterations are estimated
RISES_AROUND = 8  # of a loop around, since the sizes of batches may also rise a few times at random
MOST_EQUAL = 4  # iterations without a rise between two rises, as where only some requests fail
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

    def __init__(self, frame: Any, bottoms: Optional[Loop] = None, least_rises: int = RISES) -> None:
        """`bottoms`: a loop around this one, such as of the answers of a program that generates tokens. One of its iterations ends when
        live memory has fallen and rises again."""
        self.file, self.line = frame.f_code.co_filename, frame.f_lineno
        self.bottoms, self.least_rises = bottoms, least_rises
        self.count = 0
        self.run = self.longest_run = 0  # iterations since live memory last fell, as between two epochs
        self.live: deque[int] = deque(maxlen=least_rises + 1)  # bytes at the beginning of the last iterations that began with more
        self.counts: deque[int] = deque(maxlen=least_rises + 1)  # the numbers of these iterations
        self.before, self.is_falling = 0, False  # the bytes at the last iteration, and whether they had fallen to it
        self.census: Optional[dict[Any, Any]] = None  # the sizes of holders
        self.models: Optional[Loop] = None  # of the first calls of the models that are made one after another and called here
        self.is_compared = False  # True: its holders were compared with the holders of a later iteration

    def visit(self, live: int) -> None:
        self.count += 1
        if self.bottoms is not None and self.is_falling and live > self.before:
            self.bottoms.visit(self.before)
        has_fallen = bool(self.live) and live < self.live[-1] - self.last_rise // 2
        self.is_falling = has_fallen or (self.is_falling and live <= self.before)
        self.before = live
        if has_fallen or (self.live and self.count - self.counts[-1] > MOST_EQUAL):
            self.live.clear()
            self.counts.clear()
            self.run = 0
        self.run += 1
        self.longest_run = max(self.longest_run, self.run)
        if not self.live or live > self.live[-1]:
            self.live.append(live)
            self.counts.append(self.count)

    @property
    def last_rise(self) -> int:
        """The bytes by which live memory rose last. A fall by less than half of them is due to the sizes of batches."""
        return self._each()[-1] if self.rises > 0 else 0

    @property
    def rises(self) -> int:
        """The number of last iterations that began with more live bytes than all iterations of the run before."""
        return len(self.live) - 1

    @property
    def size(self) -> int:
        """The bytes by which live memory grew in each iteration since the first of these: the mean of the rises without the largest and the
        least, since the first may leave a workspace, and the allocator may round one request up and not the next."""
        each = sorted(self._each())
        middle = each[1:-1] or each[:1]
        return sum(middle) * len(each) // (len(middle) * (self.counts[-1] - self.counts[0])) if middle else 0

    @property
    def least_rise(self) -> int:
        """The smallest growth of live memory in one of these iterations."""
        return min(self._each(), default=0)

    def _each(self) -> list[int]:
        live = list(self.live)
        return [after - before for before, after in zip(live, live[1:])]

    def is_growing(self) -> bool:
        return self.rises >= self.least_rises and self.size >= LEAST_GROWTH


def caller() -> Any:
    """Returns the frame that called the model, outside of PyTorch, such as of torch.func.functional_call()."""
    frame: Any = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith((PACKAGE, TORCH)):
        frame = frame.f_back
    return frame


def around(frame: Any) -> Any:
    """Returns the frame of the program that called a frame; the frame itself without one."""
    one = frame.f_back
    while one is not None and (one.f_code.co_filename.startswith(PACKAGE) or is_of_library(one.f_code.co_filename)):
        one = one.f_back
    return frame if one is None else one


class Models:
    """Models that one line calls one after another, such as a new model in each iteration."""

    def __init__(self, frame: Any) -> None:
        self.loop = Loop(frame)
        self.begun: list[int] = []  # live bytes at the first calls of the first two
        self.others: Optional[weakref.WeakSet[torch.nn.Module]] = None  # that were there at the second's
        self.are_made = True  # one after another, not all before the first call, as layers are

    def visit(self, module: torch.nn.Module, live: int) -> None:
        """Notes the first call of a model. Memory that rises from the second to the third and on is growth."""
        if len(self.begun) < 2:
            self.begun.append(live)
            if len(self.begun) == 2:
                self.others = weakref.WeakSet(objects_of(torch.nn.Module)[0])
            return
        if self.loop.count == 0:
            self.are_made = self.others is not None and module not in self.others
            self.others = None
            for one in self.begun:
                self.loop.visit(one)
        self.loop.visit(live)


class Iterations:
    """The loops of a program. `free` returns the free bytes of the card; `on_rise` gets a loop whose live bytes rise, after each
    iteration."""

    def __init__(self, library: Any, free: Callable[[], int]) -> None:
        self.library, self.free = library, free
        self.loops: weakref.WeakKeyDictionary[torch.nn.Module, dict[Any, Loop]] = weakref.WeakKeyDictionary()
        self.models: dict[Any, Models] = {}
        self.growths: dict[tuple[str, int], Growth] = {}  # by line
        self.in_training: dict[tuple[str, int], Growth] = {}  # the same for loops that may train

    def begin(self, module: torch.nn.Module, phase: str) -> Loop:
        """Notes that an iteration begins, and returns its loop."""
        frame = caller()
        loops = self.loops.setdefault(module, {})
        key = frame.f_code, frame.f_lasti, phase
        loop = loops.get(key)
        if loop is None:
            loop = loops[key] = Loop(frame, Loop(around(frame), least_rises=RISES_AROUND))
            if phase != "train":
                loop.models = self._models_at(key, frame, module)
        loop.visit(self.library.memtrace_torch_live())
        self._note(loop, phase)
        return loop

    def _models_at(self, key: Any, frame: Any, module: torch.nn.Module) -> Optional[Loop]:
        models = self.models.setdefault(key, Models(frame))
        models.visit(module, self.library.memtrace_torch_live())
        return models.loop if models.are_made else None

    def _note(self, loop: Loop, phase: str) -> None:
        """Notes a loop that grows, or else one around it. The growth of training steps is found in the trace."""
        growing = next((one for one in (loop, loop.bottoms, loop.models) if one is not None and one.is_growing()), None)
        if growing is not None:
            growths = self.in_training if phase == "train" else self.growths
            growths[growing.file, growing.line] = Growth(
                growing.file, growing.line, growing.size, growing.run + self.free() // growing.size + 1, growing, phase)
