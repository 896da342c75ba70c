"""The settings that `memtrace record` and `memtrace dry-run` hand to Python."""
import json
import math
import os
import subprocess
import sys

import pytest

import memtrace
from memtrace import _settings
from memtrace._settings import VARIABLE, Settings, change, settings
from memtrace.recording import handover


@pytest.fixture(autouse=True)
def unread(monkeypatch):
    monkeypatch.setattr(_settings, "_read", None)
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_process_that_memtrace_did_not_start_has_defaults():
    assert settings() == Settings() and settings().answers is None and settings().deadline == math.inf


def test_values_have_the_types_of_their_fields_and_are_read_once(monkeypatch):
    given = {"torch": "dry", "answers": "/tmp/a", "steps": -1, "assumed": "0.5", "deadline": 1764323260.5, "later": 1}
    monkeypatch.setenv(VARIABLE, json.dumps(given))
    assert settings() == Settings(torch="dry", answers="/tmp/a", steps=-1, assumed=0.5, deadline=1764323260.5)
    monkeypatch.setenv(VARIABLE, "{}")
    assert settings().torch == "dry"


def test_a_change_is_seen_by_processes_that_this_one_starts(monkeypatch):
    change(files="/tmp/\udcff", steps=3)
    monkeypatch.setattr(_settings, "_read", None)
    assert settings().files == "/tmp/\udcff" and settings().steps == 3
    assert b"\xff" in os.environb[VARIABLE.encode()]
    change(files="", steps=0)
    assert VARIABLE not in os.environ


DAMAGED = ["{", "nonsense", "[3]", "3", '{"torch": "dry"']


@pytest.mark.parametrize("text", [*DAMAGED, '{"steps": "x"}'])
def test_damaged_settings_are_refused_with_advice(text, monkeypatch):
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(ValueError, match="MEMTRACE_SETTINGS is damaged .*unset it"):
        settings()


def start_python(text, **environment):
    start = os.path.join(os.path.dirname(memtrace.__file__), "start")
    inherited = {name: value for name, value in os.environ.items() if name != "MEMTRACE_DRY_DEVICE"}
    return subprocess.run([sys.executable, "-c", "print('the program')"], capture_output=True, text=True,
                          env={**inherited, "PYTHONPATH": start, VARIABLE: text, **environment})


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_settings_end_a_dry_run_which_would_train_for_real(text):
    ended = start_python(text, MEMTRACE_DRY_DEVICE="sim:l4")
    assert (ended.returncode, ended.stdout) == (8, "")
    assert ended.stderr.startswith("memtrace: no dry run: MEMTRACE_SETTINGS is damaged: unset it") and ended.stderr.count("\n") == 1


@pytest.mark.parametrize("text", DAMAGED)
def test_damaged_settings_leave_a_recorded_program_alone(text):
    ended = start_python(text)
    assert (ended.returncode, ended.stdout) == (0, "the program\n")
    assert ended.stderr.startswith("memtrace: PyTorch is not watched: MEMTRACE_SETTINGS is damaged") and ended.stderr.count("\n") == 1


def test_empty_settings_are_none(monkeypatch):
    monkeypatch.setenv(VARIABLE, "")
    assert settings() == Settings() and start_python("").stderr == ""


def test_an_answer_holds_the_bytes_of_any_file_name(tmp_path):
    answers = tmp_path / "answers"
    answers.touch()
    change(answers=str(answers))
    handover.tell(os.fsdecode(b"m\xff.py:1: said"))
    assert answers.read_bytes().endswith(b"\tm\xff.py:1: said\n")
