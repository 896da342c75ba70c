"""Commands that run a program dry many times: `fit`, with changes and what is said of those that can't be made, and `sweep`."""
import json
import os
import subprocess
import sys
import textwrap

import memtrace
import pytest
import torch
from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

# An optimizer imports torch._dynamo, which takes as long as torch. Here all runs of a command have one import of it, as of torch.
PROGRAM = """
import torch, torch._dynamo
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
assert net.blocks[0].up.weight.dtype == torch.float32, "not fp32"
"""


def command(folder, *words, **environment):
    """Runs a command in a folder, without the library that other tests take in the place of the one for PyTorch."""
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    return subprocess.run([find_program(), *words], capture_output=True, text=True, cwd=folder, env={**kept, **environment})


def fit(folder, source, *options, **environment):
    script = folder / "program.py"
    script.write_text(textwrap.dedent(source))
    return command(folder, "fit", *options, "--", sys.executable, str(script), **environment)


def all_changes(folder, names, **environment):
    """Runs program.py dry once with several changes, as `memtrace fit` starts it. Returns what is said of each."""
    answers = folder / "answers"
    answers.touch()
    asked = {"PYTHONPATH": os.path.join(os.path.dirname(memtrace.__file__), "start"), "MEMTRACE_DRY_DEVICE": "sim:l4",
             "MEMTRACE_SETTINGS": json.dumps({"torch": "dry", "trace": str(folder / "trace.db"), "answers": str(answers),
                                              "steps": 100, "changes": ",".join(names)})}
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    subprocess.run([sys.executable, "program.py"], check=True, cwd=folder, env={**kept, **asked, **environment})
    rows = [line.split("\t") for line in answers.read_text().splitlines() if line.startswith("change")]
    return {text.partition(": ")[0]: f"{made} {text.partition(': ')[2]}" for _, _, made, text in rows}


def test_each_change_of_a_program_is_tried_and_tells_what_it_saves(tmp_path):
    said = fit(tmp_path, PROGRAM, "--device", "sim:h100:400MiB", "--json", "--steps", "100")
    assert said.returncode == 1, said.stderr
    answer = json.loads(said.stdout)
    changes = {change["kind"]: change for change in answer["changes"]}
    without = {gap["kind"]: gap["reason"] for gap in answer["left_out"]}
    assert not answer["fits"]
    assert changes["checkpoint"]["where"] == "4 of Block"
    for kind, factor in {"checkpoint": 0.6, "autocast": 0.9}.items():
        assert changes[kind]["peak"]["allocated_bytes"] < factor * answer["peak"]["allocated_bytes"]
    assert {"gradients freed before forward": "the program clears them before forward already",
            "flash attention": "the kernel is for fp16 and bf16, and its calls are in float32",
            "weights in bf16": "the program fails with it: exit code 1, AssertionError: not fp32"}.items() <= without.items()
    assert all(change["difference_bytes"] < 0 for change in answer["changes"])
    for change in answer["changes"]:  # a replay, too, is of the device that is asked about
        assert not change["fits"] or change["peak"]["allocated_bytes"] <= answer["capacity_bytes"]
    assert answer["changes"][-1]["change"].startswith("SGD")
    assert [change["basis"] for change in answer["changes"] if change["kind"] == "micro-batch"] == ["replay"]
    assert answer["remedy"] == "checkpoint"
    assert "use_reentrant=False" in changes["checkpoint"]["hint"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["program.py"]


def test_a_program_s_own_doing_is_not_repeated(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent("""
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
            scaler.update()
        """))
    names = ["expandable-segments", "fused-optimizer", "loop-optimizer", "flash", "autocast", "checkpoint", "bf16-weights", "zero-grad"]
    said = all_changes(tmp_path, names, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
    assert said == {
        "expandable-segments": "0 PYTORCH_CUDA_ALLOC_CONF has them already",
        "fused-optimizer": "0 SGD is fused already",
        "loop-optimizer": "0 SGD is fused, which takes no temporaries",
        "flash": "0 the program does not call scaled_dot_product_attention",
        "autocast": "0 the program is under autocast already",
        "checkpoint": "0 the program checkpoints already",
        "bf16-weights": "0 the program scales gradients of fp16 (GradScaler)",
        "zero-grad": "1 after the optimizer's step"}


def test_one_segment_over_all_blocks_becomes_one_for_each_and_its_autocast_is_not_the_program_s(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import torch
        from torch import nn
        from torch.utils.checkpoint import checkpoint
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.blocks = nn.Sequential(*[nn.Sequential(nn.Linear(64, 64), nn.GELU()) for _ in range(3)])
            def forward(self, x):
                return checkpoint(self.blocks, x, use_reentrant=False)
        net = Net().cuda()
        for _ in range(2):
            net(torch.randn(8, 64, device="cuda")).sum().backward()
        net.eval()
        net(torch.randn(8, 64, device="cuda"))
        torch.save({"weight": torch.ones(9, device="cuda")}, "weights.pt")
        assert torch.load("weights.pt")["weight"].is_cuda
        """))
    assert all_changes(tmp_path, ["autocast", "checkpoint", "?no-grad-evaluation", "?map-location", "?bucket-view"]) == {
        "autocast": "1 forward of Net", "checkpoint": "1 3 of Sequential", "no-grad-evaluation": "1 Net in evaluation mode",
        "map-location": "1 torch.load", "bucket-view": "0 the program does not use DistributedDataParallel"}


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


def test_a_sweep_runs_each_combination_and_out_of_memory_is_a_cell(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import sys, torch
        width, rows = int(sys.argv[1]), int(sys.argv[2].removeprefix("--rows="))
        x = torch.ones(rows << 20, width, dtype=torch.uint8, device="cuda")
        assert rows != 3, "three"
        """))
    said = command(tmp_path, "sweep", "--vary", "width=16,32", "--vary", "rows=2,3,40", "--device", "sim:1GiB", "--json", "--name",
                   "grid", "--", sys.executable, "program.py", "@width", "--rows=@rows")
    assert said.returncode == 1, said.stderr
    answer = json.loads(said.stdout)
    assert [(row["width"], row["rows"], row["allocated_bytes"], row["told"]) for row in answer["rows"]] == [
        ("16", "2", 32 << 20, "done"), ("16", "3", 48 << 20, "failed: exit code 1, AssertionError: three"),
        ("16", "40", 640 << 20, "done"), ("32", "2", 64 << 20, "done"),
        ("32", "3", 96 << 20, "failed: exit code 1, AssertionError: three"),
        ("32", "40", None, "out of memory: 1.25 GiB asked for Other in init")]
    assert [row["run"] for row in answer["rows"]] == [1, 2, 3, 4, 5, 6]
    assert (answer["done"], answer["oom"], answer["failed"]) == (3, 1, 2)


UNEQUAL_RANKS = """
import os, sys, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
x = torch.ones(100 if rank == 1 else 40, int(sys.argv[1]) << 20, dtype=torch.uint8, device="cuda")
if rank == 1:
    dist.all_reduce(torch.ones(1, device="cuda"))
"""


def test_a_program_of_many_ranks_fits_if_the_one_that_takes_most_does(tmp_path):
    (tmp_path / "program.py").write_text(UNEQUAL_RANKS)
    said = command(tmp_path, "fit", "--ranks", "2", "--device", "sim:h100", "--json", "--", sys.executable, "program.py", "10")
    assert said.returncode == 0, said.stderr
    answer = json.loads(said.stdout)
    assert (answer["rank"], answer["fits"]) == (1, True)
    assert answer["peak"]["reserved_bytes"] >= 1000 << 20
    cards = json.loads(command(tmp_path, "cards", "--json").stdout)["rows"]
    context = next(card["context_bytes"] for card in cards if card["name"] == "h100")
    assert answer["reserve_bytes"] > context  # rank 1 has NCCL's buffers


def test_a_sweep_of_many_ranks_names_the_one_that_takes_most(tmp_path):
    (tmp_path / "program.py").write_text(UNEQUAL_RANKS)
    said = command(tmp_path, "sweep", "--ranks", "2", "--vary", "width=1,5", "--device", "sim:1GiB", "--json", "--", sys.executable,
                   "program.py", "@width")
    assert [(row["rank"], row["reserved_bytes"] >> 20, row["state"]) for row in json.loads(said.stdout)["rows"]] == [
        (1, 102, "done"), (1, 502, "done")]
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".db") == ["memtrace-rank1.db", "memtrace.db"]


FAILS_IF_ODD = """
import sys, torch
batch = int(sys.argv[1].removeprefix("--batch="))
assert batch % 2 == 0, "odd"
x = torch.ones(batch << 20, int(sys.argv[2]), dtype=torch.uint8, device="cuda")
"""


def test_the_search_for_the_largest_value_reports_what_was_tried(tmp_path):
    (tmp_path / "program.py").write_text(FAILS_IF_ODD)
    said = command(tmp_path, "fit", "--device", "sim:1GiB", "--largest", "batch=34,50,51,52", "--vary", "width=20,30", "--json", "--",
                   sys.executable, "program.py", "--batch=@batch", "@width")
    assert said.returncode == 0, said.stderr
    assert "memtrace: width 20, batch 34: 680.00 MiB reserved, fits\n" in said.stderr
    answer = json.loads(said.stdout)
    assert (answer["schema"], answer["name"], answer["values"], answer["fits"]) == (
        "memtrace.fit_largest/1", "batch", "34,50,51,52", True)
    narrow, wide = answer["answers"]
    for row, value, width in [(narrow, 50, 20), (wide, 34, 30)]:
        largest = row["largest"]
        assert (row["width"], largest["value"], largest["needed_bytes"]) == (str(width), value, value * width << 20)
        assert largest["room_bytes"] == (1 << 30) - largest["needed_bytes"] and row["exception"] is None and not row["is_last"]
    assert [narrow["next"][name] for name in ("value", "state", "words", "peak", "room_bytes")] == [
        51, "failed", "exit code 1, AssertionError: odd", None, None]
    assert (narrow["too_large"]["value"], narrow["too_large"]["state"], narrow["too_large"]["room_bytes"]) == (
        52, "short", -16 << 20)
    assert wide["next"] == wide["too_large"] and wide["next"]["value"] == 50
    assert [trial["value"] for trial in answer["trials"]] == [34, 50, 51, 52, 34, 50]
    assert list(tmp_path.glob("*.db")) == []


def test_the_search_for_the_largest_value_begins_with_the_answer(tmp_path):
    (tmp_path / "program.py").write_text(FAILS_IF_ODD)
    words = ["--", sys.executable, "program.py", "@batch", "20"]
    said = command(tmp_path, "fit", "--device", "sim:1GiB", "--largest", "batch=48,50,52", *words)
    assert said.returncode == 0, said.stderr
    assert said.stdout.startswith("batch 50 is the largest that fits sim:1GiB: peak 1000.00 MiB live;")
    assert "\nbatch 52 is 16.00 MiB short.\n" in said.stdout
    said = command(tmp_path, "fit", "--device", "sim:1GiB", "--largest", "batch=52..54:2", *words)
    assert (said.returncode, said.stdout.splitlines()[:2]) == (
        1, ["No batch of 52..54:2 fits sim:1GiB.", "batch 52 is 16.00 MiB short."]), said
    said = command(tmp_path, "fit", "--device", "sim:1GiB", "--largest", "batch=1,3", *words)
    assert (said.returncode, said.stdout) == (1, "")
    assert "AssertionError: odd" in said.stderr and "the program fails with batch 1" in said.stderr


def test_of_many_ranks_the_one_that_needs_most_limits_a_value(tmp_path):
    (tmp_path / "program.py").write_text(UNEQUAL_RANKS)
    said = command(tmp_path, "fit", "--ranks", "2", "--device", "sim:1GiB", "--largest", "width=10,11", "--json", "--",
                   sys.executable, "program.py", "@width")
    largest = json.loads(said.stdout)["answers"][0]["largest"]
    assert (largest["value"], largest["rank"], largest["peak"]["allocated_bytes"] >> 20) == (10, 1, 1000)


def test_advice_on_a_dry_run_names_modules_lines_and_pytorch_s_settings(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent(PROGRAM))
    assert command(tmp_path, "dry-run", "--device", "sim:h100", "--", sys.executable, "program.py").returncode == 0
    answer = json.loads(command(tmp_path, "advise", "--json").stdout)
    hints = {change["hint"] for change in answer["changes"] if change["kind"] == "allocator"}
    assert "PYTORCH_ALLOC_CONF=expandable_segments:True" in hints
    assert [answer["lines"][0][name] for name in ("line", "span")] == ["program.py:12", "cuBLAS"]  # of its largest block
    assert not any("several forward passes" in gap["reason"] for gap in answer["left_out"])
    said = command(tmp_path, "advise").stdout
    assert "program.py:12" in said and "memtrace fit -- PROGRAM" in said
