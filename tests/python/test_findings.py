"""What advise finds in programs that need more memory than they would have to, each after a kind of public report: the cause, the
bytes, the line that allocates them and the change, as JSON."""
import base64
import json
import os
import re
import subprocess
import sys
import textwrap
import zlib

import pytest
import torch
from memtrace._library import find_program
from memtrace.recording.not_updated import Needless, merged

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

MIB = 1 << 20

IDLE = """
import copy, torch
from torch import nn
from torch.nn import functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.unused = nn.Linear(1024, 4096), nn.Linear(4096, 8192), nn.Linear(1024, 4096)
    def forward(self, x):
        return self.last(self.first(x).relu())
torch.save(Net().state_dict(), "net.pt")
net = Net().cuda()
state = torch.load("net.pt", map_location="cuda")
net.load_state_dict(state)
average = copy.deepcopy(net)
optimizer = torch.optim.SGD(net.parameters())
for _ in range(4):
    x = torch.randn(4096, 1024, device="cuda")
    logits = net(x)
    loss = F.cross_entropy(logits, torch.randint(8192, (4096,), device="cuda"))
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for old, new in zip(average.parameters(), list(net.parameters())[:4]):
            old.lerp_(new, 0.01)
    optimizer.zero_grad()
"""

ONE_SEGMENT = """
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.lora_dropout = nn.Linear(512, 512), nn.ModuleDict({"default": nn.Dropout(0.1)})
    def forward(self, x):
        return x + self.up(self.lora_dropout["default"](x)).sin()
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*[Block() for _ in range(8)])
    def forward(self, x):
        return checkpoint(self.blocks, x, use_reentrant=False)
net = Net().cuda()
optimizer = torch.optim.SGD(net.parameters())
for _ in range(3):
    x = torch.randn(8192, 512, device="cuda", requires_grad=True)
    net(x).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""

RANKS = """
import os, sys, torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
dist.init_process_group("nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
net = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
if sys.argv[1] in ("ddp", "views"):
    net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=sys.argv[1] == "views")
else:
    for layer in net if sys.argv[1] == "kept" else ():
        fully_shard(layer, reshard_after_forward=False)
    fully_shard(net)
optimizer = torch.optim.Adam(net.parameters(), foreach=True)
for _ in range(3):
    loss = net(torch.randn(8, 1024, device="cuda")).sum()
    if sys.argv[1] == "views":
        optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if sys.argv[1] != "views":
        optimizer.zero_grad()
"""

# Fragments that no later request fits into: each block that stays lies between two that go.
GAPS = """
import torch
kept = []
for mib in range(21, 61):
    free = torch.empty(mib << 20, dtype=torch.uint8, device="cuda")
    kept.append(torch.empty(2 << 20, dtype=torch.uint8, device="cuda"))
    del free
"""


def advise(folder, program, *words, launcher=(), options=()):
    """Runs a program dry and returns what advise says of it."""
    (folder / "program.py").write_text(textwrap.dedent(program))
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}

    def memtrace(*given):
        return subprocess.run([find_program(), *given], cwd=folder, env=kept, check=True, capture_output=True, text=True).stdout

    memtrace("dry-run", "--device", "sim:h100", *options, "--", *(launcher or [sys.executable]), "program.py", *words)
    return json.loads(memtrace("advise", "--json"))


def line_of(program, part):
    """Returns the line of a program that has a part, as findings name it."""
    return f"program.py:{next(number for number, line in enumerate(program.splitlines(), 1) if part in line)}"


def by_change(answer):
    return {one["change"]: one for one in answer["observations"]}


def test_memory_that_no_step_reads_is_found_with_its_line(tmp_path):
    answer = advise(tmp_path, IDLE)
    found = {(one["pattern"], one["allocated_at"]): one for one in answer["findings"]}
    checkpoint = found["late free", line_of(IDLE, "torch.load")]
    weights = 4 * (2 * 1024 * 4096 + 4096 * 8192 + 2 * 4096 + 8192)
    assert weights <= checkpoint["bytes"] < 1.01 * weights and "del the variable" in checkpoint["hint"]
    assert (checkpoint["holder"]["name"], checkpoint["holder"]["line"]) == ("state", 13)
    copies = [one["holder"]["name"] for one in answer["observations"] if one["detector"] == "copy of the weights"]
    assert copies == ["average"]  # and not the checkpoint
    average = found["idle between uses", line_of(IDLE, "copy.deepcopy")]
    assert 48 * MIB <= average["bytes"] < weights and "on the host" in average["hint"]
    logits = found["late free", line_of(IDLE, "return self.last")]
    assert logits["saved_bytes"] == 128 * MIB and logits["hint"] == checkpoint["hint"]
    head = found["late free", line_of(IDLE, "net = Net().cuda()")]
    assert 16 * MIB <= head["bytes"] < 17 * MIB and "no step" in head["hint"]
    assert answer["knows_uses"] and ("checkpoint on the card", "map_location") in {
        (one["detector"], one["change"]) for one in answer["observations"]}


def test_one_segment_over_all_blocks_and_dropout_of_lora_are_found(tmp_path):
    found = by_change(advise(tmp_path, ONE_SEGMENT))
    assert found["checkpoint each block"]["bytes"] >= 8 * 2 * 16 * MIB
    assert found["checkpoint each block"]["allocated_at"] == line_of(ONE_SEGMENT, "return x + self.up")
    assert found["lora_dropout=0"]["bytes"] >= 8 * 16 * MIB


def launch(tmp_path, kind):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    return advise(tmp_path, RANKS, kind, launcher=torchrun, options=["--only", "0"])


def test_buckets_of_ddp_and_temporaries_of_foreach_are_found(tmp_path):
    answer = launch(tmp_path, "ddp")
    found = by_change(answer)
    assert all(one["change"] != "optimizer in backward" for one in answer["changes"])  # a parameter's hook runs before its bucket
    weights = 8 * 4 * (1024 * 1024 + 1024)
    assert found["gradient_as_bucket_view"]["allocated_at"] == line_of(RANKS, "DistributedDataParallel(net")
    assert weights <= found["gradient_as_bucket_view"]["bytes"] < 1.1 * weights
    assert weights <= found["fused or foreach=False"]["bytes"] < 1.1 * weights


def test_gradients_that_are_views_of_a_bucket_have_no_memory_of_their_own(tmp_path):
    """In the second forward, while DDP makes its buckets again, the gradients of the first step are still there."""
    assert "gradient_as_bucket_view" not in by_change(launch(tmp_path, "views"))


@pytest.mark.parametrize("kind, change", [("fsdp", "fully_shard of blocks"), ("kept", "reshard_after_forward")])
def test_weights_that_are_gathered_all_at_once_are_found(tmp_path, kind, change):
    answer = launch(tmp_path, kind)
    assert by_change(answer)[change]["bytes"] >= 8 * 4 * 1024 * 1024
    assert all(one["change"] != "half the micro-batch" for one in answer["changes"])  # gradients have the sizes of gathered weights


def test_gaps_between_blocks_are_mended_by_expandable_segments(tmp_path):
    answer = advise(tmp_path, GAPS)
    assert answer["findings"][0]["pattern"] == "fragmentation"
    assert answer["findings"][0]["hint"].endswith("expandable_segments:True")
    assert answer["observations"] == []


def test_scores_of_attention_are_found_with_their_line(tmp_path):
    program = """
import torch
from torch import nn
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(256, 3 * 256)
    def forward(self, x):
        q, k, v = self.qkv(x).view(2, 1024, 3, 8, 32).permute(2, 0, 3, 1, 4)
        return ((q @ k.transpose(-2, -1)).softmax(-1) @ v).transpose(1, 2).flatten(2)
net = nn.Sequential(Attention(), Attention()).cuda()
optimizer = torch.optim.SGD(net.parameters())
for _ in range(3):
    net(torch.randn(2, 1024, 256, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    found = by_change(advise(tmp_path, program))["scaled_dot_product_attention"]
    assert found["bytes"] >= 2 * 8 * 1024 * 1024 * 4 and found["allocated_at"] == line_of(program, "softmax")


def test_layers_that_differ_in_their_number_are_one_row():
    rows = [Needless(f"net.layers.{layer}.base", "lora.py", 3, 2, 10) for layer in range(8)]
    teacher = Needless("teachers.0", "lora.py", 5, 1, 7)
    assert list(merged([*rows, teacher])) == [Needless("net.layers.*.base", "lora.py", 3, 16, 80), teacher]


def test_gradients_that_no_optimizer_uses_are_found_with_the_variable_of_the_module(tmp_path):
    """Of a teacher, and of a frozen part of the model; not of a module that the program updates without an optimizer."""
    answer = advise(tmp_path, """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()), nn.Linear(1024, 1024)
    def forward(self, x):
        return self.head(self.encoder(x))
net, teacher, own = Net().cuda(), nn.Linear(1024, 1024).cuda(), nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(net.head.parameters(), 0.1)
for _ in range(4):
    x = torch.randn(64, 1024, device="cuda")
    (net(x) - teacher(x) + own(x)).pow(2).mean().backward()
    optimizer.step()
    with torch.no_grad():
        for parameter in own.parameters():
            parameter -= 0.1 * parameter.grad
    net.zero_grad()
""")
    found = {one["name"]: one for one in answer["observations"] if one["change"] == "freeze"}
    assert {name: one["bytes"] for name, one in found.items()} == {"net.encoder": 1025 * 4096, "teacher": 1025 * 4096}
    assert {one["line"] for one in found.values()} == {10}
    assert [one["how"] for one in remedies_of_page(tmp_path)][:2] == 2 * [remedy_printed_first(tmp_path)]


def remedy_printed_first(folder):
    """Returns the first line that advise tells to write."""
    printed = subprocess.run([find_program(), "advise"], cwd=folder, check=True, capture_output=True, text=True).stdout
    return printed.split("→ ", 1)[1].split("\n\n")[0].replace("\n", " ")


def remedies_of_page(folder):
    """Returns the remedies on the timeline page, in its order."""
    page = subprocess.run([find_program(), "timeline", "-o", "-"], cwd=folder, check=True, capture_output=True, text=True).stdout
    chunk = re.search(r'id="answers-chunk-0">([^<]*)<', page).group(1)
    return json.loads(zlib.decompress(base64.b64decode(chunk)))["what_if"]["remedies"]


def test_the_first_remedy_of_a_loop_that_fills_the_card_is_the_loop(tmp_path):
    (tmp_path / "program.py").write_text("""
import torch
from torch import nn
net = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(net.parameters())
total = 0
while True:
    loss = net(torch.randn(1024, 1024, device="cuda")).square().mean()
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    total = total + loss
""")
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    ran = subprocess.run([find_program(), "dry-run", "--device", "sim:1GiB", "--steps", "all", "--", sys.executable, "program.py"],
                         cwd=tmp_path, env=kept, capture_output=True, text=True)
    assert ran.returncode == 5, ran.stderr
    printed = subprocess.run([find_program(), "oom"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    first = remedies_of_page(tmp_path)[0]
    assert "total (program.py:" in first["what"]
    assert f"first remedy: {first['how']}." in " ".join(printed.split())


def test_batches_copied_ahead_and_a_list_of_losses_have_remedies_of_their_own(tmp_path):
    program = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU()).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
batches, history = [torch.randn(512, 1024).cuda() for _ in range(32)], []
for batch in batches:
    loss = net(batch).pow(2).mean()
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    history.append(loss)
"""
    findings = advise(tmp_path, program, options=["--steps", "10"])["findings"]
    ahead = next(one for one in findings if one["pattern"] == "dead write")
    assert ahead["allocated_at"] == line_of(program, "batches, history") and "fewer batches in flight" in ahead["hint"]
    assert ahead["bytes"] >= 20 * 2 * MIB and ahead["holder"]["name"] == "batches"
    grown = [one for one in findings if one["pattern"] == "leak across steps"]
    assert grown and all(one["hint"].startswith("history (program.py:12) keeps a reference") for one in grown), grown


def test_dense_gradients_of_huge_tables_are_found_and_sparse_ones_avoid_them(tmp_path):
    program = """
import sys, torch
from torch import nn
sparse = sys.argv[1] == "sparse"
users, words = nn.Embedding(1 << 20, 32, sparse=sparse).cuda(), nn.Embedding(1 << 15, 512).cuda()
optimizer = (torch.optim.SparseAdam if sparse else torch.optim.Adam)(users.parameters())
others = torch.optim.SGD(words.parameters(), 0.1)
for _ in range(3):
    rows = torch.randint(1 << 15, (64,), device="cuda")
    (users(rows).sum() + words(rows).sum()).backward()
    for one in (optimizer, others):
        one.step()
        one.zero_grad()
"""
    answers = {kind: by_change(advise(tmp_path, program, kind)) for kind in ("dense", "sparse")}
    assert answers["dense"]["sparse=True"]["bytes"] == 128 * MIB  # of users alone
    assert answers["dense"]["sparse=True"]["allocated_at"] == line_of(program, "backward()")
    assert "sparse=True" not in answers["sparse"]


def test_a_whole_jacobian_is_found_and_products_with_it_are_not(tmp_path):
    program = """
import sys, torch
from torch import nn
from torch.func import functional_call, jacrev, jvp, vmap
net = nn.Linear(256, 64).cuda()
weights, x = {name: one.detach() for name, one in net.named_parameters()}, torch.randn(32, 256, device="cuda")
def compute(weights, x):
    return functional_call(net, weights, (x,))
if sys.argv[1] == "whole":
    result = vmap(jacrev(compute), (None, 0))(weights, x)
else:
    result = jvp(lambda weights: compute(weights, x), (weights,), (weights,))
"""
    found = {kind: by_change(advise(tmp_path, program, kind)) for kind in ("whole", "product")}
    assert found["whole"]["torch.func.jvp"]["bytes"] >= 32 * 64 * 64 * 256 * 4
    assert found["whole"]["torch.func.jvp"]["allocated_at"] == line_of(program, "result = vmap")
    assert "torch.func.jvp" not in found["product"]


def test_a_validation_that_takes_more_than_training_is_found_and_one_that_takes_less_is_not(tmp_path):
    program = """
import sys, torch
from torch import nn
net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def validate(batch):
    net.eval()
    with torch.no_grad():
        for _ in range(4):
            net(torch.randn(batch, 1024, device="cuda"))
    net.train()
for _ in range(4):
    net(torch.randn(512, 1024, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
validate(int(sys.argv[1]))
"""
    found = by_change(advise(tmp_path, program, "16384"))["smaller evaluation batch"]
    assert (found["detector"], found["program_phase"]) == ("peak outside training", "validate")
    assert found["bytes"] >= 2 * 16384 * 4096 * 4 and found["allocated_at"] == line_of(program, "net(torch.randn(batch")
    assert by_change(advise(tmp_path, program, "512")) == {}


def test_data_made_before_the_first_step_is_no_growth_of_the_data_that_replaces_it(tmp_path):
    """A GAN: its two optimizers have two steps an iteration, so the first iteration's data is there at the end of two steps."""
    answer = advise(tmp_path, """
import torch
from torch import nn
g, d = nn.Linear(64, 1024).cuda(), nn.Linear(1024, 1).cuda()
optimizers = [torch.optim.SGD(one.parameters(), 0.1) for one in (d, g)]
for _ in range(5):
    real, noise = torch.randn(1024, 1024, device="cuda"), torch.randn(1024, 64, device="cuda")
    for optimizer, sign in zip(optimizers, (1, -1)):
        optimizer.zero_grad()
        (d(g(noise)).mean() * sign - d(real).mean()).backward()
        optimizer.step()
""", options=["--steps", "all"])
    assert answer["observations"] == [] and all(one["pattern"] != "leak across steps" for one in answer["findings"])


def test_one_graph_zeroed_gradients_and_an_evaluation_with_graphs_are_found(tmp_path):
    program = """
import torch
from torch import nn
net = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def train():
    total = 0
    for _ in range(6):
        total = total + net(torch.randn(1024, 1024, device="cuda")).mean()
    optimizer.zero_grad(set_to_none=False)
    total.backward()
    optimizer.step()
def evaluate():
    for _ in range(4):
        output = net(torch.randn(16384, 1024, device="cuda"))
for _ in range(4):
    train()
evaluate()
"""
    found = by_change(advise(tmp_path, program, options=["--steps", "all"]))
    graph = found["backward in each iteration"]
    assert (graph["detector"], graph["holder"]["name"], graph["line"]) == ("one graph", "total", 9)
    zeroed = found["set_to_none=True"]
    assert (zeroed["detector"], zeroed["name"], zeroed["bytes"]) == ("gradients set to zero", "SGD", 4 * 1025 * 4096)
    unread = found["no_grad"]
    assert (unread["detector"], unread["name"], unread["line"]) == ("graph without backward", "evaluate", 15)
    assert unread["bytes"] >= 8 * 16384 * 4096


def test_a_validation_in_training_mode_and_models_in_a_list_are_found(tmp_path):
    program = """
import copy, torch
from torch import nn
net = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
snapshots = []
for epoch in range(8):
    for _ in range(3):
        net(torch.randn(1024, 1024, device="cuda")).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    total = 0
    for _ in range(12):
        total += net(torch.randn(1024, 1024, device="cuda")).mean()
    del total
    snapshots.append(copy.deepcopy(net))
"""
    answer = advise(tmp_path, program)
    graphs, models = by_change(answer)["no_grad"], by_change(answer)["move to host"]
    assert (graphs["detector"], graphs["program_phase"], graphs["holder"]["name"]) == ("kept graphs", "validate", "total")
    assert (graphs["line"], graphs["bytes"]) == (14, 8 * 4 * MIB)
    assert (models["detector"], models["holder"]["name"], models["holder"]["line"]) == ("kept tensors", "snapshots", 16)
    printed = remedy_printed_first(tmp_path)
    assert "micro-batch" not in printed and "checkpoint" not in printed


def test_a_graph_that_is_retained_precedes_what_makes_a_step_smaller(tmp_path):
    program = """
import torch
from torch import nn
net = nn.Sequential(*[nn.Sequential(nn.Linear(1024, 1024), nn.GELU()) for _ in range(8)]).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
last = None
for _ in range(4):
    output = net(torch.randn(4096, 1024, device="cuda"))
    loss = output.pow(2).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    last = output
"""
    advise(tmp_path, program, options=["--steps", "all"])
    assert remedy_printed_first(tmp_path).startswith("keep only the value in last (program.py:13), with tensor.detach(), and leave out "
                                                     "retain_graph=True")


def test_logits_are_the_cause_also_where_the_run_ends_before_their_loss(tmp_path):
    (tmp_path / "program.py").write_text("""
import torch
from torch import nn
net = nn.Sequential(nn.Embedding(50_000, 64), nn.Linear(64, 50_000)).cuda().half()
with torch.no_grad():
    net(torch.zeros(4096, dtype=torch.long, device="cuda")).float()
""")
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    subprocess.run([find_program(), "dry-run", "--device", "sim:h100:1GiB", "--", sys.executable, "program.py"],
                   cwd=tmp_path, env=kept, capture_output=True)
    said = subprocess.run([find_program(), "oom", "--json"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    logits = by_change(json.loads(said))["sliced loss"]
    assert (logits["detector"], logits["shape"], logits["bytes"]) == ("logits", "4096,50000", 4096 * 50_000 * 2)


def test_activations_of_a_module_whose_name_begins_as_the_embedding_s_are_no_logits(tmp_path):
    program = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.expand = nn.Embedding(64, 256), nn.Linear(256, 50000)
    def forward(self, tokens):
        return self.expand(self.e(tokens)).relu().mean()
net = Net().cuda()
net(torch.zeros(4096, dtype=torch.long, device="cuda")).backward()
"""
    assert "logits" not in {one["detector"] for one in advise(tmp_path, program)["observations"]}


def test_an_exceptions_frame_one_hot_labels_and_gradients_set_by_hand_are_found(tmp_path):
    """The exception is the program's own, and the fp32 copies that the optimizer updates belong to no module."""
    program = """
import torch
from torch import nn
net = nn.Linear(1024, 4096).cuda().half()
copies = [one.detach().float().requires_grad_() for one in net.parameters()]
optimizer = torch.optim.Adam(copies)
def attempt(batch):
    logits = net(torch.randn(batch, 1024, device="cuda", dtype=torch.half))
    if batch > 2048:
        raise ValueError("too many")
    labels = nn.functional.one_hot(torch.randint(4096, (batch,), device="cuda"), 4096)
    (labels * logits.log_softmax(-1)).mean().backward()
    for copy, one in zip(copies, net.parameters()):
        copy.grad, one.grad = one.grad.float(), None
    optimizer.step()
try:
    attempt(4096)
except ValueError:
    for _ in range(3):
        attempt(2048)
"""
    answer = advise(tmp_path, program)
    found = by_change(answer)
    assert found["leave the except block"]["holder"]["name"] == "frame of attempt"
    labels = found["class indices"]
    assert (labels["detector"], labels["bytes"]) == ("one-hot labels", 2048 * 4096 * 8)
    assert labels["allocated_at"] == line_of(program, "one_hot")
    gradients = [one for one in answer["findings"] if one["pattern"] == "gradients in forward"]
    assert [one["bytes"] for one in gradients] == [1025 * 4096 * 4]


def test_a_backward_inside_autocast_keeps_the_copies_of_its_cache(tmp_path):
    program = """
import sys, torch
from torch import nn
net = nn.Sequential(*[nn.Linear(2048, 2048, bias=False) for _ in range(4)]).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.float16, cache_enabled=sys.argv[1] == "cached"):
        net(torch.randn(64, 2048, device="cuda")).float().square().mean().backward()
    optimizer.step()
"""
    cached = by_change(advise(tmp_path, program, "cached"))["backward outside autocast"]
    assert (cached["detector"], cached["bytes"]) == ("casts in autocast's cache", 4 * 2048 * 2048 * 2)
    costly = by_change(advise(tmp_path, program, "not cached"))["larger batch under autocast"]
    assert costly["bytes"] == 3 * 2048 * 2048 * 2 + 64 * 2048 * 2  # backward does not need the first weight


BROADCAST = """
import torch
from torch import nn
class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.centers = nn.Linear(64, 32), nn.Parameter(torch.randn(512, 32))
    def forward(self, x):
        return (self.embed(x).unsqueeze(1) - self.centers).pow(2).sum(-1)
pairs = Pairs().cuda()
for _ in range(2):
    pairs(torch.randn(1024, 64, device="cuda")).mean().backward()
"""

REPEATED = """
import torch
from torch import nn
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.bank = nn.Parameter(torch.randn(512, 64))
    def forward(self, x):
        return torch.bmm(self.bank.unsqueeze(0).repeat(len(x), 1, 1), x.unsqueeze(-1))
reader = Reader().cuda()
for _ in range(2):
    reader(torch.randn(2048, 64, device="cuda", requires_grad=True)).mean().backward()
"""

EXPANDED = """
import torch
from torch import nn
class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.value = nn.Linear(32, 32)
    def forward(self, x, mask):
        mask = mask[:, None, :].expand(-1, x.shape[1], -1).contiguous().float()
        return (1 - mask).mul(-1e4).softmax(-1) @ self.value(x)
masked = Masked().cuda().eval()
with torch.no_grad():
    for _ in range(2):
        masked(torch.randn(4, 1024, 32, device="cuda"), torch.ones(4, 1024, dtype=torch.bool, device="cuda"))
"""

DISTANCES = """
import torch
bank = torch.randn(8192, 64, device="cuda")
for _ in range(2):
    print(torch.cdist(torch.randn(4096, 64, device="cuda"), bank).topk(3, largest=False).values.shape)
"""

LOGITS = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(16, 64), nn.Linear(64, 8192)).cuda()
for _ in range(2):
    logits = net(torch.randn(4096, 16, device="cuda"))
    nn.functional.cross_entropy(logits, torch.randint(8192, (4096,), device="cuda")).backward()
"""

DOUBLES = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1)).double().cuda()
for _ in range(2):
    net(torch.randn(8192, 256, device="cuda", dtype=torch.float64)).mean().backward()
"""

ONE_FORWARD = """
import torch
from torch import nn
net = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.Upsample(scale_factor=2), nn.Conv2d(32, 3, 3, padding=1)).cuda()
with torch.no_grad():
    print(net(torch.randn(16, 3, 64, 64, device="cuda")).mean().item())
"""

SCALED = """
import torch
from torch import nn
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.bias = nn.Linear(64, 2048), nn.Linear(2048, 64), nn.Parameter(torch.ones(2048))
    def forward(self, x):
        return self.down((self.up(x) + self.bias).mul(2))
net = Scaled().cuda()
for _ in range(2):
    net(torch.randn(2048, 64, device="cuda")).mean().backward()
"""


@pytest.mark.parametrize(
    ("program", "kind", "change", "bytes_", "line"),
    [
        (BROADCAST, "broadcasting", "smaller intermediate", 3 * 64 * MIB, "return (self"),
        (REPEATED, "repeated tensor", "expand", 256 * MIB, "return torch"),
        (EXPANDED, "repeated tensor", "expand", 2 * 16 * MIB, "mask = mask"),
        (DISTANCES, "all pairs", "parts of the rows", 128 * MIB, "print"),
        (LOGITS, "logits", "sliced loss", 2 * 128 * MIB, "logits = net"),
        (DOUBLES, "float64", "float32", 64 * MIB, "net(torch"),
        (ONE_FORWARD, "one forward pass", "slice the batch", 32 * MIB, "print"),
    ],
)
def test_the_tensor_that_is_most_of_the_peak_is_named(tmp_path, program, kind, change, bytes_, line):
    answer = advise(tmp_path, program)
    found = next(one for one in answer["observations"] if one["detector"] == kind)
    assert found["change"] == change and found["bytes"] >= bytes_
    assert found["allocated_at"] == line_of(program, line)


def test_a_result_as_large_as_its_input_is_not_broadcasting(tmp_path):
    answer = advise(tmp_path, SCALED)
    assert [one["detector"] for one in answer["observations"]] == []
    assert answer["largest"]["bytes"] >= 16 * MIB and answer["largest"]["shape"] == "2048,2048"


CAT = """
import torch
from torch import nn
embed = nn.Linear(64, 1024).cuda()
def embed_all():
    features = torch.empty(0, 1024, device="cuda")
    for _ in range(40):
        with torch.no_grad():
            features = torch.cat([features, embed(torch.randn(1024, 64, device="cuda"))])
        torch.cuda.empty_cache()
    return features
print(embed_all().shape)
"""


def test_features_that_grow_by_cat_are_no_key_value_cache_and_replays_empty_the_cache(tmp_path):
    answer = advise(tmp_path, CAT)
    assert by_change(answer)["move to host"]["holder"]["name"] == "features"
    assert [one["detector"] for one in answer["observations"]] == ["kept tensors"]
    assert answer["replayed"]["reserved_bytes"] == answer["peak"]["reserved_bytes"]
    assert answer["left_out"] == []  # no gradients, as there is no backward


EPOCHS = """
import torch
from torch import nn
net = nn.Linear(64, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters())
def run_epoch():
    outputs = []
    for _ in range(10):
        out = net(torch.randn(1024, 64, device="cuda"))
        out.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        outputs.append(out.detach())
    print(torch.cat(outputs).mean().item())
for _ in range(2):
    run_epoch()
"""

DECODER = """
import torch
from torch import nn
class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.key, self.head = nn.Linear(256, 256), nn.Linear(256, 256)
    def forward(self, x, past):
        keys = torch.cat([past, self.key(x)], 1)
        return self.head(keys.mean(1, keepdim=True)), keys
decoder = Decoder().cuda()
def generate(x):
    past = torch.empty(64, 0, 256, device="cuda")
    for _ in range(24):
        x, past = decoder(x, past)
    return x.argmax(-1).cpu()
with torch.no_grad():
    print(generate(torch.randn(64, 1, 256, device="cuda")).shape)
"""


NUMBERS = """
import torch
from torch import nn
net = nn.Linear(64, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters())
history = []
for _ in range(10):
    loss = net(torch.randn(1024, 64, device="cuda")).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    history.append(loss.detach())
"""


@pytest.mark.parametrize(("program", "passes"), [(EPOCHS, False), (DECODER, True), (NUMBERS, True)])
def test_the_gate_for_leaks_stops_a_list_of_an_epoch_but_neither_a_cache_of_one_sequence_nor_losses(tmp_path, program, passes):
    advise(tmp_path, program)
    result = subprocess.run([find_program(), "check", "--no-leaks"], cwd=tmp_path, capture_output=True, text=True)
    assert (result.returncode == 0) is passes, result.stdout
    assert passes or "outputs in run_epoch" in result.stdout
    assert (" B a step, too little to matter: " in result.stdout) is (program is NUMBERS)


HISTORY = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(1024, 2048), nn.Linear(2048, 1)).cuda()
optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2)
x = torch.randn(64, 1024, device="cuda")
def closure():
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    return loss
for _ in range(2000):
    optimizer.step(closure)
"""


def test_the_history_of_lbfgs_ends_before_it_fills_the_card(tmp_path):
    answer = advise(tmp_path, HISTORY)
    found = by_change(answer)["history_size"]
    assert found["detector"] == "kept tensors" and found["full_at"] is None
    runs = json.loads(subprocess.run([find_program(), "runs", "--json"], cwd=tmp_path, capture_output=True, text=True).stdout)
    assert "until iteration" not in json.dumps(runs)
