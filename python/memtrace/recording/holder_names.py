"""The name from which an object can be reached: a variable, an attribute, a closure, or the results kept by functools.lru_cache.

    Names(objects, frames).name(object)    the name, found from referrers of the objects and from running frames
"""
from __future__ import annotations

import ast
import asyncio
import collections
import contextlib
import dataclasses
import functools
import inspect
import linecache
import re
import types
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional

import torch

from .frames import Locals, file_of, frames_from, is_of_library
from .holder_paths import (CONTAINERS, INNER, SUSPENDED, FunctionCache, Path, Paths, Rank, field_of, fields_of, frame_of_suspended,
                           module_of)
from .weak_tensors import WeakTensor

UNCHANGEABLE = (tuple, frozenset, functools.partial, asyncio.Future)  # items can't be removed from these, but these can be removed
SUBMODULES = ("_modules", "_parameters", "_buffers")  # dicts of a module, whose keys are its attributes
NOT_LINKED = (*CONTAINERS, torch.Tensor, *INNER)
Node = tuple[int, str]  # of autograd: its number and its name
ITEM = "[…]"  # a step into a container


class Reference(NamedTuple):
    """A referrer of a tensor, or of a tuple with it: a container, an object with attributes, or the frame of a function left by an
    exception."""

    referrer: Any
    target: int  # id of the tensor or tuple


@dataclasses.dataclass
class Holder:
    """A name from which tensors can be reached. `owner` is a function, a module or a class."""

    kind: str  # variable, attribute, closure, traceback, exception, cycle or gradient cycle
    name: str
    owner: str
    file: str
    line: int
    blocks: dict[int, int] = dataclasses.field(default_factory=dict)  # bytes by address: of the tensors themselves
    devices: dict[int, int] = dataclasses.field(default_factory=dict)  # by address
    references: list[Reference] = dataclasses.field(default_factory=list)  # those to remove in order to free them
    tensors: list[WeakTensor] = dataclasses.field(default_factory=list)  # with a graph, to be detached
    nodes: set[Node] = dataclasses.field(default_factory=set)  # those that computed the tensors
    owners: int = 0  # modules and optimizers that have the tensors
    is_copy: bool = False  # the tensors have the shapes of the trained weights
    is_chain: bool = False  # each value is computed from the previous one, so every iteration's graph is kept
    is_of_gradients: bool = False  # the graph of the chain contains gradients, as of create_graph=True
    is_reached: bool = True  # from a variable or a class; otherwise only from an object, such as one in a reference cycle
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
        if self.kind in ("cycle", "gradient cycle", "traceback", "exception"):
            return self.kind
        if self.is_copy:
            return "copy"
        if self.is_chain:
            return "gradient chain" if self.is_of_gradients else "chain"
        if self.has_graph and held > self.size:
            return "graph"
        return "view" if 0 < self.tensor_bytes <= self.size // 2 else self.kind


def line_of(file: str, lines: Iterable[int], name: str) -> int:
    """Returns the line that adds something to a name or, without one, that computes it from itself, or sets it, rather not
    to None; 0: there is none. ".name": an attribute."""
    word = (r"\w" if name.startswith(".") else r"(?<![\w.])") + re.escape(name) + r"\s*"
    several = rf"^\s*([\w.*]+\s*,\s*)*{word}(,[\w\s,.*]*)?=(?!=)"  # a, b = …
    added = rf"{word}((\[[^\]]*\]\s*)*\.(append|add|extend|update|insert|put)\b|\+=|\[[^\]]*\]\s*=)"
    for pattern in (added, rf"{several}.*{word}\b", rf"{word}=(?!=)(?!\s*None\b)", rf"{word}(=(?!=)|:)", several):
        for line in lines:
            if re.search(pattern, linecache.getline(file, line).partition("#")[0]):
                return line
    return 0


def lines_of(code: types.CodeType) -> range:
    last = max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno) if hasattr(
        code, "co_lines") else code.co_firstlineno + 500
    return range(code.co_firstlineno, last + 1)


class Scopes(NamedTuple):
    """The parts of a file."""

    outside: tuple[int, ...]  # the lines outside functions and classes
    functions: tuple[tuple[range, frozenset[str]], ...]  # the lines of each function, and the names of its own variables


@functools.lru_cache(maxsize=None)
def scopes_of(file: str) -> Scopes:
    text = linecache.getlines(file)
    inside: set[int] = set()
    functions = []
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse("".join(text))):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                continue
            lines = range(node.lineno, (node.end_lineno or node.lineno) + 1)
            inside.update(lines)
            if not isinstance(node, ast.ClassDef):
                functions.append((lines, own_names(node)))
    return Scopes(tuple(line for line in range(1, len(text) + 1) if line not in inside), tuple(functions))


def own_names(function: ast.AST) -> frozenset[str]:
    """Returns the names that a function binds, without those that it declares as global."""
    nodes = list(ast.walk(function))
    shared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    bound = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return frozenset((bound | {node.arg for node in nodes if isinstance(node, ast.arg)}) - shared)


def variable_of_module(module: types.ModuleType, name: str) -> Holder:
    """Returns a variable of a module, which functions of the module may add to."""
    file = getattr(module, "__file__", None) or ""
    scopes = scopes_of(file)
    inside = [line for lines, names in scopes.functions if name not in names for line in lines]
    return Holder("variable", name, module.__name__, file, line_of(file, (*scopes.outside, *inside), name))


def name_in(space: Any, value: Any) -> str:
    """Returns the key of a value in a dict of variables."""
    return next((str(key) for key, one in space.items() if one is value), "")


@functools.lru_cache(maxsize=None)
def line_of_attribute(file: str, name: str) -> int:
    """Returns the line that sets an attribute, such as ".cache" in any object; 0: there is none."""
    return line_of(file, range(1, len(linecache.getlines(file)) + 1), name)


def object_without_name(one: Any) -> Holder:
    """Returns an object as its methods name it. The context of a torch.autograd.Function is named by the function."""
    is_context = isinstance(one, torch.autograd.function.FunctionCtx)
    kind = getattr(type(one), "_forward_cls", type(one)) if is_context else type(one)
    return Holder("attribute", "ctx" if is_context else "self", kind.__qualname__, file_of(kind), 0)


def attribute_of(owner: Any, name: str) -> Holder:
    """Returns the attribute of an object without a name."""
    one = object_without_name(owner)
    return dataclasses.replace(one, name=f"{one.name}.{name}", line=line_of_attribute(one.file, f".{name}"))


def attribute_of_class(owner: type, name: str) -> Holder:
    file = file_of(owner)
    line = line_of_attribute(file, f".{name}") or line_of_attribute(file, name)
    return Holder("attribute", f"{owner.__qualname__}.{name}", owner.__module__, file, line)


def variable_of_frame(frame: Any, name: str) -> Holder:
    """Returns a local variable of a running or suspended function."""
    code = frame.f_code
    kind = "closure" if name in code.co_freevars else "variable"
    line = line_of(code.co_filename, lines_of(code), name) or frame.f_lineno
    return Holder(kind, name, code.co_name, code.co_filename, line)


def variable_of_suspended(suspended: Any, value: Any) -> Optional[Holder]:
    frame = frame_of_suspended(suspended)
    found = Locals([frame]).found.get(id(value)) if frame is not None else None
    return variable_of_frame(*found) if found is not None else None


def part_of_function(function: types.FunctionType, part: Any, value: Any) -> Holder:
    """Returns a default argument, a captured variable or an attribute of a function. `part` of it has the value."""
    code = function.__code__
    place = function.__qualname__, code.co_filename, code.co_firstlineno
    if isinstance(value, types.CellType):
        return Holder("closure", name_in(dict(zip(code.co_freevars, part)), value), *place)
    names = code.co_varnames[code.co_argcount - len(part):code.co_argcount]
    name = name_in(dict(zip(names, part)) if isinstance(part, tuple) else part, value)
    if getattr(function, "__dict__", None) is part:
        return Holder("attribute", f"{code.co_name}.{name}", *place)
    return Holder("variable", f"default argument {name}", *place)


def function_cache(cache: Any) -> Holder:
    """Returns a function's results that are kept by functools.lru_cache."""
    function = inspect.unwrap(cache)
    code = getattr(function, "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)
    name = getattr(function, "__name__", type(function).__name__)
    return Holder("variable", f"lru_cache of {name}", getattr(function, "__module__", None) or "", file, line)


def left_frame(frame: Any) -> Optional[Holder]:
    """Returns the program's frame in an exception's traceback, from a frame that it or a library's function called."""
    for one in frames_from(frame):
        if not is_of_library(one.f_code.co_filename):
            return Holder("traceback", f"frame of {one.f_code.co_name}", "", one.f_code.co_filename, one.f_lineno)
    return None


# ---- steps of a path ----

class Step(NamedTuple):
    """From an object to an attribute or an item."""

    text: str  # ".value" or "[…]"
    owner: Any = None  # the object with the attribute; None: an item
    name: str = ""  # of the attribute


def steps_between(objects: list[Any]) -> list[Step]:
    """Returns the steps from the first object to the last."""
    steps: list[Step] = []
    before: Any = None
    for one, inner in zip(objects, objects[1:]):
        steps += step_between(before, one, inner, steps)
        before = one
    return steps


def step_between(before: Any, one: Any, inner: Any, steps: list[Step]) -> Iterator[Step]:
    """Yields the step from an object to the next on a path; none to an object's dict. `before`, `steps`: the path so far."""
    if isinstance(one, dict):
        key = next((key for key, value in one.items() if value is inner and isinstance(key, str)), "")
        if getattr(before, "__dict__", None) is one:
            yield Step(f".{key}", before, key)
        elif isinstance(before, torch.nn.Module) or steps and steps[-1].name in SUBMODULES:
            owner = steps.pop().owner
            yield Step(f".{key}", owner, key)
        elif type(one) is not dict and getattr(one, "__dict__", {}).get(key) is inner:
            yield Step(f".{key}", one, key)
        else:
            yield Step(ITEM)
    elif isinstance(one, CONTAINERS):
        yield Step(ITEM)
    elif getattr(one, "__dict__", None) is not inner:
        key = field_of(one, inner) or ""
        yield Step(f".{key}", one, key)


def linked_classes(objects: list[Any]) -> set[int]:
    """Returns the ids of the classes of linked objects on a path: those with several objects."""
    classes = collections.Counter(id(type(one)) for one in objects if not isinstance(one, NOT_LINKED))
    return {kind for kind, number in classes.items() if number > 1}


def end_of_name(objects: list[Any], linked: set[int], first: int) -> int:
    """Returns the number of objects of a path, more than `first`, that help to find the last one: as far as an exception,
    whose traceback follows, or the first one of linked objects."""
    return next((place + 1 for place, one in enumerate(objects)
                 if isinstance(one, BaseException) or (id(type(one)) in linked and place >= first)), len(objects))


# ---- names ----

class Names:
    """Names some objects by the best paths to them."""

    def __init__(self, objects: list[Any], frames: list[Any]) -> None:
        """Borrows the list of objects, so that it is not mistaken for a holder."""
        self.paths = Paths(objects, frames)
        self.linked: set[int] = set()
        for path in filter(None, map(self.paths.to, objects)):
            self.linked |= linked_classes(path.objects)

    def references(self, one: Any, seen: frozenset[int] = frozenset()) -> Iterator[Reference]:
        """Yields the references to remove in order to free an object. None if it is in a variable of a running function."""
        if self.paths.is_in_variable(one) or id(one) in seen:
            return
        for referrer in self.paths.referrers(one):
            if isinstance(referrer, UNCHANGEABLE):
                yield from self.references(referrer, seen | {id(one)})
            else:
                yield Reference(referrer, id(one))

    def name(self, one: Any) -> Optional[Holder]:
        """Returns the name from which an object can be reached; None if there is none within LEVELS levels."""
        path = self.paths.to(one)
        root, objects = self._root_of(path) if path is not None else (None, [])
        if root is None:
            return None
        is_self = root.name in ("self", "ctx")
        root.is_reached = self.paths.is_reached(one)
        objects = objects[:end_of_name(objects, self.linked, int(is_self))]
        steps = steps_between(objects)
        while steps and steps[-1].text == ITEM:
            steps.pop()
        root.kind = "exception" if isinstance(objects[-1], BaseException) else root.kind
        if not steps:
            return None if is_self else root
        places = [attribute_of(step.owner, step.name) for step in reversed(steps) if step.owner is not None]
        own = (one for one in places if one.line and not is_of_library(one.file))
        line = next(own, places[-1] if is_self else root)
        kind = "attribute" if steps[-1].owner is not None and root.kind != "exception" else root.kind
        return dataclasses.replace(root, kind=kind, name=root.name + "".join(step.text for step in steps), file=line.file,
                                   line=line.line)

    def _root_of(self, path: Path) -> tuple[Optional[Holder], list[Any]]:
        """Returns the root of a path, and the objects from the one that it names on. Otherwise, the first is `self`."""
        first, *others = path.objects
        if path.is_variable:
            return variable_of_frame(*self.paths.locals.found[id(first)]), path.objects
        if isinstance(first, types.FrameType):
            return left_frame(first), others[-1:]
        comprehension = self.paths.comprehension_of(first) if path.rank == Rank.COMPREHENSION else None
        if comprehension is not None:
            one = comprehension
            return Holder("variable", one.name, one.function, one.file, one.line), path.objects
        if isinstance(first, FunctionCache):
            return function_cache(first), others
        if isinstance(first, SUSPENDED):
            return variable_of_suspended(first, others[0]), others
        if isinstance(first, types.FunctionType):
            captures = others[0] is first.__closure__
            return part_of_function(first, *others[:2]), others[2 if captures else 1:]
        module = module_of(first) if isinstance(first, dict) else None
        if module is not None:
            return variable_of_module(module, name_in(first, others[0])), others
        if isinstance(first, type):
            space = others[0] if isinstance(others[0], dict) and len(others) > 1 else vars(first)
            value = others[1] if space is others[0] else others[0]
            return attribute_of_class(first, name_in(space, value)), others[1 if space is others[0] else 0:]
        return object_without_name(first), path.objects
