#!/usr/bin/env python3
"""Programs under FakeGPU's `preflight` (github.com/FanBB2333/FakeGPU), which computes them on the host, next to a card and a dry run.

    bench/dry_card.py --memtrace build/release/memtrace --suite kernels --keep FOLDER    # where a card is
    bench/dry_preflight.py --keep FOLDER [NAME...]                                       # where FakeGPU is installed

Prints a table of the peaks of the first four steps. FOLDER has the runs that dry_card.py keeps: NAME.card.json.xz and, for the
column of the dry run, NAME.dry.json.xz. What preflight reports is kept there, too, as NAME.preflight.json, and is not run again.
"""
from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import Any, Optional

from dry_card import installed
from dry_pair import TRAIN, Run, environment_of, peaks_of, read_run
from dry_train import PROGRAMS
from pytorch_plugged import say

MEASURES = ("requested", "reserved")
ENDED = "PASS_FIT"
MOST_WORDS = 90  # of an error, in characters


def preflight(name: str, given: argparse.Namespace) -> dict[str, Any]:
    """Returns what preflight reports of a program, with the peaks that the program prints; None if it printed none."""
    with tempfile.TemporaryDirectory(prefix="memtrace-preflight.") as folder:
        words = [sys.executable, "-m", "fakegpu", "preflight", "--runtime", given.runtime, "--profile", given.profile,
                 "--device-count", "1", "--report-dir", folder, "--", sys.executable, str(TRAIN), name]
        try:
            subprocess.run(words, capture_output=True, check=False, timeout=given.time_limit,
                           env={**os.environ, **environment_of(PROGRAMS[name])})
        except subprocess.TimeoutExpired:
            return {"status": f"no end in {given.time_limit} s", "errors": [], "peaks": None}
        report = json.loads(pathlib.Path(folder, "preflight_report.json").read_text())
        peaks = peaks_of(pathlib.Path(folder, "preflight_stdout.log").read_text())
    kept = {field: report[field] for field in ("status", "errors", "fakegpu_version", "duration_seconds")}
    return {**kept, "peaks": peaks[0] if peaks else None}


def kept_preflight(name: str, given: argparse.Namespace) -> dict[str, Any]:
    path = pathlib.Path(given.keep, f"{name}.preflight.json")
    if not path.exists():
        path.write_text(json.dumps(preflight(name, given), indent=1) + "\n")
        say(f"{name}: ended")
    return dict(json.loads(path.read_text()))


def outcome(report: dict[str, Any]) -> str:
    """Returns "ran", or why not, in the first line of the first error."""
    if report["status"] == ENDED:
        return "ran"
    lines = [str(error.get("message", "")).strip() or error.get("type", "") for error in report["errors"]]
    first = lines[0].splitlines()[0] if lines else report["status"]
    return "stopped: " + (first if len(first) <= MOST_WORDS else first[:MOST_WORDS] + "…")


def errors_of(card: Run, peaks: Optional[dict[str, int]]) -> list[str]:
    """Returns by how much peaks differ from the card's; dashes without any."""
    if peaks is None:
        return ["–"] * len(MEASURES)
    return ["equal" if peaks[what] == card.peaks[what] else f"{peaks[what] / card.peaks[what] - 1:+.2%}" for what in MEASURES]


def row_of(name: str, given: argparse.Namespace) -> str:
    card, path = read_run(given.keep / f"{name}.card.json.xz"), given.keep / f"{name}.dry.json.xz"
    report = kept_preflight(name, given)
    cells = [name, *(f"{card.peaks[what]:,}" for what in MEASURES)]
    cells += errors_of(card, read_run(path).peaks if path.exists() else None)
    cells += [*errors_of(card, report["peaks"]), outcome(report)]
    return "| " + " | ".join(cells) + " |"


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs (default: all of the suite that are kept)")
    parser.add_argument("--suite", default="kernels", help="the programs that run if none is named (kernels)")
    parser.add_argument("--keep", type=pathlib.Path, required=True, metavar="FOLDER")
    parser.add_argument("--runtime", default="fakecuda", help="FakeGPU's --runtime (fakecuda)")
    parser.add_argument("--profile", default="h200", help="FakeGPU's name for the card (h200)")
    parser.add_argument("--time-limit", type=int, default=1800, metavar="SECONDS", help="of one program (1800)")
    return parser.parse_args()


def main() -> int:
    given = read_options()
    if importlib.util.find_spec("fakegpu") is None:
        say("FakeGPU is not installed for this Python: get github.com/FanBB2333/FakeGPU, and put its folder on PYTHONPATH")
        return 77
    wanted = given.names or [name for name, program in PROGRAMS.items() if program.suite == given.suite]
    titles = ["program", *(f"card, {what}" for what in MEASURES), *(f"dry run, {what}" for what in MEASURES),
              *(f"preflight, {what}" for what in MEASURES), "preflight"]
    print(f"| {' | '.join(titles)} |\n| --- |{' ---: |' * (len(titles) - 2)} --- |")
    for name in wanted:
        if installed(PROGRAMS[name]) and (given.keep / f"{name}.card.json.xz").exists():
            print(row_of(name, given), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
