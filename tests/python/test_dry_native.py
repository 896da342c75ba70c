"""Libraries that reach the card without PyTorch: they ask NVIDIA's driver, call kernels through ctypes, or end the process. Skipped
where there is a card."""
import pathlib
import shutil
import subprocess

import pytest
import torch
from test_dry_run import dry  # noqa: F401

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

# A library that is linked to the driver, and that gives up without one.
LAUNCHER = """
#include <stdlib.h>
int cuMemAlloc_v2(void **out, unsigned long bytes);
int count(void) { extern int cuDeviceGetCount(int *); int found = 0; cuDeviceGetCount(&found); return found; }
void launch(void) { void *memory; if (cuMemAlloc_v2(&memory, 64) != 0) exit(3); }
"""


@pytest.fixture
def launcher(tmp_path):
    """Returns the path of a library that needs libcuda.so.1."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "driver.c").write_text("int cuMemAlloc_v2(void) { return 1; } int cuDeviceGetCount(void) { return 1; }")
    (tmp_path / "launcher.c").write_text(LAUNCHER)
    for words in (["driver.c", "-o", "libcuda.so", "-Wl,-soname,libcuda.so.1"], ["launcher.c", "-o", "liblauncher.so", "-L.", "-lcuda"]):
        subprocess.run([compiler, "-shared", "-fPIC", *words], cwd=tmp_path, check=True)
    (tmp_path / "libcuda.so").unlink()
    return tmp_path / "liblauncher.so"


def test_libraries_that_ask_the_driver_see_the_simulated_card(dry, launcher):  # noqa: F811
    said = dry.run(f"""
        import ctypes, ctypes.util, os, torch
        x = torch.ones(1 << 20, device="cuda")
        try:
            ctypes.CDLL("libcublas_of_nobody.so.1")
        except OSError:
            print("others are not found")
        assert ctypes.util.find_library("cuda") == "libcuda.so.1"
        print(ctypes.CDLL({str(launcher)!r}).count())

        cuda, number = ctypes.CDLL("libcuda.so"), ctypes.c_int()
        assert cuda.cuInit(0) == cuda.cuDeviceGet(ctypes.byref(number), 0) == 0 and cuda.cuDeviceGet(ctypes.byref(number), 1) == 101
        name, code = ctypes.create_string_buffer(64), ctypes.c_char_p()
        cuda.cuDeviceGetName(name, 64, 0)
        cuda.cuDeviceGetAttribute(ctypes.byref(number), 16, 0)
        print(name.value.decode(), number.value)
        context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
        assert cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 201
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
        cuda.cuCtxSetCurrent(context)
        cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
        assert (free.value, total.value) == torch.cuda.mem_get_info()

        nvml, handle, memory = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
        assert nvml.nvmlInit_v2() == nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
        nvml.nvmlDeviceGetMemoryInfo(handle, memory)
        assert list(memory) == [total.value, free.value, total.value - free.value]
        assert nvml.nvmlDeviceGetName(handle, name, 4) == 7 and nvml.nvmlDeviceGetUUID(handle, name, 64) == 0
        print(name.value.decode())
        count, process = ctypes.c_uint(0), (ctypes.c_uint64 * 3)()
        assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), process) == 7 and count.value == 1
        assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle, ctypes.byref(count), process) == 0
        assert (process[0], process[1]) == (os.getpid(), total.value - free.value)

        table, own = ctypes.c_void_p(), ctypes.c_void_p()
        assert cuda.cuGetExportTable(ctypes.byref(table), name) == 35 and cuda.cuGetProcAddress(b"cuInit", ctypes.byref(own), 13000, 0) == 0
        assert nvml.nvmlDeviceGetBAR1MemoryInfo(handle, name) == 3
        refused = cuda.cuMemAlloc_v2(None)
        cuda.cuGetErrorName(refused, ctypes.byref(code))
        raise RuntimeError(code.value.decode())
        """, code=1)
    assert said.stdout.splitlines() == ["others are not found", "1", "NVIDIA H100 80GB HBM3 132", "GPU-6d656d74-7261-6365-0000-000000000000"]
    assert "RuntimeError: CUDA_ERROR_NOT_SUPPORTED" in said.stderr
    assert "the last call that the driver's stand-in refused: cuMemAlloc_v2" in said.stderr


def test_kernels_that_a_program_compiles_and_loads_itself_run_and_may_write_any_tensor(dry):  # noqa: F811
    said = dry.run("""
        import ctypes, torch
        from torch.cuda import _utils
        x, y = torch.arange(4, device="cuda"), torch.empty(1 << 20, device="cuda")
        assert x.tolist() == [0, 1, 2, 3]
        kernel = _utils._cuda_load_module(b"", ["fill"])["fill"]
        x.sum().item()
        kernel((1, 1, 1), (256, 1, 1), (x, y, 4))
        x.sum().item()
        """)
    assert "values that were not computed: a number (program.py:9) =" in said.stderr and "program.py:7" not in said.stderr


def test_nvidia_smi_describes_the_simulated_cards(dry):  # noqa: F811
    said = dry.run("""
        import ctypes, os, subprocess, torch
        def ask(*words):
            return subprocess.run(["nvidia-smi", *words], capture_output=True, text=True).stdout.splitlines()
        before = int(os.popen("nvidia-smi --query-gpu=memory.free --format=csv,nounits,noheader").read().splitlines()[0])
        x = torch.ones(64 << 20, dtype=torch.uint8, device="cuda")
        free, total = torch.cuda.mem_get_info()
        assert before > free >> 20
        assert ask("--query-gpu=index,memory.used,memory.total", "--format=csv") == [
            "index, memory.used [MiB], memory.total [MiB]", f"0, {total - free >> 20} MiB, {total >> 20} MiB",
            f"1, {total - torch.cuda.mem_get_info(1)[0] >> 20} MiB, {total >> 20} MiB"]
        assert ask("-i", "1", "--query-gpu=gpu_name,compute_cap,fan.speed", "--format=csv,noheader") == ["NVIDIA H100 80GB HBM3, 9.0, [N/A]"]
        nvml, handle, text = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_void_p(), ctypes.create_string_buffer(96)
        nvml.nvmlDeviceGetHandleByIndex_v2(1, ctypes.byref(handle))
        nvml.nvmlDeviceGetUUID(handle, text, 96)
        assert ask("-L")[1] == f"GPU 1: NVIDIA H100 80GB HBM3 (UUID: {text.value.decode()})"
        nvml.nvmlSystemGetDriverVersion(text, 96)
        assert ask("--query-gpu=driver_version", "--format=csv,noheader")[0] == text.value.decode()
        assert f"{total - free >> 20:7}MiB / {total >> 20:7}MiB" in "".join(ask())
        assert os.waitstatus_to_exitcode(os.system("nvidia-smi -i 7 > absent")) == 6
        print(os.environ["PATH"].split(os.pathsep)[0])
        """, "--cards", "2")
    assert "nvidia-smi-" in said.stdout and not pathlib.Path(said.stdout.strip()).exists()


def test_nvidia_ml_py_shows_the_memory_that_the_program_holds(dry):  # noqa: F811
    pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
    said = dry.run("""
        import torch, pynvml
        x = torch.ones(64 << 20, dtype=torch.uint8, device="cuda")
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory, (free, total) = pynvml.nvmlDeviceGetMemoryInfo(handle), torch.cuda.mem_get_info()
        assert (memory.total, memory.free, memory.used) == (total, free, total - free)
        assert pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2).used == memory.used > 64 << 20
        try:
            pynvml.nvmlDeviceGetEccMode(handle)
        except pynvml.NVMLError_NotSupported:
            print(pynvml.nvmlDeviceGetCudaComputeCapability(handle), torch.cuda.utilization())
        """)
    assert said.stdout == "(9, 0) 0\n"


def test_native_code_that_uses_memory_of_the_card_is_named(dry):  # noqa: F811
    said = dry.run("""
        import ctypes, torch
        def look(tensor):
            ctypes.string_at(tensor.data_ptr(), 8)
        look(torch.ones(4096, device="cuda"))
        """, code=139)
    assert "used memory of the simulated card, which holds no data: Segmentation fault, called at __init__.py:" in said.stderr
    assert "from program.py:4" in said.stderr
    assert "the process was killed, or ended in native code; until then peak 16.00 KiB live" in said.stderr


def test_a_library_that_ends_the_process_is_named(dry, launcher):  # noqa: F811
    said = dry.run(f"""
        import ctypes, torch
        torch.ones(4096, device="cuda")
        ctypes.CDLL({str(launcher)!r}).launch()
        """, code=3)
    assert ("launch of liblauncher.so ended the process: it called exit, called at program.py:4; "
            "the last call that the driver's stand-in refused: cuMemAlloc_v2") in said.stderr


# ---- bitsandbytes ----

# What matters of bitsandbytes: the same modules and names, an operator of each kind, and no native library.
BITS = {
    "__init__.py": "import torch; from . import cextension, kernels, functional",
    "cextension.py": """
import ctypes, pathlib
class CudaBNBNativeLibrary:
    def __init__(self, library):
        self._lib = library
        library.get_context.restype = ctypes.c_void_p
    def __getattr__(self, name):
        return getattr(self._lib, name)
lib = CudaBNBNativeLibrary(ctypes.cdll.LoadLibrary(str(pathlib.Path(__file__).with_name("libbitsandbytes_cuda130.so"))))
""",
    "_ops.py": """
import torch
register_kernel = torch.library.register_kernel
torch.library.define("bitsandbytes::quantize_blockwise", "(Tensor A, int size) -> (Tensor, Tensor)")
torch.library.define("bitsandbytes::update", "(Tensor g, Tensor(a!) p) -> ()")
""",
    "kernels.py": """
import torch
from ._ops import register_kernel
from .cextension import lib
@register_kernel("bitsandbytes::quantize_blockwise", "cuda")
def _(A, size):
    out, most = torch.empty_like(A, dtype=torch.uint8), torch.empty(A.numel() // size, device=A.device)
    lib.cquantize_blockwise_fp32(A.data_ptr(), out.data_ptr(), most.data_ptr())
    return out, most
def update(g, p):
    lib.cadam_8bit_blockwise_grad_fp32(g.data_ptr(), p.data_ptr())
register_kernel("bitsandbytes::update", "cuda")(update)
""",
    "functional.py": """
import ctypes
from .cextension import lib
def page(size):
    return (ctypes.c_char * size).from_address(lib.cget_managed_ptr(ctypes.c_size_t(size)))
""",
}


def test_kernels_that_bitsandbytes_calls_through_ctypes_are_left_out(dry):  # noqa: F811
    folder = dry.folder / "bitsandbytes"
    folder.mkdir()
    for name, source in BITS.items():
        (folder / name).write_text(source)
    said = dry.run("""
        import bitsandbytes as bnb, torch
        p = torch.zeros(64, device="cuda")
        torch.ops.bitsandbytes.update(torch.zeros(64, device="cuda"), p)
        quantized, most = torch.ops.bitsandbytes.quantize_blockwise(torch.zeros(4096, device="cuda"), 64)
        print(p[0].item(), most[1].item(), quantized.dtype, bnb.functional.page(3 << 20)[1 << 20])
        try:
            bnb.cextension.lib.cnew_kernel(1)
        except RuntimeError as error:
            print(error)
        """)
    assert said.stdout.splitlines()[0] == "1.0 1.0 torch.uint8 b'\\x00'"
    assert "does not know bitsandbytes' native function cnew_kernel" in said.stdout
    assert "values that were not computed: a number (program.py:6)" in said.stderr
    assert dry.rows("SELECT kind, bytes FROM outside WHERE name LIKE 'bitsandbytes%'") == [("library", 3 << 20)]


def test_bitsandbytes_optimizers_and_quantized_layers_run(dry):  # noqa: F811
    pytest.importorskip("bitsandbytes")
    said = dry.run("""
        import bitsandbytes as bnb, torch
        for optimizer in (bnb.optim.Adam8bit, bnb.optim.PagedAdamW8bit, bnb.optim.Lion8bit):
            net = torch.nn.Linear(1024, 1024).cuda()
            adam = optimizer(net.parameters(), lr=1e-3)
            net(torch.randn(8, 1024, device="cuda")).sum().backward()
            adam.step()
            print(sum(value.nbytes for state in adam.state.values() for value in state.values() if torch.is_tensor(value) and value.is_cuda))
        four = dict(compute_dtype=torch.bfloat16, quant_type="nf4", compress_statistics=True)
        for net, dtype in ((bnb.nn.Linear4bit(1024, 1024, **four), torch.bfloat16),
                           (bnb.nn.Linear8bitLt(1024, 1024, has_fp16_weights=False, threshold=6.0), torch.float16)):
            x = torch.randn(8, 1024, device="cuda", dtype=dtype, requires_grad=True)
            net.cuda()(x).sum().backward()
            print(net.weight.nbytes, x.grad.shape)
        """, "--steps", "all")
    states = (2 << 20) + 2 * 4096 * 4 + 2 * 1024 * 4 + 2 * 256 * 4  # bytes; maxima of blocks; moments of the bias; maps
    assert said.stdout.splitlines()[0] == str(states)
    assert said.stdout.splitlines()[3:] == [f"{1 << 19} torch.Size([8, 1024])", f"{1 << 20} torch.Size([8, 1024])"]


# ---- apex ----

def test_compiled_modules_of_apex_have_stand_ins(dry):  # noqa: F811
    (dry.folder / "apex.py").write_text("")
    said = dry.run("""
        import torch, amp_C, apex, fused_layer_norm_cuda as norms, fused_weight_gradient_mlp_cuda as products

        def most(call):
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_stats()["requested_bytes.all.current"]
            made = call()
            return made, torch.cuda.memory_stats()["requested_bytes.all.peak"] - before

        flag, g, p = (torch.zeros(size, device="cuda", dtype=dtype) for size, dtype in ((1, torch.int), (3000, None), (3000, None)))
        amp_C.multi_tensor_adam(2048, flag, [[g], [p]], 1e-3)
        print(p[0].item(), g[0].item(), flag.item())
        (whole, each), peak = most(lambda: amp_C.multi_tensor_l2norm(2048, flag, [[g, p]], True))
        print(whole.shape, each.shape, peak)
        x, weight = torch.zeros(8, 1024, device="cuda", dtype=torch.bfloat16), torch.zeros(1024, device="cuda", dtype=torch.bfloat16)
        (y, mean, scale), peak = most(lambda: norms.forward_affine(x, (1024,), weight, weight, 1e-5))
        print(y.dtype, mean.dtype, mean.shape, scale.shape, peak)
        print(most(lambda: norms.rms_backward_affine(y, scale, x, (1024,), weight, 1e-5, False))[1])
        products.wgrad_gemm_accum_fp32(x, y, g)
        print(g[0].item())
        """)
    parts = (320 + 2 * 2 + 2 + 1) * 4  # sums of blocks and of chunks, a norm of each tensor and of all
    row = 1024 * 2
    assert said.stdout.splitlines() == [
        "1.0 0.0 0", f"torch.Size([1]) torch.Size([2]) {parts}",
        f"torch.bfloat16 torch.float32 torch.Size([8]) torch.Size([8]) {8 * row + 2 * 8 * 4}",
        str(8 * row + row + 16 * 1024 * 4), "1.0"]
    assert "apex is not built with amp_C here: it counts as built" in said.stderr
