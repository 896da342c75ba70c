"""Dry runs that ask cuDNN about convolutions: where it is found, and what the verdict says. The cuDNN is one of the tests' own
(tests/fake_cudnn.c), which a build has."""
import json
import pathlib
import sys

import pytest
import torch

from memtrace._library import find_program
from memtrace.dry import build, cudnn

FAKE = pathlib.Path(find_program()).parent / "tests/fake_cudnn/libcudnn.so.9"
PROGRAM = """
import torch
x = torch.ones(1, 2, 8, 8, device="cuda")
w = torch.ones(2, 2, 3, 3, device="cuda")
torch.nn.functional.conv2d(x, w)
torch.nn.functional.conv2d(x, w)
"""
SIZES = (1 + 2 + 8 + 8) + (2 + 2 + 3 + 3) + (1 + 2 + 6 + 6)  # of all tensors, by which the fake cuDNN chooses bytes


@pytest.fixture
def without(monkeypatch):
    monkeypatch.delenv("MEMTRACE_CUDNN", raising=False)
    return monkeypatch


def test_the_library_is_found_among_the_packages(without, tmp_path):
    library = tmp_path / "nvidia/cudnn/lib/libcudnn.so.9"
    without.setattr(sys, "path", [str(tmp_path)])
    assert cudnn.find() is None
    library.parent.mkdir(parents=True)
    library.touch()
    assert cudnn.find() == library


def test_the_variable_names_a_file_or_a_folder_or_none(without, tmp_path):
    library = tmp_path / "libcudnn.so.9"
    library.touch()
    for given, found in ((library, library), (tmp_path, library), ("off", None)):
        without.setenv("MEMTRACE_CUDNN", str(given))
        assert cudnn.find() == found


def test_a_variable_that_names_nothing_is_an_error(without, tmp_path):
    without.setenv("MEMTRACE_CUDNN", str(tmp_path))
    with pytest.raises(RuntimeError, match="there is no libcudnn.so.9; name the file"):
        cudnn.find()


def run(folder, told):
    """Runs the program dry with the fake cuDNN. Returns its estimates, and the bytes that it allocates."""
    if not FAKE.is_file():
        pytest.skip("the build has no fake cuDNN")
    library = build.find(pathlib.Path(torch.__file__).parent)  # of the user's cache, which is to have no answers of the fake one's
    folder.environment.update(MEMTRACE_CUDNN=str(FAKE), FAKE_CUDNN=told, XDG_CACHE_HOME=str(folder.path), MEMTRACE_DRY_LIBRARY=library)
    done = folder.dry(PROGRAM, options=("--json", "--device", "sim:h200"))
    assert done.returncode == 0, done.stderr
    sizes = folder.rows("SELECT requested_bytes FROM run_event JOIN event_kind ON event_kind.id = kind WHERE name = 'alloc'")
    return json.loads(done.stdout)["estimated"], [size for (size,) in sizes]


def test_the_workspace_is_what_cudnn_says(folder):
    estimated, sizes = run(folder, "")
    assert estimated == []
    assert sizes.count(SIZES * 100 + 40) == 2


def test_a_crash_of_cudnn_costs_exactness_alone(folder):
    estimated, sizes = run(folder, "crash")
    assert len(estimated) == 1 and estimated[0]["count"] == 2
    assert "cuDNN ended without an answer" in estimated[0]["name"]
    assert SIZES * 100 + 40 not in sizes
