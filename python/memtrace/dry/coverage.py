"""Which lines of the user's own files that call a model, evaluate or save did not run, because the dry run ended before.

Only lines that the program could still have come to are named: those in or behind the loops that it was in when it ended.
"""
from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional, Union

import torch

from ..recording.frames import variables_of
from .places import Place, frames_of_user, parsed

Scope = Union[ast.Module, ast.FunctionDef, ast.AsyncFunctionDef]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
VERBS = re.compile(r"^(eval|evaluate|validate|validation|generate|save|checkpoint)(_|$)|_(eval|validation|checkpoint)$")
FUNCTIONS_ONLY = re.compile(r"^(test|sample|predict|infer|estimate_loss)(_|$)")  # names that methods of other things have, too
MODULES = torch.nn.modules.module.__file__  # from which modules are called
MODES = {"eval"}  # methods of modules that compute nothing
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
        self.has_trained = False

    def note(self) -> None:
        """Notes the lines of the user's own code that the program is in."""
        for frame in frames_of_user():
            self.ran[Place(frame.f_code.co_filename, frame.f_lineno)] = self.has_trained

    def not_run(self) -> list[Call]:
        """Returns the calls that the program has not come to, from where it is; those that end first come first."""
        found: dict[Place, Call] = {}
        for frame in frames_of_user(outside_of=MODULES):
            for call in self._not_run_in(frame):
                found.setdefault(call.place, call)
        return list(found.values())

    def _not_run_in(self, frame: Any) -> Iterator[Call]:
        file = frame.f_code.co_filename
        scope = scope_of(file, frame.f_code.co_name, frame.f_code.co_firstlineno)
        if scope is None:
            return
        begin = begin_of_statement(scope, frame.f_lineno)
        for node in calls_in(scope):
            last = node.end_lineno or node.lineno
            if last < begin or node.lineno <= frame.f_lineno <= last or not is_candidate(node, file, frame):
                continue
            ran = self._runs_of(Place(file, node.lineno), last)
            if not any(ran):
                yield Call(ast.unparse(node.func), Place(file, node.lineno), bool(ran), last)

    def _runs_of(self, place: Place, last: int) -> list[bool]:
        """Returns for each line of a call that ran whether it did so after the first step."""
        return [self.ran[one] for line in range(place.line, last + 1) if (one := Place(place.file, line)) in self.ran]

    def has_run(self, call: Call) -> bool:
        """True if a call has run after the first step."""
        return any(self._runs_of(call.place, call.last_line))


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


def calls_in(scope: Scope) -> Iterator[ast.Call]:
    """Yields the calls of a scope, but not those inside functions and classes that it defines."""
    pending: list[ast.AST] = list(reversed(scope.body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Call):
            yield node
        if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            pending += reversed(list(ast.iter_child_nodes(node)))


def names_of(node: ast.expr) -> list[str]:
    """Returns the names of a dotted expression: ["self", "model"]; [] for any other."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def value_of(names: list[str], frame: Any) -> Any:
    """Returns what the names stand for in a frame, without running code of the program's; None if that is not known."""
    value = dict(variables_of(frame)).get(names[0], frame.f_globals.get(names[0]))
    for name in names[1:]:
        fields = getattr(value, "__dict__", {})
        modules = fields.get("_modules")
        value = fields.get(name, modules.get(name) if isinstance(modules, dict) else None)
    return value


def is_candidate(node: ast.Call, file: str, frame: Any) -> bool:
    """True if a call calls a model, evaluates or saves, or calls a function of the same file that does."""
    names = names_of(node.func)
    if not names or names[0] in OTHERS:
        return False
    if isinstance(value_of(names, frame), torch.nn.Module) or is_verb(names):
        return True
    return len(names) == 1 and leads_to_verbs(file, names[0])


def is_verb(names: list[str]) -> bool:
    if len(names) == 1:
        return VERBS.search(names[0]) is not None or FUNCTIONS_ONLY.search(names[0]) is not None
    return VERBS.search(names[-1]) is not None and names[-1] not in MODES


@functools.lru_cache(maxsize=None)
def leads_to_verbs(file: str, function: str) -> bool:
    """True if a function of the file contains a call that evaluates or saves."""
    module = parsed(file)
    return module is not None and any(
        is_verb(names) for scope in ast.walk(module) if isinstance(scope, ast.FunctionDef) and scope.name == function
        for node in calls_in(scope) if (names := names_of(node.func)))
