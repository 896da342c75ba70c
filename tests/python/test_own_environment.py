"""The environment that `uvx` makes for memtrace alone hides nothing of the user's."""
import importlib.util
import os
import sys

import pytest

from memtrace.__main__ import leave_own_environment


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    (tmp_path / "own/bin").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "own"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return str(tmp_path / "own")


def path_of(**environment):
    leave_own_environment(environment)
    return environment["PATH"].split(os.pathsep)


def test_it_comes_last_on_the_path(prefix, tmp_path):
    assert path_of(PATH=f"{prefix}/bin:/usr/bin:/bin") == ["/usr/bin", "/bin", f"{prefix}/bin"]
    assert path_of(PATH=f"{tmp_path}/link/bin:/usr/bin", VIRTUAL_ENV="/home/me/.venv") == ["/usr/bin", f"{tmp_path}/link/bin"]


def test_an_environment_of_the_user_s_stays_in_front(prefix, monkeypatch):
    own = [f"{prefix}/bin", "/usr/bin"]
    assert path_of(PATH=os.pathsep.join(own), VIRTUAL_ENV=prefix) == own
    assert path_of(PATH=f"/usr/bin:{prefix}/bin") == ["/usr/bin", f"{prefix}/bin"]
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "torch")
    assert path_of(PATH=os.pathsep.join(own)) == own
