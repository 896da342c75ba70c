"""What Inductor chooses by time, in a dry run, which measures none.

    a kernel's configuration     the first, or the card's          Inductor's .best_config files
    a matmul's kernel            the first, PyTorch's own, or the card's
    padding of a matmul          a rule by size, or the card's     Inductor's cache/ folder

The card's choices come from a cache of Inductor that --inductor-cache names. Choices of this run are kept in memory, so that
each run tunes as the first one on a card does. Tuning takes memory, whose category is Autotune.
"""
from __future__ import annotations

import json
import math
import os
import pathlib
from collections.abc import Callable
from typing import Any, Optional

import torch

from .._private_names import has, original_of, replace, wrap
from ..recording.labels import Labels
from .cached_garbage import Garbage
from .cached_padding import PAD_MM, Padding
from .places import Place
from .triton_tuning import CATEGORY, Choice, Kernel, choices

HALVES = torch.float16, torch.bfloat16
ALIGNMENT = 8  # of rows and columns in 16 bits
LEAST_WORK = 10 ** 10  # products of numbers in a matmul from which an H200 pads
LEAST_DOUBT = 10 ** 8  # and from which another card might: a smaller matmul takes less time than the launches that copy its operands
LEAST_SHARE = 400  # and by how much a dimension that is padded in both operands must be used, as rows·columns / (rows + columns)
ASSUMED_SIZE = 128  # of a dimension that is open
JOINT_CACHE = "torch._functorch._aot_autograd.autograd_cache.AOTAutogradCache."


# ---- padding ----

class Product:
    """A matmul of (rows, inner) by (inner, columns)."""

    def __init__(self, left: Any, right: Any) -> None:
        self.dtype: torch.dtype = left.dtype
        self.batch: int = math.prod(map(known_size, left.shape[:-2]))
        self.rows, self.inner, self.columns = (known_size(size) for size in (left.shape[-2], left.shape[-1], right.shape[-1]))
        self.work = self.rows * self.inner * self.columns

    def __str__(self) -> str:
        return f"padding of a matmul {self.rows} x {self.inner} x {self.columns}, {str(self.dtype)[6:]}"

    def is_padded(self) -> bool:
        """True if a card is expected to pad it: what an H200 did with 35 shapes in three dtypes, under PyTorch 2.11."""
        share = self.rows * self.columns / (self.rows + self.columns)
        is_used = self.inner % ALIGNMENT == 0 or share >= LEAST_SHARE
        return self.dtype in HALVES and self.work >= LEAST_WORK and is_used

    def may_be_padded(self) -> bool:
        """True if a card may pad it or not."""
        return self.dtype in HALVES and self.batch * self.work >= LEAST_DOUBT

    def bytes_of_copies(self) -> int:
        """Returns the bytes of the operands and of the result that padding copies."""
        def is_odd(*sizes: int) -> bool:
            return any(size % ALIGNMENT for size in sizes)

        pairs = (self.rows, self.inner), (self.inner, self.columns), (self.rows, self.columns)
        return self.batch * self.dtype.itemsize * sum(first * second for first, second in pairs if is_odd(first, second))


def known_size(size: Any) -> int:
    """Returns a size, or what the compiler expects of one that is open."""
    if isinstance(size, int):
        return size
    hint = getattr(size.node, "hint", None)
    return hint if isinstance(hint, int) else ASSUMED_SIZE


# ---- the card's choices ----

def read_products(folder: pathlib.Path) -> dict[str, Any]:
    """Returns what the files of a cache's folder "cache" have, for all cards and versions, whose keys differ."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("cache/*")):
        merge(found, json.loads(path.read_text(encoding="utf-8")).get("cache", {}))
    return found


def merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


class Choices:
    """Follows Inductor's choices."""

    def __init__(self, labels: Labels, given: Optional[pathlib.Path]) -> None:
        """`given` is the folder with the card's choices; None: there is none."""
        self.labels, self.given = labels, given
        self.configurations: dict[str, dict[str, Any]] = {}  # by the name of a .best_config file
        self.products: dict[str, Any] = {}
        self.product: Optional[Product] = None  # that is judged now
        self.is_benchmarked = False  # the product
        self.padding = Padding(lambda *given: original_of(PAD_MM + "_should_pad")(*given))
        self.garbage = Garbage()
        self.tuned: set[Any] = set()  # compilations that benchmarked kernels

    def begin(self) -> None:
        self.labels.workspace_category(CATEGORY)
        self.products = read_products(self.given) if self.given else {}
        runtime, cache = "torch._inductor.runtime.", "torch._inductor.codecache.CacheBase."
        wrap(runtime + "benchmarking.InductorBenchmarker.benchmark_gpu", self.benchmark)
        wrap(runtime + "autotune_cache.AutotuneCache._setup_local_cache", self.set_up)
        replace(cache + "get_local_cache", lambda cache: self.products)
        replace(cache + "update_local_cache", lambda cache, local_cache: None)  # it has changed self.products itself
        if has("padding of matmuls"):
            wrap(PAD_MM + "_should_pad", self.judge)
            wrap(PAD_MM + "is_padded_faster", self.is_padded_faster)
            wrap(PAD_MM + "should_exclude_padding_time", self.padding.planned)
        wrap("torch._inductor.select_algorithm.AlgorithmSelectorCache.__call__", self.select)
        wrap(JOINT_CACHE + "save", self.keep_joint_graph)
        wrap(JOINT_CACHE + "_lookup", self.find_joint_graph)
        wrap("torch._inductor.codecache.FxGraphCache._save_graph", self.keep_graph)
        wrap("torch._inductor.output_code.CompiledFxGraph.__call__", self.garbage.call)

    # ---- benchmarks ----

    def keep_graph(self, save: Callable[..., Any], key: str, graph: Any, *given: Any, **named: Any) -> None:
        """Stores a graph for later runs, unless they would lack the memory of its benchmarks."""
        self.garbage.keep(graph)
        if torch._guards.CompileContext.current_compile_id() not in self.tuned:
            save(key, graph, *given, **named)

    def keep_joint_graph(self, save: Callable[..., Any], key: str, entry: Any, *given: Any, **named: Any) -> None:
        """Stores a graph of forward and backward with the benchmarks of its matmuls, unless their sizes are open."""
        compilation = torch._guards.CompileContext.current_compile_id()
        if compilation not in self.padding.dynamic:
            self.padding.keep(compilation, entry)
            save(key, entry, *given, **named)

    def find_joint_graph(self, look_up: Callable[..., Any], *given: Any, **named: Any) -> Any:
        found = look_up(*given, **named)
        if found is not None:
            self.padding.repeat(found[0])
        return found

    def benchmark(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """Benchmarks in the fewest repetitions, which take the memory of all."""
        named.update(estimation_iters=1, memory_warmup_iters=0, benchmark_iters=1)
        compilation = torch._guards.CompileContext.current_compile_id()
        self.is_benchmarked = self.product is not None
        if compilation is not None and self.product is None:
            self.tuned.add(compilation)
        with self.labels.labelled(CATEGORY):
            return original(*given, **named)

    # ---- configurations of kernels ----

    def set_up(self, original: Callable[..., Any], cache: Any, *given: Any, **named: Any) -> None:
        """Sets up the cache of one kernel, with this object's `get` and `put` for the files."""
        original(cache, *given, **named)
        if cache.local_cache is not None:
            cache.local_cache = self, cache.local_cache[1]

    def get(self, key: str) -> Optional[dict[str, Any]]:
        name = os.path.basename(key)
        if name not in self.configurations and self.given is not None:
            for path in self.given.glob(f"*/{name}"):
                self.configurations[name] = json.loads(path.read_bytes())
        return self.configurations.get(name)

    def put(self, key: str, value: dict[str, Any]) -> None:
        self.configurations[os.path.basename(key)] = value

    # ---- matmuls ----

    def judge(self, original: Callable[..., Any], match: Any, mat1: Any, mat2: Any, *given: Any, **named: Any) -> Any:
        self.product, self.is_benchmarked = Product(mat1, mat2), False
        self.padding.begin_one()
        try:
            with self.labels.labelled(CATEGORY):
                return original(match, mat1, mat2, *given, **named)
        finally:
            self.product = None
            if self.is_benchmarked:
                self.padding.note(torch._guards.CompileContext.current_compile_id(), mat1, mat2, *given, **named)

    def is_padded_faster(self, original: Callable[..., Any], key: str, ori_time: float, pad_time: float) -> bool:
        assert self.product is not None
        is_padded = self.product.is_padded()
        if self.product.may_be_padded():
            choices[Kernel(str(self.product), Place("", 0))] = Choice(2, 1, 0, self.product.bytes_of_copies())
        return bool(original(key, float(is_padded), 0.0))

    def select(self, original: Callable[..., Any], selector: Any, name: str, candidates: list[Any], *given: Any, **named: Any) -> Any:
        """Chooses a kernel. Those that Inductor generates may take in what follows them, and then write no result of their own."""
        generated = [one for one in candidates if type(one).__name__ == "TritonTemplateCaller"]
        if generated and len(candidates) > 1:
            layout = generated[0].layout
            sizes = list(map(known_size_of_expression, layout.size))
            kernel = Kernel(f"{name} with a result of {' x '.join(map(str, sizes))}", Place("", 0))
            choices[kernel] = Choice(len(candidates), len(generated), 0, math.prod(sizes) * layout.dtype.itemsize)
        with self.labels.labelled(CATEGORY):
            return original(selector, name, candidates, *given, **named)


def known_size_of_expression(size: Any) -> int:
    """Returns a size of the graph that is compiled, or what Inductor expects of one that is open."""
    if getattr(size, "is_number", True):
        return int(size)
    sizes = original_of("torch._inductor.virtualized.V").graph.sizevars
    hint = getattr(sizes, "optimization_hint", None) or sizes.size_hint  # named by version
    return int(hint(size, fallback=ASSUMED_SIZE))
