"""Gradients for the parameters of another optimizer, which the program clears before that optimizer's step. Backward computes them in
the step of a GAN's discriminator if the generator's output is not detached.

    before_backward(roots)         notes the parameters and the nodes that a backward reaches
    before_step(optimizer, …)      compares them with the optimizer's own parameters, and returns the gradients that were cleared since
"""
from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Optional

import torch

from .holder_names import Names
from .live_objects import Live, objects_of
from .not_updated import MOST_OPTIMIZERS, SECOND, Needless
from .spread import local_of
from .weak_tensors import WeakTensor

MOST_TENSORS = 16  # whose graphs are searched for the one to detach


class Reach(NamedTuple):
    """What a backward reaches. A node has a larger number than the nodes of its inputs."""

    nodes: frozenset[int]  # by number
    parameters: dict[int, int]  # the largest number of a node that uses a parameter, by the parameter's id
    gradients: dict[int, tuple[int, int]]  # as state_of, before the backward, by the parameter's id


class Suspect(NamedTuple):
    """Gradients of another optimizer, which are needless if the program clears them before that optimizer's step."""

    optimizer: weakref.ref[Any]
    gradients: list[tuple[WeakTensor, WeakTensor]]  # (parameter, gradient)
    found: Needless


def state_of(gradient: Optional[torch.Tensor]) -> tuple[int, int]:
    """Returns a gradient's id and version. One of the two changes when backward adds to it."""
    return (0, 0) if gradient is None else (id(gradient), gradient._version)


def reach_of(roots: Iterable[Any]) -> Reach:
    """Follows the graphs that end with some nodes."""
    waiting = [node for node in roots if node is not None]
    nodes = {node._sequence_nr() for node in waiting}
    parameters: dict[int, int] = {}
    gradients: dict[int, tuple[int, int]] = {}
    while waiting:
        node = waiting.pop()
        number = node._sequence_nr()
        for one, _ in node.next_functions:
            variable = getattr(one, "variable", None)
            if variable is not None:
                parameters[id(variable)] = max(number, parameters.get(id(variable), 0))
                gradients[id(variable)] = state_of(variable.grad)
            elif one is not None and one._sequence_nr() not in nodes:
                nodes.add(one._sequence_nr())
                waiting.append(one)
    return Reach(frozenset(nodes), parameters, gradients)


def is_gradient_of(find_parameter: WeakTensor, find_gradient: WeakTensor) -> bool:
    """True if a parameter still has a gradient."""
    parameter, gradient = find_parameter(), find_gradient()
    return parameter is not None and gradient is not None and parameter.grad is gradient


def ids_of(optimizer: Any) -> set[int]:
    return {id(one) for group in optimizer.param_groups for one in group["params"]}


def gradients_of(optimizer: Any, reached: Reach) -> list[tuple[torch.nn.Parameter, torch.Tensor]]:
    """Returns the parameters of an optimizer to whose gradients on a card a backward has added, with the gradients."""
    return [(one, one.grad) for group in optimizer.param_groups for one in group["params"]
            if one.grad is not None and one.grad.is_cuda and state_of(one.grad) != reached.gradients.get(id(one), state_of(one.grad))]


class Detaching:
    """Follows backward and the steps of a program with several optimizers."""

    def __init__(self) -> None:
        self.steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # by optimizer
        self.reached: list[Reach] = []  # by the backwards since the last step
        self.suspects: list[Suspect] = []

    @property
    def is_following(self) -> bool:
        """True until each of several optimizers has made its second step."""
        return 1 < len(self.steps) <= MOST_OPTIMIZERS and min(self.steps.values()) < SECOND

    def before_backward(self, roots: Iterable[Any]) -> None:
        """`roots` are the nodes with which backward begins."""
        if self.is_following:
            self.reached.append(reach_of(roots))

    def before_step(self, optimizer: Any, frames: list[Any], live: Optional[Live]) -> list[Needless]:
        """Returns the gradients that were cleared before this step, though a backward of another step had computed them."""
        if not self.steps and live is not None:
            self.steps.update({one: 0 for one in live.optimizers})
        self.steps[optimizer] = self.steps.get(optimizer, 0) + 1
        found = list(self._cleared_before(optimizer))
        if self.steps[optimizer] == SECOND:
            self.suspects += [suspect for reached in self.reached for suspect in self._suspects(optimizer, reached, frames)]
        self.reached.clear()
        return found

    def _cleared_before(self, optimizer: Any) -> Iterator[Needless]:
        """Yields the suspects whose optimizer steps now, if none of their gradients is left."""
        own = [one for one in self.suspects if one.optimizer() is optimizer]
        self.suspects = [one for one in self.suspects if one.optimizer() is not optimizer]
        for one in own:
            if not any(is_gradient_of(*pair) for pair in one.gradients):
                yield one.found

    def _suspects(self, optimizer: Any, reached: Reach, frames: list[Any]) -> Iterator[Suspect]:
        """Yields the gradients of other optimizers that a backward for this one computed, if all nodes of their parameters precede
        the last node of an own parameter. Otherwise the graph leads through them to the own parameters."""
        own = ids_of(optimizer) & reached.parameters.keys()
        for other in list(self.steps):
            found = [(one, gradient) for one, gradient in gradients_of(other, reached) if id(one) not in own]
            numbers = [reached.parameters[id(one)] for one, _ in found]
            if other is optimizer or not own or not numbers or max(numbers) > max(reached.parameters[one] for one in own):
                continue
            size = sum(local_of(gradient).nbytes for _, gradient in found)
            name, file, line = output_of({id(one) for one, _ in found}, own, reached, frames)
            yield Suspect(weakref.ref(other), [(WeakTensor(one), WeakTensor(gradient)) for one, gradient in found],
                          Needless(name, file, line, len(found), size))


def output_of(parameters: set[int], own: set[int], reached: Reach, frames: list[Any]) -> tuple[str, str, int]:
    """Returns the variable to detach, with its file and line: the last tensor that is computed from some parameters and not from
    the optimizer's own. Without such a variable, the output of the module with the parameters."""
    tensors, modules = objects_of(torch.Tensor, torch.nn.Module)
    inner = [one for one in tensors if one.grad_fn is not None and one.grad_fn._sequence_nr() in reached.nodes]
    for tensor in sorted(inner, key=lambda one: -one.grad_fn._sequence_nr())[:MOST_TENSORS]:
        computed_from = reach_of([tensor.grad_fn]).parameters.keys()
        holder = Names([tensor], frames).name(tensor) if computed_from & parameters and not computed_from & own else None
        if holder is not None:
            return holder.name, holder.file, holder.line
    return output_of_module(modules, parameters, frames)


def output_of_module(modules: list[Any], parameters: set[int], frames: list[Any]) -> tuple[str, str, int]:
    module: Optional[Any] = next((one for one in modules if parameters <= {id(each) for each in one.parameters()}), None)
    holder = None if module is None else Names([module], frames).name(module)
    return ("the input of this model", "", 0) if holder is None else (f"the output of {holder.name}", holder.file, holder.line)
