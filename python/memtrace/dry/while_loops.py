"""Loops of compiled code, of torch.while_loop. A kernel computes their condition, so it is not known whether they go on: they make a
few iterations, which the verdict names."""
from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import torch

from .._private_names import wrap

CONDITION = re.compile(r"while_loop_cond_graph_\d+")  # the name of a function of generated code
ITERATIONS = 2  # the second one allocates while results of the first are live


def limited(is_known: Callable[[Any], int], assume: Callable[[str, float], None], condition: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a condition that becomes false after some iterations, if it is not known."""
    done = 0

    @functools.wraps(condition)
    def call(*given: Any) -> Any:
        nonlocal done
        results = condition(*given)
        predicate = results[0]
        if isinstance(predicate, torch.Tensor) and not is_known(predicate._cdata):
            done = (done + 1) % (ITERATIONS + 1)
            predicate.fill_(done > 0)
            if done == 0:
                assume("iterations of a while_loop", ITERATIONS)
        return results

    return call


def limit(is_known: Callable[[Any], int], assume: Callable[[str, float], None]) -> None:
    """Limits the loops of code that Inductor loads from now on."""
    def load(original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        module = original(*given, **named)
        for name, function in list(vars(module).items()):
            if CONDITION.fullmatch(name):
                setattr(module, name, limited(is_known, assume, function))
        return module

    wrap("torch._inductor.codecache.PyCodeCache.load_by_key_path", load)
