"""The program of a dry run: its labels, its trace and its end."""
from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import os
import pathlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import util
from typing import Any, NamedTuple, Optional

import torch

from .._private_names import has, note_newer, replace
from .._settings import change, settings
from ..recording import alloc_conf, stacks
from ..recording.allocator import OUT_OF_MEMORY, close_at_exit
from ..recording.handover import RANKS, store_arguments, tell, trace_of_rank
from ..recording.holders import measured_by_fork
from ..recording.observer import Observer
from ..recording.watching import Watcher, is_tracing
from . import compilers, driver, files, nvidia_smi, pretrained, ranks, replaced, simulated, threads, trainers, triton_kernels, triton_tuning
from .coverage import Call, Coverage, allocations_behind
from .leaving import loops_of_program, unfinished_sweeps
from .loops import Endings, Loops, follow_loaders
from .places import Place, innermost
from .progress import Progress
from .steps import Meter

GRACE = 20.0  # seconds in which a program may end by itself after its time limit
LOOP_ENDS = "settled", "unsettled", "growth", "steps", "values"


class Enough(SystemExit):
    """Ends the program once its steps have shown all that they do, as if it had ended by itself."""


class DryWatcher(Watcher):
    """Labels, the end after enough steps, and what the trace says of the run's completeness."""

    def __init__(self, library: Any, cards: Any, changes: Any) -> None:
        super().__init__(library)
        self.cards, self.changes = cards, changes
        self.coverage = Coverage()
        self.loops = Loops(Meter(cards), settings().steps, Endings(self.end, self.end_at_next_line, self.has_more, self.note_left_in),
                           lambda loop: self.observer.visit(loop))
        self.progress = Progress(cards)
        self.threads = threads.Threads(lambda: self.loops.meter.read().request_count)
        self.left: dict[Place, Call] = {}  # calls that had not run when a loop was left
        self.ended_by: Optional[str] = None
        self.exit_code = 0  # of a program that was asked to terminate
        self.is_terminated = False
        if files.installed is not None:
            files.installed.overlay.on_write = self.coverage.note

    # ---- what happens ----

    def _observer(self) -> Observer:
        return Observer(self.library, lambda: self.loops.meter.free(), measured_by_fork)

    def _store_growths(self, outcome: int) -> None:
        for growth in (*self.loops.growths.values(), *self.loops.rounds.growths.values()):
            self.caveat("growth", "live bytes", *growth.place, growth.full_at, growth.total, growth.size, growth.done)
            for key, other in list(self.observer.iterations.growths.items()):
                if other.size == growth.size:  # the same loop, that was ended early
                    del self.observer.iterations.growths[key]
        super()._store_growths(outcome)

    def label_parameter(self, parameter: Any) -> None:
        """Labels a parameter that the program makes before it calls a model, since the peak may be there."""
        if self.phase_now[0] == "init":
            self.relabel(parameter, self.param)

    def begin_step(self) -> int:
        number = super().begin_step()
        self.loops.begin_step()
        return number

    def end_step(self) -> None:
        super().end_step()
        replaced.notes.forget_reads()
        self.end_if_terminated()
        self.coverage.has_trained = True
        self.progress.show(self.loops.steps + 1)
        self.threads.run_ahead()
        self.loops.end_step()

    def _updates_itself(self) -> bool:
        """True also if an optimizer is compiled, and so its hooks are not called."""
        return bool(compilers.optimizers) or super()._updates_itself()

    def _on_outermost(self, module: Optional[torch.nn.Module]) -> None:
        super()._on_outermost(module)
        if module is not None:
            self.end_if_terminated()
            self.coverage.note()
            self.loops.note_forward()
            replaced.notes.forget_rounds()
            self.progress.show(self.loops.steps)

    def _begin_backward(self, accumulates: bool) -> None:
        """Begins a step if none is under way, as in programs whose modules are not set to training."""
        if not is_tracing():
            self._note_backward()
        super()._begin_backward(accumulates)

    def _note_backward(self) -> None:
        if not self.in_step and not self.has_own_steps:
            self.in_step = True
            self.begin_step()
        replaced.notes.forget_reads()
        self.loops.note_backward()

    # ---- the end ----

    def end(self, why: str) -> None:
        """Ends the program. A program that has caught its end before is ended at once."""
        self._begin_end(why)
        raise Enough(0)

    def _begin_end(self, why: str) -> None:
        """Notes why the program is ended, and that it ends even if its threads do not."""
        if self.ended_by is not None:
            end_at_once(self)
        self.ended_by = why
        self.store_not_run()
        if settings().answers is not None:
            threads.watch_end(lambda: leave_process(self))

    def end_endless(self, place: Place) -> None:
        """Ends the program where a line reads values that were not computed again and again, as in a loop until convergence."""
        if self.loops.is_shortening:
            self.note_unknown_loop(place, replaced.MOST_READS)
            self.end_at_next_line("values")

    def note_unknown_loop(self, place: Place, iterations: int) -> None:
        self.loops.shorten("loop that reads values which were not computed", place, iterations, None)

    def end_at_next_line(self, why: str) -> None:
        """Ends the program at its next line, for callers in native code, which would lose an exception."""
        self._begin_end(why)
        raise_at_next_line(Enough(0))

    def end_if_terminated(self) -> None:
        """Ends a program that goes on after a signal. What its handler raises is lost where C calls Python, as in callbacks."""
        if self.is_terminated:
            end_at_once(self)

    def close(self, outcome: int = 0) -> None:
        self.progress.clear()
        if lacks_triton(self.error):
            tell("this Python has no Triton, which the program needs: pip install triton (it needs no card)")
        self.store_facts(outcome)
        call = self.library.memtrace_torch_driver_failure()
        if outcome and call:
            tell(f"the last call that the driver's stand-in refused: {call.decode()}")
        super().close(outcome)

    # ---- what the trace says of it ----

    def store_facts(self, outcome: int) -> None:
        self.measure("requests", self.loops.meter.read().requests % 2**53)  # the same for ranks that made the same requests
        for one in self.loops.shortened.values():
            self.caveat("shortened", one.what, *one.place, one.done, one.total)
        self.store_left()
        for unknown in unknown_operators(self.library):
            self.caveat("unknown", unknown.name, count=unknown.calls, size=unknown.size)
        for reason, calls in estimates(self.library):
            self.caveat("estimated", reason, count=calls)
        for (place, name), assumed in replaced.notes.assumed.items():
            self.caveat("assumed", name, *place, assumed.reads, value=assumed.value)
        for model in pretrained.made:
            self.caveat("weights", model.name, *model.place)
        for kernel, choice in triton_tuning.choices.items():
            if choice.configurations > 1:
                self.caveat("choice", kernel.name, *kernel.place, choice.differing, choice.configurations, choice.most_bytes)
        for place, reason in compilers.left_out.items():
            self.caveat("eager", reason, *place)
        store_arguments(self.library)
        self.library.memtrace_torch_ended_by((self.ended_by or ending_of(outcome, self.error)).encode())

    def calls_not_run(self) -> list[Call]:
        """Returns the calls that the program has not come to, where it is. Without hooks, it is not known which it has come to."""
        return known(self.coverage.not_run) if self.has_hooks else []

    def has_more(self) -> bool:
        """True if there are calls or allocations that the program has not come to, and that it may come to behind the loop."""
        calls = self.calls_not_run()
        self.left.update((call.place, call) for call in calls)
        return bool(calls) or bool(known(allocations_behind))

    def note_left_in(self, place: Place) -> None:
        """Notes the calls in the loop at a place that no iteration has come to, since the loop ends early."""
        loop = next((one.loop for one in loops_of_program() if one.place == place), None)
        if loop is not None:
            lines = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
            self.left.update((call.place, call) for call in self.calls_not_run()
                             if call.place.file == place.file and call.place.line in lines)

    def store_not_run(self) -> None:
        calls = (*self.calls_not_run(), *known(allocations_behind), *unfinished_sweeps())
        self.left.update((call.place, call) for call in calls)

    def store_left(self) -> None:
        for call in self.left.values():
            if self.coverage.has_run(call):
                continue
            self.caveat("not_run", call.name + (" after the first step" if call.is_late else ""), *call.place)


def known(find: Callable[[], list[Call]]) -> list[Call]:
    """Returns the calls that `find` finds; none if it fails."""
    try:
        return find()
    except Exception as error:  # the program is not to fail since it is described
        tell(f"calls that did not run are not known: {error!r}")
        return []


def ending_of(outcome: int, error: Optional[BaseException]) -> str:
    """Returns the reason for the end of a program that was not ended, as in run.ended_by of the trace."""
    if isinstance(error, KeyboardInterrupt):
        return "signal"
    return {0: "program", OUT_OF_MEMORY: "out of memory"}.get(outcome, "error")


def lacks_triton(error: Optional[BaseException]) -> bool:
    """True if a program failed since Triton, which comes with PyTorch for CUDA alone, could not be imported."""
    while error is not None:
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "triton":
            return "triton" not in sys.modules or sys.modules["triton"] is None
        error = error.__cause__ or error.__context__
    return False


def end_at_once(watcher: DryWatcher) -> None:
    """Ends the process of a program that catches its end again and again, as a loop that retries failed steps."""
    if settings().answers is None:
        raise Enough(0)  # a dry run of a part of a program
    if watcher.ended_by in LOOP_ENDS:
        watcher.ended_by = "caught"
    leave_process(watcher)


def leave_process(watcher: DryWatcher) -> None:
    """Ends the process without its threads, after the functions that are called at its exit."""
    atexit._run_exitfuncs()
    end_process(watcher)


def end_process(watcher: DryWatcher) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(watcher.exit_code)


def raise_at_next_line(error: BaseException) -> None:
    """Raises an exception at the next line of the program that this thread runs, where a debugger would stop."""
    def trace(*event: Any) -> None:
        sys.settrace(None)
        raise error

    frame = innermost()
    while frame is not None:
        frame.f_trace = trace
        frame = frame.f_back
    sys.settrace(lambda *event: None)


def follow_termination(watcher: DryWatcher) -> None:
    """Ends the program in order, with its trace, when it is asked to terminate: by a user, or at the time limit."""
    def terminate(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        is_late = time.time() >= settings().deadline
        watcher.exit_code = 0 if is_late else 128 + signal.SIGTERM
        watcher.ended_by = "time limit" if is_late else "signal"
        watcher.is_terminated = True  # last: other threads may end the program from now on
        watcher.store_not_run()
        raise Enough(watcher.exit_code)

    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, terminate)


def follow_deadline(watcher: DryWatcher) -> None:
    """Asks the program to terminate at the time limit, and ends it if it does not."""
    def end() -> None:
        watcher.ended_by = "time limit"
        end_at_once(watcher)

    left = settings().deadline - time.time()
    if left <= 0:
        tell("the time limit passed while the program imported PyTorch: raise --time-limit")
    for seconds, act in ((left, lambda: os.kill(os.getpid(), signal.SIGTERM)), (left + GRACE, end)):
        if seconds < threading.TIMEOUT_MAX:
            timer = threading.Timer(max(0, seconds), act)
            timer.daemon, timer.name = True, threads.NAME
            timer.start()


def follow_threads(watcher: DryWatcher) -> None:
    """Ends a process at the end of its program if threads are left of a program that was ended. As Python ends, it would stop them
    in native code, which ends the process with a signal."""
    def end() -> None:
        if watcher.ended_by is not None and settings().answers is not None and threads.of_program():
            end_process(watcher)

    atexit.register(end)


def trace_of_process() -> str:
    """Returns the path of this process's trace. A process that one with a card has started has a trace of its own."""
    path = trace_of_rank()
    if settings().process == 0:
        change(process=os.getpid())
    if any(name in os.environ for name in RANKS) or settings().process == os.getpid():
        return path
    stem, ending = os.path.splitext(path)
    return f"{stem}-{os.getpid()}{ending}"


class Unknown(NamedTuple):
    """An operator that was called and whose scratch memory is unknown."""

    size: int  # bytes of its results
    calls: int
    name: str


def unknown_operators(library: Any) -> list[Unknown]:
    """Returns the operators that were called and whose scratch memory is unknown, most bytes first."""
    calls, size = ctypes.c_uint64(), ctypes.c_uint64()
    found: list[Unknown] = []
    while name := library.memtrace_torch_unknown(len(found), ctypes.byref(calls), ctypes.byref(size)):
        found.append(Unknown(size.value, calls.value, name.decode()))
    return sorted(found, reverse=True)


def estimates(library: Any) -> Iterator[tuple[str, int]]:
    """Yields in words which calls were estimated, and their number."""
    calls, place = ctypes.c_uint64(), 0
    while words := library.memtrace_torch_estimate(place, ctypes.byref(calls)):
        yield words.decode(), calls.value
        place += 1


def follow_forks(cards: Any, watcher: DryWatcher, configure: Callable[[], None]) -> None:
    """Gives a forked process a trace of its own, unless the card was used before: that one has no card, as under CUDA."""
    def begin_child() -> None:
        if cards.process is None:
            configure()

    os.register_at_fork(after_in_child=begin_child)
    # A process of multiprocessing ends without atexit.
    util.register_after_fork(watcher, lambda watcher: util.Finalize(None, watcher.close, exitpriority=0))


def follow_native_end(library: Any) -> None:
    """Reports if native code ends the process, which no exception shows."""
    with contextlib.suppress(stacks.NotKnown):  # without, the report has no lines of Python
        stacks.find(library)
    library.memtrace_torch_follow_end()
    atexit.register(library.memtrace_torch_ending)


def prepare(has_changes: bool) -> DryWatcher:
    """Does what belongs to the import of torch, and not to the process: another one that is forked from it may begin the dry run."""
    note_newer(torch.__version__)
    cards: Any = simulated.cards
    simulated.register_operators()
    if has("cards"):
        replace("torch.version.cuda", "13.0")
        replace("torch.cuda._get_device_properties", cards.properties)
        replace("torch.cuda._device_count_nvml", lambda: -1)  # not known: the driver's cards, if there are some, are not these
    changes = importlib.import_module(".changes", __package__).Changes() if has_changes else None
    watcher = DryWatcher(cards.memory, cards, changes)
    follow_threads(watcher)  # first, so that it runs last
    close_at_exit(watcher)
    replaced.replace(cards, watcher.label_parameter)
    if has("compilers"):
        compilers.begin(cards, watcher, replaced.notes.note, replaced.notes.assume)
    driver.Driver(cards.count, cards.device).install()
    ranks.install()
    follow_loaders(watcher.loops)
    trainers.follow(watcher.loops)
    triton_kernels.begin(cards, watcher)
    return watcher


def start(watcher: DryWatcher, trace: Optional[str] = None) -> None:
    """Begins the dry run of this process. `trace` is its path; None: as `memtrace dry-run` asks."""
    library = watcher.library
    library.memtrace_torch_answer()
    if settings().command is not None:
        change(command=None)  # processes that this one starts have command lines of their own
    if watcher.changes is not None and settings().changes:
        watcher.changes.begin(settings().changes)
    alloc = simulated.alloc_of(alloc_conf.configuration())
    name = settings().name or pathlib.Path(sys.argv[0] if sys.argv else "").name or "PyTorch"

    def configure(configuration: Optional[str] = None) -> None:
        nonlocal alloc
        wanted = alloc if configuration is None else simulated.alloc_of(configuration)
        if configuration is not None and watcher.cards.requested_bytes() > 0:
            if wanted != alloc:
                replaced.notes.note(f"allocator settings after the first tensor on a card are left out ({configuration}): "
                                    "what is reserved follows those before")
            return
        alloc = wanted
        path = trace or trace_of_process()
        watcher._check(library.memtrace_torch_configure(alloc.encode(), os.fsencode(path), os.fsencode(name)))

    configure()
    watcher.cards.configure = configure
    replaced.begin(watcher.cards, watcher.end_endless, lambda place: watcher.note_unknown_loop(place, replaced.MOST_ROUNDS))
    watcher.progress = Progress(watcher.cards)
    if settings().answers is not None:
        tell(f"PyTorch {torch.__version__}", "began")
        follow_termination(watcher)
        follow_deadline(watcher)
    follow_native_end(library)
    if settings().stacks:
        for obstacle in stacks.begin(library, pathlib.Path(torch.__file__).parent / "include"):
            tell(obstacle)
    follow_forks(watcher.cards, watcher, configure)
    pretrained.begin()
    nvidia_smi.begin(watcher.cards)


def begin(trace: Optional[str] = None) -> DryWatcher:
    """Begins once torch is imported. `trace` is its path; None: as `memtrace dry-run` asks."""
    watcher = prepare(bool(settings().changes))
    start(watcher, trace)
    gc.collect()  # so that the collector's moments depend on what the program makes, and not on how torch was imported
    return watcher
