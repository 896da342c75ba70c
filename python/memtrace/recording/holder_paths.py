"""The best path to an object from a root, such as a variable, through containers and attributes.

    Paths(objects, frames).to(object)    the path to one of the objects

The search climbs from the objects to their referrers, level by level, and then descends from the roots, the preferred ones first.
Of local variables, the one that leads to most of the objects is preferred: a list keeps all of a loop's tensors, another variable may
refer to the last of them.
"""
from __future__ import annotations

import asyncio
import enum
import functools
import gc
import heapq
import sys
import types
from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple, Optional

import torch

from .comprehensions import Comprehension, comprehensions_in
from .frames import Locals, file_of, frames_of_other_threads, is_of_library, is_own, variables_of

LEVELS = 16  # of containers and objects around an object
MOST_COMPARED = 500
CONTAINERS = (list, tuple, dict, set, frozenset, deque, functools.partial)
FunctionCache = type(functools.lru_cache()(len))  # the type of functools.lru_cache's result
SUSPENDED = (types.GeneratorType, types.CoroutineType)
INNER = (types.CellType, types.TracebackType, BaseException, types.FrameType)  # no roots, but on the way to one
FINAL = (types.ModuleType, type, types.FunctionType, FunctionCache, torch.nn.Module, torch.optim.Optimizer,
         *SUSPENDED)  # paths begin there


class Rank(enum.IntEnum):
    """The roots, preferred ones first."""

    LASTING = 0  # a variable of a module, an attribute, a default argument, a closure
    LOCAL = 1  # a variable of a running function
    LIBRARY = 2  # a lasting one in a library
    LIBRARY_LOCAL = 3  # a variable of a library's running function
    COMPREHENSION = 4  # a running comprehension, whose container has no name yet
    TRACEBACK = 5  # the frame of a function that an exception left
    OBJECT = 6  # an object that is not reached otherwise


class Path(NamedTuple):
    """The objects from a root to an object. The first one is the root, or the value of a local variable."""

    rank: Rank
    is_variable: bool  # the first object is the value of a local variable other than `self`
    objects: list[Any]


class Root(NamedTuple):
    rank: Rank
    is_variable: bool


def module_of(space: dict[str, Any]) -> Optional[types.ModuleType]:
    """Returns the module whose variables are in a dict."""
    module = sys.modules.get(str(space.get("__name__", "")))
    return module if module is not None and vars(module) is space else None


def fields_of(one: Any) -> Iterator[tuple[str, Any]]:
    """Yields the attributes that an object has in its dict and in slots, and the result of a future of asyncio's, which is in neither."""
    yield from (getattr(one, "__dict__", None) or {}).items()
    if issubclass(type(one), asyncio.Future):
        yield "result()", one._result
    for kind in type(one).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            slot = vars(kind).get(name)
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    yield name, slot.__get__(one)
                except AttributeError:  # it is not set
                    continue


def field_of(owner: Any, value: Any) -> Optional[str]:
    """Returns the name of the attribute that refers to a value; None: there is none."""
    return next((name for name, one in fields_of(owner) if one is value), None)


def leads_to(referrer: Any, one: Any) -> bool:
    """True if a path may lead from a referrer to an object."""
    if isinstance(referrer, (*CONTAINERS, *INNER, type, FunctionCache, types.FunctionType)):
        return True
    if isinstance(referrer, SUSPENDED):
        return value_in_suspended(referrer, one)
    return getattr(referrer, "__dict__", None) is one or field_of(referrer, one) is not None


def frame_of_suspended(suspended: Any) -> Any:
    """Returns the frame of a suspended generator or coroutine of the program."""
    frame = getattr(suspended, "gi_frame", None) or getattr(suspended, "cr_frame", None)
    return None if frame is None or is_own(frame) else frame


def value_in_suspended(suspended: Any, value: Any) -> bool:
    frame = frame_of_suspended(suspended)
    return frame is not None and any(one is value and name != "self" for name, one in variables_of(frame))


def own_values() -> set[int]:
    """Returns the ids of the containers in variables of memtrace's running functions, which no comprehension fills."""
    found, frame = set(), sys._getframe(1)
    while frame is not None:
        if is_own(frame):
            found |= {id(value) for _, value in variables_of(frame) if isinstance(value, CONTAINERS)}
        frame = frame.f_back  # type: ignore[assignment]
    return found


def handled_errors() -> set[int]:
    """Returns the ids of the exception that the program is handling, and of those that it was raised from."""
    found: set[int] = set()
    error = sys.exc_info()[1]
    while error is not None and id(error) not in found:
        found.add(id(error))
        error = error.__context__
    return found


def referrers_of(objects: list[Any]) -> list[Any]:
    """Returns the objects that refer to some objects. gc.get_referrers compares each reference with each object, and does not see the
    results of asyncio's tasks."""
    has_none_of = {id(one) for one in objects}.isdisjoint
    if len(objects) >= MOST_COMPARED:
        return [one for one in gc.get_objects() if not has_none_of(map(id, gc.get_referents(one)))]
    found = gc.get_referrers(*objects) if objects else []
    known = {id(one) for one in found}
    return found + [one for one in gc.get_objects() if issubclass(type(one), asyncio.Task) and id(one) not in known
                    and not has_none_of(map(id, gc.get_referents(one)))]


class Paths:
    """The paths to some objects. `around` has the referrers of each object, by its id."""

    def __init__(self, objects: list[Any], frames: list[Any]) -> None:
        """Borrows the list of objects, so that it is not mistaken for a holder."""
        running = [*frames, *frames_of_other_threads()]
        self.locals = Locals(running)
        self.comprehensions = comprehensions_in(running)
        self.around: dict[int, list[Any]] = {}
        self.kept = list(objects)  # so that ids stay valid
        self.asked = {id(one) for one in objects}
        self.own = {id(objects), id(self.kept), id(self.around), id(vars(self))}
        self.in_use = own_values() if self.comprehensions else set()
        self.running = {id(frame) for frame in running}
        frontier = objects
        for _ in range(LEVELS):
            frontier = self._climb(frontier)
            if not frontier:
                break
        self.before: dict[int, Optional[Any]] = {}  # the object before each on its path, by id; None: it is the first
        self.roots: dict[int, Root] = {}
        self._descend(handled_errors())

    # ---- up ----

    def _climb(self, frontier: list[Any]) -> list[Any]:
        """Notes the referrers of the objects, and returns those above which roots may be."""
        wanted = {id(one) for one in frontier if id(one) not in self.around}
        asked = [one for one in frontier if id(one) in wanted]
        own = self.own | {id(frontier), id(asked)} | {id(value) for value in self.around.values()}
        found = [one for one in referrers_of(asked) if id(one) not in own and not self._is_foreign(one)]
        for referrer in found:
            for one in gc.get_referents(referrer):
                if id(one) in wanted:
                    self.around.setdefault(id(one), []).append(referrer)
        for one in asked:
            self.around.setdefault(id(one), [])
        self.kept += found
        return [one for one in found if not self._ends(one)]

    def _is_foreign(self, one: Any) -> bool:
        """True for an object of memtrace, and for a running frame, whose variables are known."""
        if isinstance(one, types.FrameType):
            return is_own(one) or id(one) in self.running
        return str(type(one).__module__).startswith("memtrace.")

    def _ends(self, one: Any) -> bool:
        if isinstance(one, torch.nn.Module):
            return not is_of_library(file_of(one))  # a Sequential is named by its variable
        return isinstance(one, FINAL) or (isinstance(one, dict) and module_of(one) is not None)

    # ---- down ----

    def _descend(self, handled: set[int]) -> None:
        """Finds the paths, from the preferred roots to others, and the shortest from each."""
        below: dict[int, list[Any]] = {}
        objects = {id(one): one for one in self.kept}
        for inner, referrers in self.around.items():
            for referrer in referrers:
                below.setdefault(id(referrer), []).append(objects[inner])
        number = count()
        heap = [((root.rank, -self._reach(one, root, below)), 0, next(number), root, one, None)
                for one in objects.values() for root in self._roots_of(one, handled)]
        heapq.heapify(heap)
        while heap:
            order, length, _, root, one, before = heapq.heappop(heap)
            if id(one) in self.before:
                continue
            self.before[id(one)], self.roots[id(one)] = before, root
            for inner in below.get(id(one), ()):
                if id(inner) not in self.before and leads_to(one, inner):
                    heapq.heappush(heap, (order, length + 1, next(number), root, inner, one))

    def _reach(self, first: Any, root: Root, below: dict[int, list[Any]]) -> int:
        """Returns to how many of the objects a local variable leads; 0 for other roots."""
        if not root.is_variable:
            return 0
        seen, waiting = {id(first)}, [first]
        while waiting:
            one = waiting.pop()
            found = [inner for inner in below.get(id(one), ()) if id(inner) not in seen and leads_to(one, inner)]
            seen |= {id(inner) for inner in found}
            waiting += found
        return len(seen & self.asked)

    def _roots_of(self, one: Any, handled: set[int]) -> Iterator[Root]:
        """Yields the roots that an object is or that refer to it."""
        frame, name = self.locals.found.get(id(one), (None, ""))
        if frame is not None and name != "self" and id(one) not in handled:
            yield Root(Rank.LIBRARY_LOCAL if is_of_library(frame.f_code.co_filename) else Rank.LOCAL, True)
        if isinstance(one, types.FrameType):
            yield Root(Rank.TRACEBACK, False)
        elif isinstance(one, CONTAINERS):
            if isinstance(one, dict) and module_of(one) is not None:
                yield Root(lasting(one.get("__file__") or ""), False)
            elif self.comprehension_of(one) is not None:
                yield Root(Rank.COMPREHENSION, False)
        elif isinstance(one, SUSPENDED):
            yield Root(Rank.LOCAL, False)
        elif isinstance(one, FINAL) or name == "self":
            if id(one) not in self.asked and not isinstance(one, types.ModuleType):
                yield Root(lasting(file_of(one)), False)
        elif not isinstance(one, (*INNER, torch.Tensor)) and id(one) not in self.asked:
            yield Root(Rank.OBJECT, False)

    def comprehension_of(self, one: Any) -> Optional[Comprehension]:
        """Returns the running comprehension that fills a container, to which nothing else refers."""
        if self.around.get(id(one), True) or id(one) in self.in_use:
            return None
        return next((each for each in self.comprehensions if each.fills(one)), None)

    # ---- results ----

    def to(self, one: Any) -> Optional[Path]:
        """Returns the path to one of the objects; None: there is none."""
        if id(one) not in self.roots:
            return None
        root, objects = self.roots[id(one)], [one]
        while self.before[id(objects[-1])] is not None:
            objects.append(self.before[id(objects[-1])])
        return Path(root.rank, root.is_variable, objects[::-1])

    def is_reached(self, one: Any) -> bool:
        """True unless the path begins with an object to which nothing leads, such as one in a reference cycle. The context of a
        custom function keeps its attributes, although the cycle includes the autograd graph."""
        path = self.to(one)
        return path is not None and (path.rank != Rank.OBJECT or isinstance(path.objects[0], torch.autograd.function.FunctionCtx))

    def referrers(self, one: Any) -> list[Any]:
        return self.around.get(id(one), [])

    def is_in_variable(self, one: Any) -> bool:
        """True if a variable of a running function refers to an object."""
        return id(one) in self.locals.found


def lasting(file: str) -> Rank:
    return Rank.LIBRARY if is_of_library(file) else Rank.LASTING
