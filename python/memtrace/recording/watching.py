"""PyTorch's own allocator, watched: no line of the program changes, and the allocator stays PyTorch's.

    begin("train.db")    traces this process; `memtrace record` does it automatically, without a path
    end()                closes the traces; also happens at the exit of the program

Every called module is labelled by its path from the outermost one. A step begins with the first forward of training and ends
with the optimizer's step, or is a step of torch.profiler.
"""
from __future__ import annotations

import atexit
import ctypes
import math
import os
import pathlib
import sys
import threading
import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple, Optional, Union

import torch

from .._declarations import load_torch_library
from .._library import find_torch_library
from .._private_names import has, note_newer
from .._settings import settings
from . import abi, stacks
from .alloc_conf import alloc_settings, configuration
from .allocator import OUT_OF_MEMORY, Allocator, close_at_exit, install_allocator
from .handover import RANKS, store_arguments, tell, trace_of_rank
from .labels import MOST_FRAMES, Labels
from .live_objects import objects_of
from .not_updated import Needless
from .observer import Observer
from .weak_tensors import WeakTensor

HISTORY_ENTRIES = 300_000  # of one to a few KB each, in host memory; the newest ones are kept

CUDA: Any = torch.cuda  # its functions have no types

watcher: Optional["Watcher"] = None


class Version(NamedTuple):
    """A parameter's version counter."""

    parameter: WeakTensor
    number: int

    @classmethod
    def of(cls, module: torch.nn.Module) -> Optional[Version]:
        """Returns the version of the module's first trained parameter."""
        parameter: Any = next((each for _, each in module.named_parameters() if each.requires_grad), None)
        return None if parameter is None else cls(WeakTensor(parameter), getattr(parameter, "_version", 0))

    def has_changed(self) -> bool:
        parameter = self.parameter()
        return parameter is not None and getattr(parameter, "_version", 0) != self.number


def is_tracing() -> bool:
    """True while a compiler differentiates its traced graph, which is not a backward of the program."""
    return torch._guards.CompileContext.try_get() is not None


class Watcher(Labels):
    """Labels for a program that does not label itself."""

    watches_all = True
    allocator: Optional[Allocator] = None  # memtrace's, if it replaces PyTorch's

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        library.memtrace_torch_grad_mode()
        self.step_prefix = settings().step  # prefix of the names of NVTX ranges that are steps
        self.in_step = False
        self.ran_backward = False  # in the current step
        self.has_own_steps = self.step_prefix is not None  # the program marks its steps
        self.has_optimizer: Optional[bool] = None  # None: unknown yet
        self.sees_updates = False  # an optimizer's step was seen; compiled steps are not
        self.updates_in_backward = False  # by optimizers that hooks of gradients call: the next forward ends the training step
        self.unseen: Optional[weakref.WeakSet[Any]] = None  # optimizers with compiled steps; None: not searched yet
        self.knows_roots = has("roots of backward")
        self.begins_at_forward = False  # a step began with the forward of a module; compiled ones are not seen
        self.version: Optional[Version] = None  # when the step began
        self.local = threading.local()  # .ranges: for each open NVTX range of this thread, whether it is a step
        self.observer = self._observer()
        self.handles += self.observer.follow_checkpoints()
        self._watch_calls()
        if self.step_prefix is not None and has("NVTX ranges"):
            self.patch("torch.cuda.nvtx.range_push", self._begin_range)
            self.patch("torch.cuda.nvtx.range_pop", self._end_range)

    def _observer(self) -> Observer:
        return Observer(self.library, self._free)

    def _free(self) -> int:
        """Returns the bytes that PyTorch could still allocate on the current card."""
        return int(CUDA.mem_get_info()[0] + CUDA.memory_reserved() - CUDA.memory_allocated())

    def attach(self) -> None:
        """Attaches to the allocator, which exists once CUDA is initialized. Never fails, since PyTorch's initialization calls this."""
        try:
            for device in range(torch.cuda.device_count()):
                card = torch.cuda.get_device_properties(device)
                self.library.memtrace_torch_card(device, card.name.encode(), card.total_memory)
            self._check(self.library.memtrace_torch_attach())
            for segment in CUDA.memory_snapshot():
                self._find(segment)
        except Exception as error:
            end()
            fall_back(str(error))

    def _find(self, segment: Any) -> None:
        """Notes a segment that existed before."""
        device, stream = segment["device"], segment["stream"]
        self.library.memtrace_torch_found_segment(device, segment["address"], segment["total_size"], stream,
                                                  segment.get("is_expandable", False))
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                self.library.memtrace_torch_found_block(device, block["address"], block["requested_size"], block["size"],
                                                        stream)

    def _say(self, words: str) -> None:
        tell(words)

    def _begin_backward(self, accumulates: bool) -> None:
        super()._begin_backward(accumulates)
        if not is_tracing():
            self.ran_backward = True
            roots = roots_of(sys._getframe(1)) if self.knows_roots else []
            self.observer.phases.begin_backward(roots)
            if accumulates and len(self.backwards) == 1:
                self._note_gradients(self.observer.before_backward(roots))

    def close(self, outcome: int = 0) -> None:
        try:
            self._describe_end(outcome)
        except Exception as error:  # the trace is closed anyway
            tell(f"growing memory and its holders are unknown: {error!r}")
        super().close(outcome)

    def _describe_end(self, outcome: int) -> None:
        self._store_growths(outcome)
        self._store_other_cards()
        if self.error is not None and outcome == OUT_OF_MEMORY:
            self.observer.end_out_of_memory(self.error)

    def _store_other_cards(self) -> None:
        """Stores a rank's allocations on other ranks' cards, and their holders."""
        if not CUDA.is_initialized() or not any(name in os.environ for name in RANKS):
            return
        own = torch.cuda.current_device()
        for device in range(torch.cuda.device_count()):
            size = torch.cuda.max_memory_allocated(device) if device != own else 0
            if size > 0:
                holder = self.observer.note_card(device)
                place = (holder.file, holder.line) if holder is not None else ("", 0)
                self.caveat("other_card", f"cuda:{device}", *place, size=size)

    def _store_growths(self, outcome: int) -> None:
        """Stores the loops whose memory grew. The number of iterations is known if the program did not fail in one."""
        for growth in self.observer.growths():
            done = growth.loop.longest_run
            self.caveat("growth", growth.phase, growth.file, growth.line, growth.full_at, None if outcome else done, growth.size,
                        done)

    def caveat(self, kind: str, name: str, file: str = "", line: int = 0, count: Optional[int] = None, total: Optional[int] = None,
               size: Optional[int] = None, value: float = math.nan) -> None:
        """Stores a fact that makes the figures incomplete or uncertain. It replaces an earlier fact about the same place."""
        numbers = (-1 if number is None else number for number in (count, total, size))
        self.library.memtrace_torch_caveat(kind.encode(), name.encode(), os.fsencode(file), line, *numbers, value)

    # ---- steps ----

    def _begin_forward(self, module: torch.nn.Module) -> None:
        self.observer.begin_forward(module)
        if self.in_step and self.ran_backward and not self.has_own_steps and (
                self.updates_in_backward or self._was_updated() or self._updates_itself()):
            self._end_own_step()  # the program has updated its parameters in backward, or in its own or compiled code
        if not self.in_step and not self.has_own_steps and module.training and torch.is_grad_enabled():
            self.in_step, self.ran_backward, self.begins_at_forward = True, False, True
            self.version = Version.of(module)
            self.begin_step()

    def begin_step(self) -> int:
        if not is_tracing():
            self.observer.begin_step()
        return super().begin_step()

    def _before_optimizer(self, optimizer: Any) -> None:
        super()._before_optimizer(optimizer)
        if optimizer is not None:
            self._note_gradients(self.observer.before_optimizer(optimizer))

    def _note_gradients(self, found: Iterable[tuple[str, Needless]]) -> None:
        for kind, one in found:
            self.caveat(kind, one.name, one.file, one.line, one.parameters, size=one.size)

    def _after_optimizer(self, optimizer: Any) -> None:
        super()._after_optimizer(optimizer)
        if optimizer is not None:
            self.observer.after_optimizer(optimizer)
        self.has_optimizer = True
        if self.backwards:
            self.updates_in_backward = True  # hooks of gradients update parameters one by one, until backward ends
            return
        self.sees_updates = True
        if self.updates:
            return  # it is part of another one, as in ZeroRedundancyOptimizer
        self._phase("forward", self.data)  # next is the loading of the next step's data
        if self.has_own_steps:
            return
        is_unseen = not self.in_step and not self.begins_at_forward
        self._end_own_step()
        if is_unseen:
            self.begin_step()  # forward is compiled together with its caller

    def _end_own_step(self) -> None:
        self.in_step = False
        self.end_step()

    def _was_updated(self) -> bool:
        """True if a compiled optimizer has changed a parameter since the step began. Labels the state of optimizers."""
        if self.sees_updates or self.version is None or not self.version.has_changed():
            return False
        if self.unseen is None:
            self.unseen = weakref.WeakSet(optimizers())
        for optimizer in self.unseen:
            self.label_state(optimizer)
        return True

    def _updates_itself(self) -> bool:
        """True if the program has no PyTorch optimizer, whose steps would end the training steps."""
        if self.has_optimizer is None:  # searched once, since it takes long
            self.has_optimizer = bool(optimizers())
        return not self.has_optimizer

    def _on_range(self, name: Optional[str]) -> None:
        super()._on_range(name)
        if name is not None and name.startswith("ProfilerStep") and self.step_prefix is None:
            self.has_own_steps = self.in_step = True
            self.begin_step()

    def _begin_range(self, original: Any, *given: Any, **named: Any) -> Any:
        """Begins a step with a range of torch.cuda.nvtx whose name has the user's prefix."""
        name = given[0] if given else named.get("msg")
        is_step = str(name).startswith(self.step_prefix or "")
        ranges = self.local.__dict__.setdefault("ranges", [])
        ranges.append(is_step)
        if is_step:
            self.begin_step()
        return original(*given, **named)

    def _end_range(self, original: Any, *given: Any, **named: Any) -> Any:
        ranges = getattr(self.local, "ranges", None)
        if ranges and ranges.pop():
            self.end_step()
        return original(*given, **named)


def roots_of(frame: Any) -> list[Any]:
    """Returns the nodes with which a backward begins, from a frame that PyTorch's functions for backward called."""
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        outputs = frame.f_locals.get("t_outputs") if frame.f_code.co_name == "_engine_run_backward" else None
        if outputs is not None:
            return [one.grad_fn for one in outputs if isinstance(one, torch.Tensor)]
        frame = frame.f_back
    return []


def optimizers() -> list[Any]:
    """Returns all optimizers of PyTorch's that there are. Takes long."""
    return objects_of(torch.optim.Optimizer)[0]


def fall_back(reason: str) -> None:
    """Makes PyTorch record its memory history instead, for `memtrace record` to import, and prints the reason."""
    if settings().answers is None or not has("memory history"):
        tell(f"{reason}; nothing is recorded")
        return
    tell(f"{reason}; PyTorch's memory history is recorded instead")
    CUDA._lazy_call(lambda: CUDA.memory._record_memory_history(max_entries=HISTORY_ENTRIES))
    atexit.register(keep_history)


def keep_history() -> None:
    """Writes PyTorch's memory history next to the trace, if CUDA was used."""
    if not CUDA.is_initialized():
        return
    path = f"{trace_of_rank()}-{os.getpid()}.pickle"
    try:
        CUDA.memory._dump_snapshot(path)
        tell(path, "history")
    except Exception as error:  # the program is over, and its outcome must not change
        tell(f"PyTorch's memory history can't be written: {error}")


def begin(trace: Union[None, str, os.PathLike[str]] = None, name: Optional[str] = None,
          with_stacks: bool = True) -> Optional[Watcher]:
    """Begins to watch, with or without call stacks and operators. Returns None if PyTorch has no CUDA. Fails with RuntimeError if
    the trace can't be written, and with abi.NotUnderstood for a PyTorch with unsupported headers."""
    global watcher
    if torch.version.cuda is None:
        return None
    note_newer(torch.__version__)
    include = pathlib.Path(torch.__file__).parent / "include"
    interface = abi.derive(include)
    library = load_torch_library(find_torch_library(), ctypes.RTLD_GLOBAL)  # for the library that records CUDA's calls
    library.memtrace_torch_configure(alloc_settings(configuration())[0].encode(), None, None)  # unknown if it fails
    if library.memtrace_torch_watch(ctypes.byref(interface), os.fsencode(trace) if trace else None,
                                    name.encode() if name else None):
        raise RuntimeError(library.memtrace_torch_last_error().decode())
    watcher = Watcher(library)
    for reason in stacks.begin(library, include) if with_stacks else ():
        tell(reason)
    close_at_exit(watcher)
    CUDA._lazy_call(watcher.attach)
    return watcher


def begin_ours() -> None:
    """Replaces PyTorch's allocator by memtrace's, with the same labels."""
    global watcher
    if settings().device != -1:
        tell("memtrace's allocator counts every GPU, not only the one that was asked for")
    library = load_torch_library(find_torch_library())
    library.memtrace_torch_answer()
    watcher = Watcher(library)
    watcher.allocator = install_allocator(trace_of_rank(), program=settings().name)


def begin_recorded() -> None:
    """Begins with the settings of `memtrace record`."""
    if settings().kernels and torch.version.cuda is not None:
        tell("kernels are recorded, so PyTorch's allocator is not watched")
        return
    if settings().torch == "ours":
        if torch.version.cuda is not None:
            begin_ours()
        return
    try:
        begin(with_stacks=bool(settings().stacks))
    except (RuntimeError, OSError, abi.NotUnderstood) as error:
        fall_back(str(error))


def end(outcome: int = 0) -> None:
    """Ends the traces like Allocator.close, and removes all hooks."""
    global watcher
    if watcher is not None:
        stacks.end(watcher.library)
        watcher.unwatch()
        store_arguments(watcher.library)
        watcher.close(outcome)
    watcher = None
