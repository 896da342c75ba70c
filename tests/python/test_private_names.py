"""The table of PyTorch's private interfaces, and what happens where a PyTorch differs from it."""
import importlib
import os
import subprocess
import sys
import types

import pytest
import torch

from memtrace import _private_names as private_names
from memtrace import _private_page
from memtrace._private_names import PARTS, Missing, Part

IMPORTED_LATE = ("torch.distributed.checkpoint.utils", "torch.distributed.checkpoint.default_planner",
                 "torch.distributed.fsdp._fully_shard._fsdp_param_group", "torch.utils.data.dataloader",
                 "torch._inductor.compile_fx", "torch._inductor.graph", "torch._inductor.codecache",
                 "torch._inductor.fx_passes.pad_mm", "torch._inductor.runtime.triton_heuristics")
IMPORTED_TRITON = "triton.testing", "triton.runtime.interpreter", "triton.backends.nvidia.driver"


@pytest.fixture
def plant(monkeypatch):
    """A module of a fake PyTorch, and a function that adds a part to the table."""
    fake = types.ModuleType("torch.planted")
    fake.take = lambda first, second, third=None: (first, second)
    monkeypatch.setitem(sys.modules, "torch.planted", fake)

    def add(*names, is_needed=False):
        part = Part("planted.py", names, "nothing is planted", is_needed)
        monkeypatch.setitem(PARTS, "planted", part)
        monkeypatch.setattr(private_names, "NAMES", {name.partition("(")[0] for name in names})
        private_names.has.cache_clear()
        return fake

    yield add
    private_names.has.cache_clear()


@pytest.mark.parametrize("part", PARTS)
def test_this_pytorch_has_every_name(part, capsys):
    if "Triton" in part:
        pytest.importorskip("triton")
    for name in IMPORTED_LATE + (IMPORTED_TRITON if "Triton" in part else ()):
        importlib.import_module(name)
    private_names.has.cache_clear()
    assert private_names.has(part) and capsys.readouterr().err == ""


def test_a_part_whose_names_are_there_is_silent(plant, capsys):
    plant("torch.planted.take(first,second)")
    assert private_names.has("planted") and capsys.readouterr().err == ""


@pytest.mark.parametrize("name, words", [
    ("torch.planted.gone", "has no torch.planted.gone"), ("torch.planted.Class.gone", "has no torch.planted.Class.gone"),
    ("torch.planted.take(second,first)", "has other parameters of torch.planted.take")])
def test_a_missing_name_leaves_its_part_out_with_one_note(plant, capsys, name, words):
    plant(name)
    assert not private_names.has("planted") and not private_names.has("planted")
    assert capsys.readouterr().err == f"memtrace: PyTorch {torch.__version__} {words}: nothing is planted\n"


def test_a_missing_name_that_is_needed_is_an_error_with_the_versions(plant):
    plant("torch.planted.gone", is_needed=True)
    with pytest.raises(Missing, match=r"has no torch.planted.gone: nothing is planted; 2\.6 to 2\.\d+ were tried"):
        private_names.has("planted")


def test_a_name_is_replaced_until_it_is_removed(plant):
    fake = plant("torch.planted.take")
    before = fake.take
    wrapped = private_names.wrap("torch.planted.take", lambda original, *given: ["around", *original(*given)])
    assert fake.take(1, 2) == ["around", 1, 2]
    wrapped.remove()
    assert fake.take is before


def test_a_name_outside_of_the_table_is_not_replaced(plant):
    plant("torch.planted.take")
    with pytest.raises(AssertionError, match="torch.nn.Linear is not in the table"):
        private_names.replace("torch.nn.Linear", None)


@pytest.mark.parametrize("version, is_noted", [("2.6.0", False), ("2.14.1+cu130", False), ("2.99.0a0+git", True), ("3.0.0", True)])
def test_a_newer_pytorch_is_noted(capsys, version, is_noted):
    private_names.note_newer(version)
    said = capsys.readouterr().err
    assert said.startswith(f"memtrace: PyTorch {version} is newer than memtrace was tried with (") if is_noted else said == ""


def test_the_page_is_that_of_the_table():
    path = os.path.join(os.path.dirname(__file__), "../../docs/torch.md")
    with open(path, encoding="utf-8") as file:
        assert file.read() == _private_page.page(), "python3 -m memtrace._private_page >docs/torch.md"


DRY = """
import memtrace
from memtrace import _private_names as private_names
private_names.NEWEST = 2, 5
private_names.PARTS[{part!r}] = private_names.PARTS[{part!r}]._replace(names=("torch.gone",))
try:
    with memtrace.dry_run("h100", "gone.db") as run:
        import torch
        torch.nn.Linear(64, 64).cuda()
    print(run.peak.bytes)
except memtrace.MemtraceError as error:
    print(error)
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")
@pytest.mark.parametrize("part, answer, notes", [
    ("scripts", "16896", ["is newer than memtrace was tried with (2.5)", "has no torch.gone: TorchScript writes to the user's files"]),
    ("storages", "has no torch.gone: storages could not be made or resized", ["is newer than memtrace was tried with (2.5)"])])
def test_a_dry_run_says_what_it_lacks(tmp_path, part, answer, notes):
    done = subprocess.run([sys.executable, "-c", DRY.format(part=part)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert answer in done.stdout, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("memtrace: PyTorch")]
    assert len(said) == len(notes) and all(note in line for note, line in zip(notes, said))
