"""torch.optim.LBFGS with line_search_fn="strong_wolfe": a search ends with its first step, as most do on a card.

A slope that was not computed is assumed to be a little smaller than the one before, and never by the tenth that the search requires.
"""
from __future__ import annotations

from typing import Any, Callable

from .._private_names import wrap

CURVATURE = 1.0  # of the slope before: the search ends once its own is not larger


def end_at_first_step(device: Any) -> None:
    """Has searches along directions that were not computed end at their first step."""
    def search(original: Callable[..., Any], evaluate: Any, weights: Any, step: Any, direction: Any, *given: Any, **named: Any) -> Any:
        if not device.memtrace_dry_is_known(direction._cdata):
            named.setdefault("c2", CURVATURE)
        return original(evaluate, weights, step, direction, *given, **named)

    wrap("torch.optim.lbfgs._strong_wolfe", search)
