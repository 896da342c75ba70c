"""Answers as HTML for notebooks: tables and a bar, without scripts and without network access. All text is escaped, since the
trace's author chose it."""
from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from ._sizes import in_words

NO_WRAP = "white-space:nowrap"
ROLES = {"parameter": "#5379c4", "optimizer state": "#87517a", "gradient": "#edd069", "activation": "#75b393",
         "temporary": "#d17a4f", "workspace": "#fcb57b", "weight cast": "#117891", "gathered parameter": "#044676",
         "buffer": "#60c6ff", "input": "#8e7834", "key-value cache": "#727466", "kept": "#57470c", "other": "#869eab",
         "unknown": "#a49f8d"}  # as in viewer/colors.js
COLORS = tuple(ROLES.values())[:10]  # for parts other than roles
REST = ROLES["unknown"]
BAR_WIDTH = 480
CURVE_WIDTH, CURVE_HEIGHT = 360, 150
SIDE_BY_SIDE = "display:flex;flex-wrap:wrap;gap:2em;align-items:flex-start"


def cell(name: str, value: Any) -> str:
    """Returns a table cell; bytes are formatted with a unit."""
    if not isinstance(value, int):
        return f'<td style="text-align:left;{NO_WRAP}">{html.escape(str(value))}</td>'
    if name.endswith("bytes"):
        return f'<td style="text-align:right;{NO_WRAP}" title="{value} bytes">{in_words(value)}</td>'
    return f'<td style="text-align:right">{value:,}</td>'


def color(name: str, index: int) -> str:
    """Returns the color of a part: a role's own, otherwise by its rank in size."""
    return ROLES.get(name) or (COLORS[index] if index < len(COLORS) else REST)


def table_page(rows: Sequence[Mapping[str, Any]], is_key: bool = False) -> str:
    """Returns rows as a table whose columns are the names of the fields. In a bar's legend, each row begins with its part's
    color."""
    if not rows:
        return "<p>no rows</p>"
    names = [str(next(iter(row.values()))) for row in rows]
    swatches = [f'<td style="background:{color(name, index)}">&nbsp;</td>' if is_key else "" for index, name in enumerate(names)]
    head = ("<th></th>" if is_key else "") + "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in rows[0])
    body = "".join(f"<tr>{swatch}{''.join(cell(name, value) for name, value in row.items())}</tr>"
                   for swatch, row in zip(swatches, rows))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def bar(parts: Sequence[tuple[str, int]]) -> str:
    """Returns parts of a whole as one bar, with their names as tooltips."""
    whole, drawn, left = max(1, sum(size for _, size in parts)), [], 0.0
    for index, (name, size) in enumerate(parts):
        width = BAR_WIDTH * size / whole
        drawn.append(f'<rect x="{left:.2f}" width="{width:.2f}" height="22" fill="{color(name, index)}">'
                     f"<title>{html.escape(name)}: {in_words(size)}</title></rect>")
        left += width
    return f'<svg width="{BAR_WIDTH}" height="22" role="img">{"".join(drawn)}</svg>'


def paragraph(text: str) -> str:
    return f"<p>{html.escape(text)}</p>"


def curve_page(values: Sequence[int], length: str) -> str:
    """Returns bytes over a run as a chart. `length` is the label at the end of its horizontal axis."""
    highest, count = max(values, default=0), len(values)
    places = [f"{CURVE_WIDTH * index / max(1, count):.1f},{CURVE_HEIGHT * (1 - value / max(1, highest)):.1f}"
              for at, value in enumerate(values) for index in (at, at + 1)]
    text = 'fill="currentColor" font-size="12"'
    return (f'<svg width="{CURVE_WIDTH}" height="{CURVE_HEIGHT + 34}" viewBox="0 -16 {CURVE_WIDTH} {CURVE_HEIGHT + 34}" role="img">'
            f"<title>allocated bytes over the run, at most {in_words(highest)}</title>"
            f'<path d="M0,{CURVE_HEIGHT}L{" ".join(places)}L{CURVE_WIDTH},{CURVE_HEIGHT}Z" fill="{COLORS[0]}"/>'
            f'<text x="0" y="-4" {text}>{in_words(highest)} allocated</text>'
            f'<text x="0" y="{CURVE_HEIGHT + 14}" {text}>0</text>'
            f'<text x="{CURVE_WIDTH}" y="{CURVE_HEIGHT + 14}" text-anchor="end" {text}>{html.escape(length)}</text></svg>')


class Page:
    """The timeline's page, for a notebook. `html` is the complete document, for any browser."""

    def __init__(self, page: str, height: int) -> None:
        self.html, self.height = page, height

    def _repr_html_(self) -> str:
        # A document without its own URL has the notebook's as its base, whose fragment it may not change.
        inside = html.escape(self.html.replace("<head>", '<head><base href="about:srcdoc">', 1))
        # In a sandbox, the page can't reach the notebook.
        return (f'<iframe srcdoc="{inside}" width="100%" height="{self.height}" style="border:0" '
                f'sandbox="allow-scripts allow-downloads" title="memory over time"></iframe>')


def bar_page(title: str, parts: Sequence[tuple[str, int]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns parts of a whole as a bar, and as a table."""
    return f"{paragraph(title)}{bar(parts)}{table_page(rows, is_key=True)}"


def trace_page(path: str, runs: Sequence[Mapping[str, Any]], curve: str, peak: str) -> str:
    """Returns a trace: its runs, and for the newest run the curve next to the page of its peak."""
    newest = f'<div style="{SIDE_BY_SIDE}"><div>{curve}</div><div>{peak}</div></div>' if runs else ""
    return f"<p><b>{html.escape(path)}</b></p>{table_page(runs)}{newest}"
