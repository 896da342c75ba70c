"""Finds the libcudnn that answers questions about convolutions: of the program's packages, or where MEMTRACE_CUDNN names it. "off":
none, so that they are estimated."""
from __future__ import annotations

import os
import pathlib
import sys
from typing import Any, Optional

from .._library import find_cudnn_helper
from . import cache

NAME = "libcudnn.so.9"
VARIABLE, OFF = "MEMTRACE_CUDNN", "off"


def find() -> Optional[pathlib.Path]:
    """Returns the library's path; None if there is none. Fails with RuntimeError if the variable names none."""
    given = os.environ.get(VARIABLE)
    if given == OFF:
        return None
    if not given:
        places = (pathlib.Path(folder or ".") / "nvidia/cudnn/lib" / NAME for folder in sys.path)
        return next((place.resolve() for place in places if place.is_file()), None)
    path = pathlib.Path(given)
    path = path / NAME if path.is_dir() else path
    if not path.is_file():
        raise RuntimeError(f"{VARIABLE}={given}: there is no {NAME}; name the file, or the folder that has it, or {OFF}")
    return path.resolve()


def folder_of_answers() -> Optional[pathlib.Path]:
    """Returns a folder that only this user can write; None if there is none."""
    try:
        folder = cache.choose()
        folder.mkdir(mode=cache.PRIVATE, parents=True, exist_ok=True)
        cache.make_private(folder)
    except (cache.NoLibrary, cache.Unsafe, OSError):
        return None
    return folder


def begin(library: Any) -> None:
    """Has libmemtrace_torch.so ask cuDNN, if there is one."""
    path = find()
    if path is not None:
        folder = folder_of_answers()
        library.memtrace_torch_cudnn(os.fsencode(find_cudnn_helper()), os.fsencode(path),
                                     None if folder is None else os.fsencode(folder))
