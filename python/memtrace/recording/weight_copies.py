"""Copies of the trained weights that stay on the card between steps: an average of the weights (EMA), or the best state so far.

A copy is found by shape: a variable, an attribute or an uncalled module, with tensors of the shapes of the weights that optimizers
update. The tensors may be new ones after each step.
"""
from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

from .holder_names import Holder, Names, attribute_of
from .holders import census, is_on_card, outermost, tensors_to_name
from .labels import start_of
from .live_objects import Live
from .spread import local_of

Alike = Callable[[list[torch.Tensor]], list[torch.Tensor]]  # returns the tensors with the shapes of trained weights
LEAST_SHARE = 2  # tensors with 1/LEAST_SHARE of the bytes of the trained weights are a copy
AVERAGES = re.compile(r"(?i)(^|[^a-z])ema|averag|shadow|(^|[^a-z])swa")  # in the name of an average of the weights


class Copy(NamedTuple):
    """A copy of the weights."""

    holder: Holder
    name: str  # "EMA of Net", "copy of Net"


class Idle(NamedTuple):
    """A module that the program neither trains nor calls."""

    module: torch.nn.Module
    parent: Any  # None: it is in no other module
    name: str  # in its parent


def least_copy(optimizers: list[Any]) -> int:
    """Returns the least bytes of a copy of the trained weights."""
    return least_bytes(trained_by(optimizers))


def trained_by(optimizers: list[Any]) -> list[torch.Tensor]:
    return [one for optimizer in optimizers for group in optimizer.param_groups for one in group["params"] if start_of(one)]


def least_bytes(trained: list[torch.Tensor]) -> int:
    return sum(one.nbytes for one in trained) // LEAST_SHARE


def weight_copies(live: Live, is_called: Callable[[Any], bool], frames: list[Any]) -> Iterator[Copy]:
    """Yields the copies of the trained weights. `is_called` returns true for a module that the program calls: another model
    with the same shapes, such as a teacher, is no copy."""
    trained = trained_by(live.optimizers)
    shapes, addresses = {one.shape for one in trained}, {start_of(one) for one in trained}
    shape_of = {start_of(one): one.shape for one in live.tensors if is_on_card(one) and one.shape in shapes}
    least = least_bytes(trained)

    def alike(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        return [one for one in tensors if start_of(one) not in addresses | {0} and one.shape in shapes]

    if not trained:
        return
    model = name_of_model(live.modules, trained[0])
    copied = [one for one in copied_modules(live.modules, addresses, is_called, frames, alike) if one.size >= least]
    of_modules = {start for one in copied for start in one.blocks}
    of_modules |= {start_of(one) for root in outermost(live.modules) for one in root.parameters()}  # also of modules that are called
    others = [one for one in tensors_to_name(live) if start_of(one) not in of_modules]
    for holder in (*copied, *census(frames, alike(others)).values()):
        is_average = AVERAGES.search(f"{holder.name} {holder.owner}") is not None
        found = {shape_of[address] for address in holder.blocks if address in shape_of}
        has_most_shapes = len(found) * LEAST_SHARE >= len(shapes)  # a batch may have the shape of one of the weights
        if holder.size >= least and has_most_shapes and (is_average or not holder.has_graph):
            holder.is_copy = True
            holder.references.clear()  # so that a later census does not find them
            yield Copy(holder, f"{'EMA' if is_average else 'copy'} of {model}")


def name_of_model(modules: list[Any], parameter: torch.Tensor) -> str:
    """Returns the class of the outermost module that has a parameter."""
    return next((type(root).__name__ for root in outermost(modules) if any(one is parameter for one in root.parameters())),
                "the weights")


def copied_modules(modules: list[Any], addresses: set[int], is_called: Callable[[Any], bool], frames: list[Any],
                   alike: Alike) -> Iterator[Holder]:
    """Yields the holders of modules that the program neither trains nor calls, with their tensors that `alike` returns. `addresses`
    are of the trained weights."""
    for root in outermost(modules):
        for idle in idle_modules(Idle(root, None, ""), addresses, is_called):
            tensors = alike([*idle.module.parameters(), *idle.module.buffers()])
            holder = holder_of(idle, frames) if tensors else None
            if holder is None:
                continue
            for tensor in tensors:
                holder.blocks[start_of(tensor)] = local_of(tensor).untyped_storage().nbytes()
                holder.devices[start_of(tensor)] = tensor.device.index or 0
            yield holder


def idle_modules(one: Idle, addresses: set[int], is_called: Callable[[Any], bool]) -> Iterator[Idle]:
    """Yields a module if nothing trains it, calls it or calls a module inside; otherwise looks at the modules inside of a trained one.
    These count only if calls inside are seen, as they are not in compiled code."""
    module = one.module
    is_trained = any(start_of(tensor) in addresses for tensor in (*module.parameters(), *module.buffers()))
    if not is_trained and not any(map(is_called, module.modules())):
        yield one
    elif is_trained and any(map(is_called, module.children())):
        for name, child in module.named_children():
            yield from idle_modules(Idle(child, module, name), addresses, is_called)


def holder_of(idle: Idle, frames: list[Any]) -> Any:
    """Returns the variable or attribute that has a module; None: there is none."""
    if idle.parent is not None:
        return attribute_of(idle.parent, idle.name)
    return Names([idle.module], frames).name(idle.module)
