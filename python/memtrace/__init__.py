"""memtrace for PyTorch: where the memory of a training goes.

    import memtrace

    allocator = memtrace.install_allocator(trace="train.db")   # before the first CUDA tensor
    model = Model().cuda()
    allocator.watch(model)                                      # spans by module, categories by rules
    for batch in batches:
        with allocator.step():
            ...                                                 # forward, backward and optimizer as always
    print(allocator.summary())

Then use `memtrace peak --trace train.db`, `memtrace timeline --trace train.db` and others.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._allocator import Allocator as Allocator
    from ._allocator import install_allocator as install_allocator
    from ._labels import RULES as RULES

# The public names and the modules that they are in. Those that need torch are imported when they are first used.
_MODULES = {
    "Allocator": "_allocator",
    "RULES": "_labels",
    "install_allocator": "_allocator",
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'memtrace' has no attribute {name!r}")
    return getattr(importlib.import_module("." + _MODULES[name], __name__), name)
