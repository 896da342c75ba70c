"""Answers as text for print: tables with aligned columns. Names are escaped as in src/answer/escape.c, since the trace's
author chose them."""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._sizes import in_words
from ._visible import visible


def cell(name: str, value: Any) -> str:
    """Returns a table cell; bytes are in the largest unit in which they are at least one."""
    if not isinstance(value, int):
        return visible(str(value))
    return in_words(value) if name.endswith("bytes") else f"{value:,}"


def table_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns rows as lines with a column for each field; numbers are right-aligned."""
    if not rows:
        return "no rows"
    columns = []
    for name in rows[0]:
        cells = [name.replace("_", " ").removesuffix(" bytes"), *(cell(name, row[name]) for row in rows)]
        width = max(map(len, cells))
        columns.append([text.rjust(width) if isinstance(rows[0][name], int) else text.ljust(width) for text in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns))
