"""Questions to a trace, as Python: `memtrace.open("train.db").peak()`."""
from __future__ import annotations

import ctypes
import dataclasses
import os
from typing import Any, Generic, Optional, SupportsIndex, TypeVar, Union, overload

from ._declarations import library, plain, public, value_of
from ._html import bar_page, table_page, trace_page
from ._questions import FORMATS, MEASURED, MOMENTS, call, number_of
from ._sizes import in_words

Path = Union[str, os.PathLike[str]]
Row = TypeVar("Row")


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a trace. Fields are those of memtrace_run_row."""

    number: int
    name: str
    state: str
    device: str
    started_at: str
    capacity_bytes: int
    events: int
    lost_events: int
    steps: int
    missing_records: int
    rank: int
    local_rank: int
    world_size: int
    host: str
    job: str


@dataclasses.dataclass(frozen=True)
class Share:
    """The part of one category, role or other group in a peak."""

    category: str
    allocated_bytes: int
    requested_bytes: int
    blocks: int


@dataclasses.dataclass(frozen=True)
class Block:
    """Blocks that are equal except for their layer: `count` of `bytes` each."""

    bytes: int
    count: int
    category: str
    op: str
    phase: str
    role: str
    dtype: str
    shape: str
    span: str
    step: int


@dataclasses.dataclass(frozen=True)
class Category:
    """The blocks of one category."""

    category: str
    max_bytes: int
    total_bytes: int
    per_step: int
    forward_bytes: int


@dataclasses.dataclass(frozen=True)
class Cause:
    """A cause of the difference of two runs: bytes more in the second."""

    kind: str
    category: str
    bytes: int
    a_blocks: int
    b_blocks: int
    a_bytes: int
    b_bytes: int


@dataclasses.dataclass(frozen=True)
class Finding:
    """Memory that a run wastes, and how far its peak falls without it."""

    pattern: str
    category: str
    role: str
    op: str
    phase: str
    span: str
    bytes: int
    blocks: int
    saved_bytes: int


class Rows(tuple[Row, ...], Generic[Row]):
    """Rows of an answer. Notebooks show them as a table."""

    @overload
    def __getitem__(self, place: SupportsIndex) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> Rows[Row]: ...

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return Rows(found) if isinstance(place, slice) else found

    def _repr_html_(self) -> str:
        return table_page([dataclasses.asdict(row) for row in self])  # type: ignore[call-overload]


@dataclasses.dataclass(frozen=True)
class Peak:
    """The first moment with the highest value. The allocated bytes of the shares (requested bytes for measured="requested")
    and cached_bytes sum to `bytes`. `step` is -1 before the first."""

    measured: str
    by: str
    bytes: int
    cached_bytes: int
    step: int
    time_ns: int
    phase: str
    span: str
    shares: Rows[Share]

    def _repr_html_(self) -> str:
        """Shows when it was, its shares as a bar, and as a table."""
        parts = [(share.category, share.requested_bytes if self.measured == "requested" else share.allocated_bytes)
                 for share in self.shares]
        if self.cached_bytes:
            parts.append(("cached", self.cached_bytes))
        when = "before the first step" if self.step < 0 else f"in step {self.step}"
        place = f", {self.span}" if self.span else ""
        rows = [{self.by if name == "category" else name: value for name, value in dataclasses.asdict(share).items()}
                for share in self.shares]
        return bar_page(f"peak of {self.measured} bytes: {in_words(self.bytes)} {when}, {self.phase}{place}", parts, rows)


def pointer_to(struct: str) -> type[Any]:
    """Returns the type of a pointer to a struct of memtrace.h, by its name there without "memtrace_"."""
    return ctypes.POINTER(public().structs["memtrace_" + struct])


class Trace:
    """A trace that is open for reading, as it was at that moment. Close it, or use it in a `with`.

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
        """Returns the peak of a run, or of one of its steps (-1: of the time before the first).

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
        """Returns a row for each category, the largest block first, of blocks that were taken in a phase, or in any."""
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
        """Returns what would lower the peak; each claim was checked by a replay."""
        return self._rows("finding", Finding, "trace_advise", self._find(run), limit)

    def export(self, path: Path, format: str, run: Union[None, int, str] = None) -> None:
        """Writes a run as "csv", "events", "folded", "pickle" (a snapshot of PyTorch) or "perfetto"."""
        call("trace_export", self._open(), self._find(run), number_of(format, FORMATS), os.fsencode(path))

    def _repr_html_(self) -> str:
        runs = self.runs()
        return trace_page(self.path, [dataclasses.asdict(run) for run in runs], self.peak()._repr_html_() if runs else "")

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError(f"the trace {self.path} is closed")
        return self._handle

    def _find(self, run: Union[None, int, str]) -> Any:
        out = pointer_to("run_row")()
        call("trace_find_run", self._open(), None if run is None else str(run).encode(), ctypes.byref(out))
        return out

    def _rows(self, struct: str, kind: type[Row], question: str, *arguments: Any) -> Rows[Row]:
        """Asks a question whose answer is an array of rows."""
        rows, count = ctypes.POINTER(pointer_to(struct))(), ctypes.c_size_t()
        call(question, self._open(), *arguments, ctypes.byref(rows), ctypes.byref(count))
        try:
            return Rows(plain(rows[index].contents, kind) for index in range(count.value))
        finally:
            library().memtrace_free(rows)


def open(path: Path = "memtrace.db") -> Trace:
    """Opens a trace for questions. First stores what a killed program left in the ring."""
    return Trace(path)
