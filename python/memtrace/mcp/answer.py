"""Makes an agent's answer from a command's JSON: the fields that answer its question, in at most 2 KB, with the command that
prints all fields.

An answer is JSON in ASCII. So a name from a trace, which anyone may have chosen, is one string, without line ends, terminal
control characters or invisible characters, and long ones are cut.
"""
from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Optional

MOST_BYTES = 2048
MOST_COMMAND_BYTES = 1024

# The fields of each answer, in order; for fields that contain rows or fields, the names of the inner ones. None: all.
Fields = Mapping[str, Any]
BLOCK = ("requested_bytes", "role", "category", "op", "phase", "shape", "span", "place", "step")
HOLDER = ("kind", "name", "owner", "file", "line", "held_bytes", "allocated_at")
CHANGE = ("change", "fits", "hint", "where", "bytes", "difference_bytes", "proof", "basis", "assumed", "command")
PEAK = {"allocated_bytes": None, "reserved_bytes": None}
FIELDS: dict[str, Fields] = {
    "dry-run": {"fits": None, "bytes": None, "card": None, "short": None, "free": None, "outside": None, "rank": None,
                "exit_code": None, "said": None, "ended_by": None, "steps": None, "run": None, "trace": None, "unknown": None,
                "not_run": None, "assumed": None, "growth": None, "holders": HOLDER, "observations": None, "shortened": None,
                "estimated": None, "choices": None, "weights": None, "ranks": ("rank", "fits", "bytes", "short")},
    "fit": {"fits": None, "certain": None, "state": None, "rank": None, "bytes": None, "outside": None, "short": None,
            "program": None, "run": None, "name": None, "on": None, "capacity_bytes": None, "room_bytes": None, "peak": PEAK,
            "remedy": None, "largest": None, "answers": None, "changes": CHANGE, "unknown": None, "not_run": None,
            "assumed": None, "largest_batch": None, "batch_is_assumed": None, "smallest_card": None, "left_out": None},
    "peak": {"run": None, "name": None, "state": None, "device": None, "allocated_bytes": None, "reserved_bytes": None,
             "allocated": ("step", "phase", "span"), "by": None, "rows": None, "outside": ("kind", "bytes", "estimated"),
             "ended_by": None, "unknown": None, "not_run": None, "growth": None, "holders": HOLDER},
    "top": {"run": None, "name": None, "state": None, "at": None, "by": None, "rows": None},
    "diff": {"a": ("run", "name", "state", "allocated_bytes", "reserved_bytes"),
             "b": ("run", "name", "state", "allocated_bytes", "reserved_bytes"), "allocated_delta_bytes": None,
             "reserved_delta_bytes": None, "settings": None, "rows": None},
    "advise": {"run": None, "name": None, "state": None, "device": None, "peak": PEAK, "findings": None, "changes": CHANGE,
               "lines": None, "observations": None, "holders": HOLDER, "left_out": None},
    "oom": {"verdict": None, "run": None, "name": None, "device": None, "asked": BLOCK,
            "memory": ("limit_bytes", "reserved_bytes", "allocated_bytes", "left_bytes", "short_bytes"), "changes": CHANGE,
            "by_role": ("role", "allocated_bytes", "blocks"), "by_place": ("place", "category", "allocated_bytes", "blocks"),
            "holders": HOLDER, "observations": None, "needs_bytes": None, "smallest_card": None},
    "sql": {"columns": None, "rows": None},
}

# The numbers of rows and characters to keep, tried in order until an answer is short enough. Rows are cut first: the first
# ones matter most, and half a line of code is useless.
CUTS = ((50, 800), (20, 400), (12, 300), (8, 300), (6, 240), (5, 240), (4, 240), (3, 200), (3, 120), (2, 80), (1, 60), (1, 40), (1, 20))


def picked(value: Any, fields: Any) -> Any:
    """Returns a value with only these fields, in this order."""
    if fields is None or not isinstance(value, (dict, list)):
        return value
    if isinstance(value, list):
        return [picked(item, fields) for item in value]
    inner = fields if isinstance(fields, dict) else dict.fromkeys(fields)
    return {name: picked(value[name], inner[name]) for name in inner if name in value}


def cut(value: Any, rows: int, characters: int) -> Any:
    """Returns a value without empty fields, with limited rows per list and characters per text. NAME_left_out counts what is
    omitted from a field NAME."""
    if isinstance(value, str):
        return value if len(value) <= characters else value[:characters] + "..."
    if isinstance(value, list):
        return [cut(item, rows, characters) for item in value[:rows]]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, field in value.items():
        if field is None or field in ("", [], {}):
            continue
        out[name] = cut(field, rows, characters)
        if isinstance(field, list) and len(field) > rows:
            out[f"{name}_left_out"] = len(field) - rows
    return out


def written(fields: Mapping[str, Any], command: Optional[str] = None) -> str:
    """Returns an answer within the size limit. The command is never cut."""
    last = {} if command is None else {"command": command}
    for rows, characters in CUTS:
        text = json.dumps({**cut(fields, rows, characters), **last}, separators=(",", ":"))
        if len(text) <= MOST_BYTES:
            return text
    return json.dumps({"error": "the answer is too long: run the command for it", **last})


def answer_of(command_name: str, given: Mapping[str, Any], command: str) -> str:
    return written(picked(given, FIELDS[command_name]), command)
