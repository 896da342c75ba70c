"""The course's model, three ways: in PyTorch and run dry (bench/pytorch_eager.py), as `memtrace run` has it, and as PyTorch 2.11
ran it on a card (tests/data/steps). A step of each makes the same requests in the same order."""
import csv
import gzip
import os
import pathlib
import sqlite3
import subprocess
import sys

import pytest
import torch

from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MARK = 12345  # bytes that are requested between steps

PROGRAM = f"""
import argparse, sys
sys.path.insert(0, {str(SOURCE / "bench")!r})
import torch
from pytorch_eager import Eager
training = Eager(argparse.Namespace(model="2.7B", seq=256, batch=4, precision=sys.argv[1]))
for _ in range(2):
    torch.empty({MARK}, dtype=torch.uint8, device="cuda")
    training.step()
torch.empty({MARK}, dtype=torch.uint8, device="cuda")
"""

EVENTS = """SELECT kind.name, requested_bytes, coalesce(label.op, '') FROM run_event AS event
JOIN event_kind AS kind ON kind.id = event.kind LEFT JOIN label ON label.run = event.run AND label.id = event.label
WHERE kind.name IN ('alloc', 'free', 'step_begin') ORDER BY event.id"""


def memtrace(folder, *words):
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    done = subprocess.run([find_program(), *words], capture_output=True, text=True, cwd=folder, env=kept)
    assert done.returncode == 0, done.stderr


def events_of(path):
    with sqlite3.connect(path) as database:
        return database.execute(EVENTS).fetchall()


def step_on_card(precision):
    """Returns the events of the measured step as (action, bytes, operator of the block)."""
    path = SOURCE / f"tests/data/steps/cs336_2.7B_seq256_{precision}_one_step.csv.gz"
    operators = {}
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        operators.setdefault(row["id"], row["operators"])
    return [(row["action"], int(row["bytes"]), operators[row["id"]]) for row in rows]


def part_of(events, begin):
    """Returns the allocations and frees from the second event that begins a step to the third."""
    begins = [index for index, event in enumerate(events) if event[:len(begin)] == begin]
    return [event for event in events[begins[1]:begins[2]] if event[0] != "step_begin" and event[1] != MARK]


@pytest.mark.parametrize("precision, autocast, count", [("fp32", "off", 8698), ("bf16", "bf16", 10504)])
def test_a_step_of_the_course_s_model_is_the_same_in_three_ways(tmp_path, precision, autocast, count):
    (tmp_path / "course.py").write_text(PROGRAM)
    memtrace(tmp_path, "dry-run", "--device", "sim:h200", "--trace", "dry.db", "--", sys.executable, "course.py", precision)
    memtrace(tmp_path, "run", "--device", "sim:h200", "--trace", "ours.db", "--impl", "eager", "--model", "2.7B", "--seq", "256",
             "--batch", "4", "--autocast", autocast, "--alloc", "policy=torch", "--warmup", "0", "--steps", "3")
    dry = part_of(events_of(tmp_path / "dry.db"), ("alloc", MARK))
    ours = [event[:2] for event in part_of(events_of(tmp_path / "ours.db"), ("step_begin",))]
    card = step_on_card("autocast" if precision == "bf16" else precision)
    assert len(ours) == len(card) == count
    assert ours == [event[:2] for event in card]
    assert [event[:2] for event in dry] == ours
