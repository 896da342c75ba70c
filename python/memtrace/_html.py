"""Answers as HTML for notebooks: tables and a bar, without scripts and without a network. All text is escaped, since the
author of a trace wrote it."""
from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from ._sizes import in_words

NO_WRAP = "white-space:nowrap"
COLORS = ("#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#edc948", "#b07aa1", "#ff9da7", "#9c755f", "#86bcb6")
REST = "#bab0ac"
BAR_WIDTH = 640


def cell(name: str, value: Any) -> str:
    """Returns a cell of a table; of a column of bytes, in words."""
    if not isinstance(value, int):
        return f'<td style="text-align:left;{NO_WRAP}">{html.escape(str(value))}</td>'
    if name.endswith("bytes"):
        return f'<td style="text-align:right;{NO_WRAP}" title="{value} bytes">{in_words(value)}</td>'
    return f'<td style="text-align:right">{value:,}</td>'


def color(index: int) -> str:
    """Returns the color of a part by its place in the order of size."""
    return COLORS[index] if index < len(COLORS) else REST


def table_page(rows: Sequence[Mapping[str, Any]], is_key: bool = False) -> str:
    """Returns rows as a table whose columns are the names of the fields. As the key of a bar, each row begins with the color
    of its part."""
    if not rows:
        return "<p>no rows</p>"
    swatches = [f'<td style="background:{color(index)}">&nbsp;</td>' if is_key else "" for index in range(len(rows))]
    head = ("<th></th>" if is_key else "") + "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in rows[0])
    body = "".join(f"<tr>{swatch}{''.join(cell(name, value) for name, value in row.items())}</tr>"
                   for swatch, row in zip(swatches, rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def bar(parts: Sequence[tuple[str, int]]) -> str:
    """Returns parts of a whole as one bar, with their names as tooltips."""
    whole, drawn, left = max(1, sum(size for _, size in parts)), [], 0.0
    for index, (name, size) in enumerate(parts):
        width = BAR_WIDTH * size / whole
        drawn.append(f'<rect x="{left:.2f}" width="{width:.2f}" height="22" fill="{color(index)}">'
                     f"<title>{html.escape(name)}: {in_words(size)}</title></rect>")
        left += width
    return f'<svg width="{BAR_WIDTH}" height="22" role="img">{"".join(drawn)}</svg>'


def bar_page(title: str, parts: Sequence[tuple[str, int]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns parts of a whole as a bar, and as a table."""
    return f"<p>{html.escape(title)}</p>{bar(parts)}{table_page(rows, is_key=True)}"


def trace_page(path: str, runs: Sequence[Mapping[str, Any]], peak: str) -> str:
    """Returns a trace: its runs, and the page of its newest peak."""
    shown = ("number", "name", "state", "device", "started_at", "steps", "events")
    table = table_page([{name: run[name] for name in shown} for run in runs])
    return f"<p><b>{html.escape(path)}</b></p>{table}{peak}"
