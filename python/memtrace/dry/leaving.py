"""Leaves loops of a program from outside, so that the program continues behind them.

They are loops of the user's own code or, where it has none, of a library that trains. A loop is left at its head, where an
iteration is complete. A `for` loop gets an empty iterator (value_stack.py), so it ends as usual. A `while` loop is left by a
jump to the line behind it, as in a debugger, which is not possible if nothing follows it in its function.
"""
from __future__ import annotations

import ast
import collections
import ctypes
import dis
import functools
import itertools
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional, Union

import torch

from ..recording.frames import variables_of
from . import value_stack
from .coverage import Call, scope_of
from .places import Place, frames_of_libraries, frames_of_user, is_users
from .rounds import Around, Rounds

LOOPS = (ast.For, ast.While)
BRANCHES = (ast.If, *((ast.Match,) if sys.version_info >= (3, 10) else ()))
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)  # loops that can't be left
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
MADE = (torch.nn.Module, torch.optim.Optimizer)
TraceFunction = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int, ctypes.c_void_p)  # Py_tracefunc
LINE, RETURN = 2, 3  # events that Python's trace functions get
YIELDS = "YIELD_VALUE", "YIELD_FROM"  # instructions of Python that suspend a frame
MOST_LEFT = 2  # times that one loop is left before the loop around it is

Loop = Union[ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp]


def statements_around(body: list[ast.stmt], line: int, follows: Optional[ast.stmt] = None
                      ) -> Iterator[tuple[ast.stmt, Optional[ast.stmt]]]:
    """Yields the statements of a body that a line is in, the outermost first, with the statement behind each: the next one or, at
    the end of a body, the one behind `if`, `match` and `try`. `follows`: the statement behind the body."""
    for place, statement in enumerate(body):
        if not statement.lineno <= line <= (statement.end_lineno or line) or isinstance(statement, SCOPES):
            continue
        behind = body[place + 1] if place + 1 < len(body) else follows
        yield statement, behind
        is_open = isinstance(statement, BRANCHES) or isinstance(statement, ast.Try) and not statement.finalbody
        for inner in bodies_of(statement):
            yield from statements_around(inner, line, behind if is_open else None)


def bodies_of(statement: ast.stmt) -> list[list[ast.stmt]]:
    """Returns the lists of statements that a statement consists of."""
    bodies = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    parts = [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]
    return list(filter(None, (*bodies, *(part.body for part in parts))))


def first_line_of(statement: ast.stmt, code: types.CodeType) -> Optional[int]:
    """Returns the line of a statement's first instruction, which is inside of the statement if that spans several lines."""
    first = min(one.lineno for one in (statement, *getattr(statement, "decorator_list", [])))
    lines = range(first, (statement.end_lineno or first) + 1)
    return next((line for _, line in dis.findlinestarts(code) if line in lines), None)


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
            loops.insert(0, (statement, None if behind is None else first_line_of(behind, code)))
        elif not bodies_of(statement):
            loops[:0] = [(node, None) for node in ast.walk(statement)
                         if isinstance(node, COMPREHENSIONS) and may_be_in(node, frame)]
    return loops


def may_be_in(node: ast.expr, frame: Any) -> bool:
    """True unless a frame's current instruction belongs to code before or after an expression on the same lines. Before Python
    3.11, columns are unknown."""
    if sys.version_info < (3, 11):
        return True
    line, last, column, end = next(itertools.islice(frame.f_code.co_positions(), frame.f_lasti // 2, None))
    if None in (line, last, column, end) or node.end_lineno is None or node.end_col_offset is None:
        return True
    return (node.lineno, node.col_offset) <= (line, column) and (last, end) <= (node.end_lineno, node.end_col_offset)


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

    def __init__(self, rounds: Rounds) -> None:
        self.rounds = rounds
        self.on_failure: Callable[[], None] = ignore  # called at the head of a loop that could not be left
        self.left: collections.Counter[Place] = collections.Counter()  # by the line of the loop

    def leave(self, beyond: Optional[Place], kept: int, has_rounds: bool) -> bool:
        """Has the calling thread leave the innermost loop that can be left and was not left often, and the loops inside it.
        `beyond`: only loops around the one at this line; `kept`: how many of the user's outermost ones are not left; `has_rounds`:
        the loop around it may grow. False if there is none, or if a debugger is at work."""
        if sys.gettrace() is not None:
            return False
        found = loops_of_program()
        places = [one.place for one in found]
        first = places.index(beyond) + 1 if beyond in places else 0
        kept = kept if found and is_users(found[-1].place.file) else 0
        exits: list[Exit] = []
        for inner, around in zip(found[first:len(found) - kept], [*found[first + 1:], None]):
            way = way_out(inner)
            if way is None:
                continue
            exits.append(Exit(inner.frame, way))
            if has_rounds and around is not None:
                self.rounds.end(inner.place, around.around())
            if self.left[inner.place] < MOST_LEFT or self.rounds.is_rising(inner.place):
                self.left[inner.place] += 1
                leave_at_heads(exits, self.on_failure)
                return True
        return False


class Found(NamedTuple):
    """A loop that the program is in."""

    frame: Any
    place: Place
    loop: Loop
    behind: Optional[int]  # the line behind it; None: it has none

    def around(self) -> Around:
        """Returns what the loops inside it need of this loop."""
        return Around(self.frame, self.place, head_of(self.frame, self.loop))


def loops_of_program() -> list[Found]:
    """Returns the loops that the calling thread is in, the innermost first: of the user's own code or, without any, of
    libraries."""
    return loops_in(frames_of_user()) or loops_in(frames_of_libraries())


def loops_in(frames: list[Any]) -> list[Found]:
    return [Found(frame, Place(frame.f_code.co_filename, loop.lineno), loop, behind)
            for frame in frames for loop, behind in loops_around(frame)]


def loop_around(place: Place) -> Optional[Around]:
    """Returns the loop around the loop at this line; None if there is none."""
    found = loops_of_program()
    places = [one.place for one in found]
    following = found[places.index(place) + 1:] if place in places else []
    return following[0].around() if following else None


def head_of(frame: Any, loop: Loop) -> Optional[int]:
    """Returns the place of a `for` loop's head in the code of a frame; None for other loops, and if the layout of frames is
    unknown."""
    if not isinstance(loop, ast.For) or value_stack.known_layout() is None:
        return None
    return value_stack.head_of(frame, range(loop.lineno, (loop.iter.end_lineno or loop.lineno) + 1))


def way_out(found: Found) -> Optional[Callable[[Any], bool]]:
    """Returns a function that leaves a loop and returns True if its frame is at the loop's head; None if the loop can't be
    left."""
    head = head_of(found.frame, found.loop)
    if head is not None:
        return functools.partial(end_at, head)
    return functools.partial(jump_from, found.loop.lineno, found.behind) if found.behind is not None else None


def decides_loop(frame: Any) -> bool:
    """True if a frame's line decides whether its innermost loop, a `while`, has another iteration."""
    return is_decision(frame.f_code, frame.f_lineno)


@functools.lru_cache(maxsize=None)
def is_decision(code: types.CodeType, line: int) -> bool:
    scope = scope_of(code.co_filename, code.co_name, code.co_firstlineno)
    around = [] if scope is None else [one for one, _ in statements_around(scope.body, line)]
    last_loop = max((place for place, one in enumerate(around) if isinstance(one, LOOPS)), default=None)
    if last_loop is None or not isinstance(around[last_loop], ast.While):
        return False
    inner = around[last_loop + 1:]
    return not inner or len(inner) == 1 and isinstance(inner[0], ast.If) and ends_loop(inner[0])


def ends_loop(branch: ast.If) -> bool:
    """True if an `if` at this level leaves the loop that it is in."""
    return any(isinstance(one, (ast.Break, ast.Return)) for one in (*branch.body, *branch.orelse))


def leave_loop_of(frame: Any) -> bool:
    """Has the calling thread leave the innermost loop of a frame, where an iteration is complete. False if it can't be left, or if a
    debugger is at work."""
    loop, behind = loops_around(frame)[0]
    way = way_out(Found(frame, Place(frame.f_code.co_filename, loop.lineno), loop, behind))
    if way is None or sys.gettrace() is not None:
        return False
    leave_at_heads([Exit(frame, way)], ignore)
    return True


class Exit(NamedTuple):
    """The end of a loop. `leaves` ends it and returns True if the frame is at the loop's head."""

    frame: Any
    leaves: Callable[[Any], bool]


def leave_at_heads(exits: list[Exit], on_failure: Callable[[], None]) -> None:
    """Leaves loops one after the other, each when its frame is at its head. After that, nothing keeps the frames or their
    variables. A trace function in Python would: before Python 3.13 it leaves a dict with all variables in the frame."""
    def trace(given: Any, now: Any, event: int, result: Optional[int]) -> int:
        fails = False
        if event == RETURN and not is_suspended(now, result):
            exits[:] = [one for one in exits if one.frame is not now]
        elif event == LINE and exits and exits[0].frame is now:
            fails = not leave_first(exits)
        if not any(one.frame is now for one in exits):
            now.f_trace = None
        if not exits:
            sys.settrace(None)
        if fails:
            on_failure()
        return 0

    function = TraceFunction(trace)
    for one in exits:
        one.frame.f_trace = ignore  # without one, a line can't be set
    ctypes.pythonapi.PyEval_SetTrace(function, ctypes.py_object(function))


def is_suspended(frame: Any, result: Optional[int]) -> bool:
    """True if a frame that returns is a generator at a `yield` or a coroutine at an `await`. `result` is None for an exception."""
    return result is not None and dis.opname[frame.f_code.co_code[frame.f_lasti]] in YIELDS


def leave_first(exits: list[Exit]) -> bool:
    """Removes the first exit once its loop is left. False, and no exit is left, if Python refuses to jump out of the loop, as it
    does in functions with expressions of more than some twenty parts."""
    try:
        if exits[0].leaves(exits[0].frame):
            exits.pop(0)
    except ValueError:
        exits.clear()
        return False
    return True


def end_at(head: int, frame: Any) -> bool:
    """Ends a `for` loop if a frame is at its head. The iterator is released here, as it is where a loop ends."""
    is_head = value_stack.is_at(head, frame)
    if is_head:
        value_stack.exhaust(frame)
    return is_head


def jump_from(head: int, behind: int, frame: Any) -> bool:
    """Continues behind a loop if a frame is at the line of the loop's head."""
    is_head = frame.f_lineno == head
    if is_head:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of variables that the skipped lines would have set
            frame.f_lineno = behind
    return bool(is_head)


def ignore(*event: Any) -> None:
    """Does nothing."""
