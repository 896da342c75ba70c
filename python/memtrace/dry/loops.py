"""Ends the repeated loops of a dry run once they have shown all that they do.

A loop over a loader ends at its next batch, never inside of its body, and the program continues after the loop: it evaluates, saves
and trains the next epoch, which ends early, too. transformers' Trainer and Lightning end by their own limits (trainers.py). Other
loops are left from outside (leaving.py) if a loop around them may train something new, as a sweep does, or if there is more to see
behind them (coverage.py); else the program ends there.
"""
from __future__ import annotations

import ast
import collections
import dis
import functools
import sys
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

from .._private_names import has, original_of, replace
from .intervals import interval_of
from .leaving import Leaver, loop_around, loops_of_program
from .places import Place, parsed, place_of_user
from .rounds import Growth, Lengths, Rounds
from .steps import LEAST_BATCHES, PERIODS, Agreement, Iteration, Meter, Reading, Settling, State, between

MOST_PASSES = 3  # over a training loader; then the next epochs repeat what was seen
MOST_EVALUATED = 200  # batches of an evaluation whose live bytes grow
MOST_WARM_UP = 16  # steps on a side stream that may be the warm-up before the capture of a CUDA graph
ITERATIONS = "FOR_ITER", "SEND", "YIELD_FROM"  # instructions of Python that end at StopIteration
PASS = "_memtrace_pass"  # an attribute of loaders' iterators


class Shortened(NamedTuple):
    """A loop that was ended early."""

    what: str
    place: Place
    done: int
    total: Optional[int]


class Loop:
    """All passes over one loader."""

    def __init__(self, total: Optional[int]) -> None:
        self.total = total
        self.training, self.evaluation = Settling(), Settling()


class Pass:
    """One pass over a loader."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.batches = 0
        self.trains = False  # backward ran in it
        self.is_over = False  # it was ended early
        self.is_judged = False  # it repeated what was seen, and a loop around it is left for that
        self.is_new = False  # its last batch came after the last backward
        self.has_forward = False  # a module was called since the last batch
        self.idle_steps = 0  # since it was asked for a batch
        self.steps = 0
        self.later: Optional[int] = None  # passes that follow; None: unknown
        self.reading: Optional[Reading] = None  # when the last batch was handed out
        self.place: Optional[Place] = None

    def is_nearly_over(self) -> bool:
        """True if so few batches are left that ending early would save nothing. Some programs check that none is missing."""
        return self.loop.total is not None and self.loop.total - self.batches <= LEAST_BATCHES


class Endings(NamedTuple):
    """How a program is ended. Each gets the reason, as in run.ended_by of the trace."""

    now: Callable[[str], None]  # raises
    at_next_line: Callable[[str], None]
    has_more: Callable[[], bool]  # true if something would be left out
    note_left_in: Callable[[Place], None]  # notes what did not run in the loop at a place, which ends


class Loops:
    """The loops of a program. `visit` is passed to Rounds. `most_steps` limits the steps; 0: loops end once they have settled; -1:
    nothing is ended."""

    def __init__(self, meter: Meter, most_steps: int, endings: Endings, visit: Callable[[Any], None]) -> None:
        self.meter, self.most_steps, self.endings = meter, most_steps, endings
        self.rounds = Rounds(visit, meter.free)
        self.leaver = Leaver(self.rounds)
        self.outside = Settling()  # of steps that no loader drives
        self.first_steps: dict[Place, int] = {}  # steps before the first one of a loop without a loader
        self.controlled: Optional[Settling] = None  # of steps of a trainer that can be stopped; None: none is under way
        self.agreement = Agreement()
        self.loops: weakref.WeakKeyDictionary[Any, Loop] = weakref.WeakKeyDictionary()
        self.passes: set[Pass] = set()  # under way; copied before it is walked, since loaders may be read by other threads
        self.repeated: collections.Counter[Place] = collections.Counter()  # passes that trained, since the last new iteration
        self.seen: set[int] = set()  # the requests of iterations in which loops settled
        self.shortened: dict[tuple[str, Place], Shortened] = {}
        self.growths: dict[Place, Growth] = {}
        self.live_after: dict[Place, int] = {}  # bytes after the last pass that grew
        self.ended: collections.Counter[Place] = collections.Counter()  # passes
        self.lengths = Lengths()
        self.steps = self.side_steps = 0
        self.begun: Optional[Reading] = None  # when the current step began

    @property
    def is_shortening(self) -> bool:
        return self.most_steps == 0

    # ---- steps ----

    def begin_step(self) -> None:
        self.begun = self.meter.read()

    def note_forward(self) -> None:
        for one in tuple(self.passes):
            one.has_forward = True

    def note_backward(self) -> None:
        """Notes that the passes which handed out a batch since the last backward train."""
        for one in tuple(self.passes):
            if one.is_new:
                one.is_new, one.trains = False, True

    def end_step(self) -> None:
        """Judges the step that ended. May end the program."""
        self.steps += 1
        if 0 < self.most_steps <= self.steps:
            self.endings.now("steps")
        before, self.begun = self.begun, self.meter.read()
        if not self.is_shortening or before is None:
            return
        iteration = between(before, self.begun)
        driving = [one for one in tuple(self.passes) if one.idle_steps < PERIODS]
        for one in driving:
            one.idle_steps += 1
            one.steps += 1
        if self.controlled is not None:
            self._judge(self.controlled, iteration)
        elif driving:
            for one in driving:
                if self._judge(one.loop.training, iteration, one.place) is State.GROWING:
                    self._count_later(one)
                self._leave_epochs(one)
        elif not self._is_warm_up():
            self._end_outside_step(iteration)

    def _count_later(self, one: Pass) -> None:
        """Notes how many passes follow this one."""
        if one.place is not None and one.later is None:
            around = loop_around(one.place)
            one.later = around.remaining() if around is not None else 0

    def _end_outside_step(self, iteration: Iteration) -> None:
        """Judges a step that no loader drives."""
        self.lengths.note([one.around() for one in loops_of_program()])
        place = place_of_user()
        if self._judge(self.outside, iteration, place) is not State.RUNNING:
            first = self.first_steps.setdefault(place, self.steps - len(self.outside.iterations))
            self.shorten("loop", place, self.steps - first, None)
            done = len(self.outside.iterations)
            self.note_growth(place, self.outside, done, self.lengths.total(done))
            self._leave(self.outside)
            self.outside = Settling()

    def _leave_epochs(self, one: Pass) -> None:
        """Leaves the loop around a pass once further passes would repeat what was seen."""
        if (one.is_judged or not one.trains or one.place is None or one.loop.training.state is State.RUNNING
                or self.repeated[one.place] < MOST_PASSES or self.rounds.is_rising(one.place)):
            return
        one.is_judged = True
        self.rounds.begin(one.place, loop_around(one.place))
        self._leave(one.loop.training, one.place)

    def _leave(self, settling: Settling, beyond: Optional[Place] = None) -> None:
        """Leaves a loop of the program that trains, one around `beyond` if given. Ends the program if no loop around that one could
        train something else, and no call behind it is left."""
        self.leaver.on_failure = lambda: self.endings.at_next_line(self._ending_of(settling))
        if not self.leaver.leave(beyond, 0 if self.endings.has_more() else 1, settling.state is not State.GROWING):
            self.endings.now(self._ending_of(settling))

    def _ending_of(self, settling: Settling) -> str:
        return "growth" if self.rounds.growths else ending_of(settling.state)

    def _is_warm_up(self) -> bool:
        """True if the step that ended may be part of the warm-up before the capture of a CUDA graph, or of the capture: ending the
        program there would leave the capture out."""
        is_beside = self.meter.is_on_side_stream()
        self.side_steps += is_beside
        return is_beside and self.side_steps <= MOST_WARM_UP

    def should_stop(self) -> bool:
        """True if the trainer that is under way has shown all that it does."""
        return self.controlled is not None and self.controlled.state is not State.RUNNING

    def _judge(self, settling: Settling, iteration: Iteration, place: Optional[Place] = None) -> State:
        """Adds a step to a loop. All ranks of a job end a loop at the same step. A loop
        that settles in a way not seen before, as with another model, has its loops around it run as often as the first."""
        if settling.state is not State.RUNNING:
            return settling.state
        if not settling.iterations:
            settling.interval = next((interval_of(one.loop, one.frame) for one in loops_of_program()), 1)
        settling.add(iteration)
        if place is not None and settling.interval > 1 and len(settling.iterations) % settling.interval == 0:
            self.rounds.end_interval(place)
        is_over = self.agreement.allows(len(settling.iterations), settling.state is not State.RUNNING)
        if not is_over:
            settling.state = State.RUNNING
        elif settling.state is State.RUNNING:  # the first rank had seen enough
            settling.state = State.SETTLED
        if settling.state is State.SETTLED and iteration.requests not in self.seen:
            self.seen.add(iteration.requests)
            self.repeated.clear()
            self.leaver.left.clear()
            self.rounds.clear()
        return settling.state

    def shorten(self, what: str, place: Place, done: int, total: Optional[int]) -> None:
        """Notes a loop that is ended early."""
        self.shortened[what, place] = Shortened(what, place, done, total)

    def note_growth(self, place: Place, settling: Settling, done: int, total: Optional[int]) -> None:
        """Notes the growth of a loop, if it grows."""
        if settling.growth:
            full_at = done + self.meter.free() // settling.growth + 1
            self.growths[place] = Growth(place, settling.growth, full_at, total, done)

    def _note_growth_of_pass(self, one: Pass, place: Place, settling: Settling) -> None:
        """Notes a growing pass over a loader. If what the passes before it left is still there, all passes add up."""
        steps = one.steps if one.trains else one.batches
        total = None if one.loop.total is None else one.loop.total * steps // one.batches
        live, before, earlier = self.meter.read().live, self.live_after.get(place), self.growths.get(place)
        self.live_after[place] = live
        if before is not None and earlier is not None and (live - before) * 10 >= settling.growth * steps * 9:
            runs = None if one.later is None else self.ended[place] + 1 + one.later
            total, steps = None if total is None or runs is None else total * runs, earlier.done + steps
        self.ended[place] += 1
        self.note_growth(place, settling, steps, total)

    # ---- loaders ----

    def begin_pass(self, loader: Any, iterator: Any) -> None:
        if not self.is_shortening:
            return
        loop = self.loops.get(loader)
        if loop is None:
            loop = self.loops[loader] = Loop(length_of(loader))
        one = Pass(loop)
        self.passes.add(one)
        setattr(iterator, PASS, one)

    def next_batch(self, original: Callable[[Any], Any], iterator: Any, caller: Any) -> Any:
        """Returns an iterator's next batch, unless the loop has shown all that it does. `caller` is the frame that asks."""
        one: Optional[Pass] = getattr(iterator, PASS, None)
        if one is None or not self.is_shortening:
            return original(iterator)
        if one.place is None:
            one.place = place_of_user()
            if not expects_an_end(caller):
                self.passes.discard(one)
                delattr(iterator, PASS)
                return original(iterator)
        if one.is_over or self._has_shown_all(one):
            self._end_pass(one)
            raise StopIteration
        try:
            batch = original(iterator)
        except StopIteration:
            self._note_repetition(one)
            raise
        one.batches += 1
        one.idle_steps, one.has_forward, one.is_new = 0, False, True
        one.reading = self.meter.read()
        return batch

    def _has_shown_all(self, one: Pass) -> bool:
        settling = one.loop.evaluation
        if not one.trains and one.reading is not None and one.has_forward:
            settling.add(between(one.reading, self.meter.read()))
        if one.batches < LEAST_BATCHES or one.is_nearly_over():
            return False
        if one.trains:
            return one.loop.training.state is not State.RUNNING
        if not one.has_forward or not settling.has_requests:
            return False
        return settling.state in (State.SETTLED, State.UNSETTLED) or one.batches >= MOST_EVALUATED

    def _note_repetition(self, one: Pass) -> None:
        self.passes.discard(one)
        state = one.loop.training.state
        if one.place is not None and one.trains and state is not State.RUNNING:
            self.repeated[one.place] += 1
            if state is not State.GROWING:
                self.rounds.end(one.place, loop_around(one.place))

    def _end_pass(self, one: Pass) -> None:
        if one.is_over:
            return
        one.is_over = True
        self._note_repetition(one)
        assert one.place is not None
        what, settling = (("training loader", one.loop.training) if one.trains else
                          ("evaluation loader", one.loop.evaluation))
        self.shorten(what, one.place, one.batches, one.loop.total)
        self.endings.note_left_in(one.place)
        self._note_growth_of_pass(one, one.place, settling)


def ending_of(state: State) -> str:
    """Returns the reason for the end of a program whose loop is in that state, as in run.ended_by of the trace."""
    return {State.GROWING: "growth", State.UNSETTLED: "unsettled"}.get(state, "settled")


def length_of(loader: Any) -> Optional[int]:
    try:
        return len(loader)
    except Exception:  # whatever the program's own function raises
        return None


def expects_an_end(caller: Any) -> bool:
    """True if the frame that asks for a batch takes StopIteration for the end of a loop: a `for`, or `next()` in a `try`. A plain
    next(iterator) would raise it into the program."""
    code = caller.f_code
    if dis.opname[code.co_code[caller.f_lasti]] in ITERATIONS or code.co_name == "__next__":
        return True
    module = parsed(code.co_filename)
    return module is not None and any(catches_the_end(node, caller.f_lineno)
                                      for node in ast.walk(module) if isinstance(node, ast.Try) and node.handlers)


def catches_the_end(statement: ast.Try, line: int) -> bool:
    """True if a `try` is for the end of an iterator that is asked on this line. A handler of all exceptions around a loop is for
    failures."""
    if not statement.lineno <= line < statement.handlers[0].lineno:
        return False
    is_direct = not any(isinstance(node, (ast.For, ast.While)) and node.lineno <= line <= (node.end_lineno or line)
                        for node in ast.walk(statement))
    kinds = {kind for handler in statement.handlers for kind in kinds_of(handler)}
    return "StopIteration" in kinds or (is_direct and bool(kinds & {"", "Exception"}))


def kinds_of(handler: ast.ExceptHandler) -> list[str]:
    """Returns the names of the exceptions that a handler catches; "" for all."""
    if handler.type is None:
        return [""]
    return [kind.id for kind in getattr(handler.type, "elts", [handler.type]) if isinstance(kind, ast.Name)]


BEGIN_PASS, NEXT_BATCH = "torch.utils.data.DataLoader.__iter__", "torch.utils.data.dataloader._BaseDataLoaderIter.__next__"


def follow_loaders(loops: Loops) -> None:
    """Follows every pass over a DataLoader of PyTorch's, and over loaders that are made of them."""
    import torch.utils.data.dataloader  # noqa: F401 (so that it is there)

    if not has("loaders"):
        return
    make_iterator, advance = original_of(BEGIN_PASS), original_of(NEXT_BATCH)

    @functools.wraps(make_iterator)
    def begin(loader: Any) -> Any:
        iterator = make_iterator(loader)
        loops.begin_pass(loader, iterator)
        return iterator

    @functools.wraps(advance)
    def next_batch(iterator: Any) -> Any:
        return loops.next_batch(advance, iterator, sys._getframe(1))

    replace(BEGIN_PASS, begin)
    replace(NEXT_BATCH, next_batch)
