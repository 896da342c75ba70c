"""The phases of a program: load, train, validate, generate, infer, save. They contain its steps, and the trace records their peaks."""
from __future__ import annotations

import contextlib
import functools
import re
import sys
import weakref
from collections.abc import Iterator
from itertools import islice
from typing import Any, Optional

import torch

from .frames import is_of_library, is_own
from .live_objects import objects_of

MOST_FRAMES = 60  # around the call of a model, to search for a function's name that indicates the phase
GENERATES = re.compile(r"^(generate|sample|decode)")
VALIDATES = re.compile(r"(?<![a-zA-Z])(eval|valid|test)|Eval|Valid|Test")  # not retrieval or latest


@functools.lru_cache(maxsize=None)
def phase_of_name(function: str) -> Optional[str]:
    """Returns the phase indicated by a function's name; None if the name indicates none."""
    if GENERATES.search(function):
        return "generate"
    return "validate" if VALIDATES.search(function) else None


def phase_of_callers() -> Optional[str]:
    """Returns the phase indicated by the names of the calling functions, starting with the innermost."""
    frame: Any = sys._getframe(1)
    for _ in range(MOST_FRAMES):
        if frame is None:
            return None
        found = phase_of_name(frame.f_code.co_name)
        if found:
            return found
        frame = frame.f_back
    return None


def program_frames(frame: Any) -> Iterator[Any]:
    """Yields a frame and its callers, as far as they are the program's own."""
    while frame is not None:
        if not is_own(frame) and not is_of_library(frame.f_code.co_filename):
            yield frame
        frame = frame.f_back


def mark_of(module: torch.nn.Module) -> int:
    """Returns the id of a module's first parameter, which modules around it share."""
    return id(next(module.parameters(), None))


def marks_of_optimizers() -> set[int]:
    """Returns the ids of the parameters that optimizers update. Takes long."""
    return {id(one) for optimizer in objects_of(torch.optim.Optimizer)[0] for group in optimizer.param_groups
            for one in group["params"]}


class ProgramPhases:
    """Follows the phases of one program. It loads until a model is called."""

    def __init__(self, library: Any) -> None:
        self.library, self.now = library, "load"
        self.has_trained = False
        self.called: Optional[weakref.ref[torch.nn.Module]] = None  # the outermost module of the last forward pass
        self.trained: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()  # modules that train in evaluation mode
        self.learning: set[int] = set()  # marks of modules that were called in training
        self.optimized: Optional[set[int]] = None  # parameters of optimizers before the first training step; None: not searched
        self.training_codes: set[Any] = set()  # of the program's functions that called backward

    def enter(self, name: str) -> None:
        if name != self.now:
            self.now = name
            self.library.memtrace_torch_program_phase(name.encode())

    @contextlib.contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Runs the body of the `with` in a phase, and then returns to the previous phase."""
        before = self.now
        self.enter(name)
        try:
            yield
        finally:
            self.enter(before)

    def begin_forward(self, module: torch.nn.Module) -> None:
        """Enters the phase of an outermost module's call. A module in evaluation mode trains if backward followed its last call,
        which is known from the second call on."""
        self.called = weakref.ref(module)
        if torch.is_grad_enabled() and (module.training or module in self.trained):
            self.learning.add(mark_of(module))
            self.enter("train")
        else:
            self.enter(phase_of_callers() or self._phase_without_name(mark_of(module)))

    def _phase_without_name(self, mark: int) -> str:
        """Returns the phase of a call without gradients: of training for a module that does not learn, such as a teacher, if a function
        that calls backward calls it."""
        if self.has_trained:
            is_teacher = mark not in self.learning and any(
                one.f_code in self.training_codes for one in program_frames(sys._getframe(1)))
            return "train" if is_teacher else "validate"
        if self.optimized is None:
            self.optimized = marks_of_optimizers()
        if not self.optimized:
            return "inference"
        return "validate" if mark in self.optimized else "train"

    def begin_backward(self) -> None:
        self.has_trained = True
        self.training_codes |= {one.f_code for one in islice(program_frames(sys._getframe(1)), 1)}
        module = self.called() if self.called is not None else None
        if module is not None and not module.training:
            self.trained.add(module)
        self.enter("train")
