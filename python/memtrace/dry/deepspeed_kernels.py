"""DeepSpeed's optimizers in a dry run: FusedAdam, FusedLion and those for the host. DeepSpeed compiles their kernels as it first uses
them, which takes minutes and a CUDA toolkit. Here they do nothing, and what they would write becomes unknown.

begin() changes the library as the program imports it.
"""
from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import torch

from . import imported


class Kernels:
    """What DeepSpeed's builders return in place of compiled modules, by the builder's name."""

    def __init__(self, device: Any) -> None:
        self.device = device
        on_card = SimpleNamespace(multi_tensor_adam=self.update_many, multi_tensor_lion=self.update_many)
        self.of = {"fused_adam": on_card, "fused_lion": on_card}
        for name in ("adam", "adagrad", "lion"):
            calls = {f"create_{name}": self.nothing, f"destroy_{name}": self.nothing, f"{name}_update": self.update,
                     f"{name}_rollback": self.update}
            self.of[f"cpu_{name}"] = SimpleNamespace(**calls)

    def nothing(self, *given: Any) -> int:
        return 0

    def update(self, *given: Any) -> None:
        self.mark(value for value in given if isinstance(value, torch.Tensor))

    def update_many(self, chunk: int, overflow: Any, lists: list[list[Any]], *given: Any) -> None:
        """Replaces a kernel over lists: gradients, which it reads, and tensors that it writes."""
        for tensors in lists[1:]:
            self.mark(tensors)

    def mark(self, tensors: Iterable[Any]) -> None:
        for tensor in tensors:
            if tensor.is_cuda:
                self.device.memtrace_dry_written(tensor._cdata)
                self.device.memtrace_dry_used(tensor._cdata)
            elif tensor.untyped_storage().nbytes():
                self.device.memtrace_dry_unknown(tensor.untyped_storage()._cdata)


def begin(device: Any) -> None:
    kernels = Kernels(device)

    def change(module: Any) -> None:
        load = module.OpBuilder.load

        def load_or_stand_in(builder: Any, verbose: bool = True) -> Any:
            return kernels.of[builder.name] if builder.name in kernels.of else load(builder, verbose)

        module.OpBuilder.load = load_or_stand_in

    imported.follow({"deepspeed.ops.op_builder.builder": change})
