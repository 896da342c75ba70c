"""The objects of a program that Python's garbage collector knows, by kind. After a compilation there are millions, so they are
filtered by functions in C, and one search serves several kinds."""
from __future__ import annotations

import gc
from itertools import compress
from typing import Any, NamedTuple

import torch


class Live(NamedTuple):
    """The tensors, modules and optimizers at one moment."""

    tensors: list[torch.Tensor]
    modules: list[torch.nn.Module]
    optimizers: list[Any]


def live_now() -> Live:
    """Returns what there is now. Keep it in local variables: a search for holders would name an attribute."""
    return Live(*objects_of(torch.Tensor, torch.nn.Module, torch.optim.Optimizer))


def objects_of(*kinds: type) -> list[list[Any]]:
    """Returns the objects of each kind, and of its subclasses."""
    found = candidates(gc.get_objects(), kinds)
    return [[one for one in found if issubclass(type(one), kind)] for kind in kinds]


def candidates(objects: list[Any], kinds: tuple[type, ...]) -> list[Any]:
    """Returns the objects of all kinds; all objects if some class of the program can't be in a set."""
    try:
        types = {one for one in set(map(type, objects)) if issubclass(one, kinds)}
    except TypeError:
        return objects
    return list(compress(objects, map(types.__contains__, map(type, objects))))
