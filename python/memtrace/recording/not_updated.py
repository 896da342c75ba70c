"""Gradients that no optimizer uses, such as of a frozen encoder or a teacher that still requires gradients. Backward computes them,
and keeps activations for them."""
from __future__ import annotations

import re
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional

import torch

from .holder_names import Names
from .live_objects import Live
from .spread import local_of

SECOND = 2  # the step of an optimizer at which parameters are compared with its first step
MOST_OPTIMIZERS = 4  # to follow: each requires two searches, and some programs have one for each parameter


class Needless(NamedTuple):
    """Gradients that the program computes or keeps without need."""

    name: str  # of their module: "teacher", "net.encoder"; in other files, what is named there
    file: str
    line: int
    parameters: int
    size: int  # bytes of the gradients


class Gradients:
    """Follows the steps of optimizers."""

    def __init__(self) -> None:
        self.steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.versions: dict[int, int] = {}  # of the parameters without an optimizer at a first step, by id

    def compares(self, optimizer: Any) -> bool:
        """True if the next step of an optimizer is one of the two that are compared."""
        step = self.steps.get(optimizer, 0) + 1
        return step <= SECOND and (step > 1 or len(self.steps) < MOST_OPTIMIZERS)

    def before_step(self, optimizer: Any, frames: list[Any], live: Optional[Live]) -> list[Needless]:
        """Returns the modules, at the second step of an optimizer. A program that changes a parameter without an optimizer changes
        the parameter's version. `live` None: the step is not compared."""
        if live is None:
            return []
        self.steps[optimizer] = step = self.steps.get(optimizer, 0) + 1
        without = without_optimizer(live.modules, live.optimizers)
        if step == SECOND:
            unchanged = {number for number, one in without.items() if self.versions.get(number) == one._version}
            return list(merged(described(live.modules, unchanged, frames)))
        self.versions.update({number: one._version for number, one in without.items()})
        return []


def without_optimizer(modules: list[Any], optimizers: list[Any]) -> dict[int, torch.nn.Parameter]:
    """Returns the parameters with gradients on a card and without an optimizer, by id. None if most parameters of optimizers belong
    to no module, since they are copies, for example of weights in two precisions."""
    updated = {id(one) for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]}
    parameters = {id(one): one for module in modules for one in module.parameters(recurse=False)}
    if 2 * len(updated & parameters.keys()) < len(updated):
        return {}
    return {number: one for number, one in parameters.items() if number not in updated and one.grad is not None
            and one.grad.is_cuda and one.grad.layout == torch.strided}


def merged(found: Iterable[Needless]) -> Iterator[Needless]:
    """Yields one row for modules whose paths differ only in numbers, such as the base layers of LoRA: "net.layers.*.base"."""
    alike: dict[tuple[str, str, int], list[Needless]] = {}
    for one in found:
        alike.setdefault((re.sub(r"\.\d+(?=\.|$)", ".*", one.name), one.file, one.line), []).append(one)
    for key, group in alike.items():
        yield group[0] if len(group) == 1 else Needless(
            *key, sum(one.parameters for one in group), sum(one.size for one in group))


def described(modules: list[Any], unchanged: set[int], frames: list[Any]) -> Iterator[Needless]:
    """Yields the largest modules whose gradients all belong to `unchanged`, the ids of parameters."""
    inner = {id(child) for module in modules for child in module.children()}
    for root in modules:
        if id(root) not in inner:
            for path, module in largest(root, "", unchanged):
                gradients = {id(one): local_of(one.grad).nbytes for one in module.parameters() if one.grad is not None}
                holder = Names([root], frames).name(root)
                name, file, line = (holder.name, holder.file, holder.line) if holder else (type(root).__name__, "", 0)
                yield Needless(name + path, file, line, len(gradients), sum(gradients.values()))


def largest(module: torch.nn.Module, path: str, unchanged: set[int]) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yields the largest submodules whose gradients all belong to `unchanged`, with their paths."""
    own = {id(one) for one in module.parameters() if one.grad is not None}
    if own and own <= unchanged:
        yield path, module
    elif own & unchanged:
        for name, child in module.named_children():
            yield from largest(child, f"{path}.{name}", unchanged)
