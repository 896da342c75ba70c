"""CUDA graphs and memory pools in dry runs: what a program sees, and what its trace has. Skipped where there is a card."""
import json
import subprocess
import textwrap

import pytest
import torch
from test_dry_run import dry  # noqa: F401

from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

GRAPHS = """
import gc, torch
MIB = 1 << 20

def reserved():
    return torch.cuda.memory_reserved() // MIB

def pools():
    return {segment["segment_pool_id"] for segment in torch.cuda.memory_snapshot()}

# Allocations of a capture, and of a stream that joins it, come from the graph's pool. A capture begins with an empty cache.
x = torch.ones(1024, 1024, device="cuda")
torch.empty(64 * MIB, dtype=torch.uint8, device="cuda")
graph, handle = torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
assert reserved() == 84 and not torch.cuda.is_current_stream_capturing()
with torch.cuda.graph(graph, pool=handle):
    assert torch.cuda.is_current_stream_capturing() and reserved() == 20
    y = x * 2
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        z = y + 1
        y.record_stream(side)
    torch.cuda.current_stream().wait_stream(side)
assert graph.pool() == handle and pools() == {(0, 0), handle} and reserved() == 60
address = z.data_ptr()
del z
with torch.cuda.stream(side):
    assert (x + 1).data_ptr() != address  # the pool's memory is not the stream's

# A replay allocates nothing, and its results are not known; nor is what it writes elsewhere.
before = torch.cuda.memory_stats()["allocation.all.allocated"]
graph.replay()
assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
assert y[0, 0].item() == 1  # assumed

# A block that another stream used is not reused before the captures end.
other = torch.cuda.CUDAGraph()
with torch.cuda.graph(other, pool=handle):
    first = x * 3
    place = first.data_ptr()
    first.record_stream(side)
    del first
    second = x * 3
    assert second.data_ptr() != place
    waits = [block["state"] for segment in torch.cuda.memory_snapshot(handle) for block in segment["blocks"]]
    assert "active_pending_free" in waits

# A pool keeps its memory while one of its graphs lives.
del y, second
graph.reset()
torch.cuda.empty_cache()
assert handle in pools()
del other
torch.cuda.empty_cache()
assert pools() == {(0, 0)} and reserved() == 20

def refused(call):
    stream, capture = torch.cuda.current_stream(), torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(capture):
            call()
    except RuntimeError as error:
        torch.cuda.set_stream(stream)
        return " ".join(str(one).partition(chr(10))[0] for one in (error.__context__, error) if one)

print(refused(lambda: x[0, 0].item()), refused(torch.cuda.synchronize), refused(x.nonzero), sep=chr(10))
print(refused(lambda: torch.ones(3).cuda()))
assert refused(lambda: torch.ones(3).pin_memory().to("cuda", non_blocking=True)) is None
for wrong in (lambda: torch.cuda.CUDAGraph().replay(), lambda: torch.cuda.CUDAGraph().capture_begin()):
    try:
        wrong()
    except RuntimeError as error:
        print(error)

# A pool of the program keeps its memory until it is deleted, and serves no other requests.
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    kept = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    assert pool.use_count() == 2 and len(pool.snapshot()) == 1
del kept
torch.cuda.empty_cache()
assert reserved() == 50 and pool.use_count() == 1
torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
assert reserved() == 80
del pool
gc.collect()
assert reserved() == 50

# Workspaces of matrix products are freed when the program says so.
x @ x
held = torch.cuda.memory_allocated()
torch._C._cuda_clearCublasWorkspaces()
print(held - torch.cuda.memory_allocated() > 0)
"""

TRAINING = """
import torch
from torch import nn
net = nn.Sequential(nn.Linear(256, 256), nn.Dropout(0.1), nn.Linear(256, 256)).cuda()
optimizer = torch.optim.Adam(net.parameters(), capturable=True)
x, side, graph = torch.randn(64, 256, device="cuda"), torch.cuda.Stream(), torch.cuda.CUDAGraph()

def step():
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(5):  # they settle, but end nothing: the capture follows
        step()
torch.cuda.current_stream().wait_stream(side)
optimizer.zero_grad()
with torch.cuda.graph(graph):
    loss = step()
for _ in range(5):
    x.copy_(torch.randn(64, 256))
    graph.replay()
print(loss.item(), net[0].weight[0, 0].item())

# CUDA graph trees, as compiled functions use them: a path that was not recorded yet follows the replay of one that was.
from torch._inductor import cudagraph_trees as trees
restored, restore = [], torch._C._cuda_setCheckpointPoolState
torch._C._cuda_setCheckpointPoolState = lambda *given: restored.append(1) or restore(*given)

def product(inputs):
    x = inputs.pop()
    return x @ weight, x.sum(0)

def doubled(inputs):
    return inputs.pop() * 2, None

weight = torch.randn(256, 256, device="cuda")
first = trees.cudagraphify_impl(product, [x], (), device_index=0, is_backward=False, is_inference=True, stack_traces=[None, None])
for _ in range(4):
    torch.compiler.cudagraph_mark_step_begin()
    y, total = first([x])
following = trees.cudagraphify_impl(doubled, [y], (), device_index=0, is_backward=False, is_inference=True, stack_traces=[None, None])
live = torch.cuda.memory_allocated()  # without the results, whose blocks a replay does not take
for _ in range(3):
    torch.compiler.cudagraph_mark_step_begin()
    y, total = first([x])
    z, _ = following([y])
    assert torch.cuda.memory_allocated() - live <= y.nbytes + total.nbytes + z.nbytes
    del z
assert restored and y.shape == (64, 256)
try:
    torch.compiler.cudagraph_mark_step_begin()
    first([x])
    y.sum()
except RuntimeError as error:
    assert "accessing tensor output of CUDAGraphs that has been overwritten" in str(error)
del y, total

blocks = torch.cuda.make_graphed_callables(tuple(nn.Linear(256, 256).cuda() for _ in range(2)),
                                           tuple((torch.randn(64, 256, device="cuda", requires_grad=True),) for _ in range(2)))
optimizer = torch.optim.SGD([weight for block in blocks for weight in block.parameters()])
for _ in range(100):
    blocks[1](blocks[0](x)).sum().backward()
    optimizer.step()
"""


def test_a_program_sees_pools_and_captures_as_on_a_card(dry):  # noqa: F811
    said = dry.run(textwrap.dedent(GRAPHS))
    *refusals, copy, replay, begin, is_freed = said.stdout.splitlines()
    assert len(refusals) == 3
    for refusal in refusals:
        assert "operation not permitted when stream is capturing" in refusal and "previous error during capture" in refusal
    assert copy.startswith("Cannot copy between CPU and CUDA tensors during CUDA graph capture")
    assert "capture" in replay and begin.startswith("CUDA graphs must be captured on a non-default stream")
    assert is_freed == "True"
    line = GRAPHS.splitlines().index("assert y[0, 0].item() == 1  # assumed") + 1
    assert f"a number (program.py:{line}) = 1" in said.stderr


def test_a_captured_step_and_graphed_modules_run_and_their_pools_are_named(dry):  # noqa: F811
    said = dry.run(textwrap.dedent(TRAINING))
    assert said.stdout == "1.0 1.0\n"
    assert "shortened: loop" in said.stderr and "ended since they repeat" in said.stderr
    peak = json.loads(subprocess.run([find_program(), "peak", "--trace", dry.trace, "--json"], check=True, capture_output=True).stdout)
    pools = {pool["pool"]: pool for pool in peak["pools"]}
    assert {"private pool (1, 0)", "private pool (0, 1)", "private pool (0, 2)"} >= set(pools) > {"private pool (1, 0)"}
    assert all(pool["reserved_bytes"] >= pool["allocated_bytes"] for pool in pools.values())
    assert pools["private pool (1, 0)"]["allocated_bytes"] > 2 * 256 * 256 * 4
