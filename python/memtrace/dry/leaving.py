"""Leaves loops of the user's own code from outside, so that the program continues behind them.

The program's next line at the head of the loop, where an iteration is complete, becomes the line behind the loop: what a debugger's
`jump` does. A loop that is the last statement of its function has no such line, and can't be left.
"""
from __future__ import annotations

import ast
import collections
import ctypes
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Optional, Union

import torch

from ..recording.frames import variables_of
from .coverage import Call, scope_of
from .places import Place, frames_of_user

LOOPS = (ast.For, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # loops that can't be left
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
MADE = (torch.nn.Module, torch.optim.Optimizer)
TraceFunction = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)  # Py_tracefunc
LINE, RETURN = 2, 3  # events that Python's trace functions get
MOST_LEFT = 2  # times that one loop is left before the loop around it is

Loop = Union[ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp]


def statements_around(body: list[ast.stmt], line: int) -> Iterator[tuple[ast.stmt, Optional[ast.stmt]]]:
    """Yields the statements of a body that a line is in, the outermost first, with the statement behind each in its own body."""
    for place, statement in enumerate(body):
        if not statement.lineno <= line <= (statement.end_lineno or line) or isinstance(statement, SCOPES):
            continue
        yield statement, body[place + 1] if place + 1 < len(body) else None
        for name in ("body", "orelse", "finalbody"):
            yield from statements_around(getattr(statement, name, []), line)
        for handler in getattr(statement, "handlers", []):
            yield from statements_around(handler.body, line)


def loops_around(frame: Any) -> list[tuple[Loop, Optional[int]]]:
    """Returns the loops of a frame's function that its current line is in, the innermost first, with the line behind each; None if
    nothing follows that could be jumped to."""
    code = frame.f_code
    scope = scope_of(code.co_filename, code.co_name, code.co_firstlineno)
    if scope is None:
        return []
    loops: list[tuple[Loop, Optional[int]]] = []
    for statement, behind in statements_around(scope.body, frame.f_lineno):
        if isinstance(statement, LOOPS):
            loops.insert(0, (statement, None if behind is None or isinstance(behind, LOOPS) else behind.lineno))
        elif not hasattr(statement, "body"):
            loops[:0] = [(node, None) for node in ast.walk(statement) if isinstance(node, COMPREHENSIONS)]
    return loops


def makes_model(nodes: ast.AST, frame: Any) -> bool:
    """True if code of a frame's function assigns a model or an optimizer to a variable."""
    names = {name.id for node in ast.walk(nodes) if isinstance(node, ast.Assign)
             for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name)}
    return any(name in names and isinstance(value, MADE) for name, value in variables_of(frame))


def unfinished_sweeps() -> Iterator[Call]:
    """Yields the loops that the program is in whose iterations make models of their own, as "calls" named further iterations."""
    is_made = False  # by a function that the loop calls
    for frame in frames_of_user():
        code = frame.f_code
        for loop, _ in loops_around(frame):
            if is_made or makes_model(loop, frame):
                yield Call("further iterations", Place(code.co_filename, loop.lineno), False, loop.lineno)
        scope = scope_of(code.co_filename, code.co_name, code.co_firstlineno)
        is_made = is_made or scope is not None and makes_model(scope, frame)


class Leaver:
    """Leaves the loops of one program."""

    def __init__(self) -> None:
        self.left: collections.Counter[Place] = collections.Counter()  # by the line of the loop

    def leave(self, beyond: Optional[Place], kept: int) -> bool:
        """Has the calling thread leave the innermost loop of the user's own code that can be left and was not left often. `beyond`: only
        loops around the one at this line; `kept`: how many of the outermost ones are not left. False if there is none, or if a debugger
        is at work."""
        if sys.gettrace() is not None:
            return False
        found = [(frame, *loop) for frame in frames_of_user() for loop in loops_around(frame)]
        places = [Place(frame.f_code.co_filename, loop.lineno) for frame, loop, _ in found]
        first = places.index(beyond) + 1 if beyond in places else 0
        for place, (frame, loop, behind) in list(zip(places, found))[first:len(found) - kept]:
            if behind is not None and self.left[place] < MOST_LEFT:
                self.left[place] += 1
                jump_at(frame, loop.lineno, behind)
                return True
        return False


def jump_at(frame: Any, head: int, behind: int) -> None:
    """Continues behind a loop once a frame comes to the loop's head. Nothing keeps the frame, and with it a model, after that. A trace
    function of Python would: before Python 3.13 it leaves the frame a dict with all its variables, which keeps what they refer to."""
    def trace(given: Any, now: Any, event: int, result: Any) -> int:
        nonlocal frame
        is_head = now is frame and event == LINE and now.f_lineno == head
        if is_head:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of variables that the skipped lines would have set
                now.f_lineno = behind
        if is_head or (now is frame and event == RETURN):
            now.f_trace = frame = None
            sys.settrace(None)
        return 0

    function = TraceFunction(trace)
    frame.f_trace = ignore  # without one, a line can't be set
    ctypes.pythonapi.PyEval_SetTrace(function, ctypes.py_object(function))


def ignore(*event: Any) -> None:
    """Does nothing."""
