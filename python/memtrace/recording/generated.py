"""The modules of memory that Inductor's generated code allocates, where PyTorch calls no module.

Next to each kernel, generated code names its source nodes. Dynamo's graph, or AOTAutograd's for backward, has the module of each
node.

    buf9 = empty_strided_cuda((2048, 2176), (2176, 1), torch.bfloat16)
    # Topologically Sorted Source Nodes: [hidden_states_3, linear_4], Original ATen: [aten.mul, aten.mm]
    extern_kernels.mm(reinterpret_tensor(buf8, ...), out=buf9)      linear_4 ──▶ L['self'].model.layers.0.mlp.gate_proj

Recorded programs and dry runs have the same generated code, and the same reader.
"""
from __future__ import annotations

import contextlib
import pathlib
import re
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any, Callable, NamedTuple, Optional

from .._private_names import has, wrap
from .handover import tell
from .import_hook import ImportHook

COMMENT = re.compile(r"\s*# (?:Topologically Sorted|Unsorted) Source Nodes: \[([^\]]*)\]")
ALLOCATION = re.compile(r"\s*\w+ = empty_strided_\w+\(")
BASE = re.compile(r"[LG]\['[^']*'\](?:\.__closure__\[\d+\]\.cell_contents)?")
# The names of modules in modules that only wrap them. They are not part of a path, as in the names of a state_dict.
WRAPPED = "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_orig_mod"
COMPILER = "torch._inductor.compile_fx"
FILE = re.compile(r"(^|[/\\])c[a-z2-7]{51}\.py$")  # of generated code, by a hash in base 32


class Origin(NamedTuple):
    """A module of a graph. An empty path is the module that was compiled."""

    root: str  # the class of the module where `path` begins; "" if it is unknown
    path: str  # "model.layers.0.mlp"
    kinds: tuple[str, ...]  # the classes of the modules around it, outermost first, and its own


def is_generated(file: str) -> bool:
    """True for a file that Inductor generated."""
    return FILE.search(file) is not None


def path_of(expression: str) -> str:
    """Returns the path of a module in an expression of Dynamo: "layers.0.mlp" for "L['self'].layers[0]._modules['mlp']"."""
    found = BASE.match(expression)
    rest = expression[found.end():] if found else expression
    parts = [part for part in re.split(r"[.\[\]']+", rest) if part]
    return ".".join(part for part in parts if part not in ("_modules", *WRAPPED))


def kind_of(kind: Any) -> str:
    """Returns the name of a class, which may already be a text."""
    return str(getattr(kind, "__name__", None) or str(kind).rpartition(".")[2])


def origin_of(node: Any) -> Origin:
    """Returns the module of a node of FX."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack")
    if not stack:
        return Origin("", "", ("",))
    modules = [(path_of(expression), kind_of(kind)) for expression, kind in stack.values()]
    root = next((kind for path, kind in modules if not path), "")
    return Origin(root, modules[-1][0], tuple(kind for _, kind in modules))


def origins_of(graph: Any) -> dict[str, Origin]:
    """Returns the modules of a graph's nodes, by their names in comments."""
    found: dict[str, Origin] = {}
    for node in graph.nodes:
        sources = node.meta.get("from_node")
        found[sources[0].name if sources else node.name] = origin_of(node)
    return found


def source_nodes(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yields names of nodes, and the first line whose memory belongs to them: the line of a kernel's first allocation, which
    precedes the kernel's comment, or the line of the comment."""
    first = None
    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT.match(line)
        if comment:
            yield first or number, [name for name in comment.group(1).split(", ") if name]
            first = None
        elif first is None and ALLOCATION.match(line):
            first = number


def codes_of(module: types.ModuleType) -> Iterator[types.CodeType]:
    """Yields the code of a module's functions and methods."""
    owners = [module, *(value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__)]
    for owner in owners:
        for value in vars(owner).values():
            if isinstance(value, types.FunctionType) and value.__code__.co_filename == module.__file__:
                yield value.__code__


def last_module(origins: list[Origin]) -> Optional[Origin]:
    """Returns the last module of a kernel's nodes, which computes the kernel's result; None for no nodes."""
    return next((origin for origin in reversed(origins) if origin.path), origins[-1] if origins else None)


def filled(found: list[tuple[int, Optional[Origin]]]) -> list[tuple[int, Origin]]:
    """Gives lines without an origin the next line's, or otherwise the previous one's. Backward's graph is missing if it comes from a
    cache, and its own nodes precede the forward nodes that it needs."""
    origin = next(origin for _, origin in reversed(found) if origin is not None)
    lines = []
    for line, own in reversed(found):
        origin = own or origin
        lines.append((line, origin))
    return lines[::-1]


class Generated:
    """Follows Inductor. `category(kinds, name)` returns the number of a module's category."""

    def __init__(self, library: Any, category: Callable[[tuple[str, ...], str], int]) -> None:
        self.library, self.category = library, category
        self.local = threading.local()  # .graphs: the modules of graphs being compiled, nested
        self.kept: list[types.CodeType] = []  # kept alive, since the library refers to them by address
        self.handles: list[Any] = []
        self.hook: Optional[ImportHook] = None

    def follow(self) -> None:
        def around(spec: Any, execute: Callable[[types.ModuleType], None], module: types.ModuleType) -> None:
            execute(module)
            self._begin()

        if COMPILER in sys.modules:
            self._begin()
        else:
            self.hook = ImportHook(COMPILER, around)
            self.hook.install()

    def _begin(self) -> None:
        if has("generated code"):
            self.handles += [wrap(f"{COMPILER}.compile_fx", self._compile), wrap(f"{COMPILER}._compile_fx_inner", self._compile),
                             wrap("torch._inductor.codecache.PyCodeCache.load_by_key_path", self._load)]

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        if self.hook is not None:
            self.hook.remove()

    @contextlib.contextmanager
    def _graph(self, graph: Any) -> Iterator[None]:
        graphs = self.local.__dict__.setdefault("graphs", [])
        graphs.append(origins_of(graph) if hasattr(graph, "nodes") else {})
        try:
            yield
        finally:
            graphs.pop()

    def _compile(self, original: Callable[..., Any], module: Any, *given: Any, **named: Any) -> Any:
        with self._graph(getattr(module, "graph", None)):
            return original(module, *given, **named)

    def _load(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        module = original(*given, **named)
        try:
            self.add(module)
        except Exception as error:  # the program's code works; only labels would be missing
            tell(f"modules of generated code are unknown: {error!r}")
        return module

    def add(self, module: types.ModuleType) -> None:
        """Passes the modules of generated code to the library."""
        if module.__file__ is None:
            return
        rows = "".join(self._rows(pathlib.Path(module.__file__).read_text()))
        for code in codes_of(module) if rows else ():
            self.kept.append(code)
            self.library.memtrace_torch_generated(id(code), rows.encode())

    def _rows(self, text: str) -> Iterator[str]:
        graphs = getattr(self.local, "graphs", [])
        known = {name: origin for graph in graphs for name, origin in graph.items()}  # the innermost graph has priority
        found = [(line, last_module([known[name] for name in names if name in known])) for line, names in source_nodes(text)]
        if not any(origin for _, origin in found):
            return
        for line, origin in filled(found):
            number = self.category(origin.kinds, origin.path.rpartition(".")[2])
            yield f"{line}\t{origin.root}\t{origin.path}\t{origin.kinds[-1]}\t{number}\n"
