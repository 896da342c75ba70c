"""Compiled programs on a simulated card: PyTorch's own Dynamo, AOTAutograd and Inductor run, and so does the code that Inductor
generates, but its Triton kernels are neither compiled nor launched.

    CachingAutotuner       ──▶ Inductor's own: benchmarks its configurations, and so takes memory
      _precompile_config   ──▶ Uncompiled: compiled only if the number of its registers is needed
        launcher           ──▶ what the kernel may write becomes unknown

Nothing here needs a driver. Compiled graphs are kept in memtrace's cache, and none is written to the user's.
"""
from __future__ import annotations

import atexit
import copy
import functools
import importlib
import math
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

import torch

from .._private_names import has, original_of, replace, wrap
from .._settings import settings
from ..recording.labels import Labels
from . import cache, cached_keys, while_loops
from .imported import follow
from .inductor_choices import Choices
from .triton_writes import written_parameters

FOLDER = "TORCHINDUCTOR_CACHE_DIR"
MODULES = ("torch._inductor.compile_fx", "torch._inductor.async_compile", "torch._inductor.runtime.triton_heuristics",
           "torch._inductor.runtime.benchmarking", "torch._inductor.runtime.autotune_cache", "torch._inductor.fx_passes.pad_mm",
           "torch._inductor.select_algorithm", "torch._inductor.graph")

MOST_GRAPH_BYTES = 2 << 30  # of compiled graphs that are kept
MOST_REGISTERS, WARP = 255, 32  # of a thread; threads
LEAST_REDUCED = 64  # numbers of a block that Inductor does not halve (_iter_rblock_scale_candidates)

is_changed = False  # Inductor is, and can be used


# ---- kernels ----

class Kernel:
    """What Inductor asks of a kernel that it has compiled."""

    hash = ""

    def __init__(self, compile: Callable[[], Any], decides: Callable[[], bool]) -> None:
        self._compile, self._decides = compile, decides

    @functools.cached_property
    def n_regs(self) -> int:
        """Returns the registers of a thread, for which the kernel is compiled; 0 if Inductor decides the same for any number."""
        if not self._decides():
            return 0
        compiled = self._compile().kernel
        compiled._init_handles()
        return int(compiled.n_regs)


class Uncompiled:
    """A kernel with one of its configurations."""

    def __init__(self, cards: Any, function: Any, config: Any, kernel: Kernel) -> None:
        self.cards, self.function, self.config, self.kernel = cards, function, config, kernel

    def make_launcher(self) -> Any:
        names = passed_names(self.function)
        written = written_parameters(self.function)

        def launcher(*given: Any, **named: Any) -> None:
            # Kernels of the program may be passed other arguments than Inductor's: then any may be written.
            by_name = zip(names, given) if len(given) == len(names) else ((None, value) for value in given)
            for name, value in (*by_name, *named.items()):
                if not isinstance(value, torch.Tensor):
                    continue
                self.cards.device.memtrace_dry_used(value._cdata)
                if name is None or name in written:
                    self.cards.device.memtrace_dry_written(value._cdata)

        made: Any = launcher
        made.config, made.n_regs, made.n_spills, made.shared = self.config, 0, 0, 0
        made.store_cubin, made.cache_hash = False, None
        return made


def passed_names(function: Any) -> list[str]:
    """Returns the parameters of a kernel that its launcher is given, in order."""
    return [name for index, name in enumerate(function.arg_names) if index not in function.constexprs]


def registers_decide(properties: Any, size_hints: dict[str, int], config: Any) -> bool:
    """True if Inductor tries smaller blocks of a reduction for some number of registers: a grid that is resident at once with the most
    registers gets none, and neither do small blocks. Kernels of several reductions, since PyTorch 2.14, are not examined."""
    if "XBLOCK" not in config.kwargs:
        return True
    blocks = -(-size_hints["x"] // config.kwargs["XBLOCK"])
    reduced = math.prod(size for name, size in config.kwargs.items() if name.startswith("R"))
    resident = max(properties.regs_per_multiprocessor // (MOST_REGISTERS * WARP * config.num_warps), 1)
    return reduced > LEAST_REDUCED and bool(blocks > resident * properties.multi_processor_count)


def precompile(cards: Any, original: Callable[..., Any], tuner: Any, config: Any) -> Uncompiled:
    def decides() -> bool:
        return registers_decide(tuner.device_props, tuner.size_hints, config)

    return Uncompiled(cards, tuner.fn, config, Kernel(lambda: original(tuner, config), decides))


def load_new(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Loads a kernel whose configuration is open, or known by now, as the processes do that compile for a card."""
    heuristics = original_of("torch._inductor.runtime.triton_heuristics.check_autotune_cache")
    kernel = copy.copy(original(*given, **named))
    kernel.configs = heuristics(kernel.configs, kernel.filename, kernel.inductor_meta)[0]
    return kernel


# ---- settings ----

def configure(config: Any) -> None:
    """Sets what torch._inductor.config has for a run without a card."""
    config.compile_threads = 1
    config.fx_graph_remote_cache = False
    for name in ("use_static_cuda_launcher", "use_static_triton_launcher"):  # which loads kernels into the driver; named by version
        if hasattr(config, name):
            setattr(config, name, False)


def compile_to_python(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Compiles a graph to Python code. It allocates the same memory as the wrapper in C++."""
    patches = {name: value for name, value in (named.get("config_patches") or {}).items() if name != "cpp_wrapper"}
    with original_of("torch._inductor.config.patch")(cpp_wrapper=False):
        return original(*given, **{**named, "config_patches": patches or None})


def make_graph(original: Callable[..., Any], graph: Any, *given: Any, **named: Any) -> None:
    """Makes a graph. Refuses AOTInductor, whose programs run without Python."""
    if named.get("aot_mode"):
        raise RuntimeError("memtrace: a dry run has no AOTInductor, whose programs call CUDA themselves: leave it out where os.environ "
                           "has MEMTRACE_DRY_DEVICE")
    original(graph, *given, **named)


def make_python_graph(original: Callable[..., Any], graph: Any, *given: Any, **named: Any) -> None:
    """Makes a graph for Python code, also in a backward that is compiled after compile_to_python."""
    make_graph(original, graph, *given, **{**named, "cpp_wrapper": False})


def refuse_programs() -> None:
    """Refuses AOTInductor, once Inductor is imported, where nothing else of it is changed."""
    def change(module: Any) -> None:
        if has("Inductor's kernels"):
            wrap("torch._inductor.graph.GraphLowering.__init__", make_graph)

    follow({"torch._inductor.compile_fx": change})


def empty_strided(size: Any, stride: Any, dtype: torch.dtype) -> torch.Tensor:
    """Returns a new tensor, as generated code makes it."""
    return torch.empty_strided(size, stride, dtype=dtype, device="cuda")


def folder_for_graphs(has_choices: bool) -> str:
    """Returns the folder for compiled graphs: memtrace's, or one of this process, if the choices of a card decide about graphs."""
    if not has_choices:
        try:
            return str(cache.choose() / "inductor")
        except cache.NoLibrary:
            pass  # said when the library was looked for
    folder = tempfile.mkdtemp(prefix="memtrace-inductor-")
    atexit.register(shutil.rmtree, folder, True)
    return folder


def change(cards: Any, choices: Choices, assume: Callable[[str, float], None]) -> None:
    """Changes Inductor, whose modules are imported."""
    global is_changed
    for name in MODULES:
        importlib.import_module(name)
    if not has("Inductor's kernels"):
        return
    is_changed = True
    cache.trim(pathlib.Path(os.environ[FOLDER]), MOST_GRAPH_BYTES)
    replace("torch._C._dynamo.guards._empty_strided_cuda", empty_strided)
    wrap("torch._inductor.runtime.triton_heuristics.CachingAutotuner._precompile_config", functools.partial(precompile, cards))
    wrap("torch._inductor.async_compile._load_triton_kernel_from_source", load_new)
    wrap("torch._inductor.compile_fx.compile_fx", compile_to_python)
    wrap("torch._inductor.graph.GraphLowering.__init__", make_python_graph)
    choices.begin()
    if has("Triton's key"):
        cached_keys.follow()
    if has("generated code"):
        while_loops.limit(cards.device.memtrace_dry_is_known, assume)


def begin(cards: Any, labels: Labels, assume: Callable[[str, float], None]) -> None:
    """Changes Inductor once it is imported. `assume` is called with values that are not computed: what they are, and the value."""
    choices = Choices(labels, pathlib.Path(settings().inductor_cache).absolute() if settings().inductor_cache else None)
    os.environ[FOLDER] = folder_for_graphs(choices.given is not None)
    follow({"torch._inductor.config": configure,
            "torch._inductor.compile_fx": lambda module: change(cards, choices, assume)})
