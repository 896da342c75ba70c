"""Queries of libmemtrace.so: their choices, and calls that fail with MemtraceError."""
from __future__ import annotations

from typing import Any, Callable

from ._declarations import library, public

# Choices by the names that the package's functions accept, and the header's constants.
MEASURED = {"allocated": "MEMTRACE_ALLOCATED", "requested": "MEMTRACE_REQUESTED", "reserved": "MEMTRACE_RESERVED"}
MOMENTS = {"peak": "MEMTRACE_AT_PEAK", "run": "MEMTRACE_WHOLE_RUN"}
AXES = ("time", "events")  # by memtrace_axis
FORMATS = {"csv": "MEMTRACE_BLOCKS_CSV", "events": "MEMTRACE_EVENTS_CSV", "folded": "MEMTRACE_FOLDED",
           "pickle": "MEMTRACE_TORCH_PICKLE", "perfetto": "MEMTRACE_PERFETTO"}


class MemtraceError(Exception):
    """A failure, with the library's message; `status` is its memtrace_status, which is also the program's exit code."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status; raises MemtraceError unless it is 0."""
    function: Callable[..., int] = getattr(library(), "memtrace_" + name)
    status = function(*arguments)
    if status != 0:
        raise MemtraceError(status, library().memtrace_last_error().decode(errors="replace"))


def number_of(name: str, choices: dict[str, str]) -> int:
    """Returns the number of a choice; raises ValueError with the valid choices otherwise."""
    if name not in choices:
        raise ValueError(f"{name!r} is none of {', '.join(choices)}")
    return public().constants[choices[name]]
