"""Some of the calls of operators that were measured on a card, run dry: each takes what it took there, event by event, but for
those that are known to be unequal. Convolutions are estimated, and where MEMTRACE_CUDNN names cuDNN 9.19, asked. Skipped where there is a card, and under a PyTorch older than that of the measurement."""
import os
import pathlib
import subprocess
import sys
from typing import NamedTuple

import pytest
import torch

from memtrace._library import find_program
from memtrace.dry import cudnn

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "tests/data/operators"
sys.path.insert(0, str(ROOT / "bench"))

from operator_memory import compare, operator_of, read_calls, run_dry  # noqa: E402 (in bench)

pytestmark = [pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card"),
              pytest.mark.skipif(tuple(map(int, torch.__version__.split(".")[:2])) < (2, 11), reason="older than what was measured")]


MOST_CALLS = 3  # of an operator, evenly among all, so that this takes seconds


def some_calls():
    """Returns the calls of every operator, or some of them."""
    calls = read_calls(DATA / "h200.json.xz", [])
    by_operator = {}
    for name in calls:
        by_operator.setdefault(operator_of(name), []).append(name)
    return {name: calls[name] for names in by_operator.values() for name in names[::-(-len(names) // MOST_CALLS)]}


class Compared(NamedTuple):
    """Names of calls."""

    calls: set[str]  # that ran on the card
    ran: set[str]  # dry
    unequal: set[str]
    known: set[str]  # to be unequal


@pytest.fixture(scope="module")
def compared():
    """Runs the calls. The library that other tests take in the place of the one for PyTorch is put aside."""
    calls = some_calls()
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MEMTRACE_TORCH_LIBRARY", raising=False)
        patch.setenv("MEMTRACE_CUDNN", "off")
        dry = run_dry(str(find_program()), "sim:h200", list(calls))
    total, _ = compare(calls, dry)
    return Compared(set(calls), set(dry), set(total.unequal), set((DATA / "unequal.txt").read_text().splitlines()))


def test_calls_that_ran_on_a_card_run_dry(compared):
    assert compared.calls <= compared.ran


def test_calls_take_what_they_took_on_a_card(compared):
    assert compared.unequal <= compared.known, "these became unequal"


def test_calls_that_became_equal_are_not_listed_as_unequal(compared):
    assert compared.calls & compared.known <= compared.unequal, "these are equal now: remove them from unequal.txt"


def test_the_list_of_unequal_calls_names_calls_that_were_measured(compared):
    assert compared.known <= read_calls(DATA / "h200.json.xz", []).keys()


def version_of_cudnn():
    """Returns the version of the library that MEMTRACE_CUDNN names: 91900; 0 without one."""
    path = cudnn.find() if os.environ.get(cudnn.VARIABLE) else None
    asks = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).cudnnGetVersion())"
    return int(subprocess.check_output([sys.executable, "-c", asks, str(path)])) if path else 0


def test_convolutions_take_what_cudnn_says(monkeypatch):
    if version_of_cudnn() // 100 != 919:
        pytest.skip("MEMTRACE_CUDNN names no cuDNN 9.19")
    monkeypatch.delenv("MEMTRACE_TORCH_LIBRARY", raising=False)
    calls = read_calls(DATA / "h200.json.xz", ["conv"])
    total, _ = compare(calls, run_dry(str(find_program()), "sim:h200", ["conv"]))
    assert len(calls) == 108
    assert [name for name in total.unequal if "[256,64,1,1]+channels_last" not in name] == []  # which cuBLASLt splits
    assert total.equal == 105
