"""Operators of other libraries, run dry: kernels in C++ and functions in Python. Skipped where there is a card."""
import json
import pathlib
import subprocess

import pytest
import torch

from memtrace.dry import build
from test_dry_run import Dry

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

# CUDA's runtime without a driver, and PyTorch's check of its errors.
RUNTIME = """
#include <stdexcept>
extern "C" int cudaLaunchKernel(const void *) { return 35; }
extern "C" int cudaGetLastError() { return 35; }
extern "C" int cudaMalloc(void **, unsigned long) { return 35; }
namespace c10::cuda {
void c10_cuda_check_implementation(int error, const char *, const char *, unsigned, bool) {
    if (error != 0)
        throw std::runtime_error("no driver");
}
}
"""

# A library whose kernels for CUDA fail if they run.
LIBRARY = """
#include <torch/library.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/relu.h>
#include <stdexcept>
using at::Tensor;
static Tensor run(const Tensor &) { throw std::logic_error("a kernel for CUDA ran"); }
static void store(Tensor &, const Tensor &) { throw std::logic_error("a kernel for CUDA ran"); }
static Tensor &write_first(Tensor &) { throw std::logic_error("a kernel for CUDA ran"); }
static Tensor shape(const Tensor &x) { return at::empty_like(x); }
static Tensor two_others(const Tensor &x) { return at::relu(at::mul(x, 2)); }
extern "C" int cudaLaunchKernel(const void *);
extern "C" int cudaGetLastError();
extern "C" int cudaMalloc(void **, unsigned long);
namespace c10::cuda { void c10_cuda_check_implementation(int, const char *, const char *, unsigned, bool); }
static Tensor launch(const Tensor &x) {
    Tensor made = at::empty_like(x);
    cudaLaunchKernel(nullptr);
    c10::cuda::c10_cuda_check_implementation(cudaGetLastError(), "native.cpp", "launch", 1, true);
    return made;
}
static Tensor allocate(const Tensor &x) {
    void *memory;
    c10::cuda::c10_cuda_check_implementation(cudaMalloc(&memory, 8), "native.cpp", "allocate", 7, true);
    return x;
}
TORCH_LIBRARY(native, m) {
    m.def("twice(Tensor x) -> Tensor");
    m.def("silent(Tensor x) -> Tensor");
    m.def("write(Tensor(a!) out, Tensor x) -> ()");
    m.def("undeclared(Tensor out, Tensor x) -> ()", torch::dispatch(c10::DispatchKey::CUDA, store));
    m.def("write_first(Tensor(a!) x) -> Tensor(a!)");
    m.def("two_others(Tensor x) -> Tensor", &two_others);
    m.def("launch(Tensor x) -> Tensor", &launch);
    m.def("allocate(Tensor x) -> Tensor", &allocate);
}
TORCH_LIBRARY_IMPL(native, CUDA, m) {
    m.impl("twice", &run);
    m.impl("silent", &run);
    m.impl("write", &store);
    m.impl("write_first", &write_first);
}
TORCH_LIBRARY_IMPL(native, CPU, m) { m.impl("twice", &two_others); }
TORCH_LIBRARY_IMPL(native, Meta, m) { m.impl("twice", &shape); }
"""

PROGRAM = """
import json, sys
import torch

mib, said = 1 << 20, {}
def card(*sizes, **named): return torch.ones(*sizes, device="cuda", **named)
def bytes_of(call):
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    kept = call()
    return torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() - before

x, large = card(4), card(mib)
torch.ops.load_library(sys.argv[1])
native = torch.ops.native
said["twice"] = bytes_of(lambda: native.twice(large))
said["known"] = native.twice(x).tolist()
said["composite"] = bytes_of(lambda: native.two_others(large))
said["launch"] = bytes_of(lambda: native.launch(large))
try: native.allocate(x)
except RuntimeError as error: said["refused"] = str(error)
out, x = card(4), card(4)
native.write(out, x)
said["written"] = [out[0].item(), x[0].item()]
native.undeclared(x, x)
said["first"] = native.write_first(out).data_ptr() == out.data_ptr()
with torch.inference_mode():
    said["inference"] = list(native.twice(large).shape)
said["host"] = native.twice(torch.ones(2)).tolist()

@torch.library.custom_op("mine::body", mutates_args=(), device_types="cuda")
def body(x: torch.Tensor) -> torch.Tensor:
    return (x + 1) * 2
body.register_fake(torch.empty_like)
body.register_autograd(lambda context, gradient: gradient * 2)
weight = card(mib, requires_grad=True)
said["body"] = bytes_of(lambda: body(large))
body(weight).sum().backward()
said["gradient"] = list(weight.grad.shape)

@torch.library.custom_op("mine::looks_for_a_driver", mutates_args=("out",), device_types="cuda")
def looks_for_a_driver(x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    raise OSError("libcuda.so.1 is missing")
@looks_for_a_driver.register_fake
def _(x, out): return x.new_empty(2 * x.shape[0])
said["driver"] = bytes_of(lambda: looks_for_a_driver(large, out))

library = torch.library.Library("late", "DEF")
library.define("chosen(Tensor x) -> Tensor")
@torch.library.register_fake("late::chosen", lib=library)
def _(x): return x.new_empty(torch.library.get_ctx().new_dynamic_size(max=3000), dtype=torch.int64)
torch._C._dispatch_library("IMPL", "late", "CUDA").impl("chosen", "CUDA", lambda x: 1 / 0)  # registered last, and by nobody known
said["chosen"] = [list(late(card(mib)).shape) + list(late(card(2000, 600)).shape) for late in [torch.ops.late.chosen]]
print(json.dumps(said))
sys.stdout.flush()
native.silent(x)
"""


def compile_library(folder):
    """Returns the path of the library, compiled for this PyTorch and linked with the runtime above."""
    torch_folder = pathlib.Path(torch.__file__).parent
    options = [*build.find_compiler(), build.STANDARD, "-O0", "-w", "-shared", "-fPIC",
               f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}", f"-isystem{torch_folder}/include"]
    for name, source, libraries in (("runtime", RUNTIME, []), ("native", LIBRARY, [
            f"-L{torch_folder}/lib", "-ltorch_cpu", "-lc10", str(folder / "runtime.so")])):
        (folder / f"{name}.cpp").write_text(source)
        subprocess.run([*options, str(folder / f"{name}.cpp"), *libraries, "-o", str(folder / f"{name}.so")], check=True)
    return folder / "native.so"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("custom")
    dry = Dry(folder)
    dry.done = dry.run(PROGRAM.replace("sys.argv[1]", repr(str(compile_library(folder)))), code=1)
    dry.said = json.loads(dry.done.stdout)
    dry.unknown = {name for name, in dry.rows("SELECT name FROM caveat WHERE kind = 'unknown'")}
    return dry


MIB4 = 4 << 20  # the bytes of a million floats


def test_results_of_a_kernel_in_cpp_come_from_its_meta_kernel(run):
    assert run.said["twice"] == [MIB4, MIB4] and run.said["inference"] == [1 << 20] and "native::twice" in run.unknown


def test_known_values_are_computed_by_the_kernel_for_the_host(run):
    assert run.said["known"] == [2, 2, 2, 2] and run.said["host"] == [2, 2]


def test_operators_made_of_others_run_with_their_temporaries(run):
    assert run.said["composite"] == [MIB4, 2 * MIB4] and run.said["body"] == [MIB4, 2 * MIB4]
    assert not run.unknown & {"native::two_others", "mine::body"}


def test_arguments_that_a_kernel_writes_are_unknown(run):
    assert run.said["written"] == [1, 1] and run.said["first"] is True
    read = {line for line, in run.rows("SELECT line FROM caveat WHERE kind = 'assumed' AND name = 'a number'")}
    assert len(read) == 1


def test_launches_by_a_librarys_own_code_do_nothing(run):
    assert run.said["launch"] == [MIB4, MIB4]
    assert "a call of CUDA in allocate (native.cpp:7) of " in run.said["refused"] and "native.so" in run.said["refused"]


def test_autograd_formulas_run(run):
    assert run.said["gradient"] == [1 << 20]


def test_a_function_that_fails_without_a_driver_is_replaced_by_its_fake_kernel(run):
    assert run.said["driver"] == [2 * MIB4, 2 * MIB4] and "mine::looks_for_a_driver" in run.unknown
    assert "mine::looks_for_a_driver fails without a card (libcuda.so.1 is missing)" in run.done.stderr


def test_a_size_that_depends_on_values_is_assumed(run):
    assert run.said["chosen"] == [[3000, 2000]]
    assert run.rows("SELECT count(*) FROM caveat WHERE kind = 'assumed' AND name = 'late::chosen (a size)'") == [(1,)]


def test_an_operator_without_a_fake_kernel_ends_the_program_by_name(run):
    assert 'NotImplementedError: memtrace: the shapes of the results of native::silent' in run.done.stderr
    assert '@torch.library.register_fake("native::silent")' in run.done.stderr
