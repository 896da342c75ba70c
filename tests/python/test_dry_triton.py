"""Triton kernels in dry runs: what runs on the host as on a card, and what their launches may have written."""
import json
import os
import re
import subprocess
import sys

import pytest

from memtrace._library import find_program

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")
MIB = 1 << 20

PROGRAM = """
import json, torch, triton, triton.language as tl
from torch.library import triton_op, wrap_triton
from torch.utils._triton import has_triton

said = {}

@triton.jit
def double(x, lengths, y, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + places, tl.load(x + places, mask=places < count) * tl.load(lengths), mask=places < count)

@triton.autotune(configs=[triton.Config({"BLOCK": 512}), triton.Config({"BLOCK": 1024})], key=["count"], restore_value=["x"],
                 reset_to_zero=["y"], cache_results=True)
@triton.heuristics({"EVEN": lambda given: given["count"] % given["BLOCK"] == 0})
@triton.jit
def tuned(x, y, count, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + places, tl.load(x + places))

def error_of(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def scratch(given):
    torch.empty(given["BLOCK"], device="cuda")

@triton.autotune(configs=[triton.Config({"BLOCK": block}, pre_hook=scratch) for block in (512, 1024, 2048)], key=["count"])
@triton.jit
def hooked(x, count, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), 0.0)

x, lengths = torch.arange(4.0, device="cuda"), torch.tensor([3, 1], device="cuda")
y, host = torch.zeros_like(x), torch.ones(4)
double[lambda given: (triton.cdiv(given["count"], given["BLOCK"]),)](x, lengths, y, 4, BLOCK=128)
said["inputs"] = x.tolist(), lengths.tolist()
said["output"] = y.tolist()
said["unknown keyword"] = error_of(lambda: double[(1,)](x, lengths, y, 4, BLOCK=128, nothing=1))
said["host"] = error_of(lambda: double[(1,)](host, lengths, y, 4, BLOCK=128))
said["pinned"] = error_of(lambda: double[(1,)](host.pin_memory(), lengths, y, 4, BLOCK=128))
said["grid"] = error_of(lambda: double[(1.5,)](x, lengths, y, 4, BLOCK=128))
before = []
double.add_pre_run_hook(lambda *given, **named: before.append(named["BLOCK"]))
double[(1,)](x, lengths, y, 4, BLOCK=256)
said["hooks"] = list(before)
kernel = double.warmup(x, lengths, y, 4, BLOCK=1024, grid=(1,))
kernel._init_handles()
driver = triton.runtime.driver.active
said["compiled"] = kernel.n_regs > 8, kernel.n_spills, "cubin" in kernel.asm, kernel.metadata.num_warps
said["card"] = driver.get_current_target().arch, driver.utils.get_device_properties(0)["max_shared_mem"]
properties = torch.cuda.get_device_properties(0)
said["torch"] = has_triton(), properties.shared_memory_per_block_optin, properties.L2_cache_size

large = torch.ones(8 << 20, dtype=torch.uint8, device="cuda")
out = torch.empty_like(large)
torch.cuda.reset_peak_memory_stats()
grids = []
def grid(given):
    grids.append(given["BLOCK"])
    return (triton.cdiv(given["count"], given["BLOCK"]),)
tuned[grid](large, out, large.numel())
said["benchmark"] = torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated(), sorted(set(grids))
count = len(grids)
tuned[grid](large, out, large.numel())
said["later"] = len(grids) - count, tuned.best_config.kwargs
hooked[(1,)](x, 4)
said["time"] = triton.testing.do_bench(lambda: None)

@triton_op("memtrace_test::double", mutates_args={})
def operator(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    wrap_triton(double)[(1,)](x, lengths, y, x.numel(), BLOCK=128)
    return y
said["operator"] = list(operator(x).shape)
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What the program said, the run with its caveats and the verdict, and the files in Triton's cache."""
    folder = tmp_path_factory.mktemp("triton")
    done = dry(folder, PROGRAM, TRITON_CACHE_DIR=str(folder / "cache"))
    assert done.returncode == 0, done.stderr
    runs = subprocess.run([find_program(), "runs", "--json"], cwd=folder, capture_output=True, text=True, check=True)
    return json.loads(done.stdout), {**json.loads(runs.stdout)["rows"][0], "verdict": done.stderr}, {
        path.name for path in folder.rglob("cache/*/*")}


def dry(folder, source, *options, **variables):
    (folder / "program.py").write_text(source)
    environment = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}  # a fake one
    return subprocess.run([find_program(), "dry-run", "--device", "sim:rtx4090", *options, "--", sys.executable, "program.py"], cwd=folder,
                          capture_output=True, text=True, env={**environment, **variables})


def test_a_launch_makes_what_it_may_write_unknown_and_nothing_else(run):
    said, stored, _ = run
    assert said["inputs"] == [[0.0, 1.0, 2.0, 3.0], [3, 1]] and said["output"] == [1.0] * 4
    assert [row["line"] for row in stored["assumed"]] == [PROGRAM.splitlines().index('said["output"] = y.tolist()') + 1]


def test_arguments_are_checked_as_on_a_card(run):
    said, *_ = run
    assert said["unknown keyword"] == "KeyError: 'Keyword argument nothing was specified but unrecognised'"
    assert said["host"] == "ValueError: Pointer argument x cannot be accessed from Triton (cpu tensor?)" and said["pinned"] is None
    assert said["grid"].startswith("TypeError: 'float'")
    assert said["hooks"] == [256]


def test_the_card_and_compiled_kernels_are_described(run):
    said, *_ = run
    assert said["compiled"] == [True, 0, True, 4]
    assert said["card"] == [89, 99 << 10] and said["torch"] == [True, 99 << 10, 72 << 20]


def test_an_autotuner_benchmarks_once_with_the_buffers_of_a_card(run):
    said, *_ = run
    peak, live, blocks = said["benchmark"]
    assert peak - live == 256 * MIB + 8 * MIB and blocks == [512, 1024]  # the flushed cache and a clone of x
    assert said["later"] == [1, {"BLOCK": 512}] and said["time"] == 1.0


def test_choices_by_time_are_in_the_verdict(run):
    _, stored, _ = run
    assert [(row["name"], row["count"], row["total"]) for row in stored["choices"]] == [("hooked", 2, 3), ("tuned", 0, 2)]
    line = next(number for number, text in enumerate(PROGRAM.splitlines(), 1) if "pre_hook=scratch" in text)
    assert re.search(rf"memtrace: a card takes the fastest variant, here assumed: hooked \(program.py:{line}\) of 3 "
                     r"\(2 would request up to [0-9.]+ KiB more or less\), tuned \(program.py:", stored["verdict"])


def test_compiled_kernels_are_stored_for_later_runs_and_choices_are_not(run):
    *_, files = run
    assert "double.cubin" in files and not [name for name in files if "autotune" in name]


def test_operators_of_triton_kernels_run(run):
    assert run[0]["operator"] == [4]


def test_the_interpreter_is_refused_for_tensors_on_a_card(tmp_path):
    done = dry(tmp_path, """if True:
        import torch, triton, triton.language as tl
        @triton.jit
        def fill(x):
            tl.store(x, 7.0)
        host = torch.zeros(1)
        fill[(1,)](host)
        print(host.item(), flush=True)
        fill[(1,)](torch.zeros(1, device="cuda"))
        """, TRITON_INTERPRET="1")
    assert done.returncode == 1 and done.stdout == "7.0\n"
    assert "memtrace: a dry run has no memory of a card that Triton's interpreter could read: unset TRITON_INTERPRET" in done.stderr


def test_a_program_that_lacks_triton_is_told_to_install_it(tmp_path):
    done = dry(tmp_path, """if True:
        import sys, torch
        torch.zeros(1, device="cuda")
        sys.modules["triton"] = None
        try:
            import triton
        except ImportError as error:
            raise RuntimeError("no kernels") from error
        """)
    assert done.returncode == 1 and "memtrace: this Python has no Triton, which the program needs: pip install triton" in done.stderr


# ---- what kernels may write ----

@triton.jit
def add_one(pointer, value):
    tl.store(pointer, value + 1)


@triton.jit
def moved(pointer, offset):
    return pointer + offset


@triton.jit
def reads_and_writes(a, b, c, d, e, f, g, n, BLOCK: tl.constexpr):
    """Writes b, d, e and g. The number n is in what makes b's block pointer, so that it counts, too."""
    places = tl.arange(0, BLOCK)
    a_places = a + places
    values = tl.load(a_places, mask=places < n) + tl.load(c)
    block = tl.make_block_ptr(base=b, shape=(n,), strides=(1,), offsets=(0,), block_shape=(BLOCK,), order=(0,))
    for _ in range(4):
        tl.store(block, values.to(c.dtype.element_ty))
        block = tl.advance(block, (BLOCK,))
    add_one(value=tl.load(moved(f, 1)), pointer=moved(d, 1))
    tl.atomic_add(e, tl.sum(values, axis=0))
    tl.atomic_xchg(g, 0)


@triton.jit
def writes_through_loaded_pointers(addresses, x):
    tl.store(tl.load(addresses).to(tl.pointer_type(tl.float32)), tl.load(x))


@triton.jit
def calls_its_argument(x, y, f: tl.constexpr):
    f(x)
    tl.load(y)


@pytest.mark.parametrize("kernel, names", [
    (reads_and_writes, "bdegn"), (writes_through_loaded_pointers, ["addresses", "x"]), (calls_its_argument, "x"),
    (add_one, ["pointer"]), (moved, "")])
def test_what_a_kernel_may_write_is_found_in_its_source(kernel, names):
    pytest.importorskip("torch")
    from memtrace.dry import triton_writes

    assert sorted(triton_writes.written_parameters(kernel)) == sorted(names)
