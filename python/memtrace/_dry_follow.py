"""Changes modules of libraries once they have been imported, without importing them."""
from __future__ import annotations

import importlib.machinery
import sys
from typing import Any, Callable


class Finder:
    """Finds the modules to change, and changes them once they have been executed."""

    def __init__(self) -> None:
        self.changes: dict[str, Callable[[Any], None]] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        change = self.changes.get(name)
        spec: Any = importlib.machinery.PathFinder.find_spec(name, path) if change is not None else None
        if change is None or spec is None or not hasattr(spec.loader, "exec_module"):
            return None
        original, changing = spec.loader.exec_module, change

        def exec_module(module: Any) -> None:
            original(module)
            changing(module)

        spec.loader.exec_module = exec_module
        return spec


finder = Finder()


def follow(changes: dict[str, Callable[[Any], None]]) -> None:
    """Calls each function with the module of its name: now if it is imported, else after its import."""
    if finder not in sys.meta_path:
        sys.meta_path.insert(0, finder)
    finder.changes.update(changes)
    for name, change in changes.items():
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            change(module)
