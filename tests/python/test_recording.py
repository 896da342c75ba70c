"""memtrace.record, and the logs of others."""
import sys
import types

import pytest
import torch

import memtrace
from memtrace.recording import record


@pytest.fixture
def watcher(monkeypatch):
    """A card, and a watcher that notes its calls."""
    calls = []
    watch = types.ModuleType("memtrace.recording.watching")
    watch.begin = lambda path, with_stacks: calls.append(("begin", path) if with_stacks else ("begin without stacks", path))
    watch.end = lambda outcome: calls.append(("end", outcome))
    monkeypatch.setitem(sys.modules, "memtrace.recording.watching", watch)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    return calls


def test_a_with_is_watched_from_its_beginning_to_its_end(watcher, tmp_path):
    with memtrace.record(tmp_path / "a.db"):
        watcher.append(("inside",))
    assert watcher == [("begin", str(tmp_path / "a.db")), ("inside",), ("end", 0)]


def test_stacks_are_left_out_on_request(watcher):
    with memtrace.record("a.db", stacks=False):
        pass
    assert watcher == [("begin without stacks", "a.db"), ("end", 0)]


def test_a_function_is_watched_each_time_and_also_as_it_fails(watcher):
    @memtrace.record("b.db")
    def train(error):
        if error is not None:
            raise error
        return 5

    assert train(None) == 5
    for error in (KeyError("in training"), torch.OutOfMemoryError("on the card")):
        with pytest.raises(type(error)):
            train(error)
    assert watcher == [("begin", "b.db"), ("end", 0), ("begin", "b.db"), ("end", 1), ("begin", "b.db"), ("end", 5)]


def test_without_a_card_the_program_runs_on_and_one_line_says_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with memtrace.record("c.db"):
        ran = True
    assert ran and capsys.readouterr().err == "memtrace: torch sees no CUDA device: nothing is recorded\n"


@pytest.mark.parametrize("begin", [RuntimeError("watched already"), KeyError("x")])
def test_a_watcher_that_fails_does_not_end_the_program(watcher, monkeypatch, capsys, begin):
    def fails(path, with_stacks):
        raise begin

    monkeypatch.setattr(sys.modules["memtrace.recording.watching"], "begin", fails)
    with memtrace.record("d.db"):
        pass
    assert capsys.readouterr().err == f"memtrace: {begin}: nothing is recorded\n" and watcher == []


def test_a_process_is_watched_once(watcher, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "_memtrace.recording.watching", types.ModuleType("_memtrace.recording.watching"))
    with memtrace.record("e.db"):
        pass
    assert "already" in capsys.readouterr().err and watcher == []


def test_without_torch_likewise(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert record.obstacle() == "there is no torch"


class Wandb:
    """A run of wandb."""

    def __init__(self):
        self.metrics, self.logged, self.summary = [], [], {}

    def define_metric(self, name, step_metric):
        self.metrics.append((name, step_metric))

    def log(self, values):
        self.logged.append(values)


def test_wandb_gets_each_step_on_an_axis_of_its_own(asked):
    run = Wandb()
    memtrace.log_to(run, asked.path, "small")
    with memtrace.open(asked.path) as trace:
        expected = [{"memtrace/step": step,
                     "memtrace/peak_allocated_bytes": trace.peak("small", step=step).bytes,
                     "memtrace/peak_reserved_bytes": trace.peak("small", step=step, measured="reserved").bytes}
                    for step in range(3)]
        assert run.summary["memtrace/peak/FFN"] == {
            share.category: share.allocated_bytes for share in trace.peak("small").shares}["FFN"]
    assert run.logged == expected and run.metrics == [("memtrace/*", "memtrace/step")]


def test_tensorboard_s_own_reader_finds_the_peaks(asked, tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tensorboard.SummaryWriter(tmp_path) as writer, memtrace.open(asked.path) as trace:
        memtrace.log_to(writer, trace)
        last = trace.peak(step=2).bytes
    read = accumulator.EventAccumulator(str(tmp_path))
    read.Reload()
    scalars = read.Scalars("memtrace/peak_allocated_bytes")
    assert [scalar.step for scalar in scalars] == [0, 1, 2]
    assert scalars[2].value == pytest.approx(last)
    assert b"| FFN |" in read.Tensors("memtrace/peak/text_summary")[0].tensor_proto.string_val[0]


def test_what_is_no_writer_is_refused(asked):
    with pytest.raises(TypeError, match="SummaryWriter"):
        memtrace.log_to(print, asked.path)
