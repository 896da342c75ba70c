"""The package on a card, with PyTorch's own counters. Skipped where there is none."""
import json
import sys

import pytest
import torch

import memtrace

from conftest import run_program

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")

TESTS = """
import memtrace, torch

kept = []

def take(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")

@memtrace.limit_memory("80 MiB")
@memtrace.limit_leaks()
def test_under(): take(64)

@memtrace.limit_memory("40 MiB")
def test_over(): take(64)

@memtrace.limit_leaks("1 MiB")
def test_leak(): kept.append(take(2))
"""


def test_limits_hold_for_what_pytorch_takes(pytester):
    pytester.makepyfile(TESTS)
    said = pytester.runpytest_subprocess("-p", "memtrace.pytest_plugin", "-p", "no:cacheprovider")
    said.assert_outcomes(passed=1, failed=2)
    said.stdout.fnmatch_lines(["memtrace: the test's peak is 64.00 MiB, 24.00 MiB over its limit of 40.00 MiB",
                               "  64.00 MiB in 1 block:*", "memtrace: the test leaves 2.00 MiB*"])


def test_a_recording_has_pytorch_s_peak(pytester):
    path = pytester.path / "card.db"
    script = pytester.makepyfile(f"""
import memtrace, torch
with memtrace.record({str(path)!r}):
    model = torch.nn.Linear(4096, 4096, device="cuda")
    optimizer = torch.optim.AdamW(model.parameters())
    for rows in (64, 64, 16384):  # the peak is in the last forward, when the optimizer has its state
        model(torch.ones(rows, 4096, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    print(torch.cuda.max_memory_allocated())
""")
    said = pytester.runpython(script)
    with memtrace.open(path) as trace:
        assert trace.run().state == "done"
        assert str(trace.peak().bytes) == said.outlines[0]
        assert {"parameter", "optimizer state"} <= {share.category for share in trace.peak(by="role").shares}


PROGRAM = """
import torch

class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(1024, 1024)

    def forward(self, x):
        return self.linear(x) * 2  # scaled

def train():
    model = Scaled().cuda()
    model(torch.ones(777, 1024, device="cuda")).sum().backward()  # backward

train()
with torch.no_grad():
    kept = Scaled().cuda()(torch.ones(555, 1024, device="cuda"))
"""


def test_blocks_of_a_recorded_program_have_lines_stacks_and_operators(pytester):
    path, script = pytester.path / "card.db", pytester.makepyfile(PROGRAM)
    lines = PROGRAM.strip().splitlines()
    run_program("record", "--trace", path, "--", sys.executable, script)
    events = json.loads(run_program("events", "--json", "--trace", path))["rows"]
    taken = [row for row in events if row["action"] == "alloc"]
    scaled, backward = (f"{script.name}:{number}" for word in ("# scaled", "# backward")
                        for number, line in enumerate(lines, 1) if line.endswith(word))
    forward = {(row["op"], row["line"]) for row in taken if row["bytes"] == 777 * 4096 and "train " in (row["frames"] or "")}
    assert {("aten::ones", backward), ("aten::addmm", scaled), ("aten::mul", scaled)} <= forward
    in_backward = [row for row in taken if row["phase"] == "backward"]
    assert {row["line"] for row in in_backward} == {backward}
    assert {"MulBackward0", "AddmmBackward0"} <= {row["op"] for row in in_backward}
    asked = "SELECT DISTINCT role FROM run_event JOIN label ON label.run = run_event.run AND label.id = run_event.label" \
            " WHERE requested_bytes = 555 * 4096 AND phase = 'forward'"
    assert json.loads(run_program("sql", asked, "--json", "--trace", path))["rows"] == [["temporary"]]
