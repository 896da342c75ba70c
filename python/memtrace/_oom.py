"""The answer about a run that ended out of memory, like `memtrace oom`."""
from __future__ import annotations

import dataclasses
import html
import json
from collections.abc import Mapping
from typing import Any, Optional

from ._html import paragraph, table_page
from ._program import ask_program
from ._rows import Rows, Share
from ._sizes import in_words
from ._text import table_text
from ._visible import visible


NOTHING_SUFFICES = "No change that was tried is enough."


@dataclasses.dataclass(frozen=True)
class Change:
    """A change with which the request would have succeeded. proof="simulation": the whole run was simulated with it, by
    `command`; "replay": the run up to the request was replayed with it, and `hint` describes how to make it. The other of
    the two texts is "". `room_bytes` is the memory that the change leaves free."""

    change: str
    proof: str
    reserved_bytes: int
    room_bytes: int
    command: str
    hint: str


@dataclasses.dataclass(frozen=True)
class Oom:
    """The request that was refused, the live memory by role, and the changes, cheapest first. `step` is -1 before the first;
    `short_bytes` is None if as many bytes were free, but not in one piece, or a limit of the process refused."""

    run: int
    requested_bytes: int
    short_bytes: Optional[int]
    allocated_bytes: int
    reserved_bytes: int
    step: int
    category: str
    role: str
    op: str
    phase: str
    dtype: str
    shape: str
    span: str
    verdict: str
    shares: Rows[Share]
    changes: Rows[Change]

    @property
    def headline(self) -> str:
        """The failed request, its place, and the missing memory."""
        place = f" at {self.span}" if self.span else ""
        when = "before the first step" if self.step < 0 else f"in {self.phase} of step {self.step}"
        short = "" if self.short_bytes is None else f"; {in_words(self.short_bytes)} short"
        what = f"{self.category} ({self.op})" if self.op else self.category
        return (f"Out of memory: run {self.run} asked for {in_words(self.requested_bytes)} of {what or 'memory'}"
                f"{place}, {when}{short}")

    def __str__(self) -> str:
        hints = [f"{number}. {change.command or change.hint}" for number, change in enumerate(self.changes, 1)]
        return "\n".join([visible(self.headline), visible(self.verdict), "", table_text(self._live()), "",
                          table_text(self._remedies()) if hints else NOTHING_SUFFICES, *map(visible, hints)])

    def _repr_html_(self) -> str:
        changes = table_page(self._remedies()) if self.changes else paragraph(NOTHING_SUFFICES)
        hints = "".join(f"<li>{html.escape(change.command or change.hint)}</li>" for change in self.changes)
        return f"{paragraph(self.headline)}{paragraph(self.verdict)}{changes}<ol>{hints}</ol>{table_page(self._live())}"

    def _live(self) -> list[dict[str, Any]]:
        return [{"live, by role": share.category, "allocated_bytes": share.allocated_bytes, "blocks": share.blocks}
                for share in self.shares]

    def _remedies(self) -> list[dict[str, Any]]:
        return [{"#": number, "enough": change.change, "proved by": change.proof,
                 "peak_reserved_bytes": change.reserved_bytes, "to_spare_bytes": change.room_bytes}
                for number, change in enumerate(self.changes, 1)]


def texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a row of JSON with "" for texts that are not in the trace."""
    return {name: "" if value is None else value for name, value in row.items()}


def fields_of(kind: Any, row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of a dataclass that a row has."""
    return {field.name: row[field.name] for field in dataclasses.fields(kind) if field.name in row}


def ask_oom(path: str, run: Optional[str]) -> Oom:
    """Returns the answer about a run; None is the newest that ended out of memory."""
    answer = json.loads(ask_program("oom", "--trace", path, "--json", *(("--run", run) if run is not None else ())))
    asked, memory = answer["asked"], answer["memory"]
    numbers = {"step": -1 if asked["step"] is None else asked["step"], "short_bytes": memory["short_bytes"]}
    shares = Rows(Share(row["role"], row["allocated_bytes"], row["requested_bytes"], row["blocks"]) for row in answer["by_role"])
    changes = Rows(Change(**fields_of(Change, texts(row))) for row in answer["changes"])
    found = {**texts(answer), **memory, **texts(asked), **numbers, "shares": shares, "changes": changes}
    return Oom(**fields_of(Oom, found))
