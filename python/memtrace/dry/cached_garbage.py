"""Reference cycles in programs whose graphs come from the cache.

Compiling makes so many objects that Python's garbage collector runs, and frees what the program left in cycles, such as the outputs of
an earlier call. A graph from the cache is there at once, and the memory would stay. So a graph keeps whether the collector ran since the
graph before it was first called, and then it also runs before the first call of a graph from the cache.
"""
from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

KEPT = "memtrace_collected"  # the attribute of a graph


def collections() -> int:
    """Returns how often all objects have been searched."""
    return int(gc.get_stats()[-1]["collections"])


class Garbage:
    """Follows the collections between first calls of graphs."""

    def __init__(self) -> None:
        self.seen = collections()

    def keep(self, graph: Any) -> None:
        """Notes in a graph that was compiled whether there was a collection."""
        setattr(graph, KEPT, collections() > self.seen)

    def call(self, original: Callable[..., Any], graph: Any, *given: Any) -> Any:
        """Calls a graph."""
        is_collected = vars(graph).pop(KEPT, None)  # None: it was called before
        if is_collected is not None:
            if is_collected and collections() == self.seen:
                gc.collect()
            self.seen = collections()
        return original(graph, *given)
