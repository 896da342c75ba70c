"""include/memtrace.h for ctypes: the structs and functions of its questions. The header is their manual.

tests/python/test_header.py compares the layout of each struct here with the compiler's.
"""
from __future__ import annotations

import ctypes
import functools
from typing import Any, Callable

from ._library import find_library

TEXT, INT, I32 = ctypes.c_char_p, ctypes.c_int, ctypes.c_int32
I64, U64, SIZE, HANDLE = ctypes.c_int64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p

MEASURED = {"allocated": 0, "requested": 1, "reserved": 2}
MOMENTS = {"peak": 0, "run": 1}
FORMATS = {"csv": 0, "events": 1, "folded": 2, "pickle": 3, "perfetto": 4}
ALL_STEPS = -2


class RunRow(ctypes.Structure):
    _fields_ = [("number", I64), ("name", TEXT), ("state", TEXT), ("device", TEXT), ("started_at", TEXT),
                ("capacity_bytes", U64), ("events", I64), ("lost_events", I64), ("steps", I64), ("missing_records", I64),
                ("rank", I64), ("local_rank", I64), ("world_size", I64), ("host", TEXT), ("job", TEXT)]


class ShareRow(ctypes.Structure):
    _fields_ = [("category", TEXT), ("allocated_bytes", U64), ("requested_bytes", U64), ("blocks", U64)]


class PeakRow(ctypes.Structure):
    _fields_ = [("bytes", U64), ("cached_bytes", U64), ("step", I64), ("time_ns", U64), ("phase", TEXT), ("span", TEXT),
                ("share_count", SIZE), ("shares", ctypes.POINTER(ctypes.POINTER(ShareRow)))]


class TopRow(ctypes.Structure):
    _fields_ = [("bytes", U64), ("count", U64), ("category", TEXT), ("op", TEXT), ("phase", TEXT), ("role", TEXT),
                ("dtype", TEXT), ("shape", TEXT), ("span", TEXT), ("step", I64)]


class CategoryRow(ctypes.Structure):
    _fields_ = [("category", TEXT), ("max_bytes", U64), ("total_bytes", U64), ("per_step", U64), ("forward_bytes", U64)]


class CauseRow(ctypes.Structure):
    _fields_ = [("kind", TEXT), ("category", TEXT), ("bytes", I64), ("a_blocks", U64), ("b_blocks", U64), ("a_bytes", U64),
                ("b_bytes", U64)]


class FindingRow(ctypes.Structure):
    _fields_ = [("pattern", TEXT), ("category", TEXT), ("role", TEXT), ("op", TEXT), ("phase", TEXT), ("span", TEXT),
                ("bytes", U64), ("blocks", U64), ("saved_bytes", U64)]


# The structs by their names in the header.
STRUCTS: dict[str, type[ctypes.Structure]] = {
    "memtrace_run_row": RunRow,
    "memtrace_share": ShareRow,
    "memtrace_peak": PeakRow,
    "memtrace_top_row": TopRow,
    "memtrace_category_row": CategoryRow,
    "memtrace_cause": CauseRow,
    "memtrace_finding": FindingRow,
}


class MemtraceError(Exception):
    """A failure, in the library's words; `status` is its memtrace_status, the exit code that the program has for it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def rows_of(struct: type[ctypes.Structure]) -> Any:
    """Returns the type of an array of pointers to rows."""
    return ctypes.POINTER(ctypes.POINTER(struct))


@functools.lru_cache(maxsize=None)
def library() -> Any:
    """Loads libmemtrace.so, once, and declares its functions."""
    loaded = ctypes.CDLL(find_library())
    run, out = ctypes.POINTER(RunRow), ctypes.POINTER
    prototypes: tuple[tuple[Any, ...], ...] = (
        ("version", TEXT),
        ("last_error", TEXT),
        ("free", None, HANDLE),
        ("trace_open", INT, TEXT, out(HANDLE)),
        ("trace_close", None, HANDLE),
        ("trace_runs", INT, HANDLE, out(rows_of(RunRow)), out(SIZE)),
        ("trace_find_run", INT, HANDLE, TEXT, out(run)),
        ("trace_peak_by", INT, HANDLE, run, I64, INT, TEXT, out(out(PeakRow))),
        ("trace_top", INT, HANDLE, run, INT, SIZE, out(rows_of(TopRow)), out(SIZE)),
        ("trace_categories", INT, HANDLE, run, TEXT, out(rows_of(CategoryRow)), out(SIZE)),
        ("trace_diff", INT, HANDLE, run, HANDLE, run, INT, out(rows_of(CauseRow)), out(SIZE)),
        ("trace_advise", INT, HANDLE, run, SIZE, out(rows_of(FindingRow)), out(SIZE)),
        ("trace_export", INT, HANDLE, run, INT, TEXT),
    )
    for name, result, *arguments in prototypes:
        function = getattr(loaded, "memtrace_" + name)
        function.restype, function.argtypes = result, arguments
    return loaded


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status; raises MemtraceError unless that is 0."""
    function: Callable[..., int] = getattr(library(), "memtrace_" + name)
    status = function(*arguments)
    if status != 0:
        raise MemtraceError(status, library().memtrace_last_error().decode(errors="replace"))
