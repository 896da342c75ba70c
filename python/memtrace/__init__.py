"""memtrace: where GPU memory goes in training.

    import memtrace

    with memtrace.record("train.db"):               # records PyTorch's allocator; also @memtrace.record("train.db")
        train()

    with memtrace.dry_run("h100") as run:           # the same on a simulated card, without a GPU; before torch is imported
        train()

    trace = memtrace.open("train.db")               # the answers of the program `memtrace`, as Python objects
    print(trace.peak(by="role").shares[0])

    %load_ext memtrace                              # in a notebook: %%memtrace --device sim:h100 runs a cell dry

    @memtrace.limit_memory("20 GiB")                # a test that fails if its peak on a card is higher
    def test_train(): ...

`python -m memtrace` is the program itself. Importing this package does not import torch.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._limits import limit_leaks as limit_leaks
    from ._limits import limit_memory as limit_memory
    from ._questions import MemtraceError as MemtraceError
    from ._oom import Change as Change
    from ._oom import Oom as Oom
    from ._rows import Block as Block
    from ._rows import Category as Category
    from ._rows import Cause as Cause
    from ._rows import Curve as Curve
    from ._rows import Finding as Finding
    from ._rows import Peak as Peak
    from ._rows import Run as Run
    from ._rows import Share as Share
    from ._trace import Trace as Trace
    from ._trace import open as open
    from ._writers import log_to as log_to
    from .dry.run import DryRun as DryRun
    from .dry.run import dry_run as dry_run
    from .functions import dry_run_function as dry_run_function
    from .notebook import load_ipython_extension as load_ipython_extension
    from .programs import fit as fit
    from .programs import largest as largest
    from .programs import run_dry as run_dry
    from .programs import run_recorded as run_recorded
    from .programs import sweep as sweep
    from .recording.allocator import Allocator as Allocator
    from .recording.allocator import install_allocator as install_allocator
    from .recording.labels import RULES as RULES
    from .recording.record import record as record

# The public names, by the module that defines them. A module is imported when one of its names is first used.
_MODULES = {
    "_limits": ("limit_leaks", "limit_memory"),
    "_questions": ("MemtraceError",),
    "_oom": ("Change", "Oom"),
    "_rows": ("Block", "Category", "Cause", "Curve", "Finding", "Peak", "Run", "Share"),
    "_trace": ("Trace", "open"),
    "_writers": ("log_to",),
    "dry.run": ("DryRun", "dry_run"),
    "functions": ("dry_run_function",),
    "notebook": ("load_ipython_extension",),
    "programs": ("fit", "largest", "run_dry", "run_recorded", "sweep"),
    "recording.allocator": ("Allocator", "install_allocator"),
    "recording.labels": ("RULES",),
    "recording.record": ("record",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'memtrace' has no attribute {name!r}")
    return getattr(importlib.import_module("." + _MODULE_OF[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
