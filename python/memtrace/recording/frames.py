"""Frames of running functions of the program, and their variables."""
from __future__ import annotations

import ctypes
import functools
import inspect
import os
import sys
import sysconfig
import threading
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional

import torch

from .generated import is_generated

LIBRARIES = {os.path.realpath(folder) for folder in (os.path.dirname(os.path.dirname(torch.__file__)), *(
    sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")))}
HERE = os.path.dirname(os.path.abspath(__file__))


@functools.lru_cache(maxsize=None)
def is_of_library(file: str) -> bool:
    """True for a file of Python or of an installed package, and for code that a compiler generated."""
    return is_generated(file) or any(os.path.realpath(file).startswith(folder + os.sep) for folder in LIBRARIES)


def is_own(frame: Any) -> bool:
    """True for a frame of memtrace."""
    return bool(frame.f_code.co_filename.startswith(os.path.dirname(HERE)))


def frames_from(frame: Any) -> list[Any]:
    """Returns a frame and its callers, without memtrace's frames."""
    found = []
    while frame is not None:
        if not is_own(frame):
            found.append(frame)
        frame = frame.f_back
    return found


def frames_of_other_threads() -> list[Any]:
    own = threading.get_ident()
    return [frame for thread, top in sys._current_frames().items() if thread != own for frame in frames_from(top)]


def frames_of_error(error: BaseException) -> list[Any]:
    """Returns the frames in an exception's traceback, the innermost first."""
    found: list[Any] = []
    trace = error.__traceback__
    while trace is not None:
        found.insert(0, trace.tb_frame)
        trace = trace.tb_next
    return [frame for frame in found if not is_own(frame)]


def file_of(one: Any) -> str:
    """Returns the file of a function, a class or an object's class; "": unknown."""
    code = getattr(one, "__code__", None)
    if code is not None:
        return str(code.co_filename)
    module = sys.modules.get(getattr(one if isinstance(one, type) else type(one), "__module__", ""))
    return getattr(module, "__file__", None) or ""


def variables_of(frame: Any) -> list[tuple[str, Any]]:
    """Returns the local variables of a frame. Before Python 3.13, reading them writes them to a dict that the frame keeps, and that
    locals() has returned to the program, so the dict gets its former content again. A class body's variables exist only in the dict."""
    if sys.version_info >= (3, 13) or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return list(frame.f_locals.items())
    former = kept_locals(frame)
    space = frame.f_locals
    found = list(space.items())
    space.clear()
    space.update(former)
    return found


class Offsets(NamedTuple):
    """Where a frame has its dict of variables: an offset in the frame object or, from Python 3.11, in the struct that it points to."""

    struct: Optional[int]
    kept: int


OFFSETS = {9: Offsets(None, 56), 10: Offsets(None, 56), 11: Offsets(24, 24), 12: Offsets(24, 40)}  # by version of Python


def address_of_locals(frame: Any, offsets: Offsets) -> int:
    """Returns the address of the dict of variables that the frame of a function keeps; 0 if it keeps none."""
    begin = id(frame) if offsets.struct is None else ctypes.c_void_p.from_address(id(frame) + offsets.struct).value or 0
    return ctypes.c_void_p.from_address(begin + offsets.kept).value or 0


@functools.lru_cache(maxsize=None)
def checked_offsets() -> Optional[Offsets]:
    """Returns the offsets for this Python; None if it is another one."""
    offsets = OFFSETS.get(sys.version_info.minor)
    if offsets is None or sys.implementation.name != "cpython" or sys.abiflags:
        return None
    is_right = address_of_locals(sys._getframe(), offsets) == 0 and id(locals()) == address_of_locals(sys._getframe(), offsets)
    return offsets if is_right else None


def kept_locals(frame: Any) -> dict[str, Any]:
    """Returns a copy of the dict of variables that the frame of a function keeps, without bringing it up to date."""
    offsets = checked_offsets()
    address = address_of_locals(frame, offsets) if offsets is not None else 0
    return dict(ctypes.cast(address, ctypes.py_object).value) if address else {}


class Locals:
    """The values of local variables, by id. Variables of the program precede variables of libraries."""

    def __init__(self, frames: Iterable[Any]) -> None:
        self.found: dict[int, tuple[Any, str]] = {}
        for frame in sorted(frames, key=lambda one: is_of_library(one.f_code.co_filename)):
            if frame.f_code.co_name == "<module>":
                continue
            for name, value in variables_of(frame):
                if name != "self" or id(value) not in self.found:
                    self.found.setdefault(id(value), (frame, name))
