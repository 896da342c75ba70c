"""A short dry run and a short watched run: what tests/python/versions.sh tries under other versions of PyTorch."""
import json
import pathlib
import subprocess
import sys

import pytest
import torch

from memtrace._declarations import load_torch_library
from memtrace._library import find_program, find_torch_library
from memtrace.recording import abi, labels, stacks, watching

INCLUDE = pathlib.Path(torch.__file__).parent / "include"
MIB = 1 << 20
TRAIN = """
import torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(2048, 2048).cuda()
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(2):
    for (batch,) in DataLoader(TensorDataset(torch.ones(640, 2048)), batch_size=32):
        model(batch.cuda()).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
torch.save(model.state_dict(), "model.pt")
model.load_state_dict(torch.load("model.pt"))
torch.jit.save(torch.jit.script(torch.nn.Linear(2, 2)), "script.pt")
"""


@pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")
def test_a_dry_run_has_the_bytes_of_the_program(tmp_path):
    (tmp_path / "train.py").write_text(TRAIN)
    done = subprocess.run([find_program(), "dry-run", "--device", "sim:h100", "--", sys.executable, "train.py"], cwd=tmp_path,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "shortened" in done.stderr, done.stderr
    assert " has no torch." not in done.stderr and " has other parameters " not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["memtrace.db", "train.py"]
    said = subprocess.run([find_program(), "peak", "--by", "role", "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    shares = {row["role"]: row["requested_bytes"] for row in json.loads(said.stdout)["rows"]}
    parameters = (2048 * 2048 + 2048) * 4
    assert shares["parameter"] == shares["gradient"] == parameters
    assert shares["optimizer state"] == pytest.approx(2 * parameters, abs=1024)


def test_a_recorded_program_runs_as_alone(tmp_path):
    """A build with CUDA is watched, although there is no card here."""
    (tmp_path / "train.py").write_text("import torch\nprint(torch.nn.Linear(2, 2)(torch.ones(1, 2)).shape)")
    done = subprocess.run([find_program(), "record", "--", sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True,
                          check=False)
    assert done.stdout == "torch.Size([1, 2])\n" and "is not watched" not in done.stderr, done.stderr
    assert "memory history" not in done.stderr and "not known" not in done.stderr


def test_the_layouts_of_this_pytorch_are_understood():
    assert abi.derive(INCLUDE).attach_slot > 0
    abi.check_observer(INCLUDE)
    assert labels.find_graph() is not None


def test_a_watched_model_has_modules_and_steps():
    library = load_torch_library(find_torch_library())
    watcher = watching.Watcher(library)
    assert not list(stacks.begin(library, INCLUDE))
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters())
    model(torch.ones(1, 2)).sum().backward()
    assert watcher.in_step and set(map(id, model)) <= set(watcher.places)
    optimizer.step()
    assert not watcher.in_step
    stacks.end(library)
    watcher.unwatch()
