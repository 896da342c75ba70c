"""`%%memtrace` in notebooks: runs the text of a cell in a new interpreter, recorded or on a simulated card.

    %load_ext memtrace

    %%memtrace --device sim:h100
    import torch
    …
"""
from __future__ import annotations

import argparse
import os
import runpy
import shlex
import tempfile
from typing import Any, NoReturn, Optional

from ._trace import Trace
from ._trace import open as open_trace
from .functions import call_words
from .programs import Program, run_dry, run_recorded

SIMULATED = "sim"


class Parser(argparse.ArgumentParser):
    """The options of a magic. Errors in them don't end the notebook's process."""

    def error(self, message: str) -> NoReturn:
        from IPython.core.error import UsageError

        raise UsageError(f"%%memtrace: {message}\n{self.format_usage()}")


def make_parser() -> Parser:
    parser = Parser(prog="%%memtrace", add_help=False)
    parser.add_argument("--device", help="sim:h100: a simulated card; without, the cell is recorded where it finds a GPU")
    parser.add_argument("--trace", default="memtrace.db", help="the trace that the run is added to")
    parser.add_argument("--name", help="the run's name")
    parser.add_argument("--steps", type=int, default=0, help="steps after which a dry run ends")
    return parser


def run_cell(asked: argparse.Namespace, cell: str) -> Program:
    """Runs the text of a cell as a script with the notebook's module path."""
    with tempfile.TemporaryDirectory(prefix="memtrace-") as folder:
        script = os.path.join(folder, "cell.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(cell)
        with call_words(runpy.run_path, [script], {"run_name": "__main__"}) as words:
            common = {"trace": asked.trace, "name": asked.name or "cell.py"}
            if asked.device is not None and asked.device.startswith(SIMULATED):
                return run_dry(words, device=asked.device, steps=asked.steps, **common)
            return run_recorded(words, device=asked.device, **common)


def memtrace_magic(line: str, cell: str) -> Optional[Trace]:
    """Runs the cell's text in a new interpreter and returns the trace, which the notebook shows.

    %%memtrace [--device sim:CARD] [--trace FILE] [--name NAME] [--steps N]

    With --device sim:CARD, the cell runs dry on a simulated card; otherwise it is recorded. It shares nothing with other cells, so
    it must import and define what it needs.
    """
    program = run_cell(make_parser().parse_args(shlex.split(line)), cell)
    print(program)
    return open_trace(program.runs[0].trace) if program.runs else None


def load_ipython_extension(ipython: Any) -> None:
    """Adds `%%memtrace` to IPython, for `%load_ext memtrace`."""
    ipython.register_magic_function(memtrace_magic, magic_kind="cell", magic_name="memtrace")
