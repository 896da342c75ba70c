"""Gradients that the program sets to zero instead of freeing them, as zero_grad(set_to_none=False) does. They stay allocated during the
forward pass."""
from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from .not_updated import Needless
from .spread import local_of
from .weak_tensors import WeakTensor

STEP = 3  # of an optimizer, before which its gradients are compared with the step before: the first two may differ


class Mark(NamedTuple):
    """The version of a gradient after an optimizer's step. Each operator that writes to a tensor increases its version."""

    optimizer: weakref.ref[Any]
    parameter: WeakTensor
    gradient: WeakTensor
    version: int

    def is_zeroed(self) -> bool:
        """True if the gradient is still there, and something wrote to it."""
        parameter = self.parameter()
        gradient = None if parameter is None else parameter.grad
        return gradient is not None and gradient is self.gradient() and gradient._version != self.version


def first_mark(optimizer: Any) -> Iterator[Mark]:
    """Yields the mark of the optimizer's first gradient on a card; nothing if it has none."""
    for one in (one for group in optimizer.param_groups for one in group["params"]):
        gradient = one.grad
        if gradient is not None and gradient.is_cuda and gradient.layout == torch.strided:
            yield Mark(weakref.ref(optimizer), WeakTensor(one), WeakTensor(gradient), gradient._version)
            return


class Zeroing:
    """Follows one step of each optimizer."""

    def __init__(self) -> None:
        self.steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # by optimizer
        self.marks: list[Mark] = []

    def after_step(self, optimizer: Any) -> None:
        self.steps[optimizer] = self.steps.get(optimizer, 0) + 1
        if self.steps[optimizer] == STEP - 1:
            self.marks += first_mark(optimizer)

    def before_backward(self) -> list[Needless]:
        """Returns the gradients of each optimizer that were set to zero since its step. Between the two, only the program's clearing
        writes to gradients."""
        marks, self.marks = self.marks, []
        return [gradients_of(mark.optimizer()) for mark in marks if mark.optimizer() is not None and mark.is_zeroed()]


def gradients_of(optimizer: Any) -> Needless:
    gradients = [one.grad for group in optimizer.param_groups for one in group["params"] if one.grad is not None]
    return Needless(type(optimizer).__name__, "", 0, len(gradients), sum(local_of(one).nbytes for one in gradients))
