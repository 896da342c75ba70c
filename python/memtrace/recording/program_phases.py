"""The phases of a program: load, train, validate, generate, infer, save. They contain its steps, and the trace records their peaks."""
from __future__ import annotations

import contextlib
import functools
import re
import sys
import weakref
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Optional

import torch

from .._private_names import has, original_of
from .frames import is_of_library, is_own
from .live_objects import objects_of

MOST_FRAMES = 60  # around the call of a model, to search for a function's name that indicates the phase
GENERATES = re.compile(r"^(generate|sample|decode)")
MOST_TURNS = 1000  # of sites that call models, between two backwards
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


Site = tuple[tuple[Any, int], ...]  # the program's frames around a call of a model: the code and the instruction of each


class Calls:
    """The calls of models in training mode, by where the program calls them. A loop whose calls no backward goes through evaluates."""

    def __init__(self) -> None:
        self.knows_nodes = has("numbers of nodes") and has("roots of backward")
        self.trained: set[Site] = set()  # sites from which a backward came
        self.untrained: set[Site] = set()  # sites that called several times before a backward, which did not come from them
        self.since: Counter[Site] = Counter()  # calls since the last backward
        self.turns: list[Site] = []  # the same in order, without repetitions
        self.begins: list[int] = []  # the number of the next autograd node when each of these began

    def add(self) -> bool:
        """Notes a call. Returns true if its site called before, and no backward came from there."""
        site = tuple((one.f_code, one.f_lasti) for one in program_frames(sys._getframe(1)))
        self.since[site] += 1
        if self.knows_nodes and len(self.turns) < MOST_TURNS and (not self.turns or self.turns[-1] != site):
            self.turns.append(site)
            self.begins.append(original_of("torch.autograd._get_sequence_nr")())
        return self.knows_nodes and (self.since[site] > 1 or site in self.untrained) and site not in self.trained

    def begin_backward(self, roots: Iterable[Any]) -> None:
        """Notes the sites from which a backward comes, given the nodes with which it begins. A site that called once is not repeated
        without a backward, so it is not searched for."""
        repeated = {site for site, count in self.since.items() if count > 1 or site in self.untrained}
        if self.begins and not repeated <= self.trained:
            self.trained |= {self.turns[bisect_right(self.begins, number) - 1] for number in numbers_behind(roots)
                             if number >= self.begins[0]}
        self.untrained |= repeated - self.trained
        self.since.clear()
        self.turns.clear()
        self.begins.clear()


def numbers_behind(roots: Iterable[Any]) -> set[int]:
    """Returns the numbers of the nodes of some graphs."""
    waiting = [node for node in roots if node is not None]
    found: set[tuple[int, str]] = set()
    while waiting:
        node = waiting.pop()
        key = node._sequence_nr(), node.name()  # nodes that backward creates are numbered by another thread
        if key not in found:
            found.add(key)
            waiting += [one for one, _ in node.next_functions if one is not None and not hasattr(one, "variable")]
    return {number for number, _ in found}


class ProgramPhases:
    """Follows the phases of one program. It loads until a model is called."""

    def __init__(self, library: Any) -> None:
        self.library, self.now = library, "load"
        self.has_trained = False
        self.called: Optional[weakref.ref[torch.nn.Module]] = None  # the outermost module of the last forward pass
        self.trained: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()  # modules that train in evaluation mode
        self.learning: set[int] = set()  # marks of modules that were called in training
        self.optimized: Optional[set[int]] = None  # parameters of optimizers before the first training step; None: not searched
        self.calls = Calls()
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
        which is known from the second call on. A loop may evaluate in training mode."""
        self.called = weakref.ref(module)
        if torch.is_grad_enabled() and (module.training or module in self.trained):
            self.learning.add(mark_of(module))
            is_without_backward = self.calls.add() and (self.has_trained or phase_of_callers() == "validate")
            self.enter("validate" if is_without_backward else "train")
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

    def begin_backward(self, roots: Iterable[Any] = ()) -> None:
        """`roots` are the nodes with which backward begins."""
        self.has_trained = True
        self.calls.begin_backward(roots)
        self.training_codes |= {one.f_code for one in islice(program_frames(sys._getframe(1)), 1)}
        module = self.called() if self.called is not None else None
        if module is not None and not module.training:
            self.trained.add(module)
        self.enter("train")
