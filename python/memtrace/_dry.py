"""A PyTorch program without a card: its tensors are CUDA tensors without data, in memory that memtrace's allocator gives out on
a simulated card.

    prepare(library_folder)    before torch is imported: its libraries, and ours for this PyTorch, are loaded
    install(torch._C)          as soon as torch._C is there
    begin()                    after the import of torch: labels, and the trace
"""
from __future__ import annotations

import ctypes
import os
import pathlib
import re
from typing import Any, Optional

from . import _card
from ._library import find_torch_library, load_torch_library

cards: Optional[_card.Cards] = None


def settings() -> tuple[str, int]:
    """Returns the spelling of the card and how many there are."""
    return os.environ.get("MEMTRACE_DRY_DEVICE", "sim"), int(os.environ.get("MEMTRACE_DRY_COUNT", "1"))


def prepare(torch_folder: pathlib.Path) -> None:
    """Loads PyTorch's libraries, and then ours: PyTorch asks for CUDA's hooks only once."""
    global cards
    spelling, count = settings()
    ctypes.CDLL(str(torch_folder / "lib/libtorch_cpu.so"), mode=ctypes.RTLD_GLOBAL)
    memory = load_torch_library(find_torch_library(), ctypes.RTLD_GLOBAL)
    if memory.memtrace_torch_simulate(spelling.encode()):
        raise RuntimeError(memory.memtrace_torch_last_error().decode())
    device = ctypes.PyDLL(os.environ["MEMTRACE_DRY_LIBRARY"], mode=ctypes.RTLD_GLOBAL)
    device.memtrace_dry_stream.argtypes, device.memtrace_dry_stream.restype = [ctypes.c_int, ctypes.c_int64], ctypes.c_int64
    device.memtrace_dry_new_stream.restype = ctypes.c_int64
    device.memtrace_dry_operator.argtypes = [ctypes.c_char_p]
    device.memtrace_dry_resize.argtypes = [ctypes.c_void_p, ctypes.c_uint64]
    cards = _card.Cards(memory, device, spelling, count)


def install(C: Any) -> None:
    """Adds to torch._C what a build for CUDA has there."""
    assert cards is not None
    _card.install(C, cards)
    cards.device.memtrace_dry_begin(cards.count)


OWN = {"empty.memory_format", "empty_strided", "copy_", "_local_scalar_dense", "set_.source_Storage_storage_offset",
       "record_stream"}


def operators_of_cuda(text: str) -> list[str]:
    """Returns the operators of native_functions.yaml that have a kernel for CUDA, or whose structured one has."""
    names, delegates = [], {}
    for entry in re.split(r"\n- func: ", "\n" + text)[1:]:
        name = entry.partition("(")[0]
        keys = {key.strip() for line in re.findall(r"\n    ([A-Za-z0-9, ]+):", entry) for key in line.split(",")}
        found = re.search(r"structured_delegate: (\S+)", entry)
        if "CUDA" in keys:
            names.append(name)
        elif found:
            delegates[name] = found.group(1)
    has_kernel = set(names)
    return names + [name for name, delegate in delegates.items() if delegate in has_kernel]


def begin() -> None:
    """Registers PyTorch's operators, and begins the trace."""
    import torch
    import torchgen

    assert cards is not None
    yaml = pathlib.Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    for name in operators_of_cuda(yaml.read_text()):
        if name not in OWN:
            cards.device.memtrace_dry_operator(f"aten::{name}".encode())
    torch.version.cuda = "13.0"
    torch.cuda._get_device_properties = cards.properties
    replace_resize(torch)


def replace_resize(torch: Any) -> None:
    """Replaces the resizing of a storage on a card, which a build without CUDA refuses."""
    original = torch.UntypedStorage.resize_

    def resize_(storage: Any, size: int) -> Any:
        if storage.device.type != "cuda":
            return original(storage, size)
        if cards.device.memtrace_dry_resize(storage._cdata, size):
            raise torch.OutOfMemoryError(cards.memory.memtrace_torch_last_error().decode())
        return storage

    torch.UntypedStorage.resize_ = resize_
