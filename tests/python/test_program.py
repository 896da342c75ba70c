"""Programs that Python starts on a simulated card, by the library."""
import os
import sys
import textwrap

import pytest
import torch

import memtrace
from memtrace.programs import EVERY_STEP

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

# An optimizer imports torch._dynamo, which takes as long as torch. Here all runs of a command have one import of it, as of torch.
PROGRAM = """
import sys, torch, torch._dynamo
batch = int(sys.argv[1])
net = torch.nn.Linear(512, 512).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    net(torch.randn(batch, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("the end")
"""


@pytest.fixture
def words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEMTRACE_TORCH_LIBRARY", raising=False)
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    return [sys.executable, "program.py"]


def test_a_dry_run_adds_a_run_and_says_what_the_program_needs(words, tmp_path):
    before = dict(os.environ)
    with open("said", "wb") as said:
        program = memtrace.run_dry([*words, "4096"], device="sim:l4", trace="dry.db", name="small", output=said.fileno(),
                                   steps=EVERY_STEP)
    assert (program.exit_code, program.fits, len(program.runs)) == (0, True, 1), program
    assert open("said").read() == "the end\n"
    run = program.runs[0]
    assert (run.trace, run.run, run.rank, run.state, run.line) == (str(tmp_path / "dry.db"), 1, -1, "done", "")
    assert run.fits is True and run.needed_bytes == run.reserved_bytes + run.outside_bytes <= run.card_bytes
    with memtrace.open("dry.db") as trace:
        assert trace.run().name == "small" and trace.peak().bytes == run.live_bytes > 4096 * 512 * 4
    assert dict(os.environ) == before and "MEMTRACE_DRY_DEVICE" not in os.popen("env").read()


def test_a_full_card_is_an_answer(words):
    with open("said", "wb") as said:
        program = memtrace.run_dry([*words, "100000"], device="sim:64MiB", output=said.fileno())
    assert program.exit_code == 1 and not program.fits
    assert program.runs[0].state == "oom" and program.runs[0].short_bytes > 0 and program.runs[0].line.startswith("program.py:")


def test_a_function_runs_in_an_interpreter_of_its_own(words, tmp_path, monkeypatch):
    (tmp_path / "training.py").write_text("def train(batch, width):\n    import torch\n    torch.ones(batch, width, device='cuda')\n")
    monkeypatch.syspath_prepend(tmp_path)
    from training import train

    runs = [memtrace.dry_run_function(train, [batch], {"width": 1 << 18}, card="l4", trace="dry.db") for batch in (64, 1 << 17)]
    assert [run.fits for run in runs] == [True, False] and runs[0].runs[0].live_bytes == 64 << 20
    assert str(runs[0]).startswith("run 1 (done): peak 64.00 MiB live; needs ") and str(runs[0]).endswith(" free")
    assert " short at training.py:3\n" in str(runs[1]) and str(runs[1]).endswith("ended with exit code 1")
    with memtrace.open("dry.db") as trace:
        assert trace.run().name == "train" and trace.curve(1).axis == "events"
    train.__module__ = "__main__"
    with pytest.raises(ValueError, match="%%memtrace"):
        memtrace.dry_run_function(train)


def test_a_sweep_has_a_row_for_each_combination(words):
    rows = memtrace.sweep([*words, "@batch"], {"batch": [1024, 2048, "x"]}, device="sim:l4", trace="sweep.db")
    assert [(row.values["batch"], row.state, row.run) for row in rows] == [("1024", "done", 1), ("2048", "done", 2), ("x", "failed", 0)]
    assert rows[0].allocated_bytes < rows[1].allocated_bytes and "ValueError" in rows[2].words


def test_a_fit_says_which_change_suffices(words):
    answer = memtrace.fit([*words, "8192"], device="sim:48MiB")
    plain, *trials = answer.trials
    assert (answer.fits, plain.changes, plain.outcome, plain.fits) == (False, "", "ran", False)
    ran = {trial.changes: trial for trial in trials if trial.outcome == "ran"}
    assert ran["autocast"].allocated_bytes != plain.allocated_bytes
    assert answer.remedy == next((trial.changes for trial in trials if trial.fits), "")
    assert not os.path.exists("memtrace.db")


def test_wrong_options_are_refused_in_the_library_s_words(words):
    with pytest.raises(memtrace.MemtraceError, match="a dry run needs a simulated card") as caught:
        memtrace.run_dry(words, device="cpu")
    assert caught.value.status == 2
    with pytest.raises(memtrace.MemtraceError, match="No such file"):
        memtrace.run_dry(["no-such-program"])
    with pytest.raises(memtrace.MemtraceError, match="no argument of the program is @batch"):
        memtrace.sweep(words, {"batch": [1]})


def test_texts_that_c_would_cut_are_refused(words):
    with pytest.raises(ValueError, match="NUL"):
        memtrace.run_dry([*words, "1\0002"])
    with pytest.raises(ValueError, match="NUL"):
        memtrace.run_dry(words, name="a\0b")
    with pytest.raises(TypeError, match="words are a list"):
        memtrace.run_dry("program.py")
    with pytest.raises(ValueError, match="comma"):
        memtrace.sweep([*words, "@batch"], {"batch": ["1,2", 3]})


def test_paths_and_values_need_not_be_unicode(words, tmp_path):
    program = memtrace.run_dry([*words, "16"], trace="gr\u00f6\u00df \udcff.db")
    assert program.runs[0].trace == str(tmp_path / "gr\u00f6\u00df \udcff.db")
    with memtrace.open(program.runs[0].trace) as trace:
        assert trace.run().number == 1
    rows = memtrace.sweep([*words, "@batch"], {"batch": ["\udcff"]})
    assert rows[0].values == {"batch": "\udcff"} and rows[0].state == "failed"


@pytest.mark.parametrize("run", [memtrace.run_dry, memtrace.run_recorded])
def test_ctrl_c_ends_the_program_and_the_caller(words, run):
    with pytest.raises(KeyboardInterrupt):
        run(["sh", "-c", "kill -INT $$"])


def test_ctrl_c_ends_all_runs_of_a_sweep_and_a_fit(words):
    program = ["sh", "-c", "kill -INT $$", "@a"]
    with pytest.raises(memtrace.MemtraceError, match="interrupted"):
        memtrace.sweep(program, {"a": [1, 2]})
    with pytest.raises(memtrace.MemtraceError, match="interrupted"):
        memtrace.fit(program)
    with pytest.raises(memtrace.MemtraceError, match="interrupted"):
        memtrace.largest(program, "a=1..4")


def test_the_largest_value_that_fits_was_tried_and_so_was_the_next(words):
    found = memtrace.largest([*words, "@batch"], "batch=1024..65536:1024", device="sim:96MiB")
    tried = {trial.value: trial for trial in found.trials}
    best = tried[found.value]
    assert best.fits and best.is_largest and best.needed_bytes <= best.card_bytes == 96 << 20
    assert tried[best.value + 1024].state == "short" and list(tried) == sorted(tried)
    assert list(found.answers) == [best] and best.values == {}
    assert not os.path.exists("memtrace.db")


def test_each_combination_of_other_values_has_its_largest(words):
    with open(words[1], "w") as program:
        program.write(PROGRAM.replace("net =", "held = torch.empty(int(sys.argv[2]) << 20, dtype=torch.uint8, device='cuda')\nnet =", 1))
    found = memtrace.largest([*words, "@batch", "@held"], "batch=1024,4096", {"held": [1, 400]}, device="sim:256MiB")
    assert [(row.values, row.value, row.is_largest, row.state) for row in found.trials] == [
        ({"held": "1"}, 1024, False, "fits"), ({"held": "1"}, 4096, True, "fits"),
        ({"held": "400"}, 1024, False, "short"), ({"held": "400"}, 4096, False, "short")]
    assert found.value == 4096


def test_values_that_are_no_range_are_refused(words):
    for values, reason in {"batch": "NAME=LOW..HIGH", "batch=8..1": "below its begin", "seq=1..8": "@batch does not vary"}.items():
        with pytest.raises(memtrace.MemtraceError, match=reason) as caught:
            memtrace.largest([*words, "@batch"], values)
        assert caught.value.status == 2
    with pytest.raises(memtrace.MemtraceError, match="fails with each value that was tried: exit code 1, ValueError"):
        memtrace.largest([*words, "x", "@batch"], "batch=1..2")
