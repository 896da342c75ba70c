"""The name from which an object can be reached: a variable, an attribute, a closure, or the results kept by functools.lru_cache.

    Names(objects, frames).name(object)    the name, found from referrers of the objects and from running frames
"""
from __future__ import annotations

import ast
import contextlib
import dataclasses
import functools
import gc
import inspect
import linecache
import os
import re
import sys
import sysconfig
import threading
import types
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional

import torch

from .weak_tensors import WeakTensor

LEVELS = 6  # of containers and objects around a tensor
CONTAINERS = (list, tuple, dict, set, frozenset, deque)
UNCHANGEABLE = (tuple, frozenset, functools.partial)  # items can't be removed from these, but these can be removed
FunctionCache = type(functools.lru_cache()(len))  # the type of functools.lru_cache's result, which refers to the cached results
SUSPENDED = (types.GeneratorType, types.CoroutineType)
LIBRARIES = {os.path.realpath(folder) for folder in (os.path.dirname(os.path.dirname(torch.__file__)), *(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))}
HERE = os.path.dirname(os.path.abspath(__file__))


class Reference(NamedTuple):
    """A referrer of a tensor, or of a tuple with it: a container, an object with attributes, or the frame of a function left by an
    exception."""

    referrer: Any
    target: int  # id of the tensor or tuple


@dataclasses.dataclass
class Holder:
    """A name from which tensors can be reached. `owner` is a function, a module or a class."""

    kind: str  # variable, attribute, closure, traceback, cycle or gradient cycle
    name: str
    owner: str
    file: str
    line: int
    blocks: dict[int, int] = dataclasses.field(default_factory=dict)  # bytes by address: of the tensors themselves
    devices: dict[int, int] = dataclasses.field(default_factory=dict)  # by address
    references: list[Reference] = dataclasses.field(default_factory=list)  # those to remove in order to free them
    tensors: list[WeakTensor] = dataclasses.field(default_factory=list)  # with a graph, to be detached
    nodes: set[int] = dataclasses.field(default_factory=set)  # sequence numbers of the autograd nodes that computed the tensors
    is_copy: bool = False  # the tensors have the shapes of the trained weights
    is_chain: bool = False  # each value is computed from the previous one, so every iteration's graph is kept
    tensor_bytes: int = 0  # of the tensors, which may be views of a part of their blocks

    @property
    def key(self) -> tuple[str, str, str]:
        return self.kind, self.name, self.owner

    @property
    def size(self) -> int:
        return sum(self.blocks.values())

    @property
    def has_graph(self) -> bool:
        return bool(self.nodes)

    def kind_of(self, held: int) -> str:
        """Returns the kind of a holder that keeps this many bytes: of a graph, of a block larger than its view, or of its tensors."""
        if self.kind in ("cycle", "gradient cycle", "traceback"):
            return self.kind
        if self.is_copy:
            return "copy"
        if self.is_chain:
            return "chain"
        if self.has_graph and held > self.size:
            return "graph"
        return "view" if 0 < self.tensor_bytes <= self.size // 2 else self.kind


@functools.lru_cache(maxsize=None)
def is_of_library(file: str) -> bool:
    """True for a file of Python or of an installed package."""
    return any(os.path.realpath(file).startswith(folder + os.sep) for folder in LIBRARIES)


def is_own(frame: Any) -> bool:
    """True for a frame of memtrace."""
    return bool(frame.f_code.co_filename.startswith(os.path.dirname(HERE)))


def frames_from(frame: Any) -> list[Any]:
    """Returns a frame and its callers, without memtrace's frames."""
    found = []
    while frame is not None:
        if not is_own(frame):
            found.append(frame)
        frame = frame.f_back
    return found


def frames_of_other_threads() -> list[Any]:
    own = threading.get_ident()
    return [frame for thread, top in sys._current_frames().items() if thread != own for frame in frames_from(top)]


def frames_of_error(error: BaseException) -> list[Any]:
    """Returns the frames in an exception's traceback, the innermost first."""
    found: list[Any] = []
    trace = error.__traceback__
    while trace is not None:
        found.insert(0, trace.tb_frame)
        trace = trace.tb_next
    return [frame for frame in found if not is_own(frame)]


def line_of(file: str, lines: Iterable[int], name: str) -> int:
    """Returns the line that adds something to a name or, without one, that computes it from itself, or sets it; 0: there is none.
    ".name": an attribute."""
    word = (r"\w" if name.startswith(".") else r"(?<![\w.])") + re.escape(name) + r"\s*"
    several = rf"^\s*([\w.*]+\s*,\s*)*{word}(,[\w\s,.*]*)?=(?!=)"  # a, b = …
    added = rf"{word}(\.(append|add|extend|update|insert)\b|\+=|\[[^\]]*\]\s*=)"
    for pattern in (added, rf"{several}.*{word}\b", rf"{word}(=(?!=)|:)", several):
        for line in lines:
            if re.search(pattern, linecache.getline(file, line)):
                return line
    return 0


def lines_of(code: types.CodeType) -> range:
    last = max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno) if hasattr(
        code, "co_lines") else code.co_firstlineno + 500
    return range(code.co_firstlineno, last + 1)


def variables_of(frame: Any) -> list[tuple[str, Any]]:
    """Returns the local variables of a frame. Before Python 3.13 a frame keeps f_locals's dict, and therefore the values, unless
    the dict is emptied. A class body's variables exist only in the dict."""
    space = frame.f_locals
    found = list(space.items())
    if sys.version_info < (3, 13) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        space.clear()
    return found


class Locals:
    """The values of local variables, by id."""

    def __init__(self, frames: Iterable[Any]) -> None:
        self.found: dict[int, tuple[Any, str]] = {}
        for frame in frames:
            if frame.f_code.co_name == "<module>":
                continue
            for name, value in variables_of(frame):
                if name != "self" or id(value) not in self.found:
                    self.found.setdefault(id(value), (frame, name))

    def holder(self, value: Any) -> Optional[Holder]:
        """Returns the local variable that refers to a value. `self` gets the name of its class."""
        if id(value) not in self.found:
            return None
        frame, name = self.found[id(value)]
        code = frame.f_code
        kind = "closure" if name in code.co_freevars else "variable"
        line = line_of(code.co_filename, lines_of(code), name) or frame.f_lineno
        return Holder(kind, name, code.co_name, code.co_filename, line)


def module_of(space: dict[str, Any]) -> Optional[types.ModuleType]:
    """Returns the module whose variables are in a dict."""
    module = sys.modules.get(str(space.get("__name__", "")))
    return module if module is not None and vars(module) is space else None


@functools.lru_cache(maxsize=None)
def lines_of_module(file: str) -> tuple[int, ...]:
    """Returns the lines of a file outside functions and classes."""
    text = linecache.getlines(file)
    inside: set[int] = set()
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse("".join(text))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                inside.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return tuple(line for line in range(1, len(text) + 1) if line not in inside)


def variable_of_module(module: types.ModuleType, name: str) -> Holder:
    file = getattr(module, "__file__", None) or ""
    every = range(1, len(linecache.getlines(file)) + 1)
    line = line_of(file, lines_of_module(file), name) or line_of(file, every, name)  # a function may set it as a global
    return Holder("variable", name, module.__name__, file, line)


def attribute_of(owner: Any, name: str) -> Holder:
    """Returns the attribute of an object without a name."""
    kind = type(owner)
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None) or ""
    line = line_of(file, range(1, len(linecache.getlines(file)) + 1), f".{name}")
    return Holder("attribute", f"self.{name}", kind.__qualname__, file, line)


def attribute_of_class(owner: type, name: str) -> Holder:
    module = sys.modules.get(owner.__module__)
    file = getattr(module, "__file__", None) or ""
    every = range(1, len(linecache.getlines(file)) + 1)
    line = line_of(file, every, f".{name}") or line_of(file, every, name)
    return Holder("attribute", f"{owner.__qualname__}.{name}", owner.__module__, file, line)


def function_cache(cache: Any) -> Holder:
    """Returns a function's results that are kept by functools.lru_cache."""
    function = inspect.unwrap(cache)
    code = getattr(function, "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    name = getattr(function, "__name__", type(function).__name__)
    return Holder("variable", f"lru_cache of {name}", getattr(function, "__module__", None) or "", file, line)


def local_of_suspended(suspended: Any, value: Any) -> Optional[Holder]:
    """Returns the local variable of a suspended generator or coroutine that refers to a value."""
    frame = getattr(suspended, "gi_frame", None) or getattr(suspended, "cr_frame", None)
    found = None if frame is None or is_own(frame) else Locals([frame]).holder(value)
    return found if found is not None and found.name != "self" else None


def left_frame(frame: Any) -> Optional[Holder]:
    """Returns the program's frame in an exception's traceback, from a frame that it or a library's function called."""
    for one in frames_from(frame):
        if not is_of_library(one.f_code.co_filename):
            return Holder("traceback", f"frame of {one.f_code.co_name}", "", one.f_code.co_filename, one.f_lineno)
    return None


def fields_of(one: Any) -> Iterator[tuple[str, Any]]:
    """Yields the attributes that an object has in its dict and in slots."""
    yield from (getattr(one, "__dict__", None) or {}).items()
    for kind in type(one).__mro__:
        names = vars(kind).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            slot = vars(kind).get(name)
            if isinstance(slot, types.MemberDescriptorType):
                with contextlib.suppress(AttributeError):  # if it is not set
                    yield name, slot.__get__(one)


class Names:
    """The objects from which some objects can be reached, level by level."""

    def __init__(self, objects: list[Any], frames: list[Any]) -> None:
        """Borrows the list of objects, so that it is not mistaken for a holder."""
        self.locals = Locals([*frames, *frames_of_other_threads()])
        self.around: dict[int, list[Any]] = {}  # referrers by the id of an object
        self.kept = list(objects)  # so that ids stay valid
        frontier = objects
        for _ in range(LEVELS):
            frontier = self._climb(frontier)
            if not frontier:
                break

    def _climb(self, frontier: list[Any]) -> list[Any]:
        """Notes the referrers of the objects, and returns those without a name."""
        wanted = {id(one) for one in frontier if id(one) not in self.around}
        asked = [one for one in frontier if id(one) in wanted]
        own = {id(frontier), id(asked), id(self.kept), id(self.around), id(vars(self))}
        own |= {id(value) for value in self.around.values()}
        found = []
        for referrer in gc.get_referrers(*asked) if asked else ():
            if id(referrer) in own or (isinstance(referrer, types.FrameType) and is_own(referrer)):
                continue
            for one in gc.get_referents(referrer):
                if id(one) in wanted:
                    self.around.setdefault(id(one), []).append(referrer)
            found.append(referrer)
        for one in asked:
            self.around.setdefault(id(one), [])
        self.kept += found
        return [one for one in found if not self._ends(one)]

    def _ends(self, one: Any) -> bool:
        """True if a referrer does not help to name an object."""
        if id(one) in self.locals.found or isinstance(one, (types.ModuleType, type, types.CellType, types.FrameType,
                                                              FunctionCache, *SUSPENDED)):
            return True
        return isinstance(one, dict) and module_of(one) is not None

    def references(self, one: Any) -> Iterator[Reference]:
        """Yields the references to remove in order to free an object. None if it is in a variable of a running function."""
        if id(one) in self.locals.found:
            return
        for referrer in self.around.get(id(one), ()):
            if isinstance(referrer, UNCHANGEABLE):
                yield from self.references(referrer)
            else:
                yield Reference(referrer, id(one))

    def name(self, one: Any, seen: frozenset[int] = frozenset()) -> Optional[Holder]:
        """Returns the name from which an object can be reached; None if there is none within LEVELS levels."""
        found = self.locals.holder(one)
        if found is not None and found.name != "self":
            return found
        for referrer in self.around.get(id(one), ()):
            if id(referrer) in seen:
                continue
            found = self._name_in(one, referrer, seen | {id(one)})
            if found is not None:
                return found
        return None

    def _name_in(self, one: Any, referrer: Any, seen: frozenset[int]) -> Optional[Holder]:
        """Returns the name of an object in a referrer."""
        if isinstance(referrer, FunctionCache):
            return function_cache(referrer)
        if isinstance(referrer, SUSPENDED):
            return local_of_suspended(referrer, one)
        if isinstance(referrer, types.CellType):
            return self._name_of_cell(referrer)
        if isinstance(referrer, types.FrameType):
            return left_frame(referrer)
        if isinstance(referrer, dict):
            module = module_of(referrer)
            key = next((key for key, value in referrer.items() if value is one), None)
            if module is not None:
                return variable_of_module(module, str(key)) if isinstance(key, str) else None
            owner = self._owner_of(referrer)
            return self._attribute(owner, str(key), seen) if owner is not None else self.name(referrer, seen)
        if isinstance(referrer, (*CONTAINERS, functools.partial)):
            return self.name(referrer, seen)
        key = next((key for key, value in fields_of(referrer) if value is one), None)
        return self._attribute(referrer, key, seen) if key is not None else None

    def _owner_of(self, space: dict[Any, Any]) -> Any:
        """Returns the object whose attributes are in a dict; None for a dict of the program."""
        for referrer in self.around.get(id(space), ()):
            if isinstance(referrer, (*CONTAINERS, types.CellType)):
                continue
            attributes = getattr(referrer, "__dict__", None)
            if attributes is space or (isinstance(referrer, type) and gc.get_referents(attributes) == [space]):
                return referrer
        return None

    def _attribute(self, owner: Any, name: str, seen: frozenset[int]) -> Holder:
        """Returns the name of an attribute: of a named object, or otherwise of its class."""
        if isinstance(owner, type):
            return attribute_of_class(owner, name)
        own = attribute_of(owner, name)
        around = None if isinstance(owner, torch.nn.Module) or id(owner) in seen else self.name(owner, seen | {id(owner)})
        if around is None:
            return own
        line = around if is_of_library(own.file) or own.line == 0 else own  # for queue.Queue or a dataclass, the line of its holder
        return dataclasses.replace(line, kind=own.kind, name=f"{around.name}.{name}", owner=around.owner)

    def _name_of_cell(self, cell: types.CellType) -> Optional[Holder]:
        for cells in gc.get_referrers(cell):
            for function in gc.get_referrers(cells) if isinstance(cells, tuple) else ():
                if isinstance(function, types.FunctionType) and function.__closure__ is cells:
                    code = function.__code__
                    name = next(name for name, one in zip(code.co_freevars, function.__closure__ or ()) if one is cell)
                    return Holder("closure", name, function.__qualname__, code.co_filename, code.co_firstlineno)
        return None
