"""When a repeated loop of a dry run has shown all that it does.

A loop is a list of iterations: training steps, or the batches of a loop that trains nothing. An iteration has settled once it
made the same requests and frees as an earlier one, and left as many bytes live, in blocks and reserved. Where only the blocks
differ in each iteration, since the allocator finds other gaps, a loop goes on for a while: it may still reserve more. A loop
whose live bytes grow goes on, since the growth is the answer.
"""
from __future__ import annotations

import ctypes
import enum
import pathlib
from typing import Any, NamedTuple

from .._declarations import torch
from .._settings import settings

PERIODS = 4  # an optimizer may alternate: the two steps of a GAN are one iteration
WARM_UP = 2  # iterations that may differ, since states and workspaces are made in them
COINCIDENCES = 3  # periods that must repeat where iterations vary
MOST_ITERATIONS = 10  # of a loop that never repeats itself
MOST_GROWING = 50  # of a loop that grows irregularly
REGULAR = 5  # equal growths in a row from which the next ones are estimated
LEAST_BATCHES = 3  # of a pass over a loader
MODULUS = 1 << 64
FACTOR = torch().constants["MEMTRACE_TORCH_HISTORY_FACTOR"]


class Reading(NamedTuple):
    """The history of a program at one moment, and the bytes of all its cards."""

    requests: int
    request_count: int
    frees: int
    live: int  # as requested
    allocated: int
    reserved: int


class Iteration(Reading):
    """An interval between two readings: what it requested and freed, and what was there at its end."""

    def on_any_blocks(self) -> Iteration:
        """Returns what the program itself did, without the allocator's choice of blocks."""
        return self._replace(allocated=0, reserved=0)


class Meter:
    """Reads the history of the simulated cards."""

    def __init__(self, cards: Any) -> None:
        self.cards = cards

    def read(self) -> Reading:
        history = torch().structs["memtrace_torch_past"]()
        self.cards.memory.memtrace_torch_history(ctypes.byref(history))
        return Reading(history.requests, history.request_count, history.frees, *self.cards.live_bytes())

    def is_on_side_stream(self) -> bool:
        """True if this thread's current stream is not the default one."""
        return bool(self.cards.stream(self.cards.exchange())[0])

    def free(self) -> int:
        """Returns the free bytes of the card in use that has the least."""
        return int(self.cards.least_free())


def between(before: Reading, now: Reading) -> Iteration:
    """Returns what the program did between two readings (src/producers/torch/memtrace_torch.h has the formula)."""
    count = now.request_count - before.request_count
    requests = (now.requests - before.requests * pow(FACTOR, count, MODULUS)) % MODULUS
    return Iteration(requests, count, (now.frees - before.frees) % MODULUS, now.live, now.allocated, now.reserved)


class State(enum.Enum):
    """What is known of a loop."""

    RUNNING = "running"
    SETTLED = "settled"
    GROWING = "growing"  # by as much in each iteration
    UNSETTLED = "unsettled"  # it was given up


class Settling:
    """Follows one loop."""

    def __init__(self) -> None:
        self.interval = 1  # iterations that must repeat, since some of their code runs in one of so many
        self.iterations: list[Iteration] = []
        self.state = State.RUNNING

    def add(self, iteration: Iteration) -> State:
        self.iterations.append(iteration)
        if self.state is State.RUNNING:
            self.state = self._judge()
        return self.state

    @property
    def growth(self) -> int:
        """The bytes by which live memory grew in each of the last iterations; 0 if it did not, or irregularly."""
        return next(filter(None, map(self._growth, self._periods())), 0)

    def _periods(self) -> list[int]:
        return [*range(1, PERIODS + 1), *({self.interval} - set(range(PERIODS + 1)))]

    @property
    def has_requests(self) -> bool:
        """True if an iteration used a card."""
        return any(iteration.request_count for iteration in self.iterations)

    def _judge(self) -> State:
        if self._repeats(self.iterations):
            return State.SETTLED
        if self.growth:
            return State.GROWING
        is_rising = any(map(self._rises, self._periods()))
        most = max(MOST_GROWING, (REGULAR + 2) * self.interval) if is_rising else max(MOST_ITERATIONS, 3 * self.interval)
        if len(self.iterations) < most:
            return State.RUNNING
        return State.SETTLED if self._repeats([one.on_any_blocks() for one in self.iterations]) else State.UNSETTLED

    def _repeats(self, iterations: list[Iteration]) -> bool:
        return any(self._repeats_after(period, iterations) for period in self._periods())

    def _repeats_after(self, period: int, iterations: list[Iteration]) -> bool:
        """True if the last iterations equal those that many iterations before. Where more of them differed than a period has, as
        with texts of different lengths, two equal ones may be a coincidence, and more must be equal."""
        kinds = {iteration.requests for iteration in iterations[WARM_UP:]}
        compared = max(period * (1 if len(kinds) <= period else COINCIDENCES), self.interval if self.interval > 1 else 0)
        return len(iterations) >= period + compared and all(
            iterations[-1 - n] == iterations[-1 - n - period] for n in range(compared))

    def _live_by(self, period: int) -> list[int]:
        """Returns the live bytes after every `period`-th of the last iterations, one more than REGULAR; oldest first."""
        return [iteration.live for iteration in self.iterations[::-period][:REGULAR + 1]][::-1]

    def _growth(self, period: int) -> int:
        live = self._live_by(period)
        growths = {after - before for before, after in zip(live, live[1:])}
        return growths.pop() // period if len(live) > REGULAR and len(growths) == 1 and max(growths) > 0 else 0

    def _rises(self, period: int) -> bool:
        live = self._live_by(period)
        return len(live) > 2 and all(after > before for before, after in zip(live, live[1:]))


class Agreement:
    """The iterations at which loops settle, which are the same for all ranks of a job: the first rank decides.

    `memtrace dry-run` runs the first rank before the others, and gives them a folder; alone, a program agrees with itself."""

    def __init__(self) -> None:
        folder = settings().mail
        self.folder = pathlib.Path(folder) if folder else None
        self.decided = 0

    def allows(self, count: int, is_ready: bool) -> bool:
        """True if the loop that settles next does so after that many iterations. `is_ready`: it would by itself."""
        if self.folder is None:
            return is_ready
        path = self.folder / f"settled.{self.decided}"
        if is_ready and not path.exists():
            path.write_text(str(count))
        if not path.exists() or count < int(path.read_text()):
            return False
        self.decided += 1
        return True
