"""The key of Triton's files, which Inductor puts into the keys of compiled graphs. Triton hashes its files in each process, hundreds of
megabytes. So memtrace's cache keeps the key, under a stamp of the files."""
from __future__ import annotations

import hashlib
import os
import pathlib
import tempfile
from collections.abc import Callable

from .._private_names import original_of, wrap
from . import cache

HASHED = ".py", ".so"  # endings of the files that decide


def stamp_of(folder: pathlib.Path) -> str:
    """Returns a digest of the names, sizes and times of the files in a folder."""
    digest = hashlib.sha256()
    for path, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            if name.endswith(HASHED):
                status = os.stat(os.path.join(path, name))
                digest.update(f"{os.path.join(path, name)}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def keep(file: pathlib.Path, key: str) -> None:
    file.parent.mkdir(mode=cache.PRIVATE, parents=True, exist_ok=True)
    number, made = tempfile.mkstemp(dir=file.parent)
    with open(number, "w") as out:
        out.write(key)
    os.replace(made, file)


def key_of(original: Callable[[], str], triton: pathlib.Path) -> str:
    """Returns the key of the files in Triton's folder."""
    try:
        file = cache.choose() / "triton-keys" / stamp_of(triton)
        if not file.exists():
            keep(file, original())
        return file.read_text()
    except (cache.NoLibrary, OSError):
        return original()


def follow() -> None:
    """Keeps the key from now on. Triton is imported."""
    triton = pathlib.Path(original_of("triton.__file__")).parent
    wrap("torch._inductor.runtime.triton_compat.triton_key", lambda original: key_of(original, triton))
