"""Roles and changes of one program that has much of what public reports of memory trouble have: an optimizer that replaces its
parameters and states, buffers, a list that keeps tensors, repeated blocks in bf16 and a large vocabulary."""
import json
import os
import subprocess
import sys
import textwrap

import pytest
import torch
from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

PROGRAM = """
import torch
from torch import nn
from torch.nn import functional as F
class Replacing(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})
    @torch.no_grad()
    def step(self):
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            state["first"] = 0.9 * state.get("first", torch.zeros_like(parameter)) + parameter.grad
            state["second"] = 0.9 * state.get("second", torch.zeros_like(parameter)) + parameter.grad ** 2
            parameter.data = parameter.data - state["first"] / (state["second"].sqrt() + 1)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)
        self.register_buffer("scale", torch.ones(256, 1024))
    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(8192, 256), nn.Linear(256, 8192)
        self.blocks = nn.ModuleList(Block() for _ in range(6))
    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
net = Net().to(torch.bfloat16).cuda()
optimizer, kept = Replacing(net.parameters()), []
for _ in range(5):
    tokens = torch.randint(8192, (8, 256), device="cuda")
    F.cross_entropy(net(tokens).flatten(0, 1).float(), tokens.flatten()).backward()
    kept.append(torch.ones(3 << 20, dtype=torch.uint8, device="cuda"))
    optimizer.step()
    optimizer.zero_grad()
"""
PARAMETERS = 2 * (2 * 8192 * 256 + 8192 + 6 * (2 * 256 * 1024 + 256 + 1024))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("answers")
    (folder / "program.py").write_text(textwrap.dedent(PROGRAM))
    command(folder, "dry-run", "--device", "sim:h100", "--steps", "100", "--", sys.executable, "program.py")
    return folder


def command(folder, *words):
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    return subprocess.run([find_program(), *words], capture_output=True, text=True, check=True, cwd=folder, env=kept).stdout


def test_blocks_have_the_roles_of_what_they_are_for(folder):
    roles = {row["role"]: row["requested_bytes"] for row in json.loads(command(folder, "peak", "--json"))["rows"]}
    assert PARAMETERS <= roles["parameter"] < 1.01 * PARAMETERS
    assert 2 * PARAMETERS <= roles["optimizer state"] < 2.1 * PARAMETERS  # one state is replaced at a time
    assert roles["buffer"] == 6 * 256 * 1024 * 2
    assert roles["kept"] > 0 and roles["kept"] % (3 << 20) == 0
    assert roles["input"] < 1 << 20


def test_changes_are_those_that_matter(folder):
    changes = json.loads(command(folder, "advise", "--json"))["changes"]
    by_name = {change["change"]: change for change in changes}
    assert changes[-1]["change"].startswith("SGD")
    assert "fused cross entropy" in by_name and "half the micro-batch" in by_name
    assert "checkpoint of Net.blocks.*" not in by_name  # which lowers live memory, but reserves more, as a dry run with it shows
    states = 2 * PARAMETERS
    saved = by_name["SGD: no optimizer state"]["bytes"]
    assert abs(saved - states) < 0.02 * states
    assert not any(change["kind"] == "allocator" and change["difference_bytes"] >= 0 for change in changes)


def test_the_first_line_is_the_answer(folder):
    first = command(folder, "peak").partition("\n")[0]
    assert " GiB of the card; " in first and " live at program.py:" in first
    assert command(folder, "advise").startswith("Each iteration of the loop in phase train leaves")
    assert "Times of a dry run are the host's" in command(folder, "steps")
