"""Queries of a trace, in Python: `memtrace.open("train.db").peak()`."""
from __future__ import annotations

import ctypes
import os
from typing import Any, Optional, Union

from ._declarations import library, plain, public, value_of
from ._html import Page, trace_page
from ._oom import Oom, ask_oom
from ._program import ask_program
from ._questions import AXES, FORMATS, MEASURED, MOMENTS, call, number_of
from ._rows import Block, Category, Cause, Curve, Finding, Peak, Row, Rows, Run, Share
from ._text import table_text
from ._visible import visible

Path = Union[str, os.PathLike[str]]
SHOWN = "number", "name", "state", "device", "started_at", "steps", "events"  # columns of a list of runs


def pointer_to(struct: str) -> type[Any]:
    """Returns the type of a pointer to a struct of memtrace.h, by its name there without "memtrace_"."""
    return ctypes.POINTER(public().structs["memtrace_" + struct])


class Trace:
    """A trace opened for reading, in its state at that moment. Close it, or use it in a `with`.

    `run` is a number or a name everywhere; None is the newest run. Failures raise MemtraceError.
    """

    def __init__(self, path: Path) -> None:
        self.path = os.fspath(path)
        self._handle = ctypes.c_void_p()
        call("trace_open", os.fsencode(path), ctypes.byref(self._handle))

    def close(self) -> None:
        library().memtrace_trace_close(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    def runs(self) -> Rows[Run]:
        """Returns all runs, oldest first."""
        return self._rows("run_row", Run, "trace_runs")

    def run(self, run: Union[None, int, str] = None) -> Run:
        """Returns one run."""
        return plain(self._find(run).contents, Run)

    def peak(self, run: Union[None, int, str] = None, *, step: Optional[int] = None, measured: str = "allocated",
             by: str = "category") -> Peak:
        """Returns the peak of a run, or of one of its steps (-1: before the first).

        measured: "allocated", "requested" or "reserved" bytes.
        by: the shares, by "category", "role", "module", "op", "phase" or "dtype".
        """
        out = pointer_to("peak")()
        call("trace_peak_by", self._open(), self._find(run), public().constants["MEMTRACE_ALL_STEPS"] if step is None else step,
                    number_of(measured, MEASURED), by.encode(), ctypes.byref(out))
        try:
            found = out.contents
            shares = Rows(plain(found.shares[index].contents, Share) for index in range(found.share_count))
            return Peak(measured, by, found.bytes, found.cached_bytes, found.step, found.time_ns, value_of(found.phase),
                        value_of(found.span), shares)
        finally:
            library().memtrace_free(out)

    def top(self, limit: int = 10, run: Union[None, int, str] = None, *, at: str = "peak") -> Rows[Block]:
        """Returns the largest blocks, at="peak" or of the whole "run"."""
        return self._rows("top_row", Block, "trace_top", self._find(run), number_of(at, MOMENTS), limit)

    def categories(self, run: Union[None, int, str] = None, *, phase: Optional[str] = None) -> Rows[Category]:
        """Returns a row for each category, the largest block first, of blocks allocated in a phase, or in any."""
        return self._rows("category_row", Category, "trace_categories", self._find(run),
                          None if phase is None else phase.encode())

    def diff(self, a: Union[int, str], b: Union[None, int, str] = None, *, other: Optional[Trace] = None,
             measured: str = "allocated") -> Rows[Cause]:
        """Returns why run `b`, of this trace or of `other`, peaks higher than run `a` of this one. The causes sum to the
        difference, to the byte."""
        there = other or self
        return self._rows("cause", Cause, "trace_diff", self._find(a), there._open(), there._find(b),
                          number_of(measured, MEASURED))

    def advise(self, limit: int = 10, run: Union[None, int, str] = None) -> Rows[Finding]:
        """Returns changes that would lower the peak, each checked by a replay."""
        return self._rows("finding", Finding, "trace_advise", self._find(run), limit)

    def export(self, path: Path, format: str, run: Union[None, int, str] = None) -> None:
        """Writes a run as "csv", "events", "folded", "pickle" (a snapshot of PyTorch) or "perfetto"."""
        call("trace_export", self._open(), self._find(run), number_of(format, FORMATS), os.fsencode(path))

    def curve(self, run: Union[None, int, str] = None) -> Curve:
        """Returns allocated bytes over a run, for a chart."""
        out = pointer_to("curve")()
        call("trace_curve", self._open(), self._find(run), ctypes.byref(out))
        try:
            found = out.contents
            return Curve(AXES[found.axis], found.bin, found.end, tuple(found.bytes[:found.count]))
        finally:
            library().memtrace_free(out)

    def oom(self, run: Union[None, int, str] = None) -> Oom:
        """Returns why a run ran out of memory, and changes that would have prevented it. None is the newest such run."""
        return ask_oom(self.path, None if run is None else str(run))

    def timeline(self, run: Union[None, int, str] = None, *, height: int = 800) -> Page:
        """Returns the page that `memtrace timeline` writes, which a notebook shows in `height` pixels."""
        return Page(ask_program("timeline", "--trace", self.path, "--run", str(self.run(run).number), "-o", "-"), height)

    def __str__(self) -> str:
        peak = f"\n\n{self.peak(by='role')}" if self.runs() else ""
        return f"{visible(self.path)}\n{table_text(self._list())}{peak}"

    def _repr_html_(self) -> str:
        runs = self._list()
        curve, peak = (self.curve()._repr_html_(), self.peak(by="role")._repr_html_()) if runs else ("", "")
        return trace_page(self.path, runs, curve, peak)

    def _list(self) -> list[dict[str, Any]]:
        return [{name: getattr(run, name) for name in SHOWN} for run in self.runs()]

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError(f"the trace {self.path} is closed")
        return self._handle

    def _find(self, run: Union[None, int, str]) -> Any:
        out = pointer_to("run_row")()
        call("trace_find_run", self._open(), None if run is None else str(run).encode(), ctypes.byref(out))
        return out

    def _rows(self, struct: str, kind: type[Row], question: str, *arguments: Any) -> Rows[Row]:
        """Runs a query whose answer is an array of rows."""
        rows, count = ctypes.POINTER(pointer_to(struct))(), ctypes.c_size_t()
        call(question, self._open(), *arguments, ctypes.byref(rows), ctypes.byref(count))
        try:
            return Rows(plain(rows[index].contents, kind) for index in range(count.value))
        finally:
            library().memtrace_free(rows)


def open(path: Path = "memtrace.db") -> Trace:
    """Opens a trace for queries. First stores the events that a killed program left in the ring."""
    return Trace(path)
