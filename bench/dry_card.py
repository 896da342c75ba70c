#!/usr/bin/env python3
"""Programs of PyTorch on a card and dry, under the same PyTorch: their peaks and the sequence of their requests.

    bench/dry_card.py --memtrace build/release/memtrace [NAME...]

Prints rows for tools/figures. The programs are those of bench/watched_program.py; the dry run sees no card. One whose library is
not installed is left out.
"""
import argparse
import difflib
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from pytorch_plugged import row, say

PROGRAM = pathlib.Path(__file__).resolve().parent / "watched_program.py"
LIBRARIES = {"loop": "torch", "trainer": "transformers", "lightning": "lightning"}
STEPS = 6
MOST_ERROR = {"requested": 0.0002, "allocated": 0.001, "reserved": 0.005}
LEAST_EQUAL = 0.995

SQL = """SELECT event_kind.name, requested_bytes, coalesce(label.op, '')
FROM run_event AS event JOIN event_kind ON event_kind.id = event.kind
LEFT JOIN label ON label.run = event.run AND label.id = event.label
WHERE event_kind.name IN ('alloc', 'free') ORDER BY event.id"""


class Run:
    """A run of a program: its peaks, and what it requested, with the operators."""

    def __init__(self, memtrace, folder, command, name, environment=None):
        trace = str(pathlib.Path(folder) / f"{command[0]}-{name}.db")
        words = [memtrace, *command, "--trace", trace, "--", sys.executable, str(PROGRAM), name, "--steps", str(STEPS)]
        done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, **(environment or {})}, check=False)
        if done.returncode:
            sys.exit(f"{' '.join(words)}: exit code {done.returncode}\n{done.stderr[-4000:]}")
        peak = json.loads(subprocess.check_output([memtrace, "peak", "--json", "--trace", trace], text=True))
        self.peaks = {what: peak[f"{what}_bytes"] for what in MOST_ERROR}
        told = subprocess.check_output([memtrace, "sql", "--trace", trace, "--json", SQL], text=True)
        self.events = [(f"{action} {size}", operator) for action, size, operator in json.loads(told)["rows"]]


def compare(name, card, dry):
    for what, most in MOST_ERROR.items():
        error = abs(dry.peaks[what] - card.peaks[what]) / card.peaks[what]
        row(f"dry run of {name}: peak {what}", "bytes", dry.peaks[what], card.peaks[what])
        row(f"dry run of {name}: peak {what} is off by", "of it", f"{error:.6f}", "", "<=", most)
    words = [[event for event, _ in run.events] for run in (card, dry)]
    matcher = difflib.SequenceMatcher(None, *words, autojunk=False)
    equal = sum(block.size for block in matcher.get_matching_blocks()) / max(map(len, words))
    row(f"dry run of {name}: events equal in sequence", "of all", f"{equal:.4f}", "", ">=", LEAST_EQUAL)
    unequal = {}
    for kind, from_card, to_card, from_dry, to_dry in matcher.get_opcodes():
        for sign, run, begin, end in (("-", card, from_card, to_card), ("+", dry, from_dry, to_dry)):
            for event in run.events[begin:end] if kind != "equal" else ():
                unequal[(sign, *event)] = unequal.get((sign, *event), 0) + 1
    for (sign, event, operator), count in sorted(unequal.items(), key=lambda item: -item[1])[:20]:
        say(f"{name}: {sign} {count} x {event} {operator}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--memtrace", required=True)
    parser.add_argument("names", nargs="*", help="some of loop, trainer, lightning; all unless named")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="memtrace-dry.") as folder:
        for name, library in LIBRARIES.items():
            if given.names and name not in given.names:
                continue
            if importlib.util.find_spec(library) is None:
                say(f"{library} is not installed: {name} is left out")
                continue
            card = Run(given.memtrace, folder, ["record"], name)
            dry = Run(given.memtrace, folder, ["dry-run", "--device", "sim:h200", "--steps", "1000"], name,
                      {"CUDA_VISIBLE_DEVICES": ""})
            compare(name, card, dry)


if __name__ == "__main__":
    main()
