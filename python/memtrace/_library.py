"""Finds the program, the libraries and the C headers of memtrace."""
from __future__ import annotations

import os
import pathlib
from collections.abc import Iterable

HERE = pathlib.Path(os.path.abspath(__file__)).parent

# The folder of the libraries: in a wheel, and in an installation or a build, whose python/ contains the package.
WHEEL, BESIDE = HERE / "native", HERE.parent.parent


def first_of(places: Iterable[pathlib.Path], advice: str) -> str:
    """Returns the first of the paths that exists. Fails with FileNotFoundError if none does."""
    tried = list(places)
    for place in tried:
        if place.is_file():
            return str(place)
    raise FileNotFoundError(f"there is none of {', '.join(map(str, tried))}; {advice}")


def find(variable: str, *places: pathlib.Path) -> str:
    """Returns the path of a file: the value of the environment variable, or the first path that exists."""
    return os.environ.get(variable) or first_of(places, f"set {variable} to the path of the file")


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


def find_driver_library(name: str) -> str:
    """Returns the path of a stand-in for NVIDIA's driver."""
    return first_of((WHEEL / name, BESIDE / name), "install memtrace again")


def find_cudnn_helper() -> str:
    """Returns the path of the program that queries cuDNN."""
    name = "memtrace_cudnn"
    return first_of((WHEEL / name, BESIDE / name), "install memtrace again")


def find_header(path: str) -> str:
    """Returns the path of a C header, by its path in memtrace's sources."""
    return first_of((WHEEL / path, BESIDE / path), "install memtrace again")
