"""The program of a dry run: its labels, its trace and its end."""
from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import os
import pathlib
import sys
from collections.abc import Callable
from multiprocessing import util
from typing import Any, NamedTuple, Optional

import torch

from . import _dry, _dry_ranks, _dry_replaced, _stacks
from ._allocator import close_at_exit
from ._watch import RANKS, STACKS, Watcher, tell, trace_of_rank

MOST_NAMED = 5  # operators in one note
MOST_STEPS = 10  # of a program whose steps never are equal
CHANGES = "MEMTRACE_DRY_CHANGES"  # of the program, for memtrace fit
PROCESS = "MEMTRACE_DRY_PROCESS"  # the first process of the program that has a card

CUDA: Any = torch.cuda


class Enough(SystemExit):
    """Ends the program once its steps have told all, as if it had ended by itself."""


class DryWatcher(Watcher):
    """Labels, and the end after enough steps."""

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self.asked_steps = int(os.environ["MEMTRACE_DRY_STEPS"])
        self.ended_steps = 0
        self.requests: Optional[int] = None  # of the last step, as a hash
        self.all_requests = 0

    def take_requests(self) -> int:
        """Returns the hash of the requests since the last call, and adds it to that of all."""
        requests = int(self.library.memtrace_torch_requests())
        self.all_requests = hash((self.all_requests, requests))
        return requests

    def store_counts(self) -> None:
        """Stores a number that is the same for ranks that made the same requests, and what is not known of operators."""
        self.take_requests()
        self.measure("requests", self.all_requests % 2**53)
        unknown = unknown_operators(self.library)
        self.measure("unknown:calls", sum(one.calls for one in unknown))
        self.measure("unknown:result_bytes", sum(one.size for one in unknown))

    def close(self, outcome: int = 0) -> None:
        self.store_counts()
        super().close(outcome)

    def end_step(self) -> None:
        super().end_step()
        before, self.requests = self.requests, self.take_requests()
        self.ended_steps += 1
        if self.asked_steps:
            if self.ended_steps >= self.asked_steps:
                raise Enough(0)
        elif self.requests == before or self.ended_steps >= MOST_STEPS:
            if self.requests != before:
                tell(f"no two steps in a row made the same requests; the program was ended after {MOST_STEPS} (see --steps)")
            raise Enough(0)

    def begin_step(self) -> int:
        self.take_requests()  # what came before does not count
        return super().begin_step()


def trace_of_process() -> str:
    """Returns the path of this process's trace. A process that one with a card has started has a trace of its own."""
    path = trace_of_rank()
    first = os.environ.setdefault(PROCESS, str(os.getpid()))
    if any(name in os.environ for name in RANKS) or first == str(os.getpid()):
        return path
    stem, ending = os.path.splitext(path)
    return f"{stem}-{os.getpid()}{ending}"


class Unknown(NamedTuple):
    """An operator that was called, of which it is not known what it takes inside."""

    size: int  # bytes of its results
    calls: int
    name: str


def unknown_operators(library: Any) -> list[Unknown]:
    """Returns the operators that were called and are not in the table of those that take memory inside, most bytes first."""
    calls, size = ctypes.c_uint64(), ctypes.c_uint64()
    found: list[Unknown] = []
    while name := library.memtrace_torch_unknown(len(found), ctypes.byref(calls), ctypes.byref(size)):
        found.append(Unknown(size.value, calls.value, name.decode()))
    return sorted(found, reverse=True)


def tell_unknown_operators(library: Any) -> None:
    """Says which operators may have taken more inside than the run has; of many, those with most bytes."""
    names = [f"{one.name} ({one.calls} calls, {one.size:,} bytes of results)" for one in unknown_operators(library)]
    if names:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        tell(f"not known is what is taken inside of {', '.join(names[:MOST_NAMED])}{more}; see docs/dry-run.md")


def follow_forks(cards: Any, watcher: DryWatcher, configure: Callable[[], None]) -> None:
    """Gives a forked process a trace of its own, unless the card was used before: that one has no card, as under CUDA."""
    def begin_child() -> None:
        if cards.process is None:
            configure()

    os.register_at_fork(after_in_child=begin_child)
    # A process of multiprocessing ends without atexit.
    util.register_after_fork(watcher, lambda watcher: util.Finalize(None, watcher.close, exitpriority=0))


def begin(trace: Optional[str] = None) -> DryWatcher:
    """Begins once torch is imported. `trace` is its path; None: as `memtrace dry-run` asks."""
    cards: Any = _dry.cards
    _dry.register_operators()
    torch.version.cuda = "13.0"
    CUDA._get_device_properties = cards.properties
    CUDA._device_count_nvml = lambda: -1  # not known: the driver's cards, if there are some, are not these
    library = cards.memory
    library.memtrace_torch_answer()
    changes = os.environ.get(CHANGES)
    if changes:
        importlib.import_module("._dry_changes", __package__).begin(changes)
    configuration = os.environ.get("PYTORCH_ALLOC_CONF") or os.environ.get("PYTORCH_CUDA_ALLOC_CONF") or ""
    settings, unknown = _dry.alloc_settings(configuration)
    if unknown:
        tell(f"the allocator's settings {', '.join(unknown)} are not simulated")
    watcher = DryWatcher(library)
    name = os.environ.get("MEMTRACE_RECORD_NAME") or pathlib.Path(sys.argv[0] if sys.argv else "").name or "PyTorch"

    def configure() -> None:
        path = trace or trace_of_process()
        watcher._check(library.memtrace_torch_configure(settings.encode(), os.fsencode(path), os.fsencode(name)))

    configure()
    close_at_exit(watcher)
    atexit.register(watcher.store_counts)
    atexit.register(tell_unknown_operators, library)
    if os.environ.get(STACKS) != "0":
        for obstacle in _stacks.begin(library, pathlib.Path(torch.__file__).parent / "include"):
            tell(obstacle)
    follow_forks(cards, watcher, configure)
    _dry_replaced.replace(cards)
    _dry_ranks.install()
    gc.collect()  # so that the collector's moments depend on what the program makes, and not on how torch was imported
    return watcher
