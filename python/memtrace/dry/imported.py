"""Changes modules of libraries once they have been imported, without importing them."""
from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ..recording.import_hook import ImportHook


def follow(changes: dict[str, Callable[[Any], None]]) -> None:
    """Calls each function with the module of its name: now if it is imported, else after its import."""
    for name, change in changes.items():
        module = sys.modules.get(name)
        if module is not None and not getattr(module.__spec__, "_initializing", False):
            change(module)
        else:
            ImportHook(name, changing(change)).install()


def changing(change: Callable[[Any], None]) -> Callable[[Any, Callable[[ModuleType], None], ModuleType], None]:
    """Returns a function for an ImportHook that changes the module after its execution."""
    def around(spec: Any, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        execute(module)
        change(module)

    return around
