"""Key-value caches of transformers, which allocate their tensors in methods of their own."""
from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, ContextManager, Protocol

import torch

from .._private_names import traced_as

MODULE = "transformers.cache_utils"
METHODS = ("update", "update_conv_state", "update_recurrent_state", "early_initialization")  # those that a version lacks are left out
CACHE = "key-value cache"  # the class of a span whose blocks have this role


class Labels(Protocol):
    """The part of labels.Labels that is used here."""

    def labelled(self, category: str, span: str, kind: str) -> ContextManager[Any]: ...


class Caches:
    """Labels the tensors of caches that are made without gradients. In training, a cache has activations."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        self.originals: dict[str, Callable[..., Any]] = {}
        self.kind: Any = None

    def follow(self) -> None:
        """Follows the methods, once transformers is imported."""
        kind = getattr(sys.modules.get(MODULE), "Cache", None)
        if kind is None or self.kind is not None:
            return
        self.kind = kind
        for name in METHODS:
            if name in vars(kind):
                self.originals[name] = vars(kind)[name]
                setattr(kind, name, self._around(self.originals[name]))

    def _around(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*given: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling() or torch.is_grad_enabled():
                return original(*given, **named)
            with self.labels.labelled("Cache", "cache", CACHE):
                return original(*given, **named)

        return traced_as(original, call)

    def remove(self) -> None:
        for name, original in self.originals.items():
            setattr(self.kind, name, original)
        self.originals.clear()
