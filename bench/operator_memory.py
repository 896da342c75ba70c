#!/usr/bin/env python3
"""What calls of PyTorch's operators take, on a card and dry, event by event: the calls of bench/operator_cases.py.

    bench/operator_memory.py --memtrace build/release/memtrace --card tests/data/operators/h200.json.xz    # without a card
    bench/operator_memory.py --memtrace build/release/memtrace [--keep FILE]                               # on one

Prints rows for tools/figures, for all calls and for operators with unequal ones; with --markdown, a table of all operators. The
second measures the calls on the card first, by PyTorch's memory history, and stores what they took in FILE.

A call's events are its allocations and frees, in order, in bytes as requested. Frees of what was taken before the call are left
out, since a warm call replaces what the one before left behind.
"""
from __future__ import annotations

import argparse
import json
import lzma
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from dry_pair import ended, run_words
from dry_stage import MARK_BYTES
from pytorch_plugged import row, say

CASES = pathlib.Path(__file__).resolve().parent / "operator_cases.py"
LEAST_EQUAL = 0.85
Calls = dict[str, list[str]]  # the events of each call: "alloc 512", "free 512"


SQL = """SELECT event_kind.name, coalesce(allocation, event.id), requested_bytes
FROM run_event AS event JOIN event_kind ON event_kind.id = event.kind
WHERE event_kind.name IN ('alloc', 'free') ORDER BY event.id"""


def parts_of(rows: list[list[Any]]) -> Iterator[list[str]]:
    """Yields what stands between pairs of marks, each of which is taken and freed. Leaves out frees of what was there before."""
    marks = [place for place, (action, _, size) in enumerate(rows) if action == "alloc" and size == MARK_BYTES]
    for begin, end in zip(marks[::2], marks[1::2]):
        first = rows[begin][1]
        yield [f"{action} {size}" for action, allocation, size in rows[begin + 2:end] if allocation > first]


def say_failed(half: str, name: str, why: str) -> None:
    say(f"{half}: {name} failed: {why.splitlines()[0][:200]}")


def run_dry(memtrace: str, device: str, parts: list[str]) -> Calls:
    """Returns the events of the calls that ran, and says why others did not."""
    said, rows = run_words(memtrace, [str(CASES), *parts], "dry", device, {"PYTHONWARNINGS": "ignore"}, SQL)
    told = json.loads(said.splitlines()[-1])
    for name, why in told["failed"].items():
        say_failed("dry", name, why)
    calls = dict(zip(told["marked"], parts_of(rows)))
    return {name: words for name, words in calls.items() if name not in told["failed"]}


def read_history(path: pathlib.Path) -> Calls:
    """Returns the events of the calls that ran, as bench/operator_cases.py wrote them, and says why others did not."""
    calls: Calls = {}
    for line in path.read_text().splitlines():
        told = json.loads(line)
        if "failed" in told:
            say_failed("card", told["name"], told["failed"])
        else:
            calls[told["name"]] = told["events"]
    return calls


def run_card(parts: list[str]) -> Calls:
    with tempfile.TemporaryDirectory(prefix="memtrace-calls.") as folder:
        path = pathlib.Path(folder, "history")
        ended([sys.executable, str(CASES), "--history", str(path), *parts], {"PYTHONWARNINGS": "ignore"})
        return read_history(path)


def read_calls(path: pathlib.Path, parts: list[str]) -> Calls:
    """Returns the calls that were measured whose names have one of the parts; all without any."""
    with lzma.open(path, "rt") as file:
        calls: Calls = json.load(file)["calls"]
    return {name: events for name, events in calls.items() if not parts or any(part in name for part in parts)}


def write_calls(path: pathlib.Path, calls: Calls) -> None:
    told = ended([sys.executable, "-c", "import json, torch; print(json.dumps([torch.__version__, torch.cuda.get_device_name(),"
                  " torch.backends.cudnn.version()]))"], {})
    torch, card, cudnn = json.loads(told)
    with lzma.open(path, "wt") as file:
        json.dump({"torch": torch, "card": card, "cudnn": cudnn, "calls": calls}, file)


class Compared:
    """The calls of an operator, or of all."""

    def __init__(self, name: str) -> None:
        self.name, self.calls, self.unequal = name, 0, list[str]()

    def add(self, call: str, is_equal: bool) -> None:
        self.calls += 1
        self.unequal += [] if is_equal else [call]

    @property
    def equal(self) -> int:
        return self.calls - len(self.unequal)

    def show_row(self, relation: str = "", target: object = "") -> None:
        row(f"dry run of {self.calls} calls of {self.name}: equal event by event", "of all", f"{self.equal / self.calls:.4f}", "",
            relation, target)


def operator_of(name: str) -> str:
    """Returns "sort" or "sort backward"."""
    words = name.split()
    return " ".join(words[:2]) if words[1:2] == ["backward"] else words[0]


def compare(card: Calls, dry: Calls) -> tuple[Compared, dict[str, Compared]]:
    """Compares the calls that ran on the card; one that fails dry is unequal. Returns the sum, and each operator."""
    total, operators = Compared("operators"), dict[str, Compared]()
    for name, events in card.items():
        for compared in total, operators.setdefault(operator_of(name), Compared(operator_of(name))):
            compared.add(name, dry.get(name) == events)
    return total, operators


def show_rows(total: Compared, operators: dict[str, Compared]) -> None:
    total.show_row(">=", LEAST_EQUAL)
    for operator in operators.values():
        if operator.unequal:
            operator.show_row()


def show_markdown(total: Compared, operators: dict[str, Compared]) -> None:
    print("| operator | calls | equal |\n| --- | ---: | ---: |")
    for one in (*operators.values(), total):
        print(f"| {one.name} | {one.calls:,} | {one.equal:,} |")


def show_differences(names: list[str], card: Calls, dry: Calls) -> None:
    for name in names:
        say(f"{name}\n  card {', '.join(card[name])}\n  dry  {', '.join(dry.get(name, ['failed']))}")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help="of names: only calls that have one of them")
    parser.add_argument("--memtrace", default="memtrace")
    parser.add_argument("--card", type=pathlib.Path, metavar="FILE", help="what was measured, instead of measuring it")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FILE", help="to write what is measured to")
    parser.add_argument("--device", default="sim:h200", help="the card of the dry run (sim:h200)")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--differences", action="store_true", help="the events of unequal calls, on stderr")
    parser.add_argument("--unequal", action="store_true", help="names of unequal calls, one a line, and nothing else")
    return parser.parse_args()


def main() -> int:
    given = read_options()
    if given.card:
        card = read_calls(given.card, given.parts)
    else:
        card = run_card(given.parts)
        if given.keep:
            write_calls(given.keep, card)
    dry = run_dry(given.memtrace, given.device, given.parts)
    total, operators = compare(card, dry)
    if given.unequal:
        print("\n".join(total.unequal))
    elif given.markdown:
        show_markdown(total, operators)
    else:
        show_rows(total, operators)
    if given.differences:
        show_differences(total.unequal, card, dry)
    return 0 if total.calls else 1


if __name__ == "__main__":
    sys.exit(main())
