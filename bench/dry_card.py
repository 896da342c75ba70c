#!/usr/bin/env python3
"""Programs of PyTorch on a card and dry, under the same PyTorch: their peaks and the sequence of their requests.

    bench/dry_card.py --memtrace build/release/memtrace [NAME...]

Prints rows for tools/figures; with --markdown, a table. Each program runs alone in its process, on the card and dry, --jobs of
them at a time as the card has room. One whose library is not installed is left out. --estimates adds what PyTorch's MemTracker
says under fake tensors, and what accelerate's calculate_maximum_sizes says, four times: weights, gradients, both states of Adam.

--keep FOLDER stores each run as it ends, and runs nothing that is there. So the parts can be run on several machines:

    bench/dry_card.py --memtrace … --keep FOLDER --only card                    # where the card is
    bench/dry_card.py --memtrace … --keep FOLDER --only dry --only estimates    # anywhere, with the same PyTorch
    bench/dry_card.py --keep FOLDER --only none --estimates --markdown          # compares what is kept

--card FOLDER has the runs on a card, if they are elsewhere: those of tests/data/dry_run were measured under PyTorch 2.11.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import lzma
import pathlib
import sys
import tempfile
import threading
from typing import Optional

from dry_pair import (HALVES, MEASURES, Failed, Run, difference, make_library, read_run, run_estimates, run_half,
                      with_frees_sorted)
from dry_train import PROGRAMS, Program
from pytorch_plugged import row, say

MOST_ERROR = dict(zip(MEASURES, (0.0002, 0.001, 0.005)))
LEAST_EQUAL = 0.995
ESTIMATES, ESTIMATORS = "estimates", ("tracker", "accelerate")


class Queue:
    """Halves that wait to be run, the largest on the card first; threads take what fits beside what runs."""

    def __init__(self, waiting: list[tuple[str, str]], gib: int) -> None:
        self.waiting, self.free, self.changed = waiting, gib, threading.Condition()

    def fitting(self) -> Optional[tuple[str, str]]:
        return next((half for half in self.waiting if gib_of(*half) <= self.free), None)

    def take(self) -> Optional[tuple[str, str]]:
        """Waits for room. Returns None where nothing is left."""
        with self.changed:
            self.changed.wait_for(lambda: not self.waiting or self.fitting())
            taken = self.fitting()
            if taken:
                self.waiting.remove(taken)
                self.free -= gib_of(*taken)
            return taken

    def give_back(self, name: str, half: str) -> None:
        with self.changed:
            self.free += gib_of(name, half)
            self.changed.notify_all()


def gib_of(name: str, half: str) -> int:
    return PROGRAMS[name].gib if half == "card" else 0


class Work:
    """Runs halves of programs, several at a time."""

    def __init__(self, given: argparse.Namespace, folder: pathlib.Path) -> None:
        self.given, self.folder, self.failed = given, folder, 0

    def path(self, name: str, half: str) -> pathlib.Path:
        folder = self.given.card if half == "card" and self.given.card else self.folder
        return pathlib.Path(folder / f"{name}.{half}.json.xz")

    def store(self, name: str, half: str) -> None:
        """Runs a half, and writes what it found."""
        path, program, given = self.path(name, half), PROGRAMS[name], self.given
        if half != ESTIMATES:
            run_half(given.memtrace, name, program, half, given.device).write(path)
            return
        found = run_estimates(given.memtrace, name, program, given.device)
        path.write_bytes(lzma.compress(json.dumps(found).encode()))

    def run(self, name: str, half: str) -> None:
        try:
            self.store(name, half)
            say(f"{name}: {half} ended")
        except (Failed, OSError, ValueError, IndexError) as error:
            self.failed += 1
            say(f"{name}: {half} failed: {error}")

    def drain(self, queue: Queue) -> None:
        while taken := queue.take():
            self.run(*taken)
            queue.give_back(*taken)

    def run_all(self, names: list[str], halves: list[str]) -> None:
        """Runs what is not kept yet."""
        wanted = [(name, half) for half in halves for name in names if half != "none" and not self.path(name, half).exists()]
        wanted.sort(key=lambda half: -gib_of(*half))
        if any(half != "card" for _, half in wanted):
            make_library(self.given.memtrace, self.given.device)
        queue = Queue(wanted, self.given.gib)
        threads = [threading.Thread(target=self.drain, args=[queue]) for _ in range(self.given.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def estimates(self, name: str) -> dict[str, Optional[int]]:
        """Returns what is kept of them."""
        path = self.path(name, ESTIMATES)
        return dict(json.loads(lzma.decompress(path.read_bytes()))) if path.exists() else {}


class Pair:
    """A program's two runs, and their difference."""

    def __init__(self, name: str, card: Run, dry: Run, estimates: dict[str, Optional[int]]) -> None:
        self.name, self.card, self.dry, self.estimates = name, card, dry, estimates
        self.differences = {"step": difference(card.step(), dry.step()),
                            "step, frees sorted": difference(*(with_frees_sorted(run.step()) for run in (card, dry))),
                            "program": difference(card.events, dry.events)}

    def error(self, what: str) -> float:
        return (self.dry.peaks[what] - self.card.peaks[what]) / self.card.peaks[what]

    def show_rows(self) -> None:
        for what in MEASURES:
            row(f"dry run of {self.name}: peak {what}", "bytes", self.dry.peaks[what], self.card.peaks[what])
            row(f"dry run of {self.name}: peak {what} is off by", "of it", f"{abs(self.error(what)):.6f}", "", "<=", MOST_ERROR[what])
        for where, found in self.differences.items():
            row(f"dry run of {self.name}: events of the {where} equal in sequence", "of all", f"{found.equal:.4f}", "",
                *((">=", LEAST_EQUAL) if where == "step" else ()))
        for name, figure in self.estimates.items():
            if figure is not None:
                row(f"{name}'s estimate of {self.name}: peak requested", "bytes", figure, self.card.peaks["requested"])

    def show_differences(self) -> None:
        for where, found in self.differences.items():
            for sign, counted in (("-", found.missing), ("+", found.extra)):
                for event, count in counted.most_common(15):
                    say(f"{self.name}: {where}: {sign} {count} x {event.what} {event.operator}")

    def error_cell(self, what: str) -> str:
        """Returns a share of the peak, or bytes if they are fewer than a block of 4 KiB."""
        off = self.dry.peaks[what] - self.card.peaks[what]
        if off == 0:
            return "equal"
        return f"{off:+,} B" if abs(off) < 4096 else f"{self.error(what):+.3%}"

    def markdown(self, has_estimates: bool) -> str:
        cells = [self.name, f"{self.card.peaks['requested']:,}", *map(self.error_cell, MEASURES)]
        cells += [f"{found.equal:.2%}" for found in self.differences.values()]
        for name in ESTIMATORS if has_estimates else ():
            figure = self.estimates.get(name)
            cells.append("–" if figure is None else f"{figure / self.card.peaks['requested'] - 1:+.1%}")
        return "| " + " | ".join(cells) + " |"


def head(has_estimates: bool) -> str:
    titles = ["program", "peak, requested", "requested", "allocated", "reserved", "step", "frees sorted", "program"]
    titles += ["MemTracker", "accelerate"] if has_estimates else []
    return f"| {' | '.join(titles)} |\n| --- |{' ---: |' * (len(titles) - 1)}"


def installed(program: Program) -> bool:
    return all(importlib.util.find_spec(library) for library in program.needs)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(PROGRAMS))
    parser.add_argument("--suite", choices=sorted({program.suite for program in PROGRAMS.values()}), default="dry-run",
                        help="the programs that run if none is named (dry-run)")
    parser.add_argument("--memtrace", default="memtrace")
    parser.add_argument("--jobs", type=int, default=1, metavar="N")
    parser.add_argument("--gib", type=int, default=120, help="of the card, for all that run at once (120)")
    parser.add_argument("--device", default="sim:h200", help="the card of the dry runs (sim:h200)")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--card", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--only", choices=(*HALVES, ESTIMATES, "none"), action="append")
    parser.add_argument("--estimates", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--differences", action="store_true", help="what is unequal, by operator, on stderr")
    return parser.parse_args()


def compare(work: Work, names: list[str]) -> None:
    given = work.given
    if given.markdown:
        print(head(given.estimates))
    for name in names:
        if not all(work.path(name, half).exists() for half in HALVES):
            continue
        pair = Pair(name, *(read_run(work.path(name, half)) for half in HALVES), work.estimates(name))
        if given.markdown:
            print(pair.markdown(given.estimates), flush=True)
        else:
            pair.show_rows()
        if given.differences:
            pair.show_differences()


def main() -> int:
    given = read_options()
    wanted = given.names or [name for name, program in PROGRAMS.items() if program.suite == given.suite]
    names = [name for name in wanted if installed(PROGRAMS[name])]
    for name in wanted:
        if name not in names:
            say(f"{name} is left out: {', '.join(PROGRAMS[name].needs)} are not all installed")
    with tempfile.TemporaryDirectory(prefix="memtrace-dry.") as folder:
        work = Work(given, given.keep or pathlib.Path(folder))
        work.folder.mkdir(parents=True, exist_ok=True)
        work.run_all(names, given.only or [*HALVES, *([ESTIMATES] if given.estimates else [])])
        compare(work, names)
    return 1 if work.failed else 0


if __name__ == "__main__":
    sys.exit(main())
