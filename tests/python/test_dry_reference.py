"""Programs that were measured on a card, run dry: their peaks and their requests are those of the card. Skipped where there is one."""
import concurrent.futures
import importlib.util
import os
import pathlib
import sys

import pytest
import torch

from memtrace._library import find_program

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

from dry_pair import difference, read_run, run_half  # noqa: E402 (in bench)
from dry_train import PROGRAMS, REFERENCE  # noqa: E402

pytestmark = [pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card"),
              pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="there is no transformers")]

# Which of two equal free blocks is taken follows addresses on a card. So allocated bytes are another block's by 0.33 % in two.
MOST_ERROR = {"requested": 0.001, "allocated": 0.004, "reserved": 0.005}
LEAST_EQUAL = 0.98

# The reference, and programs with CUDA graphs, pools, nested tensors, an operator of their own, assumed values, and compiled layers and
# graphs.
MEASURED = (*REFERENCE, "graph_modules", "memory_pools", "encoder_padded", "operator_in_python", "lbfgs",
            "compiled_layers", "compiled_graphs_in_training")


@pytest.fixture(scope="module")
def runs():
    """Starts all programs, two at a time. The library that other tests take in the place of the one for PyTorch is put aside."""
    aside = os.environ.pop("MEMTRACE_TORCH_LIBRARY", None)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        yield {name: pool.submit(run_half, str(find_program()), name, PROGRAMS[name], "dry", "sim:h200") for name in MEASURED}
    if aside:
        os.environ["MEMTRACE_TORCH_LIBRARY"] = aside


@pytest.mark.parametrize("name", MEASURED)
def test_a_dry_run_requests_what_the_program_did_on_a_card(runs, name):
    card, dry = read_run(ROOT / f"tests/data/dry_run/{name}.card.json.xz"), runs[name].result()
    for what, most in MOST_ERROR.items():
        assert dry.peaks[what] == pytest.approx(card.peaks[what], rel=most), what
    found = difference(card.step(), dry.step())
    assert found.equal >= LEAST_EQUAL, (found.missing.most_common(9), found.extra.most_common(9))
