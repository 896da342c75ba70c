"""torch.compile under memtrace, with PyTorch's CPU build: what is compiled is what is compiled without, and memory in compiled code
belongs to modules."""
import json
import pathlib
import subprocess
import sys
import types

import pytest
import torch

from memtrace._declarations import load_torch_library
from memtrace._library import find_torch_library
from memtrace._private_names import traced_as
from memtrace.recording import stacks
from memtrace.recording.generated import Generated, codes_of, origins_of, path_of, source_nodes

PROGRAM = pathlib.Path(__file__).parent / "programs/compiled.py"


def counted(watched):
    told = subprocess.run([sys.executable, "-W", "ignore", str(PROGRAM), watched], check=True, capture_output=True, text=True)
    return json.loads(told.stdout)


def test_graphs_breaks_recompiles_and_losses_are_those_of_the_program_alone():
    alone, found = counted("alone"), counted("watched")
    assert alone.keys() == found.keys() and len(alone) > 8
    for name, expected in alone.items():
        assert found[name] == expected, name
    assert found["plain"]["stats"]["unique_graphs"] == 1 and found["whole_step"]["graph_break"]
    assert all("losses" in case for case in found.values())


def test_dynamo_traces_the_function_that_memtrace_redirects():
    called = []

    class Cache:
        def update(self, x):
            return x + 1

    original = Cache.update
    Cache.update = traced_as(original, lambda *given: called.append(given) or original(*given))
    cache = Cache()
    assert torch.compile(lambda x: cache.update(x), backend="eager", fullgraph=True)(torch.ones(1)).item() == 2
    assert not called and cache.update(1) == 2 and called


@pytest.mark.parametrize("expression, path", [
    ("L['self'].model.layers[3].mlp", "model.layers.3.mlp"), ("L['self']._orig_mod._modules['h']._modules['0'].attn", "h.0.attn"),
    ("G['model']", ""), ("L['fn'].__closure__[0].cell_contents.head", "head"), ("L['self'].parts['a'].b", "parts.a.b")])
def test_expressions_of_dynamo_are_paths(expression, path):
    assert path_of(expression) == path


GENERATED = """
def call(now):
    buf0 = empty_strided_cuda((4, 64), (64, 1))
    buf1 = empty_strided_cuda((4, 64), (64, 1)); now()
    # Topologically Sorted Source Nodes: [norm, linear], Original ATen: [aten.native_layer_norm, aten.addmm]
    now()
    buf2 = empty_strided_cuda((4, 64), (64, 1)); now()
    # Topologically Sorted Source Nodes: [own], Original ATen: [aten.mm]
    now()
    buf3 = empty_strided_cuda((4, 64), (64, 1)); now()
    # Topologically Sorted Source Nodes: [linear, add], Original ATen: [aten.add]
    now()
    buf4 = empty_strided_cuda((4, 64), (64, 1)); now()
    # Topologically Sorted Source Nodes: [loss], Original ATen: [aten.mean]
    now()
def empty_strided_cuda(size, stride):
    pass
"""


class Linear(torch.nn.Module):
    pass


class GPT2(torch.nn.Module):
    pass


def node(name, *modules):
    return types.SimpleNamespace(name=name, meta={"nn_module_stack": {path: (path, kind) for path, kind in modules}})


GRAPH = types.SimpleNamespace(nodes=[node("norm", ("L['m']", GPT2), ("L['m'].ln", Linear)), node("linear", ("L['m']", GPT2), ("L['m'].h.0.fc", Linear)),
                                     node("add", ("L['m']", GPT2)), node("loss")])


def test_an_allocation_is_of_the_kernel_that_follows_and_what_a_kernel_takes_is_its_own():
    assert list(source_nodes(GENERATED)) == [(3, ["norm", "linear"]), (7, ["own"]), (10, ["linear", "add"]), (13, ["loss"])]


def test_memory_of_generated_code_is_of_the_module_of_its_kernel(tmp_path):
    library = load_torch_library(find_torch_library())
    stacks.find(library)
    generated = Generated(library, lambda kinds, name: library.memtrace_torch_category(b"einsum" if kinds[-1] == "Linear" else b"Other"))
    path = tmp_path / "generated.py"
    path.write_text(GENERATED)
    module = types.ModuleType("generated")
    module.__file__ = str(path)
    exec(compile(GENERATED, str(path), "exec"), vars(module))
    assert [code.co_name for code in codes_of(module)] == ["call", "empty_strided_cuda"]
    with generated._graph(GRAPH):
        generated.add(module)

    def spans_in(span):
        found = []
        depth = library.memtrace_torch_span_begin(span, 0) if span else 0
        module.call(lambda: found.append(library.memtrace_torch_span_now()))
        if span:
            library.memtrace_torch_span_end(depth)
        return found

    def span(parent, *names):
        for name in names:
            parent = library.memtrace_torch_span(parent, name.encode(), b"")
        return parent

    for around in (0, span(0, "model")):
        root = around or span(0, "GPT2")
        linear = span(root, "h", "0", "fc")
        assert spans_in(around) == [linear] * 6 + [around] * 2
    assert len(origins_of(GRAPH)) == 4
