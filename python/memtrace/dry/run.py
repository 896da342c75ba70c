"""A dry run of a part of a program: `with memtrace.dry_run("h100") as run:`."""
from __future__ import annotations

import contextlib
import importlib.util
import os
import pathlib
import sys
from typing import Any, Optional, Union

from .. import _settings
from .._questions import MemtraceError
from .._rows import Peak
from .._trace import open as open_trace
from . import files, simulated


SQLITE = b"SQLite format 3"
NEVER = -1  # steps after which a program is ended


def check_place(path: str) -> None:
    """Fails if a trace can't be written at the path. The library finds out later, within a line of the program."""
    folder = os.path.dirname(path) or "."
    if not os.access(folder, os.W_OK | os.X_OK):
        raise MemtraceError(1, f"no trace can be written into {folder}")
    if os.path.exists(path) and os.path.getsize(path):
        with open(path, "rb") as file:
            if not file.read(len(SQLITE)).startswith(SQLITE):
                raise MemtraceError(3, f"{path} is not a trace")


class DryRun(contextlib.AbstractContextManager["DryRun"]):
    """A run of a trace on a simulated card, from the beginning to the end of a `with`; then its peak."""

    def __init__(self, card: str, path: str, steps: int) -> None:
        self.card, self.path, self.steps = card, path, steps
        self._watcher: Any = None

    def __enter__(self) -> DryRun:
        if "torch" in sys.modules:
            raise MemtraceError(2, "torch is imported already, and has looked for its cards: begin the dry run before the first "
                                   "import of torch, or run the program as `memtrace dry-run -- python3 ...`")
        try:
            self._begin()
        except Exception as error:  # of torch's import, of files, or of a library: what it is depends on the installation
            files.end()
            raise error if isinstance(error, MemtraceError) else MemtraceError(1, f"no dry run: {error}") from error
        return self

    def _begin(self) -> None:
        check_place(self.path)
        spec = importlib.util.find_spec("torch")
        if spec is None or spec.origin is None:
            raise MemtraceError(1, "a dry run needs PyTorch, and there is no torch")
        os.environ["MEMTRACE_DRY_DEVICE"] = f"sim:{self.card.removeprefix('sim:')}"
        _settings.change(steps=self.steps)
        try:
            simulated.prepare(pathlib.Path(spec.origin).parent)
            from . import program  # imports torch

            self._watcher = program.begin(self.path)
        finally:
            del os.environ["MEMTRACE_DRY_DEVICE"]
            _settings.change(steps=0)

    def __exit__(self, kind: object, error: Optional[BaseException], trace: object) -> bool:
        """Ends the run. An end after enough steps ends the `with` alone."""
        from ..recording.allocator import outcome_of
        from .program import Enough

        is_enough = isinstance(error, Enough)
        self._watcher.loops.most_steps = NEVER
        try:
            self._watcher.close(outcome_of(None if is_enough else error))
        except Exception as failure:
            if error is None or is_enough:
                raise MemtraceError(1, f"the dry run could not be ended: {failure}") from failure
        finally:
            files.end()
        return is_enough

    @property
    def peak(self) -> Peak:
        return self.peak_by("role")

    def peak_by(self, what: str) -> Peak:
        """Returns what was live at the peak, by "role", "module", "category" and so on."""
        with open_trace(self.path) as trace:
            return trace.peak(by=what)

    def _repr_html_(self) -> str:
        with open_trace(self.path) as trace:
            return trace._repr_html_()


def dry_run(card: str = "h200", path: Union[str, os.PathLike[str]] = "memtrace.db", steps: int = 0) -> DryRun:
    """Runs what is in the `with` on a simulated card, and adds it to the trace at `path`. torch must not be imported yet.

        with memtrace.dry_run("h100") as run:
            train()
        print(run.peak.bytes, run.peak_by("module").shares[0])

    Ends the `with` after `steps` steps; 0: once its loops repeat themselves (docs/dry-run.md). In this process PyTorch
    keeps the simulated card. The `with` raises MemtraceError, and nothing else of its own: if torch is there already, or none
    that a dry run takes, or if no trace can be written at `path`.
    """
    return DryRun(card, os.fspath(path), steps)
