"""Weights on the host in a dry run: written when somebody reads them, with the values that they would have had."""
import importlib.util
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")
needs_transformers = pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="there is no transformers")

# Each line prints what others would see of weights, or of random numbers after them. A card is used, since a dry run needs one.
VALUES = """
import copy, sys
import torch
from torch import nn
from torch.nn import init
if len(sys.argv) > 1:
    torch.ones(1, device="cuda")
torch.manual_seed(0)

def total(tensor):
    return tensor.detach().double().sum().item()

def filled(fill, *given, dtype=torch.float32, **named):
    weight = nn.Parameter(torch.empty(1001, 1003, dtype=dtype))
    fill(weight, *given, **named)
    return weight, torch.rand(1).item()

for fill in (init.normal_, init.uniform_, init.xavier_normal_, init.kaiming_uniform_, init.ones_, init.zeros_, init.orthogonal_,
             init.trunc_normal_):
    weight, after = filled(fill)
    print(fill.__name__, total(weight), after)
for dtype in (torch.float64, torch.float16, torch.bfloat16):
    for fill in (init.normal_, init.uniform_):
        weight, after = filled(fill, dtype=dtype)
        print(fill.__name__, dtype, total(weight), after)
own = torch.Generator().manual_seed(5)
print("generator", total(filled(init.normal_, generator=own)[0]), torch.rand(1, generator=own).item())
print("many numbers", total(nn.Linear(4000, 4001).weight), torch.rand(1).item())
print("of the data", total(filled(lambda weight: weight.data.exponential_())[0]), torch.rand(1).item())

one = nn.Linear(1024, 1024)
print("numpy", float(one.weight.detach().numpy().sum()), torch.equal(one.weight, one.weight.clone()), one.weight.norm().item())
print("list", sum(nn.Linear(1024, 1024).weight.data[0].tolist()), nn.Linear(1024, 1024).weight.untyped_storage()[5])
print("changed", total(filled(lambda weight: weight.data.normal_().mul_(2).add_(torch.tensor(1.0)))[0]), total(one.weight.data.mul_(2)))
one = nn.Linear(1024, 1024)
one.weight.data.uniform_().mul_(3).sub_(1).clamp_(-1, 1).abs_().neg_()
print("in place", total(one.weight), one.weight._version)

rows = nn.Embedding(3001, 257, padding_idx=3)
with torch.no_grad():
    rows.weight[:10].fill_(3)
    rows.weight[:, 5].zero_()
    rows.weight[20:30] = torch.arange(257.0)
print("rows", total(rows.weight[3]), total(rows.weight[5]), total(rows.weight[25]), total(rows.weight))

two = nn.Linear(2000, 2000)
saved, copied = copy.deepcopy(two.state_dict()), copy.deepcopy(two)
lower = copy.deepcopy(two).to(torch.bfloat16)
with torch.no_grad():
    two.weight.mul_(2)
print("copies", torch.equal(saved["weight"], copied.weight), total(two.weight), total(copied.weight), total(lower.weight))
copied.load_state_dict(two.state_dict())
print("loaded", torch.equal(two.weight, copied.weight))
average = torch.optim.swa_utils.AveragedModel(two)
average.update_parameters(copied)
print("average", total(average.module.weight))
data = torch.arange(2000.0).view(2, 1000)
pieces = nn.Linear(1000, 1000).weight.chunk(2)
print("pieces", total(pieces[0]), total(torch.cat(pieces)), total(torch.stack(pieces)[1]))
pieces = nn.Linear(1000, 1001).weight.detach().split([1, 1000])
print("joined", total(torch.cat(pieces, -2)), total(torch.stack([pieces[1], pieces[1]], -1)[5, 7]), total(torch.cat([pieces[1], data])))
shared = nn.Linear(1000, 1000)
shared.share_memory()
print("shared", total(shared.weight), shared.weight.is_shared(), shared.weight.new_tensor([1]).dtype, shared.weight.type())
try:
    nn.Parameter(torch.empty(1000, 1000)).normal_()
except RuntimeError as error:
    print(error)
data = torch.randn(1000, 1000)
weight = nn.Parameter(data)
print("data", total(data), total(weight.data.normal_()), total(data))
exposed = nn.Parameter(torch.empty(1000, 1000))
view = exposed.detach().numpy()
init.constant_(exposed, 2)
print("exposed", float(view.sum()))
print("convolution", total(nn.Conv2d(512, 512, 3)(torch.ones(1, 512, 8, 8))))
flat = torch.empty(2_000_000)
parts = [nn.Parameter(flat[:1_000_000]), nn.Parameter(flat[1_000_000:])]
for part in parts:
    part.data.normal_()
print("flat", total(flat))

model = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1025))
optimizer = torch.optim.AdamW(model.parameters())
inputs = torch.randn(8, 1024)
for _ in range(3):
    loss = model(inputs).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("loss", loss.item())
with torch.inference_mode():
    print("inference", total(nn.Linear(1024, 1024)(inputs)))
print("end", torch.rand(3).tolist(), torch.randn(17).tolist()[-1])
"""

LLAMA_70B = """
import resource
import torch
from transformers import LlamaConfig, LlamaForCausalLM

model = LlamaForCausalLM(LlamaConfig(
    vocab_size=128256, hidden_size=8192, intermediate_size=28672, num_hidden_layers=80, num_attention_heads=64, num_key_value_heads=8))
model = model.to(torch.bfloat16).to("cuda")
weights = sum(parameter.numel() for parameter in model.parameters())
assert weights > 70e9 and torch.cuda.memory_allocated() >= 2 * weights
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""

SAVED = """
import os
import torch
from torch import nn

weights = nn.Linear(8192, 8192)
torch.save(weights.state_dict(), "weights.pt")
assert os.path.getsize("weights.pt") < 100_000
loaded = nn.Linear(8192, 8192)
loaded.load_state_dict(torch.load("weights.pt"))
assert torch.equal(loaded.bias, weights.bias)
loaded.cuda()
print(torch.load("weights.pt")["weight"].sum().item())
"""

def test_values_on_the_host_are_those_of_a_run_without_memtrace(folder):
    dry = folder.dry(VALUES, "card")
    assert dry.returncode == 0, dry.stderr
    plain = subprocess.run([sys.executable, "-c", VALUES], cwd=folder.path, capture_output=True, text=True, check=True)
    assert dry.stdout.splitlines() == plain.stdout.splitlines()


@needs_transformers
def test_a_model_of_70_billion_weights_is_built_on_the_host(folder):
    dry = folder.dry(LLAMA_70B)
    assert dry.returncode == 0, dry.stderr
    assert int(dry.stdout) < 2 << 20  # KiB


def test_weights_that_nobody_wrote_are_saved_without_bytes(folder):
    dry = folder.dry(SAVED)
    assert dry.returncode == 0 and float(dry.stdout) == 0, dry.stderr
    assert folder.rows("SELECT name, line, count, value FROM caveat WHERE kind = 'assumed'") == [["a number", 13, 1, 0.0]]
