"""Programs under torch.compile that were measured on an H200, run dry under the same PyTorch and Triton; skipped under others, since Inductor
generates other code."""
import json
import lzma
import os
import pathlib
import subprocess
import sys

import pytest
import torch

from memtrace._library import find_program

triton = pytest.importorskip("triton")
pytestmark = [pytest.mark.skipif(torch.__version__.split("+")[0] != "2.11.0" or triton.__version__ != "3.6.0",
                                 reason="the card had PyTorch 2.11.0 and Triton 3.6.0"),
              pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")]

ROOT = pathlib.Path(__file__).resolve().parents[1]
CARD = json.loads(lzma.decompress((ROOT / "data/dry_run/compiled_cases.json.xz").read_bytes()))
MEASURES = "requested", "allocated", "reserved"
HAS_CUDNN = "MEMTRACE_CUDNN" in os.environ or any(pathlib.Path(folder, "nvidia/cudnn").is_dir() for folder in sys.path)
ESTIMATED = () if HAS_CUDNN else ("conv", "vit")  # workspaces of convolutions
BY_TIME = "max_autotune",  # which kernels a card takes
EVENTS = """SELECT event_kind.name || ' ' || requested_bytes FROM run_event AS event JOIN event_kind ON event_kind.id = event.kind
WHERE event_kind.name IN ('alloc', 'free') ORDER BY event.id"""


def run(folder, name):
    """Returns the peaks of the steps, and the events of the last one."""
    program = [sys.executable, str(ROOT / "python/programs/compiled_cases.py"), name]
    done = subprocess.run([find_program(), "dry-run", "--device", "sim:h200", "--steps", "all", "--", *program], cwd=folder,
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    told = subprocess.run([find_program(), "sql", "--json", EVENTS], cwd=folder, capture_output=True, text=True, check=True)
    events = [row[0] for row in json.loads(told.stdout)["rows"]]
    return steps, events[steps[-2]["events"]:steps[-1]["events"]]


@pytest.mark.parametrize("name", sorted(CARD))
def test_a_compiled_program_requests_what_it_did_on_a_card(tmp_path, name):
    steps, events = run(tmp_path, name)
    peaks = {what: max(step[what] for step in steps) for what in MEASURES}
    on_card = {what: max(step[what] for step in CARD[name]["steps"]) for what in MEASURES}
    assert peaks["requested"] == on_card["requested"]
    if name in (*ESTIMATED, *BY_TIME):
        assert peaks["reserved"] == pytest.approx(on_card["reserved"], rel=0.02)
        return
    assert events == CARD[name]["events"]
    assert peaks["allocated"] == pytest.approx(on_card["allocated"], rel=0.005)
    assert peaks["reserved"] == pytest.approx(on_card["reserved"], rel=0.002)
