"""Hooks that label a parameter's gradient once autograd has accumulated it.

Compiled autograd compiles existing hooks. So they are removed before it runs, and the gradients are labelled afterwards.
"""
from __future__ import annotations

import sys
import weakref
from typing import Any, Callable

from .weak_tensors import WeakTensor

COMPILED = "torch._dynamo.compiled_autograd"


class Hook:
    """The hook of a parameter. It does not keep the parameter alive."""

    def __init__(self, parameter: Any, label: Callable[[Any], Any]) -> None:
        self.find, self.label = WeakTensor(parameter), label
        self.handle = parameter.register_post_accumulate_grad_hook(label)

    def set_again(self) -> None:
        parameter = self.find()
        if parameter is not None:
            self.handle = parameter.register_post_accumulate_grad_hook(self.label)

    def run(self) -> None:
        parameter = self.find()
        if parameter is not None and parameter.grad is not None:
            self.label(parameter)


class GradientHooks:
    """The hooks of all parameters of one watcher."""

    def __init__(self) -> None:
        everyone.add(self)
        self.hooks: list[Hook] = []
        self.are_set = True

    def add(self, parameter: Any, label: Callable[[Any], Any]) -> None:
        self.hooks.append(Hook(parameter, label))
        if not self.are_set:
            self.hooks[-1].handle.remove()

    def begin_backward(self, is_compiled: bool) -> None:
        if self.are_set and is_compiled:
            self.remove()
        elif not self.are_set and not is_compiled:
            for hook in self.hooks:
                hook.set_again()
            self.are_set = True

    def end_backward(self) -> None:
        if not self.are_set:
            for hook in self.hooks:
                hook.run()

    def remove(self) -> None:
        for hook in self.hooks:
            hook.handle.remove()
        self.are_set = False

    def clear(self) -> None:
        self.remove()
        self.hooks.clear()
        self.are_set = True


everyone: weakref.WeakSet[GradientHooks] = weakref.WeakSet()  # of all watchers: only the last one is notified of backward


def begin_backward() -> None:
    """Removes all hooks if compiled autograd will run; sets missing ones if autograd will."""
    is_compiled = bool(getattr(sys.modules.get(COMPILED), "compiled_autograd_enabled", False))
    for hooks in everyone:
        hooks.begin_backward(is_compiled)


def end_backward() -> None:
    for hooks in everyone:
        hooks.end_backward()
