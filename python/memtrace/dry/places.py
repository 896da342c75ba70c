"""Places in the user's own code."""
from __future__ import annotations

import ast
import functools
import os
import sys
import sysconfig
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from ..recording.generated import is_generated

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARIES = "stdlib", "platstdlib", "purelib", "platlib", "scripts"  # of sysconfig
PACKAGES = "-packages" + os.sep
WITHOUT_LOOPS = "torch", "torchgen", "functorch", "triton"  # packages whose loops are no training loops
OTHERS = tuple({HERE, *(os.path.join(sysconfig.get_path(name), "") for name in LIBRARIES)})


class Place(NamedTuple):
    """A line of a file; line 0: not known."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}" if self.line else "?"


def is_users(file: str) -> bool:
    """True for a file of the user's own program, and not of a library or a compiler."""
    return not file.startswith((*OTHERS, "<")) and PACKAGES not in file and not is_generated(file)


def may_train(file: str) -> bool:
    """True for a file of an installed package that may train."""
    folder, found, inside = file.rpartition(PACKAGES)
    return bool(found) and inside.partition(os.sep)[0] not in WITHOUT_LOOPS and not file.startswith(HERE)


def outwards(frame: Any) -> Iterator[Any]:
    """Yields a frame and its callers."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def frames_of_user(outside_of: str = "") -> list[Any]:
    """Returns the frames of the user's own code that the calling thread is in, innermost first; only those around the calls of a
    file's functions, if `outside_of` names a file that is being called."""
    frames: list[Any] = []
    for frame in outwards(sys._getframe(1)):
        file = frame.f_code.co_filename
        if file == outside_of:
            frames.clear()
        if is_users(file):
            frames.append(frame)
    return frames


def frames_of_libraries() -> list[Any]:
    """Returns the frames of installed packages that the calling thread is in, innermost first."""
    return [frame for frame in outwards(sys._getframe(1)) if may_train(frame.f_code.co_filename)]


@functools.lru_cache(maxsize=None)
def parsed(file: str) -> Optional[ast.Module]:
    """Returns the syntax tree of a file; None if it has none."""
    try:
        with open(file, encoding="utf-8") as source:
            return ast.parse(source.read())
    except (OSError, SyntaxError, ValueError):
        return None


def place_of_user() -> Place:
    """Returns the innermost line of the user's own code; without one, the innermost outside of memtrace and the interpreter."""
    frame = next(iter(frames_of_user()), None) or innermost()
    return Place(frame.f_code.co_filename, frame.f_lineno) if frame is not None else Place("", 0)


def innermost() -> Any:
    """Returns the frame of the calling thread that is innermost outside of memtrace and the interpreter; None if there is none."""
    return next((frame for frame in outwards(sys._getframe(1)) if not frame.f_code.co_filename.startswith((HERE, "<"))), None)


def frames_to_user(frame: Any) -> Iterator[Any]:
    """Yields a frame and its callers, up to the first one of the user's own code."""
    for one in outwards(frame):
        yield one
        if is_users(one.f_code.co_filename):
            return


def is_printing() -> bool:
    """True if the calling thread is in the text of a tensor, whose values decide nothing."""
    return any(frame.f_code.co_filename.endswith("_tensor_str.py") for frame in frames_to_user(sys._getframe(1)))
