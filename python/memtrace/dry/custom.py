"""Operators that other libraries define or implement in Python (torch.library). The library for PyTorch has the rest, in
src/producers/torch/dry/dry_custom.cpp.

A function that a library registers for CUDA runs: what it allocates through PyTorch counts. If it fails since there is no card, the
results come from the operator's fake kernel.
"""
from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader
from typing import Any, Optional

import torch
from torch._library import fake_impl

from .._private_names import original_of, replace

Note = Callable[[str], None]
NO_CARD = RuntimeError, OSError, ImportError  # what code that looks for a driver raises


class Sizes:
    """The context of a fake kernel, torch.library.get_ctx(), in a call on a card: sizes that depend on values are assumed."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def new_dynamic_size(self, *, min: int = 0, max: Optional[int] = None) -> int:
        size = int(self.device.memtrace_dry_dynamic_size(-1 if max is None else max))
        return size if size > min else min

    create_unbacked_symint = new_dynamic_size


def give_sizes(device: Any) -> None:
    """Has fake kernels of calls on a card get the context above. PyTorch's own refuses meta tensors."""
    construct = original_of("torch._library.fake_impl.construct_meta_kernel")

    def construct_meta_kernel(qualname: str, fake_impl_holder: Any) -> Callable[..., Any]:
        refusing = construct(qualname, fake_impl_holder)

        @functools.wraps(refusing)
        def kernel(*given: Any, **named: Any) -> Any:
            if not device.memtrace_dry_makes_shapes():
                return refusing(*given, **named)
            with fake_impl.set_ctx_getter(lambda: Sizes(device)):
                return fake_impl_holder.kernel(*given, **named)

        return kernel

    replace("torch._library.fake_impl.construct_meta_kernel", construct_meta_kernel)


def call_without_body(device: Any, name: str, given: Any, named: Any) -> Any:
    """Calls an operator ("library::name.overload") whose function has failed: its results come from the fake kernel."""
    library, _, rest = name.partition("::")
    function, _, overload = rest.partition(".")
    operator = getattr(getattr(getattr(torch.ops, library), function), overload or "default")
    device.memtrace_dry_skip_body()
    return operator(*given, **named)


def with_fake(device: Any, note: Note, name: str, body: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function that an operator runs on a card, with the fake kernel for when it fails."""
    @functools.wraps(body)
    def run(*given: Any, **named: Any) -> Any:
        try:
            return body(*given, **named)
        except torch.OutOfMemoryError:
            raise
        except NO_CARD as error:
            results = call_without_body(device, name, given, named)
            reason = str(error).partition("\n")[0]
            note(f"the function of {name} fails without a card ({reason}): its results come from its fake kernel, "
                 "and its scratch memory is unknown")
            return results

    return run


def skip_launches(device: Any) -> None:
    """Skips launches of kernels in libraries that are loaded from now on: C++ modules, and libraries of torch.ops.load_library."""
    modules: Any = ExtensionFileLoader
    load, create = original_of("torch._ops._Ops.load_library"), modules.create_module

    def load_library(ops: Any, path: Any) -> None:
        load(ops, path)
        device.memtrace_dry_skip_launches()

    def create_module(loader: Any, spec: Any) -> Any:
        module = create(loader, spec)
        device.memtrace_dry_skip_launches()
        return module

    device.memtrace_dry_skip_launches()
    replace("torch._ops._Ops.load_library", load_library)
    modules.create_module = create_module


def follow(device: Any, note: Note) -> None:
    """Follows what libraries load and register from now on."""
    give_sizes(device)
    skip_launches(device)
    impl = original_of("torch.library.Library.impl")

    @functools.wraps(impl)
    def register(library: Any, op_name: Any, fn: Any, dispatch_key: str = "", *given: Any, **named: Any) -> Any:
        key = dispatch_key or library.dispatch_key
        is_body = key in ("CUDA", "CompositeExplicitAutograd") and fn is not torch.library.fallthrough_kernel
        if not is_body or named.get("with_keyset") or library.ns == "aten":
            return impl(library, op_name, fn, dispatch_key, *given, **named)
        name = name_of(library, op_name)
        done = impl(library, op_name, with_fake(device, note, name, fn), dispatch_key, *given, **named)
        if key == "CUDA":
            device.memtrace_dry_python_kernel(name.encode())
        return done

    replace("torch.library.Library.impl", register)


def name_of(library: Any, op_name: Any) -> str:
    """Returns the name of an operator as the dispatcher has it: "library::name.overload"."""
    if not isinstance(op_name, str):
        schema = op_name._schema
        op_name = schema.name + ("." + schema.overload_name if schema.overload_name else "")
    return op_name if "::" in op_name else f"{library.ns}::{op_name}"
