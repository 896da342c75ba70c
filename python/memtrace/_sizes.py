"""Formats and parses sizes, like the program (src/base/text.c)."""
from __future__ import annotations

import re
from typing import Union

UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def in_words(count: int) -> str:
    """Formats bytes in the largest unit in which they are at least one: "1.50 GiB"."""
    if abs(count) < 1024:
        return f"{count} B"
    value, unit = count / 1024, 0
    while abs(value) >= 1023.995 and unit + 1 < len(UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.2f} {UNITS[unit]}"


def bytes_of(size: Union[int, str]) -> int:
    """Returns the bytes of a size such as "20 GiB", "1.5gb" (the same unit) or 4096. Raises ValueError for invalid sizes."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *(?:([kmgt])i?b?|b?)", str(size).strip(), flags=re.IGNORECASE)
    if found is None:
        raise ValueError(f"{size!r} is not a size; write one such as '20 GiB'")
    power = "kmgt".index(found[2].lower()) + 1 if found[2] else 0
    return int(float(found[1]) * 1024**power)
