"""Runs code around the first execution of a module, however it is imported. Needs only the standard library, since it is loaded
before every program that memtrace starts."""
from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Callable, Optional

Execute = Callable[[ModuleType], None]


class ImportHook:
    """A finder for sys.meta_path that wraps the execution of one module.

    Finding the module, as in `importlib.util.find_spec`, does not import it: many libraries check whether torch exists, and import
    it later. So each found spec gets a wrapped loader, and the hook stays until the module has been executed.

    `around(spec, execute, module)` is called instead of the execution, and calls `execute(module)`.
    """

    def __init__(self, name: str, around: Callable[[Any, Execute, ModuleType], None]) -> None:
        self.name, self.around = name, around
        self.is_done = self.is_asking = False

    def install(self) -> None:
        sys.meta_path.insert(0, self)

    def remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self.name or self.is_done or self.is_asking:  # is_asking: called during this hook's own search
            return None
        self.is_asking = True
        try:
            spec = self._find(name, path, target)
        finally:
            self.is_asking = False
        if spec is not None and hasattr(spec.loader, "exec_module"):
            self._wrap(spec)
        return spec

    def _find(self, name: str, path: Any, target: Any) -> Optional[Any]:
        """Returns the other finders' result."""
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(name, path, target)
                if spec is not None:
                    return spec
        return None

    def _wrap(self, spec: Any) -> None:
        original = spec.loader.exec_module

        def execute(module: ModuleType) -> None:
            if self.is_done or module.__name__ != self.name:  # some loaders serve many modules
                original(module)
                return
            spec.loader.exec_module = original
            self.is_done = True
            self.remove()
            self.around(spec, original, module)

        spec.loader.exec_module = execute
