"""PyTorch's own allocator, watched: no line of the program changes, and the allocator stays PyTorch's.

    begin("train.db")    traces this process; `memtrace record` begins by itself, without a path
    end()                closes the traces; the exit of the program does so, too

Every module that is called is labelled by its path from the outermost one. A step begins with the first forward of training
and ends with the optimizer's, or is what torch.profiler calls one.
"""
from __future__ import annotations

import atexit
import ctypes
import os
import pathlib
import sys
from typing import Any, Optional, Union

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import _abi, _stacks
from ._allocator import Allocator, close_at_exit, install_allocator
from ._labels import ROOT, Call, Labels, Patched, Place
from ._library import find_torch_library, load_torch_library

TRACE = "MEMTRACE_RECORD_TRACE"
ANSWERS = "MEMTRACE_RECORD_ANSWERS"
STACKS = "MEMTRACE_RECORD_STACKS"
HISTORY_ENTRIES = 10_000_000
OBJECT_BYTES = 16  # of a Python object before what it is about, in an interpreter with one lock

CUDA: Any = torch.cuda  # its functions have no types

watcher: Optional["Watcher"] = None


def tell(words: str) -> None:
    """Says something to `memtrace record`, as one of the lines of src/record/handover.h; or on stderr."""
    path = os.environ.get(ANSWERS)
    if path is None:
        print("memtrace: " + words, file=sys.stderr)
        return
    line = words.replace("\\", "\\\\").replace("\n", "\\n")
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"note\t{os.getpid()}\t0\t{line}\n")


class Watcher(Labels):
    """Labels for a program that does not know of it."""

    allocator: Optional[Allocator] = None  # memtrace's, if it is in the place of PyTorch's

    def __init__(self, library: Any) -> None:
        super().__init__(library)
        self.in_step = self.has_profiler = False
        # The hooks of each module are C.
        self.is_fast = object.__basicsize__ == OBJECT_BYTES and library.memtrace_torch_python() == 0
        library.memtrace_torch_grad_mode()
        self._watch_calls()
        self.handles.append(Patched(torch.profiler.profile, "step", self._profiler_step))

    def attach(self) -> None:
        """Attaches to the allocator, which is there once CUDA has begun. Fails never: PyTorch calls this as it begins."""
        try:
            for device in range(torch.cuda.device_count()):
                card = torch.cuda.get_device_properties(device)
                self.library.memtrace_torch_card(device, card.name.encode(), card.total_memory)
            self._check(self.library.memtrace_torch_attach())
            for segment in CUDA.memory_snapshot():
                self._find(segment)
        except Exception as error:
            _stacks.end(self.library)
            fall_back(str(error))

    def _find(self, segment: Any) -> None:
        """Notes a segment that was there before."""
        device, stream = segment["device"], segment["stream"]
        self.library.memtrace_torch_found_segment(device, segment["address"], segment["total_size"], stream,
                                                  segment.get("is_expandable", False))
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                self.library.memtrace_torch_found_block(device, block["address"], block["requested_size"], block["size"],
                                                        stream)

    # ---- modules and gradients ----

    def _watch_calls(self) -> None:
        if not self.is_fast:
            super()._watch_calls()
            return
        in_span = self.library.memtrace_torch_module_call(torch.nn.Module.__call__, self._on_new, self._on_outermost)

        # A function, since others put __call__ away and back, and nothing else is the same after that.
        def call(module: Any, *given: Any, **named: Any) -> Any:
            return in_span(module, *given, **named)

        self.handles += [
            Replaced(torch.nn.Module, "__call__", call),
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
            Patched(torch.autograd, "backward", self._backward),
        ]
        graph = find_graph()
        if graph is not None:
            self.library.memtrace_torch_graph(*graph)

    def _watch_gradient(self, parameter: Any, span: int) -> None:
        if not self.is_fast:
            super()._watch_gradient(parameter, span)
            return
        hook = self.library.memtrace_torch_gradient_hook(span, self.gradient)
        self.handles.append(parameter.register_post_accumulate_grad_hook(hook))

    def _on_new(self, module: torch.nn.Module) -> None:
        """Watches a module when it is first called, inside of the one that is under way."""
        self._watch_in(module, type(module).__name__, self.library.memtrace_torch_span_now(),
                       self.library.memtrace_torch_category_now())

    def _on_outermost(self, module: Optional[torch.nn.Module]) -> None:
        """Is told of an outermost module before its call, and of None after it."""
        if module is None:
            if self.phase_now[0] == "forward":
                self._phase("loss", self.loss)
        elif self.phase_now[0] not in ("backward", "optimizer"):
            self._phase("forward", self.data)
            self._begin_forward(module)

    def _new_place(self, module: torch.nn.Module, calls: list[Call]) -> Place:
        """Watches a module when it is first called."""
        around = calls[-1][1] if calls else None
        self._watch_in(module, type(module).__name__, around.span if around else ROOT,
                       around.category if around else self.other)
        return self.places[id(module)]

    def _backward(self, original: Any, *given: Any, **named: Any) -> Any:
        """Keeps this thread's call stack for those of autograd's that run no Python."""
        self.library.memtrace_torch_backward_begin()
        try:
            return super()._backward(original, *given, **named)
        finally:
            self.library.memtrace_torch_backward_end()

    # ---- steps ----

    def _begin_forward(self, module: torch.nn.Module) -> None:
        if not self.in_step and module.training:
            self.in_step = True
            self.begin_step()

    def _after_optimizer(self, optimizer: Any, given: Any, named: Any) -> None:
        super()._after_optimizer(optimizer, given, named)
        self._phase("forward", self.data)  # what comes next is the data of the next step
        if not self.has_profiler:
            self.in_step = False
            self.end_step()

    def _profiler_step(self, original: Any, *given: Any, **named: Any) -> Any:
        self.has_profiler = self.in_step = True
        self.begin_step()
        return original(*given, **named)


class Replaced:
    """Puts something in the place of an attribute until it is removed."""

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self.owner, self.name, self.original = owner, name, getattr(owner, name)
        setattr(owner, name, value)

    def remove(self) -> None:
        setattr(self.owner, self.name, self.original)


def find_graph() -> Optional[tuple[int, int, int]]:
    """Returns where a node of autograd's graph has its number and its thread's, and the number of this thread; None if its
    memory is not as known. Looks at two nodes of a graph of its own, on the host."""
    words = []
    for _ in range(2):
        try:
            node: Any = (torch.ones(1, requires_grad=True) * 2).grad_fn
            number = node._sequence_nr()
        except AttributeError:
            return None
        address = ctypes.c_uint64.from_address(id(node) + OBJECT_BYTES).value
        words.append((number, [ctypes.c_uint64.from_address(address + at).value for at in range(0, 64, 8)]))
    for at, thread_at in ((24, 48), (16, 40)):
        found = [(number == word[at // 8], word[thread_at // 8]) for number, word in words]
        if found[0] == found[1] and found[0][0] and 0 < found[0][1] < 1 << 32:
            return at, thread_at, found[0][1]
    return None


def fall_back(reason: str) -> None:
    """Has PyTorch keep its memory history instead, to be imported, and says why."""
    tell(f"{reason}; PyTorch's memory history is recorded instead")
    CUDA._lazy_call(lambda: CUDA.memory._record_memory_history(max_entries=HISTORY_ENTRIES))
    atexit.register(keep_history)


def keep_history() -> None:
    """Writes PyTorch's memory history beside the trace, if CUDA was used."""
    if not CUDA.is_initialized():
        return
    path = f"{os.environ.get(TRACE, 'memtrace.db')}-{os.getpid()}.pickle"
    CUDA.memory._dump_snapshot(path)
    tell(f"PyTorch's memory history is in {path}; see memtrace import {path}")


def begin(trace: Union[None, str, os.PathLike[str]] = None, name: Optional[str] = None,
          stacks: bool = True) -> Optional[Watcher]:
    """Begins to watch, with or without call stacks and names of operators. Returns None where PyTorch has no CUDA. Fails with RuntimeError if the trace can't be written, and
    with _abi.NotUnderstood for a PyTorch whose headers are not understood."""
    global watcher
    if torch.version.cuda is None:
        return None
    include = pathlib.Path(torch.__file__).parent / "include"
    abi = _abi.derive(include)
    library = load_torch_library(find_torch_library(), ctypes.RTLD_GLOBAL)  # for the library that records CUDA's calls
    if library.memtrace_torch_watch(ctypes.byref(abi), os.fsencode(trace) if trace else None,
                                    name.encode() if name else None):
        raise RuntimeError(library.memtrace_torch_last_error().decode())
    watcher = Watcher(library)
    for reason in _stacks.begin(library, include) if stacks else ():
        tell(reason)
    close_at_exit(watcher)
    CUDA._lazy_call(watcher.attach)
    return watcher


def trace_of_rank() -> str:
    """Returns the path of the trace that `memtrace record` asks for, as src/record/process_trace.h has it for a rank."""
    path, ending = os.path.splitext(os.environ[TRACE])
    rank = os.environ.get("RANK", "0")
    return path + ("" if rank == "0" else f"-rank{rank}") + ending


def begin_ours() -> None:
    """Puts memtrace's allocator in the place of PyTorch's, with the same labels."""
    global watcher
    library = load_torch_library(find_torch_library())
    library.memtrace_torch_answer()
    watcher = Watcher(library)
    watcher.allocator = install_allocator(trace_of_rank(), program=os.environ.get("MEMTRACE_RECORD_NAME"))


def begin_recorded() -> None:
    """Begins as `memtrace record` asks."""
    if os.environ.get("MEMTRACE_RECORD_TORCH") == "ours":
        if torch.version.cuda is not None:
            begin_ours()
        return
    try:
        begin(stacks=os.environ.get(STACKS) != "0")
    except (RuntimeError, OSError, _abi.NotUnderstood) as error:
        fall_back(str(error))


def end(outcome: int = 0) -> None:
    """Ends the traces as Allocator.close does, and removes all hooks."""
    global watcher
    if watcher is not None:
        _stacks.end(watcher.library)
        watcher.unwatch()
        watcher.close(outcome)
    watcher = None
