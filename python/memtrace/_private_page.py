"""Prints docs/torch.md: python3 -m memtrace._private_page >docs/torch.md"""
from __future__ import annotations

import types
from typing import Any

from ._private_names import LAYOUTS, NEWEST, OLDEST, PARTS, spelling
from .dry.card import Cards, functions

INTRODUCTION = (
    "# PyTorch's private interfaces\n\n"
    "memtrace needs more of PyTorch, and of Triton, than their documented interfaces. This page lists what, the files in "
    "`python/memtrace` that use it, and what happens where a name is missing or has other parameters. "
    "`python3 -m memtrace._private_page` prints it.\n\n"
    "Tried with PyTorch {oldest} and {newest}, and with Triton 3.2 and 3.6 to 3.9; `tests/python/versions.sh` tries other versions. "
    "A newer PyTorch is tried with a note. "
    "A missing name leaves out its part, with a note, and the program runs on; **no dry run** means that it ends with exit code 8.\n")
ADDED = (
    "\n## Added to `torch._C` in a dry run\n\n"
    "A build for CUDA has these names, which `torch.cuda` uses (`dry/card.py`). For any other name PyTorch raises AttributeError, and the "
    "message mentions the dry run. A `?` above also marks a name that is added.\n\n")


def line_of(*cells: str) -> str:
    return f"| {' | '.join(cells)} |\n"


def parts() -> str:
    text = "\n## Replaced and called by name\n\n| part | names | file | without it |\n| --- | --- | --- | --- |\n"
    for title, part in PARTS.items():
        names = ", ".join(f"`{name.replace(',', ', ')}`" for name in part.names)
        text += line_of(title, names, f"`{part.where}`", ("**no dry run**: " if part.is_needed else "") + part.without)
    return text


def layouts() -> str:
    text = "\n## Layouts, symbols and attributes\n\n| interface | file | check | without it |\n| --- | --- | --- | --- |\n"
    return text + "".join(line_of(row.what, f"`{row.where}`", row.guard, row.without) for row in LAYOUTS)


def added() -> str:
    C: Any = types.SimpleNamespace(Stream=object, Event=object)
    return ADDED + ", ".join(f"`{name}`" for name in sorted(functions(C, object.__new__(Cards)))) + "\n"


def page() -> str:
    return INTRODUCTION.format(oldest=spelling(OLDEST), newest=spelling(NEWEST)) + parts() + layouts() + added()


if __name__ == "__main__":
    print(page(), end="")
