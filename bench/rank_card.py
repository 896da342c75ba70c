#!/usr/bin/env python3
"""Programs of several ranks on cards and dry, in one sitting: each rank's peaks, the requests of a later step, what NCCL takes.

    bench/rank_card.py --memtrace build/release/memtrace [--ranks 2] [NAME...]

Prints rows for tools/figures. The programs are those of bench/rank_train.py, run by torchrun; all of them unless named. The
cards' runs come one after the other, the dry ones --jobs at a time. On cards, ranks of DDP free the buckets of the first step at
times that differ from rank to rank, which changes peaks: so DDP's peak is that of a later step.
"""
from __future__ import annotations

import argparse
import concurrent.futures
import json
import pathlib
import sys
from typing import Any, NamedTuple

import rank_train
from dry_pair import (HALVES, MEASURES, SQL, Event, Failed, Run, difference, made_run, make_library, peaks_of, rows_of,
                      traced, with_frees_sorted)
from pytorch_plugged import row, say

SCRIPT = pathlib.Path(rank_train.__file__).resolve()
MOST_REQUESTED, MOST_RESERVED, LEAST_EQUAL = 0.0002, 0.01, 0.995
NCCL = "nccl"


class Job(NamedTuple):
    runs: list[Run]  # by rank
    outside: list[dict[str, int]]  # what the driver counts outside of PyTorch's allocator, by rank and step; of NCCL's program


def by_rank(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda said: int(said["rank"]))


def trace_of(trace: pathlib.Path, rank: int) -> pathlib.Path:
    return trace if rank == 0 else trace.with_name(f"{trace.stem}-rank{rank}.db")


def run_job(given: argparse.Namespace, name: str, half: str) -> Job:
    words = ["-m", "torch.distributed.run", "--nproc-per-node", str(given.ranks), str(SCRIPT), name]
    with traced(given.memtrace, words, half, given.device, {"OMP_NUM_THREADS": "1"}) as (said, trace):
        peaks = by_rank(peaks_of(said))
        outside = by_rank([json.loads(line) for line in said.splitlines() if line.startswith('{"outside"')])
        runs = [made_run(found, rows_of(given.memtrace, trace_of(trace, rank), SQL)) for rank, found in enumerate(peaks)]
    if len(runs or outside) != given.ranks:
        raise Failed(f"{len(runs or outside)} of {given.ranks} ranks said what they found")
    return Job(runs, [found["outside"] for found in outside])


def highest(events: list[Event]) -> int:
    """Returns the most bytes that a sequence of requests and frees holds above what was held before it."""
    held = most = 0
    for event in events:
        action, size = event.what.split()
        held += int(size) if action == "alloc" else -int(size)
        most = max(most, held)
    return most


def off(dry: int, card: int) -> str:
    return f"{abs(dry - card) / card:.6f}"


def show_rank(what: str, name: str, card: Run, dry: Run) -> None:
    steps = [with_frees_sorted(run.step()) for run in (card, dry)]
    is_ddp = name.startswith(("ddp", "zero"))
    row(f"{what}: peak of a later step over its begin", "bytes", highest(dry.step()), highest(card.step()))
    row(f"{what}: peak of a later step is off by", "of it", off(highest(dry.step()), highest(card.step())), "", "<=", MOST_REQUESTED)
    for measure, most in zip(MEASURES, (MOST_REQUESTED, None, MOST_RESERVED)):
        row(f"{what}: peak {measure}", "bytes", dry.peaks[measure], card.peaks[measure])
        if most and not is_ddp:
            row(f"{what}: peak {measure} is off by", "of it", off(dry.peaks[measure], card.peaks[measure]), "", "<=", most)
    row(f"{what}: events of a later step equal in sequence", "of all", f"{difference(*steps).equal:.4f}", "", ">=", LEAST_EQUAL)


def show(name: str, card: Job, dry: Job) -> None:
    for rank, (real, simulated) in enumerate(zip(card.runs, dry.runs)):
        show_rank(f"{name}, rank {rank} of {len(card.runs)}", name, real, simulated)
    for rank, (counted, estimated) in enumerate(zip(card.outside, dry.outside)):
        for step, size in counted.items():
            row(f"outside of the allocator, rank {rank} of {len(card.outside)}: {step} adds", "bytes", estimated[step], size)


def run_all(given: argparse.Namespace, names: list[str]) -> dict[str, dict[str, Job]]:
    """Runs both halves of each program. Returns those that ended, by half and name."""
    found: dict[str, dict[str, Job]] = {half: {} for half in HALVES}

    def run(name: str, half: str) -> None:
        try:
            found[half][name] = run_job(given, name, half)
            say(f"{name}: {half} ended")
        except (Failed, OSError, ValueError, IndexError) as error:
            say(f"{name}: {half} failed: {error}")

    make_library(given.memtrace, given.device)
    with concurrent.futures.ThreadPoolExecutor(given.jobs) as dry, concurrent.futures.ThreadPoolExecutor(1) as card:
        for name in names:
            dry.submit(run, name, "dry")
            card.submit(run, name, "card")
    return found


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(rank_train.PROGRAMS))
    parser.add_argument("--memtrace", default="memtrace")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="dry runs at a time (1)")
    parser.add_argument("--device", default="sim:h200", help="the card of the dry runs (sim:h200)")
    return parser.parse_args()


def main() -> int:
    given = read_options()
    names = given.names or list(rank_train.PROGRAMS)
    found = run_all(given, names)
    for name in names:
        if all(name in found[half] for half in HALVES):
            show(name, found["card"][name], found["dry"][name])
    return 0 if all(len(found[half]) == len(names) for half in HALVES) else 1


if __name__ == "__main__":
    sys.exit(main())
