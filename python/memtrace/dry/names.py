"""What names in a program's source stand for, found without running its code."""
from __future__ import annotations

import ast
import collections
from collections.abc import Mapping
from typing import Any

from ..recording.frames import variables_of

Variables = Mapping[str, Any]


def names_of(node: ast.expr) -> list[str]:
    """Returns the names of a dotted expression: ["self", "model"]; [] for any other."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else []


def variables_in(frame: Any) -> Variables:
    """Returns the variables that a frame's code sees."""
    return collections.ChainMap(dict(variables_of(frame)), frame.f_globals)


def value_of(names: list[str], variables: Variables) -> Any:
    """Returns what the names stand for, without running code of the program's; None if that is not known."""
    value = variables.get(names[0]) if names else None
    for name in names[1:]:
        fields = getattr(value, "__dict__", {})
        modules = fields.get("_modules")
        value = fields.get(name, modules.get(name) if isinstance(modules, dict) else None)
    return value
