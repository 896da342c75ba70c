"""Programs that need a part of PyTorch that a build without CUDA, or a card without data, has not: each runs dry, or fails with an
error that names the operator. Skipped where there is a card."""
import textwrap

import pytest
import torch
from test_dry_run import dry  # noqa: F401

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

def run(dry, source, *options, **named):  # noqa: F811
    return dry.run(textwrap.dedent(source), *options, **named)


# ---- pinned memory ----

def test_programs_see_which_memory_they_pinned(dry):  # noqa: F811
    said = run(dry, """
        import torch
        here = torch.ones(64)
        there = here.pin_memory()
        print(here.is_pinned(), there.is_pinned(), there[9:].is_pinned(), torch.empty(3, pin_memory=True).is_pinned())
        runtime = torch.cuda.cudart()
        runtime.cudaHostRegister(here.data_ptr(), here.nbytes, 0)
        print(here.is_pinned(), there.cuda(non_blocking=True).sum().item())
        runtime.cudaHostUnregister(here.data_ptr())
        address = there.data_ptr()
        del there
        print(here.is_pinned(), torch.frombuffer(bytearray(64), dtype=torch.uint8).is_pinned())
        """)
    assert said.stdout.splitlines() == ["False True True True", "True 64.0", "False False"]


@pytest.mark.parametrize("option", ["static_graph", "find_unused_parameters"])
def test_ddp_asserts_that_its_memory_is_pinned(dry, option):  # noqa: F811
    said = run(dry, f"""
        import os, torch
        from torch import nn
        torch.distributed.init_process_group("nccl")
        net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10)).cuda()
        ddp = nn.parallel.DistributedDataParallel(net, device_ids=[0], {option}=True)
        optimizer = torch.optim.SGD(ddp.parameters(), 0.1)
        for _ in range(3):
            ddp(torch.randn(400, 3, 8, 8, device="cuda")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        print(net[1].weight.shape, net[1].running_mean.shape)
        """, "--ranks", "2", "--only", "0", "--steps", "9")
    assert said.stdout == "torch.Size([8]) torch.Size([8])\n"


# ---- DataParallel ----

DATA_PARALLEL = """
import torch
from torch import nn
net = nn.DataParallel(nn.Linear(1024, 2048, bias=False)).cuda()
for _ in range(2):
    y = net(torch.ones(64, 1024, device="cuda"))
    y.sum().backward()
print(tuple(y.shape), y.device, net.module.weight.grad.shape)
print([torch.cuda.max_memory_allocated(device) >> 20 for device in range(torch.cuda.device_count())])
"""


def test_data_parallel_on_one_card_calls_the_module(dry):  # noqa: F811
    said = dry.run(DATA_PARALLEL, "--steps", "9")
    with_it = said.stdout.splitlines()
    assert with_it[0] == "(64, 2048) cuda:0 torch.Size([2048, 1024])"
    said = dry.run(DATA_PARALLEL.replace("nn.DataParallel(nn.Linear(1024, 2048, bias=False))",
                                         "nn.Sequential(nn.Linear(1024, 2048, bias=False))").replace("net.module", "net[0]"),
                   "--steps", "9")
    assert said.stdout.splitlines()[1] == with_it[1]


def test_data_parallel_copies_the_weights_to_other_cards(dry):  # noqa: F811
    said = dry.run(DATA_PARALLEL, "--steps", "9", "--cards", "2")
    shape, peaks = said.stdout.splitlines()
    assert shape == "(64, 2048) cuda:0 torch.Size([2048, 1024])"
    first, second = map(int, peaks.strip("[]").split(","))
    assert second >= 16  # the copy of the weight, and its gradient
    assert first > second
