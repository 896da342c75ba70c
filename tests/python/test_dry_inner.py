"""What operators take inside in a dry run: the blocks of a small program, in their order."""
import json
import os
import subprocess
import sys

import pytest

from memtrace.dry import simulated
from memtrace._library import find_program

MARK_BYTES = 1_234_567  # of a block between the parts of the program

PROGRAM = f"""
import torch
import torch.nn.functional as F

def mark():
    torch.empty({MARK_BYTES}, dtype=torch.uint8, device="cuda")

rows = torch.empty(4096, 768, device="cuda")
mark()
rows.sum(0)                                                    # sum
mark()
weight = torch.empty(768, 768, device="cuda", requires_grad=True)
(rows @ weight).backward(rows)                                 # product
mark()
torch.mm(rows, weight.detach())                                # product again
heads = torch.empty(4, 12, 1024, 64, device="cuda", requires_grad=True)
mark()
F.scaled_dot_product_attention(heads, heads, heads)            # attention
mark()
means, places = torch.empty(100, device="cuda"), torch.zeros(768, dtype=torch.int64, device="cuda")
mark()
means.scatter_reduce_(0, places, rows[0], "mean")              # means
mark()
scaler = torch.amp.GradScaler(growth_interval=1)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler.scale((rows @ weight).sum()).backward()
scaler.step(optimizer)
scaler.update()
print("scale", scaler.get_scale())
torch.segment_reduce(torch.arange(10.0, device="cuda"), "sum", lengths=torch.tensor([4, 4, 2], device="cuda"))
square = torch.empty(96, 96, device="cuda")
torch.fft.rfft2(torch.empty(85, 85, device="cuda"))
torch.isin(square, square)
"""


class DryRun:
    """The program's blocks between its marks, and what it and memtrace said."""

    def __init__(self, folder):
        script = folder / "program.py"
        self.trace = trace = folder / "dry.db"
        script.write_text(PROGRAM)
        environment = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}  # a fake one
        done = subprocess.run([find_program(), "dry-run", "--device", "sim:h200", "--trace", trace, "--", sys.executable, script],
                              capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        self.said, self.told = done.stdout, done.stderr
        told = subprocess.run(
            [find_program(), "sql", "--trace", trace, "--json",
             "SELECT kind, requested_bytes FROM run_event WHERE kind IN (2, 3) AND run = :run ORDER BY id"],
            check=True, capture_output=True, text=True)
        events = [("free" if kind == 3 else "alloc", size) for kind, size in json.loads(told.stdout)["rows"]]
        marks = [i for i, event in enumerate(events) if event == ("alloc", MARK_BYTES)]
        self.parts = [events[begin + 2:end] for begin, end in zip(marks, marks[1:])]


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    return DryRun(tmp_path_factory.mktemp("dry"))


def peak_of(dry, *options):
    return subprocess.run([find_program(), "peak", "--trace", dry.trace, *options],
                          check=True, capture_output=True, text=True).stdout


def test_a_sum_takes_its_result_and_then_its_staging(dry):
    assert dry.parts[0] == [("alloc", 3072), ("alloc", 25165824), ("alloc", 24), ("free", 24), ("free", 25165824), ("free", 3072)]


def test_each_thread_keeps_a_workspace_of_its_own(dry):
    workspace = 32 << 20
    assert dry.parts[1].count(("alloc", workspace)) == 2  # forward, and autograd's thread
    assert ("free", workspace) not in dry.parts[1]
    assert ("alloc", workspace) not in dry.parts[2]


def test_attention_keeps_its_seed_on_the_host(dry):
    assert dry.parts[3][:2] == [("alloc", 12582912), ("alloc", 196608)]
    assert sorted(dry.parts[3][2:]) == [("free", 196608), ("free", 12582912)]


def test_a_word_among_the_arguments_decides_what_is_counted(dry):
    taken = [3072, 400, 100]  # ones for the source, counts, and whether a count is 0
    assert dry.parts[5] == [("alloc", size) for size in taken] + [("free", size) for size in reversed(taken)]


def test_gradients_that_were_not_computed_are_finite(dry):
    assert "scale 131072.0" in dry.said


def test_an_operator_that_is_not_in_the_table_is_named(dry):
    assert "unknown scratch memory, not counted: aten::isin (1 call), aten::segment_reduce (1 call)" in dry.told


def test_an_operator_whose_plan_is_a_guess_is_an_estimate(dry):
    assert "estimated scratch memory: aten::_fft_r2c (1 call)" in dry.told
    assert "range of the estimates: " in dry.told


def test_peak_tells_of_operators_that_are_not_in_the_table(dry):
    unknown = json.loads(peak_of(dry, "--json"))["unknown"]
    assert [(one["count"], one["bytes"]) for one in unknown] == [(1, 96 * 96), (1, 12)]
    assert "\nscratch memory of these operators is unknown and not counted: " in peak_of(dry)


OPERATORS = """
- func: add.Tensor(Tensor self, Tensor other) -> Tensor
  structured_delegate: add.out

- func: add.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
  dispatch:
    CPU, CUDA: add_out
    MPS: add_out_mps

- func: convolution_backward(Tensor grad_output, Tensor input, Tensor weight) -> (Tensor, Tensor, Tensor)
  dispatch:
    CompositeExplicitAutograd, CUDA: convolution_backward

- func: square(Tensor self) -> Tensor
"""


def test_an_operator_whose_kernel_is_every_device_s_runs_what_it_is_made_of():
    names, shared = simulated.operators_of_cuda(OPERATORS)
    assert names == {"aten::add.Tensor", "aten::add.out"}
    assert shared == {"aten::convolution_backward"}
