"""Copies of the trained weights that stay on the card between steps: an average of the weights (EMA), or the best state so far.

A copy is found by shape: a variable, an attribute or an uncalled module, with tensors of the shapes of the weights that optimizers
update. The tensors may be new ones after each step.
"""
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch

from .holder_names import Holder, Names
from .holders import census, unknown_tensors
from .labels import start_of
from .live_objects import objects_of
from .spread import local_of

Alike = Callable[[list[torch.Tensor]], list[torch.Tensor]]  # returns the tensors with the shapes of trained weights
LEAST_SHARE = 2  # tensors with 1/LEAST_SHARE of the bytes of the trained weights are a copy


def weight_copies(called: Collection[Any], frames: list[Any]) -> Iterator[Holder]:
    """Yields the holders of copies. `called` are the modules that the program calls: another model with the same shapes, such as a
    teacher, is none."""
    tensors, modules, optimizers = objects_of(torch.Tensor, torch.nn.Module, torch.optim.Optimizer)
    trained = [one for optimizer in optimizers for group in optimizer.param_groups
               for one in group["params"] if start_of(one)]
    shapes, addresses = {one.shape for one in trained}, {start_of(one) for one in trained}
    least = sum(one.nbytes for one in trained) // LEAST_SHARE

    def alike(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [one for one in tensors if start_of(one) not in addresses | {0} and one.shape in shapes]

    if not trained:
        return
    unknown = unknown_tensors(tensors, modules, optimizers)
    for holder in (*census(frames, alike(unknown)).values(), *copied_modules(modules, called, addresses, frames, alike)):
        if holder.size >= least and not holder.has_graph:
            holder.is_copy = True
            holder.references.clear()  # so that a later census does not find them
            yield holder


def copied_modules(modules: list[Any], called: Collection[Any], addresses: set[int], frames: list[Any],
                   alike: Alike) -> Iterator[Holder]:
    """Yields the holders of those `modules` that the program neither trains nor calls, with their tensors that `alike` returns. `addresses`
    are of the trained weights."""
    inner = {id(child) for module in modules for child in module.children()}
    for root in modules:
        tensors = [*root.parameters(), *root.buffers()] if id(root) not in inner else []
        is_trained = any(start_of(one) in addresses for one in tensors)
        if is_trained or not alike(tensors) or any(one in called for one in root.modules()):
            continue
        holder = Names([root], frames).name(root)
        if holder is not None:
            for tensor in alike(tensors):
                holder.blocks[start_of(tensor)] = local_of(tensor).untyped_storage().nbytes()
                holder.devices[start_of(tensor)] = tensor.device.index or 0
            yield holder
