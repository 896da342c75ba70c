"""Benchmarks of Triton kernels in dry runs: they allocate what they allocate on a card, and run a few times.

The autotuner is Triton's own. It benchmarks each configuration, with the buffer of 256 MiB that flushes the card's cache, and
with the kernel's hooks. All times are equal, so that the first configuration is taken. Kernels whose configuration a card would
choose by time are kept in `choices`.
"""
from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from .._private_names import original_of, replace, wrap
from ..recording.labels import Labels
from .places import Place

CATEGORY = "Autotune"  # of memory that benchmarks allocate
Benchmark = Callable[..., Any]


class Kernel(NamedTuple):
    """A kernel that has configurations."""

    name: str
    place: Place


class Choice(NamedTuple):
    """How many configurations were benchmarked, how many of them requested other bytes than the first, and by how much at most."""

    configurations: int
    differing: int
    first_bytes: int
    most_bytes: int


choices: dict[Kernel, Choice] = {}


def kernel_of(tuner: Any) -> Kernel:
    code = tuner.base_fn.__code__
    return Kernel(tuner.base_fn.__name__, Place(code.co_filename, code.co_firstlineno))


def read_only(original: Callable[[str], Any]) -> Callable[[str], Any]:
    """Returns a function for the cache of an autotuner's results that stores none: times of a dry run would decide on a card, too."""
    def cache_of(key: str) -> Any:
        cache = original(key)
        cache.put = lambda *given, **named: None
        return cache

    return cache_of


class Tuning:
    """Follows the autotuners."""

    def __init__(self, cards: Any, labels: Labels) -> None:
        self.cards, self.labels = cards, labels
        self.current: weakref.WeakKeyDictionary[Any, Choice] = weakref.WeakKeyDictionary()  # by autotuner

    def begin(self) -> None:
        self.labels.workspace_category(CATEGORY)
        wrap("triton.testing.do_bench", self.run_once)
        wrap("triton.testing.do_bench_cudagraph", self.capture_once)
        replace("triton.runtime.autotuner.get_cache_manager", read_only(original_of("triton.runtime.cache.get_cache_manager")))
        wrap("triton.runtime.autotuner.Autotuner.prune_configs", self.begin_choice)
        wrap("triton.runtime.autotuner.Autotuner._bench", self.bench)

    def run_once(self, original: Benchmark, function: Any, warmup: float = 25, rep: float = 100, *given: Any, **named: Any) -> Any:
        """Benchmarks a function as triton.testing.do_bench, in the least time."""
        with self.labels.labelled(CATEGORY):
            return original(function, 0, 0, *given, **named)

    def capture_once(self, original: Benchmark, function: Any, rep: float = 20, *given: Any, **named: Any) -> Any:
        """Benchmarks a function as triton.testing.do_bench_cudagraph, in the least time."""
        with self.labels.labelled(CATEGORY):
            return original(function, 0, *given, **named)

    def begin_choice(self, original: Callable[..., Any], tuner: Any, *given: Any, **named: Any) -> Any:
        self.current.pop(tuner, None)
        return original(tuner, *given, **named)

    def bench(self, original: Benchmark, tuner: Any, *given: Any, **named: Any) -> Any:
        """Benchmarks a configuration, and compares the bytes that it requests with the first one's."""
        before = self.cards.requested_bytes()
        times = original(tuner, *given, **named)
        size = self.cards.requested_bytes() - before
        last = self.current.get(tuner, Choice(0, 0, size, 0))
        difference = abs(size - last.first_bytes)
        choice = Choice(last.configurations + 1, last.differing + (difference != 0), last.first_bytes,
                        max(last.most_bytes, difference))
        kernel = kernel_of(tuner)
        self.current[tuner], choices[kernel] = choice, max(choice, choices.get(kernel, choice))
        return times
