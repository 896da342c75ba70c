"""Weak references to tensors that do not hinder torch.utils.swap_tensors.

PyTorch swaps the contents of parameters when modules of FSDP move or change their dtype, and refuses tensors with weak references.
So these are removed while it swaps:

    WeakTensor(tensor)     refers to a tensor without keeping it alive
    swap(original, a, b)   calls torch.utils.swap_tensors without these references
"""
from __future__ import annotations

import weakref
from typing import Any, Callable, Optional


class TensorReference(weakref.ref[Any]):
    """The reference of a WeakTensor, which it does not keep alive."""

    __slots__ = ("owner",)
    owner: weakref.ref[WeakTensor]


class WeakTensor:
    """Call it for the tensor, or None once it is gone."""

    __slots__ = ("reference", "__weakref__")

    def __init__(self, tensor: Any) -> None:
        self.refer(tensor)

    def __call__(self) -> Any:
        return None if self.reference is None else self.reference()

    def refer(self, tensor: Any) -> None:
        self.reference: Optional[TensorReference] = TensorReference(tensor)
        self.reference.owner = weakref.ref(self)


def owners_of(tensor: Any) -> list[WeakTensor]:
    """Returns all that refer to a tensor."""
    found = (one.owner() for one in weakref.getweakrefs(tensor) if isinstance(one, TensorReference))
    return [one for one in found if one is not None]


def swap(original: Callable[..., Any], first: Any, second: Any) -> Any:
    """Swaps the contents of two tensors. Both keep their identity, so the references are to the same tensors as before."""
    owners = [(owner, tensor) for tensor in (first, second) for owner in owners_of(tensor)]
    for owner, _ in owners:
        owner.reference = None
    try:
        return original(first, second)
    finally:
        for owner, tensor in owners:
            owner.refer(tensor)
