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
    if "_memtrace.recording.watching" in sys.modules:  # loaded by start/sitecustomize.py
        return "memtrace record watches this process already"
    return None


class Recording(contextlib.ContextDecorator):
    """A run in a trace, from the beginning to the end of a `with` or of a function."""

    def __init__(self, path: str, stacks: bool) -> None:
        self.path, self.stacks = path, stacks
        self._watcher: Any = None

    def __enter__(self) -> Recording:
        reason = obstacle() or self._begin()
        if reason is not None:
            print(f"memtrace: {reason}: nothing is recorded", file=sys.stderr)
        return self

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        if self._watcher is not None:
            from .allocator import outcome_of

            self._watcher.end(outcome_of(error))
            self._watcher = None

    def _begin(self) -> Optional[str]:
        """Begins to watch. Returns the reason of any failure: watching must not make the program fail."""
        try:
            watcher = importlib.import_module(".watching", __package__)
            watcher.begin(self.path, with_stacks=self.stacks)
        except Exception as error:
            return str(error) or repr(error)
        self._watcher = watcher
        return None


def record(path: Union[str, os.PathLike[str]] = "memtrace.db", stacks: bool = True) -> Recording:
    """Records the memory allocated by PyTorch's allocator, as a new run in the trace at `path`: tensors by module, role and step
    and, unless `stacks` is False, by operator and call stack.

        with memtrace.record("train.db"):
            train()

        @memtrace.record("train.db")
        def train(): ...

    The program does not change. If nothing can be recorded, prints one line about it and continues.
    """
    return Recording(os.fspath(path), stacks)
