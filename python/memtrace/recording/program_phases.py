"""The phases of a program: load, train, validate, generate, save. They contain its steps, and the trace records their peaks."""
from __future__ import annotations

import contextlib
import functools
import re
import sys
import weakref
from collections.abc import Iterator
from typing import Any, Optional

import torch

MOST_FRAMES = 60  # around the call of a model, to search for a function's name that indicates the phase
GENERATES = re.compile(r"^(generate|sample|decode)")
VALIDATES = re.compile(r"eval|valid|test")


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


class ProgramPhases:
    """Follows the phases of one program. It loads until a model is called."""

    def __init__(self, library: Any) -> None:
        self.library, self.now = library, "load"
        self.has_trained = False
        self.called: Optional[weakref.ref[torch.nn.Module]] = None  # the outermost module of the last forward pass
        self.trained: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()  # modules that train in evaluation mode

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
            self.enter("train")
        else:
            self.enter(phase_of_callers() or ("validate" if self.has_trained else "generate"))

    def begin_backward(self) -> None:
        self.has_trained = True
        module = self.called() if self.called is not None else None
        if module is not None and not module.training:
            self.trained.add(module)
        self.enter("train")
