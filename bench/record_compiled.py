#!/usr/bin/env python3
"""`memtrace record` of programs that PyTorch compiles: that it changes nothing, and what it costs.

    bench/record_compiled.py --memtrace build/release/memtrace --package build/release/python [PROGRAM...]

Prints rows for tools/figures. It runs the programs of bench/compiled_program.py. Losses, peaks and Dynamo's
counters are compared between `record` and `record --no-torch`; all runs share one cache of Inductor's, of this script's own. Ratios of
times are of steps in one process, a few seconds apart.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from pytorch_plugged import row, say

PROGRAM = pathlib.Path(__file__).resolve().parent / "compiled_program.py"
CHECKED = "small", "short", "nested", "eager", "compiled", "reduce-overhead"
TIMED = "eager", "compiled", "reduce-overhead", "large"
EAGER = "eager", "large"
MOST = {"no stacks": 1.03, "stacks": 1.06}
TURNS, LIMIT = 10, 400  # of a process, in seconds


def said_by(command, environment):
    """Runs a program and returns its output; None, with a note, if it failed."""
    try:
        done = subprocess.run([str(word) for word in command], text=True, capture_output=True, check=False, timeout=LIMIT,
                              env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        say(f"{' '.join(map(str, command[-3:]))}: more than {LIMIT} s")
        return None
    for line in done.stderr.splitlines():
        if line.startswith("memtrace:"):
            say(line)
    found = [json.loads(line.partition("said ")[2]) for line in done.stdout.splitlines() if line.startswith("said {")]
    if not found:
        say(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stderr[-3000:]}")
    return found[0] if found else None


class Comparison:
    def __init__(self, given, folder):
        self.given, self.folder = given, pathlib.Path(folder)
        self.environment = {"TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"), "PYTHONWARNINGS": "ignore",
                            "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}

    def record(self, name, *options):
        trace = self.folder / f"{name}{len(options)}.db"
        command = (self.given.memtrace, "record", "--trace", trace, *options, "--", sys.executable, PROGRAM, name,
                   "--device", self.given.device)
        return said_by(command, self.environment), trace

    def check(self, name):
        if name not in EAGER:
            self.record(name, "--no-torch")  # fills the cache: what is tuned takes memory
        plain, _ = self.record(name, "--no-torch")
        watched, trace = self.record(name)
        if plain is None or watched is None:
            row(f"record of {name}: it runs", "yes", 0, "", ">=", 1)
            return
        for what in plain:
            row(f"record of {name}: {what} are equal", "yes", int(plain[what] == watched[what]), "", ">=", 1)
            if plain[what] != watched[what]:
                say(f"{what}: {plain[what]}, recorded: {watched[what]}")
        if self.given.device == "cuda":
            peak = json.loads(subprocess.check_output([self.given.memtrace, "peak", "--json", "--trace", trace], text=True))
            row(f"record of {name}: the peak is PyTorch's to the byte", "yes", int(peak["allocated_bytes"] == plain["peaks"][1]), "",
                ">=", 1)
            say(subprocess.check_output([self.given.memtrace, "peak", "--by", "module", "--trace", trace], text=True)[:4000])

    def time(self, name):
        command = (sys.executable, PROGRAM, name, "--turns", self.given.turns, "--memtrace", self.given.package, "--device",
                   self.given.device)
        found = said_by(command, self.environment)
        if found is None:
            row(f"a step of {name}: it runs", "yes", 0, "", ">=", 1)
            return
        alone = found["nothing"]
        for way, times in found.items():
            for which, words in (("done_ms", "step"), ("queued_ms", "queueing of a step")):
                for index, figure in enumerate(("lower quartile", "median")):
                    row(f"{words} of {name}, {way}: {figure}", "ms", times[which][index], alone[which][index])
            bound = ("<=", MOST[way]) if way in MOST else ()
            row(f"step of {name}, {way}: ratio in one turn, median", "times", times["ratio"], 1, *bound)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memtrace", required=True)
    parser.add_argument("--package", required=True, help="the folder with the Python package")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--turns", type=int, default=TURNS)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(dict.fromkeys(CHECKED + TIMED))}; all unless named")
    given = parser.parse_args()
    wanted = given.names or CHECKED + TIMED
    with tempfile.TemporaryDirectory(prefix="memtrace-compiled.") as folder:
        comparison = Comparison(given, folder)
        for name in dict.fromkeys(wanted):
            if name not in TIMED or name in CHECKED:
                comparison.check(name)
            if name not in CHECKED or name in TIMED:
                comparison.time(name)


if __name__ == "__main__":
    main()
