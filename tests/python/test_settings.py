"""The settings that `memtrace record` and `memtrace dry-run` hand to Python."""
import json
import math
import os

import pytest

from memtrace import _settings
from memtrace._settings import VARIABLE, Settings, change, settings


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
