"""bitsandbytes in a dry run. Its Python code runs as it is and allocates through PyTorch, as on a card. Its native functions, which
launch kernels and are called through ctypes, do nothing; what they would write becomes unknown. Functions for the host run.

begin() changes the library as the program imports it.
"""
from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import mmap
import pathlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..recording.import_hook import Execute, ImportHook
from . import imported

# The native functions that return nothing, or 0 for success.
SKIPPED = re.compile(r"c(de)?quantize_blockwise_|cgemm_4bit_|cigemm|cbatched_igemm|cdequant_mm_|cint8_|c(fill|arange|_mul)_|c_mul_|cprefetch$|"
                     r"c(adagrad|adam|ademamix|lion|momentum|rmsprop)(32bit|_8bit_blockwise)_")
HOLDER = b"bitsandbytes, paged"  # of memory outside of the allocator
CONTEXT = 1  # stands for a cuBLAS context, which nobody looks into


class Native:
    """Stands for libbitsandbytes_cuda*.so, as ctypes would load it."""

    def __init__(self, cards: Any) -> None:
        self.cards = cards
        self.paged: list[mmap.mmap] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        made = self.host_function(name) if "_cpu" in name else self.stand_in(name)
        setattr(self, name, made)
        return made

    def host_function(self, name: str) -> Any:
        """Returns a function for tensors on the host. Fails with AttributeError if the library has none."""
        try:
            return getattr(ctypes.CDLL(host_library()), name)
        except OSError as error:
            raise AttributeError(f"{name}: {error}") from error

    def stand_in(self, name: str) -> Callable[..., int]:
        """Returns what is called in place of a function. It has attributes, as `restype`."""
        if name == "get_context":
            return lambda: CONTEXT
        if name == "cget_managed_ptr":
            return lambda wanted: self.page(wanted)  # a function, since methods take no attributes
        if SKIPPED.match(name):
            return lambda *given: 0

        def refuse(*given: Any) -> int:
            raise RuntimeError(f"memtrace: a dry run does not know bitsandbytes' native function {name}: "
                               "leave out what calls it, or use a version of bitsandbytes that this memtrace knows")

        return refuse

    def page(self, wanted: ctypes.c_size_t) -> int:
        """Returns the address of new paged memory: of the host, which nothing writes. Stores how much there is."""
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
        self.paged.append(mmap.mmap(-1, max(wanted.value, 1), flags=flags))
        total = sum(map(len, self.paged))
        self.cards.memory.memtrace_torch_movable(torch.cuda.current_device(), HOLDER, total)
        return ctypes.addressof(ctypes.c_char.from_buffer(self.paged[-1]))


def host_library() -> str:
    """Returns the path of the library for the host."""
    spec = importlib.util.find_spec("bitsandbytes")
    assert spec is not None and spec.origin is not None
    return str(pathlib.Path(spec.origin).with_name("libbitsandbytes_cpu.so"))


@contextlib.contextmanager
def loaded_as(native: Native) -> Iterator[None]:
    """Has ctypes.cdll load the stand-in in place of bitsandbytes' libraries."""
    loader: Any = ctypes.cdll
    original = loader.LoadLibrary
    loader.LoadLibrary = lambda name: native if "libbitsandbytes" in str(name) else original(name)
    try:
        yield
    finally:
        del loader.LoadLibrary


def written_of(schema: Any, given: tuple[Any, ...], named: dict[str, Any], result: Any) -> Iterator[Any]:
    """Yields the tensors that a call has written: by the operator's schema, and its results."""
    for index, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield given[index] if index < len(given) else named.get(argument.name)
    yield from result if isinstance(result, tuple) else [result]


def mark_written(cards: Any, ops: Any) -> None:
    """Has the operators' kernels for cards mark what the native functions would have written. `ops` is bitsandbytes._ops."""
    register = ops.register_kernel

    def marking(operator: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
        name, _, overload = operator.partition("::")[2].partition(".")
        schema = getattr(getattr(torch.ops.bitsandbytes, name), overload or "default")._schema

        def call(*given: Any, **named: Any) -> Any:
            result = kernel(*given, **named)
            for tensor in written_of(schema, given, named, result):
                if isinstance(tensor, torch.Tensor):
                    cards.device.memtrace_dry_written(tensor._cdata)
            return result

        return call

    def register_kernel(operator: str, device: Any, kernel: Any = None, **named: Any) -> Any:
        if device != "cuda":
            return register(operator, device, kernel, **named)

        def decorate(kernel: Callable[..., Any]) -> Callable[..., Any]:
            register(operator, device, marking(operator, kernel), **named)
            return kernel

        return decorate if kernel is None else decorate(kernel)

    ops.register_kernel = register_kernel


def begin(cards: Any) -> None:
    native = Native(cards)

    def load(spec: Any, execute: Execute, module: Any) -> None:
        if importlib.util.find_spec("bitsandbytes._ops") is None:
            raise ImportError("memtrace: a dry run needs bitsandbytes 0.46 or later, which calls its kernels by operators of PyTorch")
        with loaded_as(native):
            execute(module)
        module.lib = module.CudaBNBNativeLibrary(native)

    ImportHook("bitsandbytes.cextension", load).install()
    imported.follow({"bitsandbytes._ops": lambda ops: mark_written(cards, ops)})
