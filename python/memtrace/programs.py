"""Starts programs, recorded or on a simulated card: `memtrace.run_dry(["train.py"], device="sim:h100").runs[0].fits`.

Section 7 of include/memtrace.h documents the options and rows. Each call waits until the program has ended, and only one
thread at a time may call. Ctrl-C ends the program. Then the functions that run it once raise KeyboardInterrupt, and fit,
largest and sweep raise MemtraceError.
"""
from __future__ import annotations

import ctypes
import dataclasses
import os
import signal
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ._declarations import library, plain, public, value_of
from ._questions import call
from ._rows import Rows
from ._sizes import in_words
from ._trace import Path, pointer_to
from ._visible import visible

Word = Union[str, os.PathLike[str]]
EVERY_STEP = -1
_DRY, _RECORDED = 0, 1


@dataclasses.dataclass(frozen=True)
class ProgramRun:
    """A run that a process of the program has added to a trace. `rank` is -1 if it has no rank."""

    trace: str
    run: int
    rank: int
    state: str
    fits: bool
    live_bytes: int
    reserved_bytes: int
    outside_bytes: int
    needed_bytes: int
    card_bytes: int
    short_bytes: int
    steps: int
    line: str
    assumed: str

    def __str__(self) -> str:
        """Describes the run's needs and whether they fit, like the last lines of `memtrace dry-run`."""
        place = f" at {self.line}" if self.line else ""
        free = self.card_bytes - self.needed_bytes
        room = f"fits, {in_words(free)} free" if self.fits else f"{in_words(self.short_bytes)} short{place}"
        rank = f", rank {self.rank}" if self.rank >= 0 else ""
        return visible(f"run {self.run}{rank} ({self.state}): peak {in_words(self.live_bytes)} live; needs "
                       f"{in_words(self.needed_bytes)} of {in_words(self.card_bytes)}: {room}")


@dataclasses.dataclass(frozen=True)
class Program:
    """The outcome of a program."""

    exit_code: int
    runs: Rows[ProgramRun]
    notes: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """True if there is a run and every run fits its card."""
        return len(self.runs) > 0 and all(run.fits for run in self.runs)

    def __str__(self) -> str:
        none = ["no run was added to the trace"] if not self.runs else []
        failed = [f"the program ended with exit code {self.exit_code}"] if self.exit_code != 0 else []
        return "\n".join([*map(str, self.runs), *map(visible, self.notes), *none, *failed])


@dataclasses.dataclass(frozen=True)
class Trial:
    """A dry run with changes of the program. `changes` is "" for the unchanged program."""

    changes: str
    outcome: str
    words: str
    fits: bool
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    rank: int


@dataclasses.dataclass(frozen=True)
class Fit:
    """Whether a program fits a card unchanged, and with which changes. `remedy` names the changes of the first trial that
    fits, "" if none is needed or none suffices."""

    trials: Rows[Trial]

    @property
    def fits(self) -> bool:
        return self.trials[0].fits

    @property
    def remedy(self) -> str:
        return next((trial.changes for trial in self.trials if trial.fits), "")


@dataclasses.dataclass(frozen=True)
class Cell:
    """A combination of values, by name, and the peaks of the program with them."""

    values: Mapping[str, str]
    state: str
    words: str
    run: int
    rank: int
    allocated_bytes: int
    reserved_bytes: int


@dataclasses.dataclass(frozen=True)
class ValueTrial:
    """A dry run with a value, and with values of other arguments by name. `state` is "fits", "short", "failed"
    or "killed"."""

    values: Mapping[str, str]
    value: int
    state: str
    words: str
    is_largest: bool
    requested_bytes: int
    allocated_bytes: int
    reserved_bytes: int
    needed_bytes: int
    card_bytes: int
    rank: int

    @property
    def fits(self) -> bool:
        return self.state == "fits"


@dataclasses.dataclass(frozen=True)
class Largest:
    """The values that were tried. `answers` has the largest that fits for each combination of other values, if one does."""

    trials: Rows[ValueTrial]

    @property
    def answers(self) -> Rows[ValueTrial]:
        return Rows(trial for trial in self.trials if trial.is_largest)

    @property
    def value(self) -> Optional[int]:
        """The largest value that fits, of all combinations; None if none does."""
        return max((trial.value for trial in self.answers), default=None)


def _encode(text: Word) -> bytes:
    """Encodes a text or path for C. Refuses texts that contain a NUL."""
    encoded = os.fsencode(text)
    if b"\0" in encoded:
        raise ValueError(f"a NUL is in {text!r}")
    return encoded


def _texts(texts: Sequence[bytes]) -> Any:
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


def _options(words: Sequence[Word], mode: int, fields: Mapping[str, Any]) -> Any:
    """Makes the options of a call. Paths and texts are encoded, None is omitted."""
    if isinstance(words, (str, bytes)):
        raise TypeError(f"words are a list, [\"train.py\", \"--batch\", \"8\"], not {words!r}")
    encoded = {name: _encode(value) if isinstance(value, (str, os.PathLike)) else value
               for name, value in fields.items() if value is not None}
    struct = public().structs["memtrace_program_options"]
    texts = _texts([_encode(word) for word in words])
    return struct(size=ctypes.sizeof(struct), words=texts, mode=mode, **encoded)


def _row(row: Any, kind: Any) -> Any:
    """Copies a struct into a dataclass, with `fits` as a bool."""
    return dataclasses.replace(plain(row, kind), fits=bool(row.fits))


def _ask(name: str, struct: str, copy: Callable[[Any], Any], *arguments: Any) -> Rows[Any]:
    """Calls a function whose last results are rows, their number and, for program_run, the notes. Returns copies of the rows."""
    rows, count = ctypes.POINTER(pointer_to(struct))(), ctypes.c_size_t()
    notes = arguments[-1:] if name == "program_run" else ()
    call(name, *arguments[:len(arguments) - len(notes)], ctypes.byref(rows), ctypes.byref(count), *notes)
    try:
        return Rows(copy(rows[index].contents) for index in range(count.value))
    finally:
        library().memtrace_free(rows)


def _program_run(row: Any) -> ProgramRun:
    found: ProgramRun = _row(row, ProgramRun)
    return dataclasses.replace(found, trace=os.fsdecode(row.trace))


def _run(options: Any) -> Program:
    code, notes = ctypes.c_int(), ctypes.c_char_p()
    runs = _ask("program_run", "program_row", _program_run, ctypes.byref(options), ctypes.byref(code),
                ctypes.byref(notes))
    said = value_of(notes.value or b"")
    library().memtrace_free(notes)
    if code.value == 128 + signal.SIGINT:
        raise KeyboardInterrupt  # Ctrl-C reached the program, not this process
    return Program(code.value, runs, tuple(said.splitlines()))


def run_dry(words: Sequence[Word], *, device: str = "sim", trace: Path = "memtrace.db", name: Optional[str] = None,
            output: int = 0, cards: int = 0, ranks: int = 0, only_ranks: Optional[str] = None, steps: int = 0,
            time_limit_s: int = 0, assumed: Optional[str] = None, free_memory: Optional[str] = None,
            weights: Optional[str] = None, jobs: int = 0) -> Program:
    """Runs a PyTorch program on a simulated card, like `memtrace dry-run`, and adds its runs to the trace.

    words: the program and its arguments, ["train.py", "--batch", "8"], or the command line of a launcher, such as torchrun.
    output: the number of an open file for the program's output; 0: this process's output.
    steps: number after which the program ends; 0: loops end once they repeat; or EVERY_STEP.
    assumed: for values that are not computed: a number, or "none", "all" or "50%" for the true elements of masks; a list,
        "0.5,2,none", runs the program once for each, which ProgramRun.assumed names.
    weights: "from-config": models of transformers and diffusers need no checkpoint.
    jobs: ranks at a time; 0: as many as processors and host memory allow.
    """
    fields = dict(locals())
    del fields["words"]
    return _run(_options(words, _DRY, fields))


def run_recorded(words: Sequence[Word], *, device: Optional[str] = None, trace: Path = "memtrace.db",
                 name: Optional[str] = None, output: int = 0, kernels: bool = False, no_stacks: bool = False,
                 step_range: Optional[str] = None) -> Program:
    """Runs any program and records the memory of its GPUs, like `memtrace record`. A program that can't be recorded runs
    anyway; then `notes` has the reason."""
    fields = dict(locals())
    del fields["words"]
    return _run(_options(words, _RECORDED, fields))


def fit(words: Sequence[Word], *, device: str = "sim", cards: int = 0, ranks: int = 0, only_ranks: Optional[str] = None,
        steps: int = 0, time_limit_s: int = 0, assumed: Optional[str] = None, free_memory: Optional[str] = None,
        weights: Optional[str] = None, jobs: int = 0) -> Fit:
    """Runs a program dry, unchanged and with changes, and returns which changes make it fit the card, like `memtrace fit`."""
    fields = dict(locals())
    del fields["words"]
    return Fit(_ask("program_fit", "trial", lambda row: _row(row, Trial), ctypes.byref(_options(words, _DRY, fields))))


def largest(words: Sequence[Word], values: str, vary: Optional[Mapping[str, Sequence[object]]] = None, *, device: str = "sim",
            cards: int = 0, ranks: int = 0, only_ranks: Optional[str] = None, steps: int = 0, time_limit_s: int = 0,
            assumed: Optional[str] = None, free_memory: Optional[str] = None, weights: Optional[str] = None,
            jobs: int = 0) -> Largest:
    """Finds the largest value of an argument with which a program fits the card, like `memtrace fit --largest`:
    largest(["train.py", "--batch", "@batch"], "batch=1..512").value. The range may have a step, "batch=8..512:8", or be a
    list, "batch=1,2,4". With `vary`, values of other arguments as in sweep, each combination has its own answer."""
    fields = dict(locals())
    del fields["words"], fields["values"], fields["vary"]
    names = list(vary or {})
    lists = [_list(key, some) for key, some in (vary or {}).items()]
    return Largest(_ask("program_largest", "value_trial", lambda row: _value_trial(row, names),
                        ctypes.byref(_options(words, _DRY, fields)), ctypes.c_char_p(_encode(values)), _texts(lists),
                        ctypes.c_size_t(len(lists))))


def sweep(words: Sequence[Word], values: Mapping[str, Sequence[object]], *, device: str = "sim", trace: Path = "memtrace.db",
          name: Optional[str] = None, cards: int = 0, ranks: int = 0, only_ranks: Optional[str] = None, steps: int = 0,
          time_limit_s: int = 0, assumed: Optional[str] = None, free_memory: Optional[str] = None,
          weights: Optional[str] = None, jobs: int = 0) -> Rows[Cell]:
    """Runs a program dry with each combination of values, which replace its arguments @NAME, like
    `memtrace sweep --vary`: sweep(["train.py", "--batch", "@batch"], {"batch": [2, 4, 8]})."""
    fields = dict(locals())
    del fields["words"], fields["values"]
    lists = [_list(key, some) for key, some in values.items()]
    return _ask("program_sweep", "program_cell", lambda row: _cell(row, list(values)),
                ctypes.byref(_options(words, _DRY, fields)), _texts(lists), ctypes.c_size_t(len(lists)))


def _list(name: str, values: Sequence[object]) -> bytes:
    texts = [str(value) for value in values]
    if any("," in text for text in texts):
        raise ValueError(f"a value of {name!r} has a comma, which separates values: {texts}")
    return _encode(f"{name}={','.join(texts)}")


def _cell(row: Any, names: Sequence[str]) -> Cell:
    found: Cell = plain(row, Cell)
    return dataclasses.replace(found, values=_by_name(row, names))


def _value_trial(row: Any, names: Sequence[str]) -> ValueTrial:
    found: ValueTrial = plain(row, ValueTrial)
    return dataclasses.replace(found, values=_by_name(row, names), is_largest=bool(row.is_largest))


def _by_name(row: Any, names: Sequence[str]) -> Mapping[str, str]:
    return dict(zip(names, os.fsdecode(row.values).split(",")))
