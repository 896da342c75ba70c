"""The simulated card as a program of PyTorch sees it. Skipped where there is a card."""
import json
import subprocess
import sys

import pytest
import torch

from memtrace._library import find_program
from test_dry_run import dry  # noqa: F401

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

STEP = """
import torch
model = torch.nn.Linear(64, 64).cuda()
model(torch.ones(8, 64, device="cuda")).sum().backward()
"""


@pytest.mark.parametrize("card", ["p100", "v100-16gb", "a10g", "rtx3060"])
def test_a_card_of_any_age_is_one_that_pytorch_has_kernels_for(dry, card):
    said = dry.run(STEP + "print(torch.cuda.get_device_name())", "--device", f"sim:{card}")
    assert said.stdout and "Warning" not in said.stderr, said.stderr


SHARED = """
import torch
free, total = torch.cuda.mem_get_info()
print(free, total, torch.cuda.get_device_properties(0).total_memory)
block = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
print(torch.cuda.mem_get_info())
kept = []
try:
    while True:
        kept.append(torch.empty(1 << 28, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error:
    print(len(kept), error)
"""


def test_a_card_that_others_use_has_as_much_free_as_is_said(dry):
    first, second, full = dry.run(SHARED, "--device", "sim:l4", "--free", "3GiB").stdout.splitlines()
    gib, context, total = 1 << 30, 236 << 20, 22558 << 20
    assert first == f"{3 * gib - context} {total} {total}"
    assert second == f"({2 * gib - context}, {total})"
    left = 2 * gib - context - 7 * (gib // 4)
    assert full.startswith("7 CUDA out of memory. Tried to allocate 256.00 MiB. GPU 0 has a total capacity of 22.03 GiB of "
                           f"which {left / (1 << 20):.2f} MiB is free. Including non-PyTorch memory, this process has 2.98 GiB")
    assert dry.rows("SELECT device, capacity_bytes FROM run") == [("sim:l4:free=3GiB", 3 * gib - context)]


def test_nothing_is_free_beyond_what_the_card_has(dry):
    said = dry.run(SHARED, "--device", "sim:l4", "--free", "30GiB", code=2)
    assert "30.00 GiB can't be free: sim:l4 has 22.03 GiB" in said.stderr and not said.stdout


def test_fit_compares_a_program_with_what_is_free(dry):
    (dry.folder / "program.py").write_text(STEP)
    done = subprocess.run([find_program(), "fit", "--device", "sim:l4", "--free", "1GiB", "--json", "--", sys.executable,
                           "program.py"], capture_output=True, text=True, cwd=dry.folder, env=dry.environment())
    said = json.loads(done.stdout)
    assert done.returncode == 0 and said["fits"] and said["on"] == "sim:l4:free=1GiB"
    assert said["memory_bytes"] == 1 << 30 and said["capacity_bytes"] == (1 << 30) - (236 << 20)
