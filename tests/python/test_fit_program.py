"""`memtrace fit -- PROGRAM`: changes made to dry runs of a program, and what is said of those that can't be."""
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
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(256, 1024), nn.Linear(1024, 256)
    def forward(self, x):
        heads = x.unflatten(-1, (4, 64)).transpose(1, 2)
        x = x + F.scaled_dot_product_attention(heads, heads, heads, is_causal=True).transpose(1, 2).flatten(2)
        return x + self.down(F.gelu(self.up(x)))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(4))
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x
net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(2):
    net(torch.randn(16, 512, 256, device="cuda")).float().pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def fit(folder, source, *options, **environment):
    script = folder / "program.py"
    script.write_text(textwrap.dedent(source))
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    return subprocess.run([find_program(), "fit", *options, "--", sys.executable, str(script)], capture_output=True, text=True,
                          cwd=folder, env={**kept, **environment})


def test_each_change_of_a_program_is_tried_and_tells_what_it_saves(tmp_path):
    said = fit(tmp_path, PROGRAM, "--device", "sim:h100:400MiB", "--json", "--steps", "2")
    assert said.returncode == 1, said.stderr
    answer = json.loads(said.stdout)
    changes = {change["kind"]: change for change in answer["changes"]}
    without = {gap["kind"]: gap["reason"] for gap in answer["unknown"]}
    assert not answer["fits"]
    assert changes["checkpoint"]["where"] == "4 of Block"
    for kind, factor in {"checkpoint": 0.6, "autocast": 0.9, "bf16-weights": 0.7}.items():
        assert changes[kind]["peak"]["allocated_bytes"] < factor * answer["peak"]["allocated_bytes"]
    assert without == {"gradients gone before forward": "the program clears them before forward already",
                       "flash attention": "the kernel does not take such calls on this card: float32, heads of 64"}
    assert answer["remedy"] == "checkpoint"
    assert "use_reentrant=False" in changes["checkpoint"]["hint"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py"]


def test_a_program_s_own_doing_is_not_repeated_and_a_change_that_breaks_it_says_so(tmp_path):
    said = fit(tmp_path, """
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint
        net = nn.ModuleList(nn.Linear(64, 64) for _ in range(3)).cuda()
        net.forward = lambda x: [x := checkpoint(layer, x, use_reentrant=False) for layer in net][-1]
        optimizer = torch.optim.SGD(net.parameters(), 0.1, fused=True)
        scaler = torch.amp.GradScaler("cuda")
        for _ in range(2):
            with torch.autocast("cuda", torch.float16):
                loss = net(torch.randn(8, 64, device="cuda")).sum()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        assert net[0].weight.grad is not None, "kept"
        """, "--device", "sim:l4", "--json", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert said.returncode == 0, said.stderr
    answer = json.loads(said.stdout)
    assert {gap["kind"]: gap["reason"] for gap in answer["unknown"]} == {
        "expandable segments": "PYTORCH_CUDA_ALLOC_CONF has them already",
        "fused optimizer": "SGD is fused already",
        "for-loop optimizer": "SGD is fused, which takes no temporaries",
        "flash attention": "the program does not call scaled_dot_product_attention",
        "forward under autocast to bf16": "the program scales gradients of fp16 (GradScaler)",
        "checkpointed blocks": "the program checkpoints already",
        "weights in bf16": "the program scales gradients of fp16 (GradScaler)",
        "gradients gone before forward": "the program fails with it: exit code 1, AssertionError: kept"}
    assert answer["changes"] == []


def test_a_program_that_fails_as_it_is_says_so(tmp_path):
    said = fit(tmp_path, "import torch\ntorch.ones(9, device='cuda')\nraise KeyError('missing')", "--device", "sim:l4")
    assert said.returncode == 1
    assert said.stdout == ""
    assert "KeyError: 'missing'" in said.stderr and "the program fails as it is, without a change" in said.stderr


def test_options_of_a_run_are_refused_beside_a_program(tmp_path):
    for options, words in {("--batch", "4"): "--batch is of memtrace's own model",
                           ("--run", "1"): "--run is about a run of the trace",
                           ("--device", "cuda"): "is simulated"}.items():
        said = fit(tmp_path, "", *options)
        assert said.returncode in (2, 4) and said.stdout == ""
