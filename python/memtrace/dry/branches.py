"""Branches of a loop that none of its iterations enters, since their conditions do not change in it, as in `if args.amp: … else: …`."""
from __future__ import annotations

import argparse
import ast
from collections.abc import Iterator
from typing import Any, Optional

from .names import Variables, names_of, value_of

PLAIN = (bool, int, float, str, type(None))  # types of values whose truth and equality run no code of the program
UNKNOWN = object()


class Conditions:
    """The conditions in a loop. `variables` are what it sees, `changing` the names that may get other values while it runs."""

    def __init__(self, variables: Variables, changing: set[str]) -> None:
        self.variables, self.changing = variables, changing

    def truth(self, test: ast.expr) -> Optional[bool]:
        """Returns whether a condition holds in all iterations; None: not known."""
        if isinstance(test, ast.BoolOp):
            decisive = isinstance(test.op, ast.Or)
            parts = [self.truth(one) for one in test.values]
            return decisive if decisive in parts else None if None in parts else not decisive
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.truth(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.Compare):
            return self._compare(test) if len(test.ops) == 1 else None
        value = self._value(test)
        return bool(value) if isinstance(value, PLAIN) else None

    def _compare(self, test: ast.Compare) -> Optional[bool]:
        left, right, operator = self._value(test.left), self._value(test.comparators[0]), test.ops[0]
        if isinstance(operator, (ast.Is, ast.IsNot)) and right is None and left is not UNKNOWN:
            return (left is None) == isinstance(operator, ast.Is)
        if isinstance(operator, (ast.Eq, ast.NotEq)) and isinstance(left, PLAIN) and isinstance(right, PLAIN):
            return (left == right) == isinstance(operator, ast.Eq)
        return None

    def _value(self, node: ast.expr) -> Any:
        """Returns the value of a constant, a variable or an argument of the command line; UNKNOWN for all else."""
        if isinstance(node, ast.Constant):
            return node.value
        names = names_of(node)
        if not names or names[0] in self.changing or names[0] not in self.variables:
            return UNKNOWN
        is_constant = len(names) == 1 or isinstance(self.variables[names[0]], argparse.Namespace)
        return value_of(names, self.variables) if is_constant else UNKNOWN


def changing_in(loop: ast.AST, module: ast.Module) -> set[str]:
    """Returns the names of variables that a loop, or a function that declares them as another one's, may change."""
    stored = {node.id for node in ast.walk(loop) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored.union(*(node.names for node in ast.walk(module) if isinstance(node, (ast.Global, ast.Nonlocal))))


def never_entered(loop: ast.AST, module: ast.Module, variables: Variables) -> Iterator[ast.stmt]:
    """Yields the statements of branches in a loop that no iteration enters."""
    conditions = Conditions(variables, changing_in(loop, module))
    for branch in ast.walk(loop):
        holds = conditions.truth(branch.test) if isinstance(branch, ast.If) else None
        if isinstance(branch, ast.If) and holds is not None:
            yield from branch.orelse if holds else branch.body
