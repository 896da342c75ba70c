"""The meter of PyTorch's counters, with counters and a memory history that stand for a card's."""
import gzip
import pathlib

import pytest
import torch

from memtrace import _meter

SNAPSHOT = pathlib.Path(__file__).parents[1] / "data/import/pytorch_h200_2.7B_seq256_fp32.pickle.gz"


@pytest.fixture
def cards(monkeypatch):
    """Two cards whose live bytes and peaks a test sets; what was asked of the history."""
    state = {"live": [100, 10], "peak": [900, 90], "history": []}

    def reset(card):
        state["peak"][card] = state["live"][card]

    def history(enabled="all", **options):
        state["history"].append(enabled)

    def dump(path):
        pathlib.Path(path).write_bytes(gzip.decompress(SNAPSHOT.read_bytes()))

    for name, value in {"is_available": lambda: True, "init": lambda: None, "device_count": lambda: 2,
                        "memory_allocated": lambda card: state["live"][card], "reset_peak_memory_stats": reset,
                        "max_memory_allocated": lambda card: state["peak"][card]}.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: False, raising=False)
    monkeypatch.setattr(torch.cuda.memory, "_record_memory_history", history)
    monkeypatch.setattr(torch.cuda.memory, "_dump_snapshot", dump)
    return state


def test_the_peak_is_that_of_the_fullest_card_since_the_beginning(cards):
    meter = _meter.find_meter()
    meter.begin()
    assert meter.peak_bytes() == 100
    cards["peak"][1] = 300
    assert meter.peak_bytes() == 300
    meter.end()


def test_what_is_left_is_of_all_cards(cards):
    meter = _meter.find_meter()
    meter.begin()
    cards["live"] = [105, 8]
    assert meter.left_bytes() == 3
    meter.end()


def test_the_history_s_largest_blocks_at_the_peak_are_the_holders(cards):
    meter = _meter.find_meter()
    meter.begin()
    holders = meter.holders()
    meter.end()
    assert len(holders) == 5 and cards["history"] == ["all", None]
    assert [block.bytes for block in holders] == sorted((block.bytes for block in holders), reverse=True)


def test_a_history_that_the_program_keeps_is_left_alone(cards, monkeypatch):
    monkeypatch.setattr(torch._C, "_cuda_isHistoryEnabled", lambda: True)
    meter = _meter.find_meter()
    meter.begin()
    assert meter.holders() == ()
    meter.end()
    assert cards["history"] == []


@pytest.mark.parametrize("function", [(torch.cuda.memory, "_record_memory_history"), (torch._C, "_cuda_isHistoryEnabled")])
def test_an_allocator_without_a_history_is_measured_all_the_same(cards, monkeypatch, function):
    def refuses(*given, **options):
        raise RuntimeError("a pluggable allocator has none")

    owner, name = function
    monkeypatch.setattr(owner, name, refuses)
    meter = _meter.find_meter()
    meter.begin()
    cards["peak"][0] = 500
    assert meter.peak_bytes() == 500 and meter.holders() == ()
    meter.end()
