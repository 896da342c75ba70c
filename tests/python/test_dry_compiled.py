"""torch.compile in dry runs: Inductor's code runs without its kernels. Without Triton, the program runs as it is without."""
import copy
import csv
import gc
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import types

import pytest
import torch

from memtrace._library import find_program

pytest.importorskip("triton")
MIB = 1 << 20

PROGRAM = """
import json, os, sys, torch, torch._dispatch.python
from torch import nn
from torch.nn import functional as F
from torch._dynamo.utils import counters

said = {}
def count(what):
    found = counters["stats"]["unique_graphs"], len(counters["graph_break"]), counters["frames"]["total"]
    torch._dynamo.reset()
    counters.clear()
    said[what] = found

def rounded(x, scale):
    return (x * scale).relu().sum(0)

# What a kernel reads is known, and what it writes is not.
x, scale = torch.arange(4.0, device="cuda"), torch.tensor([2.0], device="cuda")
out = torch.compile(rounded)(x, scale)
said["values"] = x.tolist(), scale.tolist(), out.tolist()
count("function")

# Python functions that memtrace replaces or adds run between the program's.
def through_host(x):
    y = x.relu().cpu().numpy()
    torch._dynamo.graph_break()
    print(os.stat("program.py").st_size, file=sys.stderr)
    return x.exp() + len(y)
torch.compile(through_host)(x)
count("through_host")

# Operators with values, while a compiler traces: as in benchmarks of convolutions.
with torch._dispatch.python.enable_python_dispatcher():
    said["dispatched"] = F.conv2d(x.view(1, 1, 2, 2), x.view(1, 1, 2, 2)).shape

# A loop whose condition a kernel computes.
from torch._higher_order_ops.while_loop import while_loop
def looped(x):
    return while_loop(lambda i, x: i < 9, lambda i, x: (i + 1, x * 2), (torch.tensor(0, device="cuda"), x))
torch.compile(looped, fullgraph=True)(x)
count("looped")

# A model and its optimizer, both compiled. The steps of the optimizer end the steps of training.
model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 64)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-3, device="cuda"), capturable=True)
compiled, update = torch.compile(model, fullgraph=True), torch.compile(lambda: optimizer.step())
live = []
for _ in range(4):
    compiled(torch.randn(32, 64, device="cuda")).square().mean().backward()
    update()
    optimizer.zero_grad()
    live.append(torch.cuda.memory_allocated())
said["live"] = live[1:]
count("training")

# A length that changes, and attention.
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(64, 192)
    def forward(self, x):
        q, k, v = (part.unflatten(-1, (2, 32)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
attention = Attention().cuda().bfloat16()
for length in (128, 160, 96):
    torch.compile(attention)(torch.randn(2, length, 64, device="cuda", dtype=torch.bfloat16)).float().sum().backward()
count("lengths")

# CUDA graph trees: after the first calls, nothing is allocated outside of the graphs' pool.
graphed = torch.compile(lambda x: (x @ x).relu().sum(), mode="reduce-overhead")
requests = []
with torch.no_grad():
    for _ in range(5):
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        graphed(scale.new_ones(128, 128))
        requests.append(torch.cuda.memory_stats()["allocation.all.allocated"] - before)
said["graphs"] = requests[-1]
said["pools"] = len({segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()} - {(0, 0)})
count("graphed")

# A product in 16 bits that is not aligned; a wrapper in C++ is one in Python here.
left, right = (torch.empty(*size, device="cuda", dtype=torch.bfloat16) for size in ((4096, 1023), (1023, 4096)))
torch.cuda.reset_peak_memory_stats()
torch.compile(torch.mm, options={"cpp_wrapper": True, "shape_padding": True})(left, right)
said["tuned"] = torch.cuda.max_memory_allocated() > torch.cuda.memory_allocated() + (50 << 20)

# AOTInductor is refused.
layer, ones = nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda")
try:
    torch._inductor.aoti_compile_and_package(torch.export.export(layer, (ones,)))
except RuntimeError as error:
    said["refused"] = str(error)
print(json.dumps(said))
"""


def dry(folder, source, *options, **variables):
    (folder / "program.py").write_text(source)
    environment = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}  # a fake one
    return subprocess.run([find_program(), "dry-run", "--device", "sim:h200", "--steps", "all", *options, "--", sys.executable,
                           "program.py"], cwd=folder, capture_output=True, text=True, env={**environment, **variables})


def line_of(begin):
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.startswith(begin))


def ask(folder, *words):
    told = subprocess.run([find_program(), *words, "--json"], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(told.stdout)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What the program said, its run with the caveats, its peak, and files outside of memtrace's cache."""
    folder = tmp_path_factory.mktemp("compiled")
    users = folder / "temporary"
    users.mkdir()
    done = dry(folder, PROGRAM, TMPDIR=str(users), XDG_CACHE_HOME=os.environ.get("XDG_CACHE_HOME", ""))
    assert done.returncode == 0, done.stderr
    told = subprocess.run([find_program(), "peak"], cwd=folder, capture_output=True, text=True, check=True).stdout
    largest = ask(folder, "advise")["largest"]
    return ({**json.loads(done.stdout), "told": told, "largest": largest}, ask(folder, "runs")["rows"][0], ask(folder, "peak"),
            [path.name for path in users.iterdir()])


def test_what_a_compiled_kernel_writes_is_unknown_and_nothing_else(run):
    said, stored, *_ = run
    assert said["values"][:2] == [[0.0, 1.0, 2.0, 3.0], [2.0]]
    others = line_of("def looped"), *range(line_of("def through_host"), line_of("torch.compile(through_host"))
    assert [row["line"] for row in stored["assumed"] if row["line"] not in others] == [line_of('said["values"]')]


def test_graphs_break_where_they_do_on_a_card(run):
    said, *_ = run
    assert said["function"] == [1, 0, 1] and said["lengths"] == [2, 0, 2] and said["graphed"] == [1, 0, 1]
    assert said["dispatched"] == [1, 1, 1, 1] and said["looped"][:2] == [1, 0] and said["through_host"][:2] == [2, 3]  # as on the host: a requested break, stat and print
    assert said["training"][:2] == [2, 1]  # torch.optim itself asks for a break


def test_places_are_the_program_s_and_not_those_of_generated_code(run):
    said, stored, *_ = run
    assert {pathlib.Path(row["file"]).name for row in stored["assumed"]} == {"program.py"}
    assert "program.py:" in said["told"] and not re.search(r"\bc[a-z2-7]{51}\.py", said["told"])


def test_a_loop_of_compiled_code_makes_a_few_iterations(run):
    _, stored, *_ = run
    assert [(row["line"], row["value"]) for row in stored["assumed"] if row["name"] == "iterations of a while_loop"] == [
        (line_of("def looped"), 2)]


def test_steps_of_a_compiled_optimizer_are_counted(run):
    said, stored, *_ = run
    assert stored["steps"] >= 4 and len(set(said["live"])) == 1


def test_cuda_graph_trees_keep_their_memory_in_a_pool(run):
    said, *_ = run
    assert said["pools"] == 1 and said["graphs"] <= 2


def test_autotuning_has_a_category_and_the_peak_is_known_without_it(run):
    said, stored, peak, _ = run
    assert said["tuned"] and peak["untuned_bytes"] < peak["allocated_bytes"] - 50 * MIB
    assert [row["category"] for row in peak["by_category"]][0] == "Autotune"
    assert {row["role"] for row in peak["rows"]} >= {"workspace"}
    assert said["largest"] is None or said["largest"]["bytes"] < 50 * MIB  # a tensor of the program's


def test_padding_is_a_choice_by_time(run):
    _, stored, *_ = run
    found = [row for row in stored["choices"] if row["name"] == "padding of a matmul 4096 x 1023 x 4096, bfloat16"]
    copies = 2 * (4096 * 1023 + 1023 * 4096)
    assert [(row["count"], row["total"], row["bytes"]) for row in found] == [(1, 2, copies)]


def test_a_matmul_is_padded_if_a_card_padded_it():
    from memtrace.dry.inductor_choices import Product  # which needs torch

    with open(pathlib.Path(__file__).parents[1] / "data/padded_matmuls_h200.tsv", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            rows, inner, columns = (int(row[name]) for name in "mkn")
            left, right = (torch.empty(*size, dtype=getattr(torch, row["dtype"]), device="meta")
                           for size in ((rows, inner), (inner, columns)))
            product = Product(left, right)
            assert product.is_padded() == (row["padded"] == "1"), row
            assert product.may_be_padded() >= product.is_padded()


def test_small_matmuls_are_no_choice_by_time():
    from memtrace.dry.inductor_choices import Product

    for rows, inner, columns, is_choice in ((256, 500, 64, False), (512, 1023, 511, True)):
        left, right = (torch.empty(*size, dtype=torch.bfloat16, device="meta") for size in ((rows, inner), (inner, columns)))
        assert Product(left, right).may_be_padded() == is_choice


def test_an_open_size_is_named_by_what_inductor_expects():
    import sympy
    from torch._inductor.virtualized import V

    from memtrace.dry.inductor_choices import known_size_of_expression

    with V.set_graph_handler(types.SimpleNamespace(sizevars=types.SimpleNamespace(optimization_hint=lambda size, fallback: 24))):
        assert [known_size_of_expression(size) for size in (8, sympy.Integer(3), sympy.Symbol("s77"))] == [8, 3, 24]


def test_aotinductor_is_refused_by_name(run):
    assert "memtrace: a dry run has no AOTInductor" in run[0]["refused"]


CACHED = """
import torch
from torch._dynamo.utils import counters
left, right = (torch.ones(*size, device="cuda", dtype=torch.bfloat16, requires_grad=True) for size in ((4096, 1023), (1023, 4096)))
torch.compile(lambda left, right: (left @ right).sum() * SCALE)(left, right).backward()
print(counters["aot_autograd"]["autograd_cache_hit"], torch.cuda.max_memory_allocated())
"""


def test_a_graph_from_the_cache_has_the_memory_and_choices_of_its_benchmarks(tmp_path):
    program = CACHED.replace("SCALE", repr(random.random()))  # which no run before had
    said, choices = [], []
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        done = dry(tmp_path / name, program)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout.split())
        choices.append(ask(tmp_path / name, "runs")["rows"][0]["choices"])
    assert [int(hits) for hits, _ in said] == [0, 1]
    assert said[0][1] == said[1][1] and choices[0] == choices[1] and len(choices[0]) == 3  # forward and both gradients


def test_garbage_is_collected_for_a_graph_from_the_cache_if_it_was_when_it_was_compiled():
    from memtrace.dry.cached_garbage import Garbage, collections

    garbage, graphs = Garbage(), [types.SimpleNamespace(), types.SimpleNamespace()]
    garbage.keep(graphs[0])
    gc.collect()
    garbage.keep(graphs[1])
    cached = [copy.copy(graph) for graph in graphs]
    for graph in graphs:
        garbage.call(lambda graph: None, graph)
    counts = [collections()]
    for graph in (*cached, *cached):
        garbage.call(lambda graph: None, graph)
        counts.append(collections())
    assert [count - counts[0] for count in counts[1:]] == [0, 1, 1, 1]


def test_the_key_of_triton_s_files_is_kept_until_they_change(tmp_path, monkeypatch):
    from memtrace.dry.cached_keys import key_of

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache/memtrace").mkdir(parents=True)
    (tmp_path / "triton").mkdir()
    source = tmp_path / "triton/compiler.py"
    source.write_text("first")
    keys = iter(("one", "two"))
    assert [key_of(lambda: next(keys), source.parent) for _ in range(3)] == ["one"] * 3
    source.write_text("second")
    assert [key_of(lambda: next(keys), source.parent) for _ in range(2)] == ["two"] * 2


@pytest.mark.parametrize("rows, block, warps, decides", [
    (132, 1, 8, False), (133, 1, 8, True), (2 * 132, 1, 4, False), (2 * 132 + 1, 1, 4, True), (132 * 8, 8, 8, False)])
def test_a_kernel_is_compiled_only_if_its_registers_may_decide(rows, block, warps, decides):
    from memtrace.dry.inductor import Kernel, registers_decide

    card = types.SimpleNamespace(regs_per_multiprocessor=65536, multi_processor_count=132)
    config = types.SimpleNamespace(kwargs={"XBLOCK": block, "R0_BLOCK": 2048}, num_warps=warps)
    small = types.SimpleNamespace(kwargs={"XBLOCK": block, "R0_BLOCK": 64}, num_warps=warps)
    assert registers_decide(card, {"x": rows, "r0_": 4096}, config) == decides
    combined = types.SimpleNamespace(kwargs={"XBLOCK_0": block, "R0_BLOCK_0": 2048}, num_warps=warps)
    assert not registers_decide(card, {"x": 1 << 20, "r0_": 4096}, small) and registers_decide(card, {}, combined)
    assert Kernel(lambda: pytest.fail("was compiled"), lambda: False).n_regs == 0


def test_a_card_s_choices_are_used(tmp_path):
    operands = "((torch.Size([4096, 1023]), (1023, 1), torch.bfloat16), (torch.Size([1023, 4096]), (4096, 1), torch.bfloat16)"
    key = f"{operands}, 'exclude_pad:False', 'exclude_pad:False', <OpOverloadPacket(op='aten.mm')>, None, None)"
    (tmp_path / "card/cache").mkdir(parents=True)
    (tmp_path / "card/cache/0123").write_text(json.dumps({"cache": {key: False}}))
    done = dry(tmp_path, """
import torch
left, right = (torch.empty(*size, device="cuda", dtype=torch.bfloat16) for size in ((4096, 1023), (1023, 4096)))
torch.cuda.reset_peak_memory_stats()
out = torch.compile(torch.mm)(left, right)
print(torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated())
""", "--inductor-cache", "card")
    assert int(done.stdout) == 0, done.stderr  # nothing was benchmarked or copied
    assert ask(tmp_path, "runs")["rows"][0]["choices"] == []


def test_aotinductor_is_refused_without_compilation_too(tmp_path):
    done = dry(tmp_path, """
import torch
program = torch.export.export(torch.nn.Linear(4, 4).cuda(), (torch.ones(2, 4, device="cuda"),))
torch._inductor.aoti_compile_and_package(program)
""", "--no-compile")
    assert done.returncode == 1 and "memtrace: a dry run has no AOTInductor" in done.stderr


def test_a_cache_that_is_no_folder_is_refused(tmp_path):
    done = dry(tmp_path, "", "--inductor-cache", "nowhere")
    assert done.returncode == 2 and "nowhere is not a folder" in done.stderr


def test_nothing_is_written_to_the_user_s_cache(run):
    assert not [name for name in run[-1] if "inductor" in name]


@pytest.mark.parametrize("begin, options, reason", [
    ("", ["--no-compile"], "--no-compile"),
    ("import sys; sys.modules['triton'] = None", [], "Triton is not installed: pip install triton (it needs no card)")])
def test_the_verdict_says_that_a_program_was_not_compiled(tmp_path, begin, options, reason):
    done = dry(tmp_path, begin + """
import torch
function = torch.compile(lambda x: (x + 1).relu())
print(function(torch.ones(4, device="cuda")).shape, function.__name__)
""", *options)
    assert done.stdout == "torch.Size([4]) <lambda>\n"
    assert f"torch.compile is left out, and the program runs as an eager one ({reason})" in done.stderr
    assert f"memtrace: torch.compile was left out, the bytes are the eager program's: {reason} (program.py:3)" in done.stderr
    assert [row["name"] for row in ask(tmp_path, "runs")["rows"][0]["eager"]] == [reason]
