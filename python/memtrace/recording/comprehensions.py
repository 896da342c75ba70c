"""The comprehensions that are running, and the generators that list() and the like read. Their containers have no name until they are
complete, and no visible referrer."""
from __future__ import annotations

import ast
import functools
import inspect
import linecache
from collections.abc import Iterator
from typing import Any, NamedTuple

from .frames import is_of_library

KINDS: dict[str, tuple[str, tuple[type, ...]]] = {  # by the name of their code, until Python 3.11
    "<listcomp>": ("list comprehension", (list,)),
    "<setcomp>": ("set comprehension", (set,)),
    "<dictcomp>": ("dict comprehension", (dict,)),
    "<genexpr>": ("generator expression", (list, tuple, set, dict))}
GENERATOR = "<genexpr>"
NODES = ast.ListComp, ast.SetComp, ast.DictComp


class Comprehension(NamedTuple):
    """A running comprehension, generator expression or generator."""

    code: str  # "<listcomp>"
    function: str  # around it
    file: str
    line: int
    generator: str = ""  # the function that is a generator

    @property
    def name(self) -> str:
        return f"what {self.generator}() yields" if self.generator else KINDS[self.code][0]

    def fills(self, one: Any) -> bool:
        """True if an object may be the container that it fills."""
        return type(one) in KINDS[self.code][1]


@functools.lru_cache(maxsize=None)
def inlined_in(file: str) -> tuple[tuple[str, int, int], ...]:
    """Returns the code name, the first and the last line of each comprehension in a file, the innermost first."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ()
    found = [(f"<{type(node).__name__.lower()}>", node.lineno, node.end_lineno or node.lineno) for node in ast.walk(tree)
             if isinstance(node, NODES)]
    return tuple(reversed(found))


def comprehensions_in(frames: list[Any]) -> list[Comprehension]:
    """Returns the comprehensions that are running in some frames, the innermost first."""
    return [one for frame in frames for one in comprehensions_of(frame)]


def comprehensions_of(frame: Any) -> Iterator[Comprehension]:
    """Yields the comprehensions of a frame: its code is one or, from Python 3.12 on, its line is in one."""
    code = frame.f_code
    if code.co_name in KINDS:
        around = frame.f_back
        while around is not None and around.f_code.co_name in KINDS:
            around = around.f_back
        yield Comprehension(code.co_name, around.f_code.co_name if around is not None else "", code.co_filename,
                            code.co_firstlineno)
        return
    if code.co_flags & inspect.CO_GENERATOR and frame.f_back is not None:
        reader = frame.f_back
        yield Comprehension(GENERATOR, reader.f_code.co_name, reader.f_code.co_filename, reader.f_lineno, code.co_name)
    inner = {one.co_name for one in code.co_consts if hasattr(one, "co_name")}  # with comprehensions until Python 3.11
    for name, first, last in inlined_in(code.co_filename) if not is_of_library(code.co_filename) else ():
        if first <= frame.f_lineno <= last and name not in inner:
            yield Comprehension(name, code.co_name, code.co_filename, first)
