"""Finds the package's files, and loads libmemtrace_torch.so as functions (src/producers/torch/memtrace_torch.h is its manual)."""
from __future__ import annotations

import ctypes
import os
import pathlib
from typing import Any

HERE = pathlib.Path(os.path.abspath(__file__)).parent

# The folder of the libraries: of a wheel, and of an installation or a build, in whose python/ the package lies.
WHEEL, BESIDE = HERE / "native", HERE.parent.parent


def find(variable: str, *places: pathlib.Path) -> str:
    """Returns the path of a file: what the environment's variable says, or the first place where there is one. Fails with
    FileNotFoundError if there is none."""
    given = os.environ.get(variable)
    if given:
        return given
    for place in places:
        if place.is_file():
            return str(place)
    raise FileNotFoundError(f"there is none of {', '.join(map(str, places))}; set {variable} to the path of the file")


def find_program() -> str:
    """Returns the path of the program memtrace."""
    return find("MEMTRACE", WHEEL / "memtrace", BESIDE / "memtrace", BESIDE.parent.parent / "bin/memtrace")


def find_library() -> str:
    """Returns the path of libmemtrace.so."""
    name = "libmemtrace.so.0"
    return find("MEMTRACE_LIBRARY", WHEEL / name, BESIDE / name, BESIDE.parent / name,
                *BESIDE.parent.glob(f"*-linux-gnu/{name}"))


def find_torch_library() -> str:
    """Returns the path of libmemtrace_torch.so."""
    name = "libmemtrace_torch.so"
    return find("MEMTRACE_TORCH_LIBRARY", WHEEL / name, BESIDE / name)


class Figures(ctypes.Structure):
    """Bytes of one card, in one category or in all (struct memtrace_torch_figures)."""

    requested: int
    allocated: int
    blocks: int
    peak_requested: int
    peak_allocated: int
    allocations: int
    reserved: int
    peak_reserved: int
    capacity: int
    segments: int
    largest_free: int
    refusals: int
    unknown_frees: int

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "requested allocated blocks peak_requested peak_allocated allocations "
            "reserved peak_reserved capacity segments largest_free refusals unknown_frees"
        ).split()
    ]


def load_torch_library(path: str, mode: int = ctypes.DEFAULT_MODE) -> Any:
    """Loads libmemtrace_torch.so and declares its functions. Calls keep the interpreter's lock, since releasing it takes
    longer."""
    library = ctypes.PyDLL(path, mode=mode)
    text, number, word = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32
    prototypes: tuple[tuple[Any, ...], ...] = (
        ("configure", number, text, text, text),
        ("close", number, number),
        ("history", None, ctypes.c_void_p),
        ("unknown", text, number, ctypes.c_void_p, ctypes.c_void_p),
        ("simulate", number, text),
        ("describe", number, text, ctypes.c_void_p),
        ("counters", number, number, ctypes.c_void_p),
        ("memory_fraction", None, ctypes.c_double, number),
        ("answer", None),
        ("watch", number, ctypes.c_void_p, text, text),
        ("is_watching", number),
        ("card", None, number, text, ctypes.c_uint64),
        ("attach", number),
        ("found_segment", None, number, *3 * [ctypes.c_uint64], number),
        ("found_block", None, number, *4 * [ctypes.c_uint64]),
        ("last_error", text),
        ("span", word, word, text, text),
        ("category", number, text),
        ("category_name", text, number),
        ("phase_number", number, text),
        ("span_begin", word, word, number),
        ("span_end", None, word),
        ("span_now", word),
        ("category_now", number),
        ("phase", None, number, number),
        ("step_begin", ctypes.c_int64),
        ("step_end", None),
        ("relabel", number, ctypes.c_void_p, word, number),
        ("measure", None, text, ctypes.c_double),
        ("caveat", None, text, text, text, number, *3 * [ctypes.c_int64], ctypes.c_double),
        ("ended_by", None, text),
        ("python", number),
        ("module_call", ctypes.py_object, *3 * [ctypes.py_object]),
        ("gradient_hook", ctypes.py_object, word, number),
        ("module", None, ctypes.c_uint64, word, number),
        ("module_end", None, ctypes.c_uint64),
        ("graph", number, word, word, ctypes.c_uint64),
        ("stacks", number, number),
        ("stack_text", text),
        ("stacks_begin", None, text),
        ("stacks_end", None),
        ("backward_begin", None),
        ("backward_end", None),
        ("operators", number),
        ("operators_end", None),
        ("operator_now", text),
        ("grad_mode", number),
        ("statistics", number, number, number, ctypes.POINTER(Figures)),
        ("reset_peaks", None, number),
        ("reset", None),
    )
    for name, result, *arguments in prototypes:
        function = getattr(library, "memtrace_torch_" + name)
        function.restype, function.argtypes = result, arguments
    return library
