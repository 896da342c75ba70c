"""Loops around the loops that a dry run shortens, such as epochs.

An iteration of the loop around another loop, a round, ends when the inner loop ends. Memory that rises from round to round is
growth, as of a copy of the weights in each epoch, although the steps of the inner loop repeat.
"""
from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from ..recording.iterations import LEAST_GROWTH
from ..recording.iterations import Loop as Counted
from . import value_stack
from .places import Place

LEAST_RISES = 4  # consecutive rounds that leave more memory, from which later ones are estimated


class Around(NamedTuple):
    """A loop around another one."""

    frame: Any
    place: Place
    head: Optional[int]  # its place in the code of the frame; None: unknown

    def remaining(self) -> Optional[int]:
        return value_stack.remaining(self.frame, self.head) if self.head is not None else None


class Lengths:
    """Finds the number of training steps of a loop without a loader, from the iterations left for the loops around each
    step."""

    def __init__(self) -> None:
        self.before: dict[Place, Optional[int]] = {}
        self.now: dict[Place, Optional[int]] = {}
        self.most: dict[Place, int] = {}

    def note(self, loops: list[Around]) -> None:
        """Notes that a step ends in these loops, the innermost first."""
        self.before, self.now = self.now, {one.place: one.remaining() for one in loops}
        for place, left in self.now.items():
            self.most[place] = max(self.most.get(place, 0), left or 0)

    def total(self, done: int) -> Optional[int]:
        """Returns how many steps there are if this many are done; None: unknown. The innermost loop with one iteration less after
        each step has them; if the steps began in an earlier run of it, all runs of it count."""
        for (place, left), outer in zip(self.now.items(), [*self.now, None][1:]):
            before = self.before.get(place)
            if left is None or before is None or before - left != 1:
                continue
            length = self.most[place] + 1
            if done <= length - left:
                return done + left
            runs = self.now[outer] if outer is not None else 0
            return None if runs is None else done + left + runs * length
        return None


class Growth(NamedTuple):
    """Live memory that grew in each iteration of a loop that was ended early."""

    place: Place
    size: int  # bytes an iteration
    full_at: int  # the iteration that the card can't hold, counted from 1: an estimate
    total: Optional[int]  # iterations of the whole program
    done: int  # iterations that ran


class Rounds:
    """The rounds of a program. `visit` notes a loop's live bytes and searches their holders; `free` returns the card's free
    bytes."""

    def __init__(self, visit: Callable[[Counted], None], free: Callable[[], int]) -> None:
        self.visit, self.free = visit, free
        self.loops: dict[Place, Counted] = {}  # around the loop at this place
        self.intervals: dict[Place, Counted] = {}
        self.growths: dict[Place, Growth] = {}  # by the place of the inner loop

    def end(self, inner: Place, around: Optional[Around]) -> None:
        """Notes that an inner loop ends, and a round with it."""
        if around is None or inner in self.growths:
            return
        loop = self.loops.get(inner)
        if loop is None:
            loop = self.loops[inner] = Counted(around.frame)
            loop.file, loop.line = around.place
        self.visit(loop)
        if loop.rises >= LEAST_RISES and loop.size >= LEAST_GROWTH:
            left = around.remaining()
            self.growths[inner] = Growth(around.place, loop.size, loop.count + self.free() // loop.size + 1,
                                         None if left is None else loop.count + left, loop.count)

    def begin(self, inner: Place, around: Optional[Around]) -> None:
        """Notes that the inner loop has begun its next round, and how many rounds a growing loop has. That is unknown where a
        round ends if C asked for the next batch of the inner loop."""
        growth = self.growths.get(inner)
        if growth is not None and growth.total is None and around is not None:
            left = around.remaining()
            self.growths[inner] = growth._replace(total=None if left is None else self.loops[inner].count + 1 + left)

    def end_interval(self, place: Place) -> None:
        """Notes that the loop at this place has had enough iterations to enter all its branches once more."""
        loop = self.intervals.get(place)
        if loop is None:
            loop = self.intervals[place] = Counted(sys._getframe())
            loop.file, loop.line = place
        self.visit(loop)

    def is_rising(self, inner: Place) -> bool:
        """True if more rounds are needed to know whether memory grows in each."""
        loop = self.loops.get(inner)
        return loop is not None and inner not in self.growths and loop.rises > 0 and loop.size >= LEAST_GROWTH

    def clear(self) -> None:
        """Begins anew, as for another model."""
        self.loops.clear()
