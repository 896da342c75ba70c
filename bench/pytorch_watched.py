#!/usr/bin/env python3
"""`memtrace record` of unmodified programs of PyTorch: their peaks beside PyTorch's own counters, and what it costs.

    bench/pytorch_watched.py --memtrace build/release/memtrace

Prints rows for tools/figures. The programs are those of bench/watched_program.py; one whose library is not installed is left
out, and so are two ranks where there is one card. Times are medians of steps, of runs in turns.
"""
import argparse
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

import torch

from pytorch_plugged import row, say

PROGRAM = pathlib.Path(__file__).resolve().parent / "watched_program.py"
TURNS, STEPS = 5, 60
SMALL, LARGE = 256, 2048  # widths of a model whose step is the host's, and of one whose step is the card's
MOST_COST = {SMALL: 1.05, LARGE: 1.01}


def said_by(*command):
    """Runs a program and returns what its processes said, by rank."""
    done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False)
    found = [json.loads(line.partition("said ")[2]) for line in done.stdout.splitlines() if "said {" in line]
    for line in done.stderr.splitlines():
        if line.startswith("memtrace:"):
            say(line)
    if done.returncode or not found:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-4000:]}")
    return sorted(found, key=lambda said: said["rank"])


def ask(memtrace, trace, command):
    return json.loads(subprocess.check_output([memtrace, *command, "--json", "--trace", trace], text=True))


class Measurement:
    def __init__(self, memtrace, folder):
        self.memtrace, self.folder, self.count = memtrace, pathlib.Path(folder), 0

    def record(self, *command, options=()):
        """Records a program. Returns what it said, and the trace."""
        self.count += 1
        trace = self.folder / f"{self.count}.db"
        return said_by(self.memtrace, "record", "--trace", trace, *options, "--", *command), trace

    def compare(self, name, said, trace):
        peak = ask(self.memtrace, str(trace), ["peak"])
        row(f"record of {name}: peak allocated", "bytes", peak["allocated_bytes"], said["allocated"])
        row(f"record of {name}: peak reserved", "bytes", peak["reserved_bytes"], said["reserved"])
        equal = peak["allocated_bytes"] == said["allocated"] and peak["reserved_bytes"] == said["reserved"]
        row(f"record of {name}: both are PyTorch's to the byte", "yes", int(equal), "", ">=", 1)
        say(subprocess.check_output([self.memtrace, "peak", "--by", "role", "--trace", str(trace)], text=True))

    def program(self, name):
        said, trace = self.record(sys.executable, PROGRAM, name)
        self.compare(name, said[0], trace)
        plain = said_by(sys.executable, PROGRAM, name)[0]
        row(f"record of {name}: losses are equal to the bit", "yes", int(plain["losses"] == said[0]["losses"]), "", ">=", 1)

    def ranks(self):
        said, trace = self.record("torchrun", "--nproc-per-node", 2, PROGRAM, "ranks")
        for rank in (0, 1):
            self.compare(f"rank {rank} of 2", said[rank], trace if rank == 0 else trace.with_name(f"{trace.stem}-rank1.db"))

    def cost(self, width):
        """Times of a step: alone, recorded without and with call stacks and operators, and with PyTorch's memory history, in
        turns, of which each second one goes backwards."""
        command = (sys.executable, PROGRAM, "loop", "--steps", STEPS, "--width", width)
        ways = {"alone": lambda: said_by(*command),
                "roles": lambda: self.record(*command, options=["--no-stacks"])[0],
                "stacks": lambda: self.record(*command)[0],
                "history": lambda: said_by(*command, "--history", self.folder / "history")}
        times = {name: [] for name in ways}
        for turn in range(TURNS):
            for name in sorted(ways, reverse=turn % 2 == 1):
                times[name].append(ways[name]()[0]["milliseconds"])
        alone, roles, stacks, history = (statistics.median(each) for each in times.values())
        row(f"a step of a loop, width {width}: recorded with --no-stacks", "ms", roles, alone, "<=", alone * MOST_COST[width])
        row(f"a step of a loop, width {width}: recorded, beside PyTorch's memory history", "ms", stacks, history, "<=", history)
        row(f"a step of a loop, width {width}: with PyTorch's memory history", "ms", history, alone)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memtrace", required=True)
    parser.add_argument("names", nargs="*", help="some of loop, trainer, lightning, ranks, cost; all unless named")
    given = parser.parse_args()
    wanted = given.names or ["loop", "trainer", "lightning", "ranks", "cost"]
    libraries = {"loop": "torch", "trainer": "transformers", "lightning": "lightning"}
    with tempfile.TemporaryDirectory(prefix="memtrace-watched.") as folder:
        measurement = Measurement(given.memtrace, folder)
        for name, library in libraries.items():
            if name in wanted and importlib.util.find_spec(library) is not None:
                measurement.program(name)
            elif name in wanted:
                say(f"{library} is not installed: {name} is left out")
        if "ranks" in wanted and torch.cuda.device_count() > 1:
            measurement.ranks()
        for width in MOST_COST if "cost" in wanted else ():
            measurement.cost(width)


if __name__ == "__main__":
    main()
