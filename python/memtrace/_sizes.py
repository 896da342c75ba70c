"""Bytes in words, and words as bytes."""
from __future__ import annotations

import re
from typing import Union

UNITS = {"": 1, "B": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
         "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def in_words(count: int) -> str:
    """Returns bytes in the largest unit of which there is one: "1.50 GiB"."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def bytes_of(size: Union[int, str]) -> int:
    """Returns the bytes of a size such as "20 GiB", "1.5GB" or 4096. Raises ValueError if it is none."""
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*", str(size))
    if found is None or found[2].upper() not in UNITS:
        raise ValueError(f"{size!r} is no size; write one such as '20 GiB'")
    return int(float(found[1]) * UNITS[found[2].upper()])
