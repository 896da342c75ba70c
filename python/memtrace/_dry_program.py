"""The program of a dry run: its labels and its trace, the places where it asks for values that there are not, and its end."""
from __future__ import annotations

import atexit
import ctypes
import importlib
import importlib.util
import os
import pathlib
import sys
from typing import Any, Optional

import torch

from . import _dry, _stacks
from ._allocator import close_at_exit
from ._watch import STACKS, Watcher, tell, trace_of_rank

MOST_NAMED = 5  # operators in one note
MOST_STEPS = 10  # of a program whose steps never are equal
CHANGES = "MEMTRACE_DRY_CHANGES"  # of the program, for memtrace fit
PROCESS = "MEMTRACE_DRY_PROCESS"  # the first process of the program that has a card
FLOAT_FORM = ctypes.CFUNCTYPE(None, ctypes.c_char_p)

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

    def end_step(self) -> None:
        super().end_step()
        before, self.requests = self.requests, int(self.library.memtrace_torch_requests())
        self.ended_steps += 1
        if self.asked_steps:
            if self.ended_steps >= self.asked_steps:
                raise Enough(0)
        elif self.requests == before or self.ended_steps >= MOST_STEPS:
            if self.requests != before:
                tell(f"no two steps in a row made the same requests; the program was ended after {MOST_STEPS} (see --steps)")
            raise Enough(0)

    def begin_step(self) -> int:
        self.library.memtrace_torch_requests()  # what came before does not count
        return super().begin_step()


def trace_of_process() -> str:
    """Returns the path of this process's trace. A process that one with a card has started has a trace of its own."""
    path = trace_of_rank()
    first = os.environ.setdefault(PROCESS, str(os.getpid()))
    if "RANK" in os.environ or first == str(os.getpid()):
        return path
    stem, ending = os.path.splitext(path)
    return f"{stem}-{os.getpid()}{ending}"


def place_of_user() -> str:
    """Returns the innermost line of the program's own code, as file:line."""
    frame: Any = sys._getframe(1)
    here, chosen = os.path.dirname(os.path.abspath(__file__)), ""
    while frame is not None:
        name = frame.f_code.co_filename
        own = not name.startswith((here, "<", sys.prefix, sys.base_prefix)) and "site-packages" not in name
        if own or not (chosen or name.startswith(here)):
            chosen = f"{os.path.basename(name)}:{frame.f_lineno}"
        if own:
            break
        frame = frame.f_back
    return chosen


class Assumptions:
    """Says once, by file and line, where the program asks for a value that was not computed."""

    def __init__(self, device: Any) -> None:
        self.said: set[tuple[str, str]] = set()
        self.value = os.environ["MEMTRACE_DRY_ASSUMED"]
        self.callback = FLOAT_FORM(self.note)
        device.memtrace_dry_assume(float(self.value), ctypes.cast(self.callback, ctypes.c_void_p))

    def note(self, what: bytes) -> None:
        place, words = place_of_user(), what.decode()
        if (place, words) not in self.said:
            self.said.add((place, words))
            tell(f"{place}: {words}" if place else words)


def replace_resize() -> None:
    """Replaces the resizing of a storage on a card, which a build without CUDA refuses."""
    cards: Any = _dry.cards
    original = torch.UntypedStorage.resize_

    def resize_(storage: Any, size: int) -> Any:
        if storage.device.type != "cuda":
            return original(storage, size)
        if size != storage.nbytes() and cards.device.memtrace_dry_resize(storage._cdata, size):
            raise torch.OutOfMemoryError(cards.memory.memtrace_torch_last_error().decode())
        return storage

    torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign, assignment]


def refuse_saving() -> None:
    """Has torch.save and safetensors write nothing: what would be saved was not computed."""
    said: list[bool] = []

    def save(*given: Any, **named: Any) -> None:
        if not said:
            said.append(True)
            tell(f"{place_of_user()}: nothing is saved in a dry run")

    torch.save = save
    if importlib.util.find_spec("safetensors") is not None:
        import safetensors.torch

        safetensors.torch.save_file = save


def keep_eager() -> None:
    """Has torch.compile return what it is given: what a compiler would fuse is not simulated."""
    said: list[bool] = []

    def compile(model: Any = None, **named: Any) -> Any:
        if not said:
            said.append(True)
            tell(f"{place_of_user()}: torch.compile is left out: the program is run as it is without")
        return model if model is not None else lambda inner: inner

    torch.compile = compile


def unknown_operators(library: Any) -> list[str]:
    """Returns the operators that were called and are not in the table of those that take memory inside, most bytes first."""
    calls, size = ctypes.c_uint64(), ctypes.c_uint64()
    found: list[tuple[int, int, str]] = []
    while name := library.memtrace_torch_unknown(len(found), ctypes.byref(calls), ctypes.byref(size)):
        found.append((size.value, calls.value, name.decode()))
    return [f"{name} ({calls} calls, {size:,} bytes of results)" for size, calls, name in sorted(found, reverse=True)]


def tell_unknown_operators(library: Any) -> None:
    """Says which operators may have taken more inside than the run has; of many, those with most bytes."""
    names = unknown_operators(library)
    if names:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        tell(f"not known is what is taken inside of {', '.join(names[:MOST_NAMED])}{more}; see docs/dry-run.md")


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
    path = trace or trace_of_process()
    watcher._check(library.memtrace_torch_configure(settings.encode(), os.fsencode(path), os.fsencode(name)))
    close_at_exit(watcher)
    atexit.register(tell_unknown_operators, library)
    if os.environ.get(STACKS) != "0":
        for obstacle in _stacks.begin(library, pathlib.Path(torch.__file__).parent / "include"):
            tell(obstacle)
    replace_resize()
    refuse_saving()
    keep_eager()
    begin.assumptions = Assumptions(cards.device)  # type: ignore[attr-defined]
    return watcher
