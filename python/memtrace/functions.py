"""Dry runs of functions, each in a new interpreter: torch looks for cards only once, so a process can simulate only one."""
from __future__ import annotations

import contextlib
import os
import pickle
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, Optional

from ._trace import Path
from .programs import Program, run_dry

CALL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_call.py")


def check_importable(function: Callable[..., Any]) -> None:
    """Raises ValueError for a function that another interpreter can't import."""
    if getattr(function, "__module__", "") == "__main__":
        raise ValueError(f"{function!r} belongs to this program or notebook, which a new interpreter can't import: write it in a module "
                         "(in a notebook with %%writefile train.py) and import it from there, or use %%memtrace")


@contextlib.contextmanager
def call_words(function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None
               ) -> Iterator[list[str]]:
    """Writes a call into a file for a `with`, and returns the command line of an interpreter that executes it, with this
    process's module path."""
    check_importable(function)
    path = [os.path.abspath(folder) for folder in sys.path]
    call = pickle.dumps((path, pickle.dumps((function, tuple(args), dict(kwargs or {})))))
    with tempfile.TemporaryDirectory(prefix="memtrace-") as folder:
        name = os.path.join(folder, "call.pickle")
        with open(name, "wb") as file:
            file.write(call)
        yield [sys.executable, CALL, name]


def dry_run_function(function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Optional[Mapping[str, Any]] = None, *,
                     card: str = "h200", trace: Path = "memtrace.db", name: Optional[str] = None, steps: int = 0) -> Program:
    """Calls a function in a new interpreter on a simulated card, and adds its run to the trace, so that one process can try cards
    and arguments in a loop:

        from train import train
        for card in "l4", "h100":
            for batch in 8, 16:
                print(card, batch, memtrace.dry_run_function(train, kwargs={"batch": batch}, card=card).fits)

    function: must be importable; it and its arguments are passed by pickle.
    name: the run's name; None: the function's.
    steps: number after which the program ends; 0: loops end once they repeat; or EVERY_STEP.
    """
    with call_words(function, args, kwargs) as words:
        return run_dry(words, device=f"sim:{card.removeprefix('sim:')}", trace=trace,
                       name=name or getattr(function, "__qualname__", None), steps=steps)
