"""Checkpoints of a dry run: shapes and dtypes instead of bytes.

    storage ──▶ skipped?  yes, if it is on a card and larger than 1 MiB, which is never computed; or if it is larger on the host, and
                          nothing was written to its memory, such as a weight that nobody has read
       torch.save         the record "data/0" is empty, and the record "data/0.memtrace" says so
       its legacy format  the number of elements is negative
       safetensors        a gap in the file, which takes no disk

What is loaded instead is host memory that nobody has touched, and whose values count as assumed (weights.py). PyTorch's own code does
the rest, so tensors are allocated on the card in its order. Checkpoints with their bytes are loaded and saved as without a dry run.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import importlib.util
import json
import math
import mmap
import os
import struct
import sys
import threading
from collections.abc import Iterator
from typing import Any, Callable, Optional

import torch
import torch.serialization

from .._private_names import has, original_of, replace, wrap
from . import files, shards
from .disk import real
from .weights import MOST_VALUE_BYTES, Weights

MARK = ".memtrace"
PAGE = mmap.PAGESIZE
NO_RESERVE = 0x4000  # MAP_NORESERVE

# The order of tensors in a file of safetensors, backwards: by the size of an element, then as its enum Dtype.
ORDER = ("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0", "F8_E5M2FNUZ", "F8_E4M3FNUZ", "I16", "U16", "F16", "BF16", "I32", "U32",
         "F32", "C64", "F64", "I64", "U64")

C: Any = torch._C


def map_bytes(size: int, file: int) -> mmap.mmap:
    """Returns the bytes of a file, which take memory only where they are written. There may be more than the host has."""
    return mmap.mmap(file, size, mmap.MAP_PRIVATE | NO_RESERVE)


def is_untouched(address: int, size: int) -> bool:
    """True if nothing was written to these bytes, but for those that share a page with others. False where /proc does not say."""
    first, end = -(-address // PAGE), (address + size) // PAGE
    try:
        with real.open_file("/proc/self/pagemap", "rb", 0) as file:
            file.seek(first * 8)
            pages = file.read((end - first) * 8)
    except OSError:
        return False
    in_memory, in_swap = 0x80, 0x40  # of the last of a page's eight bytes
    return len(pages) == (end - first) * 8 and not any(kind & (in_memory | in_swap) for kind in set(pages[7::8]))


class Saving:
    """What is saved of storages, and how they are loaded."""

    def __init__(self, cards: Any, weights: Weights) -> None:
        self.device, self.weights = cards.device, weights
        self.local = threading.local()  # .is_saving

    def is_skipped(self, storage: Any) -> bool:
        """True if the bytes of a storage are not saved."""
        if storage.nbytes() <= MOST_VALUE_BYTES:
            return False
        kind = storage.device.type
        return kind == "cuda" or kind == "cpu" and (self.weights.is_late(storage) or
                                                    is_untouched(storage.data_ptr(), storage.nbytes()))

    def host_of(self, storage: Any) -> Any:
        """Returns a storage on the host with the values of one on a card. That they are saved does not count as reading them."""
        size = storage.nbytes()
        values = self.device.memtrace_dry_values(storage._cdata)
        if values is None:
            return self.weights.unknown(size)
        host = torch.UntypedStorage(size)
        ctypes.memmove(host.data_ptr(), values, size)
        return host

    @contextlib.contextmanager
    def saving(self) -> Iterator[None]:
        before, self.local.is_saving = getattr(self.local, "is_saving", False), True
        try:
            yield
        finally:
            self.local.is_saving = before

    # ---- torch.save and torch.load ----

    def install_archives(self) -> None:
        """Replaces the writer and the reader of archives, which all of PyTorch uses."""
        saving = self

        class Writer(C.PyTorchFileWriter):  # type: ignore[misc]
            def __init__(self, target: Any, *given: Any) -> None:
                super().__init__(files.place_to_write(target) if is_path(target) else target, *given)

            def write_record(self, name: str, data: Any, size: int) -> None:
                if isinstance(data, torch.UntypedStorage) and saving.is_skipped(data):
                    super().write_record(name + MARK, b"", 0)
                    super().write_record(name, b"", 0)
                else:
                    super().write_record(name, data, size)

        class Reader(C.PyTorchFileReader):  # type: ignore[misc]
            def __init__(self, source: Any) -> None:
                super().__init__(files.place_to_read(source) if is_path(source) else source)

            def get_storage_from_record(self, name: str, size: int, kind: Any) -> Any:
                if self.has_record(name + MARK):
                    return torch.empty(0, dtype=torch.uint8).set_(saving.weights.unknown(size))
                return super().get_storage_from_record(name, size, kind)

        replace("torch._C.PyTorchFileWriter", Writer)
        replace("torch._C.PyTorchFileReader", Reader)
        wrap("torch.serialization._save", self.save)
        wrap("torch.serialization._legacy_save", self.save)
        wrap("torch.serialization._load", self.load)

    def save(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        with self.saving():
            return original(*given, **named)

    def load(self, original: Callable[..., Any], archive: Any, *given: Any, **named: Any) -> Any:
        """Loads an archive. One without bytes is not mapped into memory."""
        if named.get("overall_storage") is not None and any(name.endswith(MARK) for name in archive.get_all_records()):
            named["overall_storage"] = None
        return original(archive, *given, **named)

    # ---- storages ----

    def install_storages(self) -> None:
        """Has storages be moved to the host, written and read, which saving and pickling does."""
        wrap("torch.UntypedStorage.cpu", self.to_host)
        wrap("torch.UntypedStorage._write_file", self.write)
        wrap("torch.UntypedStorage._set_from_file", self.read)
        from_file = original_of("torch.UntypedStorage.from_file")

        def map_file(filename: Any, shared: bool = False, nbytes: int = 0) -> Any:
            if shared or not nbytes:
                return from_file(files.place_to_write(filename, os.O_RDWR | os.O_CREAT), shared, nbytes)
            with real.open_file(files.place_to_read(filename), "rb") as file:
                return torch.frombuffer(map_bytes(nbytes, file.fileno()), dtype=torch.uint8).untyped_storage()

        replace("torch.UntypedStorage.from_file", staticmethod(map_file))

    def to_host(self, original: Callable[..., Any], storage: Any) -> Any:
        if storage.device.type == "cuda" and getattr(self.local, "is_saving", False):
            return self.host_of(storage)
        return original(storage)

    def write(self, original: Callable[..., Any], storage: Any, file: Any, is_real_file: bool, has_size: bool,
              element_bytes: int) -> None:
        """Writes a storage behind its number of elements."""
        if has_size and self.is_skipped(storage):
            count = struct.pack("<q", -(storage.nbytes() // element_bytes))
            if is_real_file:
                os.write(file.fileno(), count)
            else:
                file.write(count)
        else:
            host = self.host_of(storage) if storage.device.type == "cuda" else storage
            original(host, file, is_real_file, has_size, element_bytes)

    def read(self, original: Callable[..., Any], storage: Any, file: Any, offset: Any, is_real_file: bool, element_bytes: int) -> Any:
        """Reads what write() has written. A storage that was skipped stays as it is."""
        place = file.tell() if offset is None else offset
        if is_real_file:
            count = os.pread(file.fileno(), 8, place)
        else:
            count = file.read(8)
            file.seek(place)
        if len(count) == 8 and struct.unpack("<q", count)[0] < 0:
            file.seek(place + 8)
            return storage
        if storage.device.type != "cuda":
            return original(storage, file, offset, is_real_file, element_bytes)
        host = torch.UntypedStorage(storage.nbytes())
        original(host, file, offset, is_real_file, element_bytes)
        return storage.copy_(host)

    # ---- safetensors ----

    def install_safetensors(self) -> None:
        if importlib.util.find_spec("safetensors") is None:
            return
        package: Any = importlib.import_module("safetensors")
        module: Any = importlib.import_module("safetensors.torch")
        opened, serialized = package.safe_open, package.serialize_file
        changes = {id(opened): functools.partial(self.open_tensors, opened),
                   id(serialized): lambda tensors, filename, *given, **named: serialized(
                       tensors, files.place_to_write(filename), *given, **named)}
        if hasattr(module, "save_file"):
            original = module.save_file
            changes[id(original)] = lambda tensors, filename, metadata=None: self.save_tensors(
                original, tensors, filename, metadata)
        files.replace_everywhere(changes)

    def save_tensors(self, original: Callable[..., Any], tensors: Any, filename: Any, metadata: Any) -> None:
        """Writes a file of safetensors, with gaps for what is skipped. What the library would refuse, or is not known here, goes to
        the library."""
        module: Any = sys.modules["safetensors.torch"]
        codes = {dtype: code for code, dtype in module._TYPES.items() if code in ORDER}
        if not isinstance(tensors, dict) or not all(is_plain(tensor) and tensor.dtype in codes for tensor in tensors.values()) or any(
                len(names) > 1 for names in module._find_shared_tensors(tensors)):
            original(tensors, filename, metadata)
            return
        names = sorted(tensors, key=lambda name: (-ORDER.index(codes[tensors[name].dtype]), name))
        gaps = [name for name in names if self.is_gap(tensors[name])]
        header: dict[str, Any] = {"__metadata__": {**(metadata or {}), **({MARK: json.dumps(gaps)} if gaps else {})}}
        end = 0
        for name in names:
            begin, end = end, end + tensors[name].nbytes
            header[name] = {"dtype": codes[tensors[name].dtype], "shape": list(tensors[name].shape), "data_offsets": [begin, end]}
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        text += b" " * (-len(text) % 8)
        with real.open_file(files.place_to_write(filename), "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name in names:
                self.write_tensor(tensors[name], name in gaps, file)
            file.truncate(8 + len(text) + end)

    def is_gap(self, tensor: torch.Tensor) -> bool:
        """True if the bytes of a tensor are not saved."""
        if tensor.is_cuda:
            return tensor.nbytes > 0 and self.device.memtrace_dry_values(tensor.untyped_storage()._cdata) is None
        return tensor.nbytes > MOST_VALUE_BYTES and (self.weights.is_late(tensor.untyped_storage()) or
                                                     is_untouched(tensor.data_ptr(), tensor.nbytes))

    def write_tensor(self, tensor: torch.Tensor, is_gap: bool, file: Any) -> None:
        size = tensor.nbytes
        if is_gap:
            file.seek(size, os.SEEK_CUR)
        elif size:
            address = tensor.data_ptr()
            if tensor.is_cuda:
                address = self.device.memtrace_dry_values(tensor.untyped_storage()._cdata)
                address += tensor.storage_offset() * tensor.element_size()
            else:
                self.weights.settle(tensor.untyped_storage())
            file.write((ctypes.c_char * size).from_address(address))

    def open_tensors(self, original: Callable[..., Any], filename: Any, framework: str, device: Any = "cpu", **named: Any) -> Any:
        """Opens a file of safetensors."""
        filename = files.place_to_read(filename)
        if framework not in ("pt", "torch", "pytorch"):
            return original(filename, framework, device=device, **named)
        is_card = torch.device(device).type == "cuda"
        opened = original(filename, framework, device="cpu" if is_card else device, **named)
        gaps = json.loads((opened.metadata() or {}).get(MARK, "[]"))
        return Opened(opened, device, self.weights, set(gaps)) if is_card or gaps else opened


class Opened:
    """A file of safetensors with gaps, or whose tensors go to a card. They are not read for it: there, large ones have no bytes."""

    def __init__(self, opened: Any, device: Any, weights: Weights, gaps: set[str]) -> None:
        self.opened, self.device, self.weights, self.gaps = opened, device, weights, gaps

    def __getattr__(self, name: str) -> Any:
        return getattr(self.opened, name)

    def __enter__(self) -> Opened:
        self.opened.__enter__()
        return self

    def __exit__(self, *given: Any) -> None:
        self.opened.__exit__(*given)

    def metadata(self) -> Any:
        """Returns what the program has saved."""
        return {key: text for key, text in (self.opened.metadata() or {}).items() if key != MARK} or None

    def get_tensor(self, name: str) -> Any:
        return self.get_slice(name)[...] if name in self.gaps else self.opened.get_tensor(name).to(self.device)

    def get_tensors(self) -> dict[str, Any]:
        return {name: self.get_tensor(name) for name in self.opened.offset_keys()}

    def get_slice(self, name: str) -> Slice:
        return Slice(self.opened.get_slice(name), self.device, self.weights if name in self.gaps else None)


class Slice:
    """A tensor of a file of safetensors that is read when it is indexed."""

    def __init__(self, opened: Any, device: Any, weights: Optional[Weights]) -> None:
        self.opened, self.device = opened, device
        self.weights = weights  # None: the file has its bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.opened, name)

    def __getitem__(self, index: Any) -> Any:
        found = self.opened[index] if self.weights is None else self.unknown(self.weights)[index].contiguous()
        return found.to(self.device)

    def unknown(self, weights: Weights) -> Any:
        """Returns the whole tensor, without values."""
        dtype = sys.modules["safetensors.torch"]._TYPES[self.opened.get_dtype()]
        shape = self.opened.get_shape()
        storage = weights.unknown(math.prod(shape) * dtype.itemsize)
        return torch.empty(0, dtype=dtype).set_(storage).view(shape)


def install_scripts() -> None:
    """Has TorchScript, which is native code, read and write the job's files."""
    def save(original: Callable[..., Any], module: Any, target: Any, *given: Any, **named: Any) -> Any:
        return original(module, files.place_to_write(target) if is_path(target) else target, *given, **named)

    def load(original: Callable[..., Any], unit: Any, path: Any, *given: Any, **named: Any) -> Any:
        return original(unit, files.place_to_read(path), *given, **named)

    wrap("torch.jit.save", save)
    wrap("torch.jit.RecursiveScriptModule.save", save)
    wrap("torch._C.import_ir_module", load)


def is_path(target: Any) -> bool:
    return isinstance(target, (str, os.PathLike))


def is_plain(tensor: Any) -> bool:
    """True if a tensor has its elements in one row, on the host or on a card."""
    return (isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.is_contiguous() and
            tensor.device.type in ("cpu", "cuda"))


def begin(cards: Any, weights: Weights) -> None:
    """Begins, once torch is imported."""
    saving = Saving(cards, weights)
    if has("archives"):
        saving.install_archives()
    if has("bytes of storages"):
        saving.install_storages()
    saving.install_safetensors()
    if has("scripts"):
        install_scripts()
    shards.begin()
