"""Values that a dry run does not compute: known or unknown is a property that survives copies, and what is assumed is consistent."""
import json

from test_dry_run import dry  # noqa: F401

COPIES = """
import numpy, torch
n = 600_000
x = torch.randn(n, device="cuda")  # too large to be computed
mask = x > 0
host = mask.cpu()
print("masks", len(torch.arange(n, device="cuda")[mask]), len(torch.arange(n)[host]), int(mask.sum()), int(host.sum()), host.numpy().sum())
print("negated", len(x[~mask]), len(x.cpu()[~host]), len(x.cpu()[torch.cat([host, ~host])[:n]]))
print("checks", *(check(y).any().item() for y in (x, x.cpu()) for check in (torch.isnan, torch.isinf)),
      *(torch.isfinite(y).all().item() for y in (x, x.cpu())))
copies = [x.sum(), x.cpu().sum(), x.cpu().pin_memory().cuda().sum(), x.cpu().double().clone().sum(), torch.stack([x.cpu(), x.cpu()]).sum()]
print("sums", [y.item() < 1.1 for y in copies])
loss = x.mean()
print("equal", loss.item() == loss.cpu().item() == loss.cpu().cuda().item() == loss.tolist() == float(loss.cpu().numpy()))
losses = [x.mean().item() for _ in range(4)]
print("shrinks", [a > b for a, b in zip(losses, losses[1:])])
none = (~mask).nonzero().squeeze(-1)  # as the tokens of an expert that gets none
print("none", [y.shape for y in (none, torch.zeros(9, device="cuda").index_add_(0, none, x[none]),
                                 torch.ones(9, 2, device="cuda").index_reduce(0, none, x.new_ones(0, 2), "amax"))])
print("signs", (x @ -x).item() < 0, (x.neg().cpu() @ x.cpu()).item() < 0)
buffer = torch.zeros(10)
buffer[3] = loss
print("buffer", buffer.cuda().cpu()[0].item())
host.zero_()
print("written", host.sum().item(), torch.ones(3).cuda().sum().cpu().item())
for _ in range(3):
    while x.norm() > 1e-3:
        x = x * 0.5
print("never reached")
"""


def test_values_that_were_not_computed_are_consistent_in_each_copy_and_end_an_endless_loop(dry):  # noqa: F811
    said = dry.run(COPIES)
    assert said.stdout.splitlines() == [
        "masks 600000 600000 600000 600000 600000",
        "negated 0 0 600000",
        "checks False False False False True True",
        "sums [True, True, True, True, True]",
        "equal True",
        "shrinks [True, True, True]",
        "none [torch.Size([0]), torch.Size([9]), torch.Size([9, 2])]",
        "signs True True",
        "buffer 0.0",
        "written 0 3.0",
    ]
    lines = COPIES.splitlines()
    endless = next(number for number, line in enumerate(lines, 1) if "while" in line)
    assumed = dict(dry.rows("SELECT line, count FROM caveat WHERE kind = 'assumed' AND name = 'a number'"))
    assert assumed[endless] == 1000
    assert not any(assumed.get(number) for number, line in enumerate(lines, 1) if "written" in line)
    assert dry.rows("SELECT ended_by FROM run") == [("values",)]
    assert f"shortened: loop that reads values which were not computed (program.py:{endless}) after 1000 iterations; --steps all" in said.stderr


def test_a_loop_that_such_values_keep_up_is_left_after_ten_iterations(dry):  # noqa: F811
    """Also in a function of a library, as a sampler that rejects in torch.nn.init."""
    package = dry.folder / "site-packages" / "sampling"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("""
import torch
def sample(x):
    rounds = 0
    while True:
        mask = (x < -2) | (x > 2)
        if not mask.any():
            break
        x = torch.where(mask, torch.empty_like(x).normal_(), x)
        rounds += 1
    return rounds
""")
    said = dry.run("""
import sys, torch
sys.path.insert(0, "site-packages")
from sampling import sample
x = torch.randn(1000, 1000, device="cuda")
halvings = 0
while x.norm() > 1e-3:
    x, halvings = x * 0.5, halvings + 1
print(halvings, sample(x), sample(x))
""")
    assert said.stdout == "10 10 10\n" and dry.rows("SELECT ended_by FROM run") == [("program",)]
    assert dry.rows("SELECT line, count FROM caveat WHERE kind = 'shortened'") == [(7, 10)]


def test_tokens_of_a_router_are_spread_evenly_over_its_experts(dry):  # noqa: F811
    said = dry.run("""
import torch
scores = torch.randn(1 << 20, 8, device="cuda") @ torch.randn(8, 8, device="cuda")
chosen = scores.topk(3, dim=1).indices
routed = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, chosen, True)
counts = routed.sum(dim=0)
print(counts.tolist(), routed.scatter(1, chosen[:, :1], False).sum().item())
counts[0] += 5
print(torch.arange(8, device="cuda").repeat_interleave(counts, output_size=3 << 20).shape[0])
print(torch.histc(scores, 8).tolist())
""")
    assert said.stdout.splitlines() == [f"{[3 << 17] * 8} {2 << 20}", str(3 << 20), str([float(1 << 20)] * 8)]
    assert "repeat_interleave" not in said.stderr


MASKED = """
import torch
from torch import nn
net = nn.Linear(1024, 1024).cuda()
x = torch.randn(2048, 1024, device="cuda")
scores = net(x)[:, 0]
kept = x[scores > 0]
print(len(kept))
kept @ x.T
"""


def test_several_values_are_assumed_one_after_the_other_and_the_verdict_has_the_peaks(dry):  # noqa: F811
    said = dry.run(MASKED, "--assume", "none,2,25%")
    assert said.stdout == "0\n"  # of the first value
    lines = said.stderr.splitlines()
    assert any(line.startswith("memtrace: the peak of live memory depends on the assumed values: ") and line.endswith(" (25%)")
               for line in lines)
    assert " fits, " in lines[-1]
    answer = json.loads(dry.run(MASKED, "--assume", "none,2,25%", "--json").stdout)
    assert [row["assumed"] for row in answer["assumptions"]] == ["none", "2", "25%"]
    none, whole, quarter = (row["live"] for row in answer["assumptions"])
    assert none < quarter < whole == answer["live"]
    assert len(dry.rows("SELECT id FROM run")) == 6
    assert "the peak does not depend on the assumed values: 0.5, 2" in dry.run(MASKED, "--assume", "0.5,2").stderr
    dry.run(MASKED, "--assume", "half", code=2)


LBFGS = """
import torch
from torch import nn
for search in (None, "strong_wolfe"):
    net = nn.Sequential(nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 512)).cuda()
    optimizer = torch.optim.LBFGS(net.parameters(), history_size=8, line_search_fn=search)
    inputs, wanted, calls = torch.randn(256, 512).cuda(), torch.randn(256, 512).cuda(), 0
    def closure():
        global calls
        calls += 1
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(inputs), wanted)
        loss.backward()
        return loss
    for _ in range(2):
        optimizer.step(closure)
    state = optimizer.state[optimizer._params[0]]
    print(calls, state["n_iter"], len(state["old_dirs"]))
weight = torch.randn(1000, 1000, device="cuda", requires_grad=True)
for step in range(30):  # an update of the program's own
    loss = (weight @ weight).sum()
    loss.backward()
    with torch.no_grad():
        weight -= 1e-3 * weight.grad
        weight.grad = None
print(step, loss.item() < 1)
"""


def test_lbfgs_makes_as_many_iterations_as_with_values(dry):  # noqa: F811
    assert dry.run(LBFGS, "--steps", "all").stdout.splitlines() == ["40 40 8", "42 40 8", "29 True"]
