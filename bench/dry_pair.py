"""Runs of programs, on a card and dry, as lists of events that can be kept and compared anywhere.

A kept run is a file NAME.card.json.gz or NAME.dry.json.gz: PyTorch's own peaks of the first four steps, and each allocation and
free of the whole program in order. NAME.estimates.json.gz holds what estimators say.
"""
from __future__ import annotations

import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter
from typing import NamedTuple, Optional

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
    events: list[Event]  # of the whole program; of one step, without marks, where no more was measured

    def marks(self) -> list[int]:
        """Returns the places of what is taken and freed before and after the last step."""
        return [place for place, event in enumerate(self.events) if event.what.endswith(f" {MARK_BYTES}")]

    def is_whole(self) -> bool:
        return bool(self.marks())

    def step(self) -> list[Event]:
        """Returns the events of the last step."""
        marks = self.marks()
        return self.events[marks[1] + 1:marks[2]] if marks else self.events

    def write(self, path: pathlib.Path) -> None:
        part = path.with_suffix(".part")
        with gzip.open(part, "wt") as file:
            json.dump({"peaks": self.peaks, "events": self.events}, file)
        part.rename(path)


def read_run(path: pathlib.Path) -> Run:
    with gzip.open(path, "rt") as file:
        kept = json.load(file)
    return Run(kept["peaks"], [Event(*event) for event in kept["events"]])


def ended(words: list[str], environment: dict[str, str]) -> str:
    """Returns what a command prints. Raises Failed with its last words."""
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **environment}, check=False)
    if done.returncode:
        raise Failed(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return done.stdout


def environment_of(program: Program, sees_card: bool) -> dict[str, str]:
    environment = {"OMP_NUM_THREADS": "1"}  # many run at once
    if program.allocator:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = program.allocator
    if not sees_card:
        environment["CUDA_VISIBLE_DEVICES"] = ""
    return environment


def run_half(memtrace: str, name: str, program: Program, half: str, device: str) -> Run:
    """Runs a program on the card, or dry on a simulated one with the card hidden."""
    command = ["record"] if half == "card" else ["dry-run", "--device", device, "--steps", "1000"]
    with tempfile.TemporaryDirectory(prefix="memtrace-pair.") as folder:
        trace = os.path.join(folder, "run.db")
        said = ended([memtrace, *command, "--trace", trace, "--", sys.executable, str(TRAIN), name],
                     environment_of(program, half == "card"))
        peaks = [line for line in said.splitlines() if line.startswith('{"requested"')]
        rows = json.loads(ended([memtrace, "sql", "--trace", trace, "--json", SQL], {}))["rows"]
    return Run(json.loads(peaks[0]), [Event(f"{action} {size}", operator) for action, size, operator in rows])


def run_estimates(memtrace: str, name: str, program: Program, device: str) -> dict[str, Optional[int]]:
    """Returns what estimators say, on the simulated card: fake tensors need one."""
    with tempfile.TemporaryDirectory(prefix="memtrace-pair.") as folder:
        said = ended([memtrace, "dry-run", "--device", device, "--steps", "1000", "--trace", os.path.join(folder, "run.db"),
                      "--", sys.executable, str(TRAIN), name, "--estimate"], environment_of(program, False))
    return dict(json.loads(said.splitlines()[-1]))


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
