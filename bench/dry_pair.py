"""Runs of programs, on a card and dry, as lists of events that can be kept and compared anywhere.

A kept run is a file NAME.card.json.xz or NAME.dry.json.xz: PyTorch's own peaks of the first four steps, and each allocation and
free of the whole program in order. NAME.estimates.json.xz holds what estimators say.
"""
from __future__ import annotations

import contextlib
import itertools
import json
import lzma
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from dry_stage import MARK_BYTES, Program

TRAIN = pathlib.Path(__file__).resolve().parent / "dry_train.py"
HALVES = ("card", "dry")
MEASURES = ("requested", "allocated", "reserved")

SQL = """SELECT event_kind.name, requested_bytes, coalesce(label.op, '')
FROM run_event AS event JOIN event_kind ON event_kind.id = event.kind
LEFT JOIN label ON label.run = event.run AND label.id = event.label
WHERE event_kind.name IN ('alloc', 'free') ORDER BY event.id"""


class Failed(Exception):
    """A run that ended badly, with its last words."""


class Event(NamedTuple):
    what: str  # "alloc 512"
    operator: str


class Run(NamedTuple):
    peaks: dict[str, int]  # of the first four steps, by measure
    events: list[Event]  # of the whole program

    def step(self) -> list[Event]:
        """Returns the events of the last step, which stands between what is taken and freed at its begin and its end."""
        marks = [place for place, event in enumerate(self.events) if event.what.endswith(f" {MARK_BYTES}")]
        return self.events[marks[1] + 1:marks[2]]

    def write(self, path: pathlib.Path) -> None:
        part = path.with_suffix(".part")
        with lzma.open(part, "wt") as file:
            json.dump({"peaks": self.peaks, "events": self.events}, file)
        part.rename(path)


def read_run(path: pathlib.Path) -> Run:
    with lzma.open(path, "rt") as file:
        kept = json.load(file)
    return Run(kept["peaks"], [Event(*event) for event in kept["events"]])


def ended(words: list[str], environment: dict[str, str]) -> str:
    """Returns what a command prints. Raises Failed with its last words."""
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def environment_of(program: Program) -> dict[str, str]:
    return {"OMP_NUM_THREADS": "1",  # many run at once
            **({"PYTORCH_CUDA_ALLOC_CONF": program.allocator} if program.allocator else {})}


def make_library(memtrace: str, device: str) -> None:
    """Has memtrace compile its library for this PyTorch, which many programs at once would do many times."""
    with tempfile.TemporaryDirectory(prefix="memtrace-pair.") as folder:
        ended([memtrace, "dry-run", "--device", device, "--trace", os.path.join(folder, "run.db"), "--", sys.executable, "-c",
               "import torch; torch.ones(1, device='cuda')"], {"CUDA_VISIBLE_DEVICES": ""})


@contextlib.contextmanager
def traced(memtrace: str, words: list[str], half: str, device: str,
           environment: dict[str, str]) -> Iterator[tuple[str, pathlib.Path]]:
    """Runs a script with its arguments on the card, or dry on a simulated one with the card hidden. Yields what it printed, and
    its trace, which is there as long as the caller's block runs."""
    command = ["record"] if half == "card" else ["dry-run", "--device", device, "--steps", "1000"]
    hidden = {} if half == "card" else {"CUDA_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryDirectory(prefix="memtrace-pair.") as folder:
        trace = pathlib.Path(folder, "run.db")
        yield ended([memtrace, *command, "--trace", str(trace), "--", sys.executable, *words], {**environment, **hidden}), trace


def peaks_of(said: str) -> list[dict[str, int]]:
    """Returns what the ranks of a program print of their peaks, in no order."""
    return [json.loads(line) for line in said.splitlines() if line.startswith('{"requested"')]


def rows_of(memtrace: str, trace: pathlib.Path, query: str) -> list[list[Any]]:
    return list(json.loads(ended([memtrace, "sql", "--trace", str(trace), "--json", query], {}))["rows"])


def run_words(memtrace: str, words: list[str], half: str, device: str, environment: dict[str, str],
              query: str) -> tuple[str, list[list[Any]]]:
    """Runs a script as `traced` does. Returns what it printed, and the rows of a query on its trace."""
    with traced(memtrace, words, half, device, environment) as (said, trace):
        return said, rows_of(memtrace, trace, query)


def made_run(peaks: dict[str, int], rows: list[list[Any]]) -> Run:
    return Run({what: peaks[what] for what in MEASURES}, [Event(f"{action} {size}", operator) for action, size, operator in rows])


def run_half(memtrace: str, name: str, program: Program, half: str, device: str) -> Run:
    said, rows = run_words(memtrace, [str(TRAIN), name], half, device, environment_of(program), SQL)
    return made_run(peaks_of(said)[0], rows)


def run_estimates(memtrace: str, name: str, program: Program, device: str) -> dict[str, Optional[int]]:
    """Returns what estimators say, on the simulated card: fake tensors need one."""
    with tempfile.TemporaryDirectory(prefix="memtrace-pair.") as folder:
        said = ended([memtrace, "dry-run", "--device", device, "--steps", "1000", "--trace", os.path.join(folder, "run.db"),
                      "--", sys.executable, str(TRAIN), name, "--estimate"],
                     {**environment_of(program), "CUDA_VISIBLE_DEVICES": ""})
    return dict(json.loads(said.splitlines()[-1]))


def with_frees_sorted(events: list[Event]) -> list[Event]:
    """Returns the events with frees that follow each other in the order of their sizes. Autocast frees its casts in the order of
    a table of addresses, which is another one in each process."""
    sorted_events: list[Event] = []
    for is_free, group in itertools.groupby(events, lambda event: event.what.startswith("free")):
        sorted_events += sorted(group) if is_free else group
    return sorted_events


class Difference(NamedTuple):
    equal: float  # the longest common subsequence over the longer sequence
    missing: Counter[Event]  # in the dry run
    extra: Counter[Event]


def difference(card: list[Event], dry: list[Event]) -> Difference:
    """Compares two sequences, as diff does, which finds the longest common subsequence."""
    with tempfile.TemporaryDirectory(prefix="memtrace-diff.") as folder:
        paths = []
        for half, events in zip(HALVES, (card, dry)):
            paths.append(os.path.join(folder, half))
            pathlib.Path(paths[-1]).write_text("".join(event.what + "\n" for event in events))
        told = subprocess.run(["diff", "--minimal", "--old-line-format=<%dn\n", "--new-line-format=>%dn\n",
                               "--unchanged-line-format=", *paths], capture_output=True, text=True, check=False)
    missing, extra = Counter[Event](), Counter[Event]()
    for line in told.stdout.split():
        place = int(line[1:]) - 1
        (missing if line[0] == "<" else extra).update([(card if line[0] == "<" else dry)[place]])
    return Difference((len(card) - missing.total()) / max(len(card), len(dry)), missing, extra)
