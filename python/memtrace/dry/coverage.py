"""Which lines of the user's own files that call a model, train, evaluate or save did not run, because the dry run ended before.

Only lines that the program could still have come to are named: those in or behind the loops that it was in when it ended. Lines
behind these loops that put something on a card are found, too.
"""
from __future__ import annotations

import ast
import collections
import functools
import gc
import re
import types
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional, Union

import torch

from .branches import never_entered
from .names import Variables, names_of, value_of, variables_in
from .places import Place, frames_of_user, is_users, parsed

Scope = Union[ast.Module, ast.FunctionDef, ast.AsyncFunctionDef]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
VERBS = re.compile(r"^(eval|evaluate|validate|validation|generate|save|checkpoint|fit|learn|finetune|pretrain)(_|$)"
                   r"|_(eval|validation|checkpoint)$")
FUNCTIONS_ONLY = re.compile(r"^(test|sample|predict|infer|estimate_loss|train)(_|$)")  # names that methods of other things have, too
MODULES = torch.nn.modules.module.__file__  # from which modules are called
MODES = {"eval"}  # methods of modules that compute nothing
MOVES = {"cuda", "to"}  # methods that put something on a card
HOST = {"cpu", "meta"}
COMPILED = "_torchdynamo_orig_callable"  # an attribute of compiled functions
OTHERS = {"np", "numpy", "plt", "json", "os", "cv2", "random", "re", "time", "math", "logging", "logger"}


class Call(NamedTuple):
    """A call that did not run. `is_late`: it ran, but only before the first training step."""

    name: str
    place: Place
    is_late: bool
    last_line: int


class Coverage:
    """The user's lines that led to a model or saved something."""

    def __init__(self) -> None:
        self.ran: dict[Place, bool] = {}  # True: after the first step
        self.leading: set[types.CodeType] = set()  # the code that these lines are in
        self.has_trained = False

    def note(self) -> None:
        """Notes the lines of the user's own code that the program is in."""
        for frame in frames_of_user():
            self.ran[Place(frame.f_code.co_filename, frame.f_lineno)] = self.has_trained
            self.leading.add(frame.f_code)

    def not_run(self) -> list[Call]:
        """Returns the calls that the program has not come to, from where it is; those that end first come first."""
        found: dict[Place, Call] = {}
        for frame in frames_of_user(outside_of=MODULES):
            for call in self._not_run_in(frame):
                found.setdefault(call.place, call)
        return list(found.values())

    def _not_run_in(self, frame: Any) -> Iterator[Call]:
        scope = scope_of_frame(frame)
        begin = begin_of_statement(scope, frame.f_lineno) if scope is not None else 0
        variables = variables_in(frame)
        unused = lines_never_entered(scope, frame, variables)
        for node in calls_in(scope):
            last = node.end_lineno or node.lineno
            if last < begin or node.lineno in unused or node.lineno <= frame.f_lineno <= last:
                continue
            if not is_candidate(node, variables, self.leading):
                continue
            ran = self._runs_of(Place(frame.f_code.co_filename, node.lineno), last)
            if not any(ran):
                yield call_of(node, frame, is_late=bool(ran))

    def _runs_of(self, place: Place, last: int) -> list[bool]:
        """Returns for each line of a call that ran whether it did so after the first step."""
        return [self.ran[one] for line in range(place.line, last + 1) if (one := Place(place.file, line)) in self.ran]

    def has_run(self, call: Call) -> bool:
        """True if a call has run after the first step."""
        return any(self._runs_of(call.place, call.last_line))


def allocations_behind() -> list[Call]:
    """Returns the calls behind the loops that the program is in which put something on a card."""
    return [call for frame in frames_of_user(outside_of=MODULES) for call in allocations_in(frame)]


def allocations_in(frame: Any) -> Iterator[Call]:
    scope = scope_of_frame(frame)
    end = end_of_loops(scope, frame.f_lineno) if scope is not None else 0
    variables = variables_in(frame)
    for node in calls_in(scope):
        if node.lineno > end and allocates(node, variables):
            yield call_of(node, frame, is_late=False)


def call_of(node: ast.Call, frame: Any, is_late: bool) -> Call:
    return Call(ast.unparse(node.func), Place(frame.f_code.co_filename, node.lineno), is_late, node.end_lineno or node.lineno)


def scope_of_frame(frame: Any) -> Optional[Scope]:
    return scope_of(frame.f_code.co_filename, frame.f_code.co_name, frame.f_code.co_firstlineno)


def scope_of(file: str, name: str, first_line: int) -> Optional[Scope]:
    """Returns the module, or the function that begins at that line."""
    module = parsed(file)
    if module is None or name == "<module>":
        return module
    for node in ast.walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            if first_line in (node.lineno, *(decorator.lineno for decorator in node.decorator_list)):
                return node
    return None


def begin_of_statement(scope: Scope, line: int) -> int:
    """Returns the first line of the scope's statement that the line is in."""
    return next((node.lineno for node in scope.body if node.lineno <= line <= (node.end_lineno or line)), line)


def loops_at(scope: Scope, line: int) -> Iterator[Union[ast.For, ast.While]]:
    """Yields the scope's loops that the line is in, the outermost first."""
    return (node for node in ast.walk(scope)
            if isinstance(node, (ast.For, ast.While)) and node.lineno <= line <= (node.end_lineno or line))


def end_of_loops(scope: Scope, line: int) -> int:
    """Returns the last line of the scope's loops that the line is in; the line itself if it is in none."""
    return max((node.end_lineno or line for node in loops_at(scope, line)), default=line)


def lines_never_entered(scope: Optional[Scope], frame: Any, variables: Variables) -> set[int]:
    """Returns the lines of branches that no iteration of the loops that a frame is in enters."""
    module = parsed(frame.f_code.co_filename)
    if scope is None or module is None:
        return set()
    return {line for loop in loops_at(scope, frame.f_lineno) for one in never_entered(loop, module, variables)
            for line in range(one.lineno, (one.end_lineno or one.lineno) + 1)}


def calls_in(scope: Optional[Scope]) -> Iterator[ast.Call]:
    """Yields the calls of a scope, but not those inside functions and classes that it defines."""
    pending: list[ast.AST] = [] if scope is None else list(reversed(scope.body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            pending += reversed(list(ast.iter_child_nodes(node)))


class Called(NamedTuple):
    """A function of the user's own code, and the variables that it begins with, as far as they are known."""

    function: types.FunctionType
    variables: Variables


def called_by(node: ast.Call, variables: Variables) -> Optional[Called]:
    """Returns the function or method of the user's own code that a call calls, without its decorators; None if there is none."""
    names = names_of(node.func)
    value, owner = value_of(names, variables), None
    if value is None and len(names) > 1:
        owner = value_of(names[:-1], variables)
        value = next((found for one in type(owner).__mro__ if (found := vars(one).get(names[-1])) is not None), None)
    while isinstance(value, types.FunctionType) and not is_users(value.__code__.co_filename):
        value = vars(value).get("__wrapped__")
    if not isinstance(value, types.FunctionType):
        return None
    given = [*([] if owner is None else [owner]), *(value_of(names_of(one), variables) for one in node.args)]
    named = {one.arg: value_of(names_of(one.value), variables) for one in node.keywords if one.arg is not None}
    arguments = {**dict(zip(value.__code__.co_varnames, given)), **named}
    return Called(value, collections.ChainMap(arguments, closure_of(value), value.__globals__))


def closure_of(function: types.FunctionType) -> dict[str, Any]:
    """Returns the variables of functions around a function that it uses, as far as they are set."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    return {name: value for name, cell in cells for value in gc.get_referents(cell)}


def is_candidate(node: ast.Call, variables: Variables, leading: set[types.CodeType], depth: int = 2) -> bool:
    """True if a call calls a model, trains, evaluates or saves, or calls a function that does, or whose code led to one before.
    `depth`: how many such functions may call one another."""
    names = names_of(node.func)
    if not names or names[0] in OTHERS:
        return False
    if is_model(value_of(names, variables)) or is_verb(names):
        return True
    called = called_by(node, variables) if depth > 0 else None
    if called is None or called.function.__code__ in leading:
        return called is not None
    return any(is_candidate(one, called.variables, leading, depth - 1) for one in calls_of(called.function.__code__))


def is_model(value: Any) -> bool:
    """True for a module, and for a function that torch.compile returned."""
    return isinstance(value, torch.nn.Module) or COMPILED in getattr(value, "__dict__", {})


def is_verb(names: list[str]) -> bool:
    if len(names) == 1:
        return VERBS.search(names[0]) is not None or FUNCTIONS_ONLY.search(names[0]) is not None
    return VERBS.search(names[-1]) is not None and names[-1] not in MODES


def allocates(node: ast.Call, variables: Variables) -> bool:
    """True if a call puts something on a card, or calls a function that does."""
    called = called_by(node, variables)
    return moves(node) or called is not None and any(map(moves, calls_of(called.function.__code__)))


def moves(node: ast.Call) -> bool:
    """True if a call names a device that is not the host, as in zeros(device=…), cuda() or to(…)."""
    if isinstance(node.func, ast.Attribute) and node.func.attr in MOVES:
        given = [*node.args[:1], *(one.value for one in node.keywords if one.arg == "device")]
        return node.func.attr == "cuda" or any(not is_host(one) for one in given)
    return any(one.arg == "device" and not is_host(one.value) for one in node.keywords)


def is_host(value: ast.expr) -> bool:
    """True if an expression names the host, or a dtype."""
    return isinstance(value, ast.Constant) and value.value in HOST or names_of(value)[:1] == ["torch"]


@functools.lru_cache(maxsize=None)
def calls_of(code: types.CodeType) -> list[ast.Call]:
    """Returns the calls in a function's body."""
    return list(calls_in(scope_of(code.co_filename, code.co_name, code.co_firstlineno)))
