"""A PyTorch program without a card: its tensors are CUDA tensors without data, in memory that memtrace's allocator gives out on
a simulated card.

    prepare(folder of torch)   before torch is imported: PyTorch asks for CUDA only once
    add_cards                  as soon as torch._C is there, before torch.cuda
    program.begin()       after the import of torch: operators, labels, the trace
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import re
from typing import Any, Optional

from .._declarations import load_dry_library, load_torch_library
from .._library import find_torch_library
from .._private_names import has
from .._settings import settings
from ..recording.alloc_conf import alloc_settings
from ..recording.handover import tell
from ..recording.import_hook import ImportHook
from . import build, card, cudnn, files

# Operators of dense tensors whose one function for the host and for cards calls other operators.
MADE_OF_OTHERS = {"aten::_to_sparse", "aten::_to_sparse.sparse_dim", "aten::_transformer_encoder_layer_fwd",
                  "aten::_nested_tensor_from_mask_left_aligned"}

cards: Optional[card.Cards] = None


def add_cards(spec: Any, execute: Any, module: Any) -> None:
    """Executes torch._C, and adds to it what a build for CUDA has there."""
    execute(module)
    assert cards is not None
    card.install(module, cards)
    cards.device.memtrace_dry_begin(cards.count)


def prepare(torch_folder: pathlib.Path) -> None:
    """Loads PyTorch's libraries, and then ours, and waits for torch._C. Fails with RuntimeError or build.NoLibrary."""
    global cards
    files.begin()
    library = build.find(torch_folder)
    ctypes.CDLL(str(torch_folder / "lib/libtorch_cpu.so"), mode=ctypes.RTLD_GLOBAL)
    memory = load_torch_library(find_torch_library(), ctypes.RTLD_GLOBAL)
    spelling = os.environ["MEMTRACE_DRY_DEVICE"]
    if memory.memtrace_torch_simulate(spelling.encode()):
        raise RuntimeError(memory.memtrace_torch_last_error().decode())
    cudnn.begin(memory)
    device = load_device(library, torch_folder)
    load_cuda(torch_folder / "lib/libtorch_cuda.so")
    cards = card.Cards(memory, device, spelling, settings().cards)
    ImportHook("torch._C", add_cards).install()


def load_device(library: str, torch_folder: pathlib.Path) -> Any:
    """Loads our library, whose symbols are all looked up at once. Compiles one if the one that came with memtrace does not load: the
    version of PyTorch promised its symbols, but whoever built this PyTorch may have changed them."""
    try:
        return load_dry_library(library)
    except OSError as error:
        if not build.is_shipped(library):
            raise
        tell(f"memtrace's library for this version of PyTorch does not fit this build of it ({error}), so one is compiled")
        return load_dry_library(build.find_compiled(torch_folder))


def load_cuda(path: pathlib.Path) -> None:
    """Loads PyTorch's library for CUDA, if there is one. It says on stderr that its hooks stand back behind ours, which nobody
    asked to know."""
    if not path.is_file():
        return
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        pass  # PyTorch loads it in its own way
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


def operators_of_cuda(text: str) -> tuple[set[str], set[str]]:
    """Returns the operators of native_functions.yaml that have a kernel for CUDA, or whose structured one has; and those whose
    kernel CUDA shares with every device, which are made of others."""
    names: set[str] = set()
    shared: set[str] = set()
    delegates = {}
    for entry in re.split(r"\n- func: ", "\n" + text)[1:]:
        name = "aten::" + entry.partition("(")[0]
        lines = [line for line in re.findall(r"\n    ([A-Za-z0-9, ]+):", entry) if "CUDA" in re.split(", *", line)]
        found = re.search(r"structured_delegate: (\S+)", entry)
        if lines:
            (shared if "Composite" in lines[0] else names).add(name)
        elif found:
            delegates[name] = "aten::" + found.group(1)
    return names | {name for name, delegate in delegates.items() if delegate in names}, shared


def shared_functions(text: str, host: str, card: str) -> set[str]:
    """Returns the operators of native_functions.yaml that have one function for two keys: "SparseCPU" and "SparseCUDA"."""
    names = set()
    for entry in re.split(r"\n- func: ", "\n" + text)[1:]:
        keys = [re.split(", *", line) for line in re.findall(r"\n    ([A-Za-z0-9, ]+):", entry)]
        if any(host in line and card in line for line in keys):
            names.add("aten::" + entry.partition("(")[0])
    return names


def operators_of_layout(text: str, layout: str) -> dict[str, bool]:
    """Returns the operators of tensors of a layout ("Sparse"), and whether a card shares the host's function."""
    import torch

    names = torch._C._dispatch_get_registrations_for_dispatch_key(layout + "CUDA") if has("operators") else []
    return dict.fromkeys(names, False) | dict.fromkeys(shared_functions(text, layout + "CPU", layout + "CUDA"), True)


def register_operators() -> None:
    """Has PyTorch's operators that a CUDA build has kernels for run on the cards. The library keeps the kernels of its own."""
    import torch
    import torchgen  # type: ignore[import-untyped]

    assert cards is not None
    yaml = pathlib.Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    text = yaml.read_text(encoding="utf-8")
    names, shared = operators_of_cuda(text)
    layouts = {"Sparse": cards.device.memtrace_dry_sparse, "NestedTensor": cards.device.memtrace_dry_nested}
    if has("operators"):  # which a build with CUDA has registered
        names.update(torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"))
    for name in sorted(names - shared):
        cards.device.memtrace_dry_operator(name.encode())
    for name in MADE_OF_OTHERS & shared_functions(text, "CPU", "CUDA"):
        cards.device.memtrace_dry_shared(name.encode())
    for layout, use in layouts.items():
        for name, is_shared in operators_of_layout(text, layout).items():
            use(name.encode(), is_shared)
    cards.device.memtrace_dry_imported()
    cards.device.memtrace_dry_follow_uses()


def alloc_of(configuration: str) -> str:
    """Returns memtrace's spelling of PyTorch's allocator settings. Names those that are not simulated."""
    alloc, unknown = alloc_settings(configuration)
    if unknown:
        tell(f"the allocator's settings {', '.join(unknown)} are not simulated")
    return alloc
