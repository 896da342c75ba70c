"""The rows of a trace's answers."""
from __future__ import annotations

import dataclasses
from typing import Any, Generic, SupportsIndex, TypeVar, overload

from ._html import bar_page, curve_page, table_page
from ._sizes import in_words
from ._text import table_text
from ._visible import visible

Row = TypeVar("Row")


@dataclasses.dataclass(frozen=True)
class Run:
    """A run of a trace, with the fields of memtrace_run_row."""

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
    """Memory that a run wastes, and the decrease of its peak without it."""

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
    """Rows of an answer. print and notebooks show them as a table."""

    @overload
    def __getitem__(self, place: SupportsIndex) -> Row: ...

    @overload
    def __getitem__(self, place: slice) -> Rows[Row]: ...

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        return Rows(found) if isinstance(place, slice) else found

    def __str__(self) -> str:
        return table_text(self._dicts())

    def _repr_html_(self) -> str:
        return table_page(self._dicts())

    def _dicts(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(row) for row in self]  # type: ignore[call-overload]


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

    @property
    def headline(self) -> str:
        """The height of the peak, and its time."""
        when = "before the first step" if self.step < 0 else f"in step {self.step}"
        place = f", {self.span}" if self.span else ""
        return f"peak of {self.measured} bytes: {in_words(self.bytes)} {when}, {self.phase}{place}"

    def __str__(self) -> str:
        return f"{visible(self.headline)}\n{table_text(self._table())}"

    def _repr_html_(self) -> str:
        """Shows the time of the peak, and its shares as a bar and as a table."""
        parts = [(share.category, share.requested_bytes if self.measured == "requested" else share.allocated_bytes)
                 for share in self.shares]
        if self.cached_bytes:
            parts.append(("cached", self.cached_bytes))
        return bar_page(self.headline, parts, self._table())

    def _table(self) -> list[dict[str, Any]]:
        return [{self.by if name == "category" else name: value for name, value in dataclasses.asdict(share).items()}
                for share in self.shares]


@dataclasses.dataclass(frozen=True)
class Curve:
    """Allocated bytes over a run. bytes[i] is the maximum from i * bin to (i + 1) * bin of the axis, which is "time" in
    nanoseconds or, for a dry run, "events", since its times are the host's. `end` is the last event."""

    axis: str
    bin: int
    end: int
    bytes: tuple[int, ...]

    def _repr_html_(self) -> str:
        return curve_page(self.bytes, f"{self.end + 1:,} events" if self.axis == "events" else f"{self.end / 1e9:.3g} s")
