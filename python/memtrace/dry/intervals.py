"""Branches that a loop enters in every n-th iteration only, such as `if step % 4 == 0: copies.append(deepcopy(net))`.

A few equal iterations say nothing of them.
"""
from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from .names import Variables, names_of, value_of, variables_in

MOST = 10  # iterations between two such branches; a longer interval is not waited for
KEEPING = {"append", "appendleft", "add", "insert", "extend", "push", "put", "deepcopy", "copy", "clone", "setdefault"}


def interval_of(loop: ast.AST, frame: Any) -> int:
    """Returns in how many iterations of a frame's loop all branches that may keep something run once, up to MOST; 1: in each."""
    variables = variables_in(frame)
    found = [n for branch in ast.walk(loop) if isinstance(branch, ast.If) and any(map(keeps, branch.body))
             for n in divisors_in(branch.test, variables)]
    return max((n for n in found if 1 < n <= MOST), default=1)


def divisors_in(test: ast.expr, variables: Variables) -> Iterator[int]:
    """Yields each n of a condition's `step % n`, if it is known."""
    for node in ast.walk(test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            value = node.right.value if isinstance(node.right, ast.Constant) else value_of(names_of(node.right), variables)
            if isinstance(value, int):
                yield value


def keeps(statement: ast.stmt) -> bool:
    """True if a statement may keep something: it copies, adds to a container or sets an item."""
    return any(isinstance(node, ast.Call) and name_of(node.func) in KEEPING or
               isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in ast.walk(statement))


def name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
