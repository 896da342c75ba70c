"""Recording a part of a PyTorch program: `with memtrace.record("train.db"):`."""
from __future__ import annotations

import contextlib
import importlib
import os
import sys
from typing import Any, Optional, Union


def obstacle() -> Optional[str]:
    """Returns why nothing can be recorded here; None if it can."""
    try:
        import torch
    except ImportError:
        return "there is no torch"
    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    return None


def find_watcher() -> Any:
    """Returns the part of the package that watches PyTorch's allocator. Raises RuntimeError with the obstacle."""
    reason = obstacle()
    if reason is not None:
        raise RuntimeError(reason)
    return importlib.import_module("._watch", __package__)


class Recording(contextlib.ContextDecorator):
    """A run of a trace, from the beginning to the end of a `with` or of a function."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._watcher: Any = None

    def __enter__(self) -> Recording:
        try:
            self._watcher = find_watcher()
        except RuntimeError as error:
            print(f"memtrace: {error}: nothing is recorded", file=sys.stderr)
            return self
        self._watcher.begin(self.path)
        return self

    def __exit__(self, *error: object) -> None:
        if self._watcher is not None:
            self._watcher.end()
            self._watcher = None


def record(path: Union[str, os.PathLike[str]] = "memtrace.db") -> Recording:
    """Records what PyTorch's allocator hands out, as a new run of the trace at `path`: tensors by module, role and step.

        with memtrace.record("train.db"):
            train()

        @memtrace.record("train.db")
        def train(): ...

    Nothing about the program changes. Where nothing can be recorded, says so in one line and runs on.
    """
    return Recording(os.fspath(path))
