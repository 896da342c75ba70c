"""Triton on a simulated card: its own host code runs, and kernels are neither compiled nor launched.

    JITFunction.run ──▶ binds and checks arguments, hooks, grid       Triton's own
      compile       ──▶ Kernel: compiled when the program asks for something that only a compiler knows
      Launcher      ──▶ scratch memory, hooks; what the kernel may write becomes unknown
      Utils         ──▶ the card's properties, and the registers of a compiled kernel

Nothing here needs a driver: Triton compiles with the ptxas of its wheel.
"""
from __future__ import annotations

import importlib
import operator
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import torch

from .._private_names import has, original_of, replace, wrap
from ..recording.labels import Labels
from .imported import follow
from .triton_tuning import Tuning
from .triton_writes import makes_descriptors, written_parameters

MOST_BLOCKS = 65535  # of a grid's second and third dimension
MOST_THREADS = 1024  # of a block
REGISTERS = 65536  # of a multiprocessor
WARP = 32
LEAST_WITH_DESCRIPTORS = 90  # the compute capability whose kernels hold tensor descriptors in scratch memory
RATES = {"sm_clock_rate": 1980000, "mem_clock_rate": 2619000, "mem_bus_width": 5120}  # an H100's: programs print bandwidths with them


# ---- the card ----

def utils_class(cards: Any) -> type:
    """Returns the class of the functions that Triton compiles against CUDA's driver."""

    class CudaUtils:
        def get_device_properties(self, device: int) -> dict[str, int]:
            card = cards.properties(device)
            return {"max_shared_mem": card.shared_memory_per_block_optin, "max_num_regs": card.regs_per_multiprocessor,
                    "multiprocessor_count": card.multi_processor_count, "warpSize": card.warp_size, **RATES}

        def get_device_capability(self, device: int) -> tuple[int, int]:
            card = cards.properties(device)
            return card.major, card.minor

        def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, ...]:
            """Returns a module, a function, the registers, those spilled, and, for a Triton that takes it, the most threads."""
            registers, spilled = used_registers(name, binary)
            numbers = 1, 1, registers, spilled, most_threads(registers)
            init = original_of("triton.compiler.CompiledKernel._init_handles")
            return numbers if "n_max_threads" in init.__code__.co_names else numbers[:-1]

        def cuOccupancyMaxActiveClusters(self, *given: Any) -> int:
            return 1

        def is_stream_capturing(self, stream: int) -> bool:
            return bool(torch.cuda.is_current_stream_capturing())

        def __getattr__(self, name: str) -> Any:
            if not name.startswith(("fill_", "set_", "unload_")):
                raise AttributeError(f"memtrace: a dry run has no function {name} of Triton's driver")
            return lambda *given, **named: None

    return CudaUtils


def most_threads(registers: int) -> int:
    """Returns how many threads of a block have enough registers, which are allocated by eight for each thread."""
    return min(MOST_THREADS, REGISTERS // max(8, -(-registers // 8) * 8) // WARP * WARP)


def used_registers(name: str, binary: bytes) -> tuple[int, int]:
    """Returns the registers of a kernel, and the 32-bit words that it keeps in local memory in their place."""
    from triton.backends import nvidia  # type: ignore[import-untyped]

    tool = os.path.join(os.path.dirname(nvidia.__file__), "bin", "cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"Function {re.escape(name)}:\s*REG:(\d+) STACK:(\d+).* LOCAL:(\d+)", text)
    if found is None:
        raise RuntimeError(f"memtrace: {tool} does not print the registers of kernel {name}")
    registers, stack, local = map(int, found.groups())
    return registers, (stack + local) // 4


# ---- kernels ----

def kernel_class(base: Any) -> Any:
    """Returns the class of kernels that are compiled late, for Triton's CompiledKernel."""

    class Kernel(base):  # type: ignore[misc]
        def __init__(self, src: Any, compile: Callable[[], Any]) -> None:
            self.src, self._compile = src, compile
            self.module = self.function = self.packed_metadata = None
            self._run = original_of("triton.backends.nvidia.driver.CudaLauncher")(src, self)

        def __getattr__(self, name: str) -> Any:
            """Compiles the kernel, since its code, its metadata or its registers are needed."""
            if name.startswith("__"):
                raise AttributeError(name)
            known = self.__dict__
            if "_compile" in known:
                known.update({**vars(known.pop("_compile")()), "_run": self._run})
            if name not in known and self.module is None:
                self._init_handles()
            if name not in known:
                raise AttributeError(f"'{base.__name__}' object has no attribute '{name}'")
            return known[name]

        def launch_metadata(self, grid: Any, stream: int, *given: Any) -> Any:
            return super().launch_metadata(grid, stream, *given) if has_hooks(base) else None

    return Kernel


def has_hooks(compiled: Any) -> bool:
    """True if the program wants to be called at launches."""
    import triton  # type: ignore[import-untyped]

    owner = triton.knobs.runtime if hasattr(triton, "knobs") else compiled
    hook = owner.launch_enter_hook
    return hook is not None and bool(getattr(hook, "calls", True))


def compiler_of(original: Callable[..., Any], late: Any) -> Callable[..., Any]:
    """Returns a function that replaces Triton's compiler for kernels in Python."""
    def compile(src: Any, *given: Any, **named: Any) -> Any:
        if not hasattr(src, "fn"):
            return original(src, *given, **named)
        return late(src, lambda: original(src, *given, **named))

    return compile


# ---- launches ----

def launcher_class(cards: Any) -> type:
    """Returns the class that launches kernels. `metadata` may be a kernel that is not compiled yet."""

    class CudaLauncher:
        def __init__(self, src: Any, metadata: Any) -> None:
            self.src, self.compiled = src, metadata
            self.written = written_parameters(src.fn)
            self.has_scratch = cards.description.capability >= LEAST_WITH_DESCRIPTORS and makes_descriptors(src.fn)

        def __call__(self, x: int, y: int, z: int, stream: int, function: Any, packed: Any, metadata: Any, enter: Any, leave: Any,
                     *given: Any) -> None:
            blocks = count_blocks(x, y, z)
            for name, value in self.named(given):
                for index, tensor in enumerate(tensors_in(value)):
                    check_pointer(tensor, name)
                    cards.device.memtrace_dry_used(tensor._cdata)
                    if name in self.written and blocks:
                        cards.device.memtrace_dry_written(tensor._cdata)
            scratch = self.scratch(blocks, stream)
            if enter is not None:
                enter(metadata)
            if leave is not None:
                leave(metadata)
            del scratch

        def named(self, given: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
            """Returns the arguments with their parameters. Triton before 3.3 omits constants."""
            names = self.src.fn.arg_names
            if len(given) < len(names):
                names = [name for index, name in enumerate(names) if index not in self.src.fn.constexprs]
            return zip(names, given)

        def scratch(self, blocks: int, stream: int) -> Any:
            """Returns the scratch memory that the program's allocator returns for the kernel."""
            if not self.has_scratch:
                return None
            from triton.runtime import _allocation  # type: ignore[import-untyped]

            metadata = getattr(self.compiled, "metadata", self.compiled)
            size = blocks * getattr(metadata, "num_ctas", 1) * metadata.global_scratch_size
            return _allocation._allocator.get()(size, metadata.global_scratch_align, stream) if size else None

    return CudaLauncher


def count_blocks(x: int, y: int, z: int) -> int:
    """Returns the blocks of a grid. Fails as Triton and CUDA do if it is none."""
    if operator.index(y) > MOST_BLOCKS or operator.index(z) > MOST_BLOCKS:
        raise RuntimeError(f"Triton Error [CUDA]: invalid argument: the grid is {x} x {y} x {z}; the second and third number are at "
                           f"most {MOST_BLOCKS}")
    return operator.index(x) * y * z


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Returns the tensors of an argument: itself, a tuple's, and the base of a wrapper or descriptor."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from tensors_in(each)
    elif hasattr(value, "base"):
        yield from tensors_in(value.base)


def check_pointer(tensor: torch.Tensor, name: str) -> None:
    """Fails as Triton does for a tensor on the host that is not pinned."""
    if tensor.device.type == "cpu" and tensor.numel() and not tensor.is_pinned():
        raise ValueError(f"Pointer argument {name} cannot be accessed from Triton (cpu tensor?)")


# ---- interpreter ----

def refuse_interpreter(original: Callable[..., Any], executor: Any, *given: Any, **named: Any) -> Any:
    """Runs an interpreted kernel, unless it would read the memory of a card."""
    values = tensors_in((given, tuple(named.values())))
    if any(tensor.device.type == "cuda" for tensor in values):
        raise RuntimeError("memtrace: a dry run has no memory of a card that Triton's interpreter could read: unset TRITON_INTERPRET")
    return original(executor, *given, **named)


# ---- replacing ----

def replace_driver(classes: dict[str, type]) -> None:
    """Replaces classes of Triton's driver, also in the copy of its module that Triton 3.2 loads without a name."""
    for name, replacement in classes.items():
        replace(f"triton.backends.nvidia.driver.{name}", replacement)
    original_of("triton.backends.backends")["nvidia"].driver.__init__.__globals__.update(classes)


def begin(cards: Any, labels: Labels) -> None:
    """Changes Triton once it is imported."""
    def change(module: Any) -> None:
        for name in ("triton.backends.nvidia.driver", "triton.testing"):
            importlib.import_module(name)
        if has("Triton's kernels"):
            late = kernel_class(original_of("triton.compiler.CompiledKernel"))
            replace_driver({"CudaUtils": utils_class(cards), "CudaLauncher": launcher_class(cards)})
            replace("triton.compiler.compile", compiler_of(original_of("triton.compiler.compile"), late))
        if has("Triton's benchmarks"):
            Tuning(cards, labels).begin()

    def change_interpreter(module: Any) -> None:
        if has("Triton's interpreter"):
            wrap("triton.runtime.interpreter.GridExecutor.__call__", refuse_interpreter)

    follow({"triton": change, "triton.runtime.interpreter": change_interpreter})
