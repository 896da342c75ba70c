"""Weights on the host that are written when somebody reads them (src/producers/torch/dry/dry_weights.cpp): which tensors are weights, and
who reads memory without an operator of PyTorch.

An nn.Parameter of more than 1 MiB is a weight. Its initialization and its copies take neither time nor memory until its values are
read on the host, as most are not: they go to the card first.
"""
from __future__ import annotations

import functools
from typing import Any, Callable

import torch

from .._private_names import has, original_of, replace, wrap

MOST_VALUE_BYTES = 1 << 20  # larger blocks have no values, as in src/producers/torch/dry/dry_device.h

# Functions that take dtype and device from a tensor, and that do not know the dispatch key of weights.
MAKERS = "torch.Tensor.new", "torch.Tensor.new_tensor"

# Functions of tensors and storages that read memory, or let others read it; and those that do so for their own purposes.
READERS = ("torch.Tensor.numpy", "torch.Tensor.__dlpack__", "torch.UntypedStorage.__getitem__",
           "torch.UntypedStorage.tolist", "torch.UntypedStorage._share_fd_cpu_", "torch.UntypedStorage._share_filename_cpu_")
OTHERS = "torch.UntypedStorage.__setitem__", "torch.UntypedStorage._write_file"


class Weights:
    """Weights on the host, by the library of the dry run. `on_card` is called with each parameter that is made on a card."""

    def __init__(self, device: Any, on_card: Callable[[Any], None]) -> None:
        self.device, self.on_card = device, on_card

    def is_late(self, storage: Any) -> bool:
        """True if a storage was not written yet."""
        return storage.device.type == "cpu" and bool(self.device.memtrace_dry_is_late(storage._cdata))

    def settle(self, storage: Any) -> None:
        """Writes a storage that was not written yet."""
        if storage.device.type == "cpu" and storage.nbytes() > MOST_VALUE_BYTES and self.device.memtrace_dry_settle(storage._cdata):
            raise MemoryError(f"the host has no memory for {storage.nbytes()} bytes of a weight")

    def read(self, storage: Any) -> None:
        """Writes a storage that was not written yet, since its values are read. Notes that they were not computed."""
        if storage.device.type == "cpu" and self.device.memtrace_dry_read(storage._cdata):
            raise MemoryError(f"the host has no memory for {storage.nbytes()} bytes of a tensor")

    def unknown(self, size: int) -> Any:
        """Returns a storage without values, whose zeros count as assumed when they are read."""
        storage = torch.UntypedStorage(size)
        self.device.memtrace_dry_unknown(storage._cdata)
        return storage

    def install(self) -> None:
        new, clone = original_of("torch.nn.Parameter.__new__"), original_of("torch.UntypedStorage.clone")

        def make(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
            made = new(cls, data, requires_grad)
            if data is not None and made is not data and data.device.type == "cpu":
                self.device.memtrace_dry_weight(made._cdata, data._cdata)
            if data is not None and data.device.type == "cuda":
                self.on_card(made)
            return made

        def clone_late(storage: Any) -> Any:
            if not self.is_late(storage):
                return clone(storage)
            copy = torch.UntypedStorage(storage.nbytes())
            self.device.memtrace_dry_copy_late(copy._cdata, storage._cdata)
            return copy

        replace("torch.nn.Parameter.__new__", make)
        replace("torch.UntypedStorage.clone", clone_late)
        for name in READERS:
            wrap(name, functools.partial(call_with_storage, self.read))
        wrap("torch.Tensor.tolist", functools.partial(call_on_host, self.read))
        for name in OTHERS:
            wrap(name, functools.partial(call_with_storage, self.settle))
        for name in MAKERS:
            wrap(name, make_like)


def call_with_storage(prepare: Callable[[Any], None], original: Callable[..., Any], one: Any, *given: Any, **named: Any) -> Any:
    """Calls a function of a tensor or of a storage, whose memory is prepared first."""
    if isinstance(one, torch.UntypedStorage):
        prepare(one)
    elif one.layout == torch.strided and one.device.type == "cpu":
        prepare(one.untyped_storage())
    return original(one, *given, **named)


def call_on_host(prepare: Callable[[Any], None], original: Callable[..., Any], one: Any) -> Any:
    """Calls a function of a tensor that reads its memory, or a copy on the host."""
    return call_with_storage(prepare, original, one.cpu() if one.is_cuda else one)


def make_like(original: Callable[..., Any], one: Any, *given: Any, **named: Any) -> Any:
    """Makes a tensor with the dtype of another."""
    is_small = one.device.type != "cpu" or one.nbytes <= MOST_VALUE_BYTES
    return original(one if is_small else torch.empty(0, dtype=one.dtype), *given, **named)


def begin(device: Any, on_card: Callable[[Any], None]) -> Weights:
    """Begins, once torch is imported."""
    weights = Weights(device, on_card)
    if has("weights"):
        weights.install()
    return weights
