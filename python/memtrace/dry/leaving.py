"""Leaves loops of the user's own code from outside, so that the program continues behind them.

The program's next line at the head of the loop, where an iteration is complete, becomes the line behind the loop: what a debugger's
`jump` does. A loop that is the last statement of its function has no such line, and can't be left.
"""
from __future__ import annotations

import ast
import collections
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Optional, Union

from .coverage import scope_of
from .places import frames_of_user

LOOPS = (ast.For, ast.While)
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
MOST_LEFT = 2  # times that one loop is left before the loop around it is

Loop = Union[ast.For, ast.While]


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


def loops_around(frame: Any) -> list[tuple[Loop, int]]:
    """Returns the loops of a frame's function that its current line is in, the innermost first, with the line behind each. Loops in
    `with` and `try` inside of another loop are left out, and so are those that nothing follows."""
    code = frame.f_code
    scope = scope_of(code.co_filename, code.co_name, code.co_firstlineno)
    if scope is None:
        return []
    return [(statement, behind.lineno) for statement, behind in statements_around(scope.body, frame.f_lineno)
            if isinstance(statement, LOOPS) and behind is not None and not isinstance(behind, LOOPS)][::-1]


class Leaver:
    """Leaves the loops of one program."""

    def __init__(self) -> None:
        self.left: collections.Counter[tuple[str, int]] = collections.Counter()  # by file and line of the loop

    def leave(self) -> bool:
        """Has the calling thread leave the innermost loop of the user's own code that can be left and was not left often. False if
        there is none, or if a debugger is at work."""
        if sys.gettrace() is not None:
            return False
        for frame in frames_of_user():
            for loop, behind in loops_around(frame):
                key = frame.f_code.co_filename, loop.lineno
                if self.left[key] < MOST_LEFT:
                    self.left[key] += 1
                    jump_at(frame, loop.lineno, behind)
                    return True
        return False


def jump_at(frame: Any, head: int, behind: int) -> None:
    """Continues behind a loop once a frame comes to the loop's head."""
    def trace(frame: Any, event: str, given: Any) -> Any:
        if event == "line" and frame.f_lineno == head:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of variables that the skipped lines would have set
                frame.f_lineno = behind
            end()
        elif event == "return":
            end()
        return trace

    def end() -> None:
        frame.f_trace = None
        sys.settrace(None)

    frame.f_trace = trace
    sys.settrace(lambda *event: None)
