"""The places of a program at which changes that `memtrace fit` tries take hold, and what became of each change."""
from __future__ import annotations

from typing import Any, Callable, ContextManager

import torch

Module = torch.nn.Module


class ChangePlaces:
    """A program's own doing that a change would repeat, or that it does not go with, counts for more than where it was made."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}
        self.missing: dict[str, str] = {}
        self.hindered: dict[str, str] = {}
        self.before_models: list[Callable[[Module], None]] = []  # called once with each outermost module that is trained
        self.around_calls: list[Callable[[Module], ContextManager[Any]]] = []  # of such modules
        self.inputs: list[Callable[[Module, Any], Any]] = []  # return what such a module is given instead
        self.around_evaluations: list[Callable[[Module], ContextManager[Any]]] = []  # of modules that are evaluated
        self.after_steps: list[Callable[[Any], None]] = []  # called with each optimizer that has made a step
        self.watched: set[str] = set()  # names of changes that are only looked for

    def tries(self, name: str, where: str) -> bool:
        """Notes that a change can be made in a place. True if it is to be made there, and not only looked for."""
        self.made[name] = where
        return name not in self.watched
