"""Observes a watched program besides training: its phases, its other loops, and the holders of growing memory."""
from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

import torch

from .._private_names import Replaced, has, original_of, replace
from .._settings import settings
from . import holders
from .frames import frames_from, frames_of_error
from .holder_names import Holder
from .iterations import Growth, Iterations, Loop, caller
from .labels import tensors_of
from .live_objects import Live, live_now
from .not_detached import Detaching
from .not_updated import MOST_OPTIMIZERS, Gradients, Needless
from .program_phases import ProgramPhases, marks_of_optimizers
from .weak_tensors import WeakTensor
from .weight_copies import least_copy, weight_copies
from .zeroed import Zeroing

FIRST, SECOND = 2, 4  # consecutive rises after which the holders of a loop are compared
LATER = 1  # additional rises for training steps: their model's calls have been compared by then
MOST_SEARCHES = 8  # in a run
MOST_TRACEBACKS = 2  # searched in a run, since a loop may handle an exception in each iteration
MOST_HOLDERS = 3  # of one loop
MOST_BLOCKS = 64  # of one holder, the largest
KEPT_FROM, KEPT_TO = 2, 3  # tensors that exist when both of these steps begin are kept ones, whose holders are named
COPIES_AT = (KEPT_FROM, KEPT_TO)  # steps that look for copies of the weights: before the peak, and for copies that a later step made
MOST_LATER_COPIES = 2  # searches for copies at later steps, at which live memory has grown by a copy
CACHES = re.compile(r"(?i)cache|past|key|kv|\.[kv]$")  # in the name of a holder
LEAST_SHARE = 100  # 1/LEAST_SHARE of the growth, or of the live bytes out of memory, is enough to store a holder


class Observer:
    """Follows one program. `free` returns the free bytes of its card; `measure` the bytes that would be free without some
    holders."""

    def __init__(self, library: Any, free: Callable[[], int],
                 measure: Optional[Callable[[list[Holder], Any], Optional[int]]] = None) -> None:
        self.library = library
        self.phases, self.iterations = ProgramPhases(library), Iterations(library, free)
        self.measure = measure
        self.gradients, self.detaching, self.zeroing = Gradients(), Detaching(), Zeroing()
        self.steps: Optional[Loop] = None
        self.kept: list[WeakTensor] = []
        self.later_copies = MOST_LATER_COPIES
        self.live_with_copies = 0  # bytes at the last search for copies
        self.least_copy = 0  # bytes of a copy of the weights
        self.updates: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()  # steps of each optimizer
        self.handled: set[int] = set()  # the ids of exceptions whose tracebacks were searched
        self.loaded: set[tuple[str, str, str]] = set()  # keys of holders of state dicts copied into modules
        self.trains_a_model = False  # the holders of a loop that trains were searched
        self.searches = MOST_SEARCHES if measure is not None or settings().holders else 0
        self.alone = threading.RLock()  # held by a search, which must not find the objects of another thread's search

    def begin_forward(self, module: torch.nn.Module) -> Loop:
        """Notes the call of an outermost module."""
        self.phases.begin_forward(module)
        self._search_traceback()
        loop = self.iterations.begin(module, self.phases.now)
        for one in filter(None, (loop.bottoms, loop.models, loop)):
            self._search(one)
        self.trains_a_model |= loop.census is not None and self.phases.now == "train"
        return loop

    def growths(self) -> list[Growth]:
        """Returns the loops whose memory grew. What may train is inference in a program that has neither run backward nor an
        optimizer."""
        found = list(self.iterations.growths.values())
        if not self.phases.has_trained and not marks_of_optimizers():
            found += [dataclasses.replace(one, phase="inference") for one in self.iterations.in_training.values()]
        return found

    def visit(self, loop: Loop) -> None:
        """Notes an iteration of a loop around the loops that call models, such as an epoch."""
        loop.visit(self.library.memtrace_torch_live())
        self._search(loop)

    def begin_step(self) -> None:
        """Notes that a training step begins. Finds the holders in programs that make a model in each step, or call none."""
        if self.steps is None:
            self.steps = Loop(caller())
        self.steps.visit(self.library.memtrace_torch_live())
        if self.searches > 0:
            with self.alone:
                self._search_kept(self.steps.count)
        if not self.trains_a_model:
            self._search(self.steps, LATER)

    def before_backward(self, roots: list[Any]) -> Iterator[tuple[str, Needless]]:
        """Yields the gradients that were set to zero since an optimizer's step, each as a kind of caveat and what it says. `roots` are
        the nodes with which backward begins."""
        if self.searches > 0:
            self.detaching.before_backward(roots)
            yield from (("zeroed", one) for one in self.zeroing.before_backward())

    def before_optimizer(self, optimizer: Any) -> Iterator[tuple[str, Needless]]:
        """Yields the modules with gradients that no optimizer uses, in the second step, and gradients that were computed for the step
        of another optimizer and cleared."""
        if self.searches > 0:
            with self.alone:
                yield from self._needless(optimizer, frames_from(sys._getframe(1)))

    def _needless(self, optimizer: Any, frames: list[Any]) -> Iterator[tuple[str, Needless]]:
        live = live_now() if self.gradients.compares(optimizer) else None
        self.updates[optimizer] = self.updates.get(optimizer, 0) + 1
        keeps_outputs = self.updates[optimizer] == KEPT_FROM and len(self.updates) <= MOST_OPTIMIZERS
        outputs = graphs_to_name(live) if live is not None and keeps_outputs else []
        yield from (("not_updated", one) for one in self.gradients.before_step(optimizer, frames, live))
        yield from (("not_detached", one) for one in self.detaching.before_step(optimizer, frames, live))
        live = None  # so that only the program refers to tensors when their holders are measured
        if keeps_outputs:
            self._search_outputs(frames, outputs)

    def _search_outputs(self, frames: list[Any], tensors: list[torch.Tensor]) -> None:
        """Stores the holders of tensors with graphs that variables kept through backward, such as logits. Clears the list."""
        least = self.library.memtrace_torch_live() // LEAST_SHARE
        large = sorted((one for one in holders.census(frames, tensors).values() if one.size >= least and one.is_reached),
                       key=lambda one: -one.size)
        tensors.clear()
        for number, holder in enumerate(large):
            measured = self.measure([holder], self.library) if self.measure is not None and number < MOST_HOLDERS else None
            self._store_one(holder, max(holder.size, measured or 0), None)

    def after_optimizer(self, optimizer: Any) -> None:
        if self.searches > 0:
            self.zeroing.after_step(optimizer)

    def _search_kept(self, step: int) -> None:
        """Stores the holders of tensors that live through a step, such as a checkpoint, and of copies of the weights."""
        frames = frames_from(caller())
        live = live_now() if step in COPIES_AT or (step > KEPT_TO and self._has_later_copy()) else None
        copies = self._label_copies(frames, live) if live is not None else {}
        if step > KEPT_TO:
            for copy in copies.values():
                self._store_one(copy, copy.size, None)
        elif step == KEPT_FROM and live is not None:
            self.kept = [WeakTensor(tensor) for tensor in holders.tensors_to_name(live)]
        elif step == KEPT_TO:
            live = None
            tensors = [tensor for tensor in (weak() for weak in self.kept) if tensor is not None]
            least = self.library.memtrace_torch_live() // LEAST_SHARE
            for holder in {**holders.census(frames, tensors), **copies}.values():
                if holder.size >= least and holder.is_reached:
                    self._store_one(holder, holder.size, None)

    def _has_later_copy(self) -> bool:
        """True if live memory has grown by a copy of the weights since the last search for them, a few times in a run."""
        has = self.later_copies > 0 and self.library.memtrace_torch_live() - self.live_with_copies >= self.least_copy > 0
        self.later_copies -= has
        return has

    def _label_copies(self, frames: list[Any], live: Live) -> dict[tuple[str, str, str], Holder]:
        """Returns the holders of copies of the weights by name, and gives the copies a role of their own."""
        found = [one for one in weight_copies(live, self._is_called, frames) if one.holder.key not in self.loaded]
        self.live_with_copies, self.least_copy = self.library.memtrace_torch_live(), least_copy(live.optimizers)
        for copy in found:
            for address in copy.holder.blocks:
                self.library.memtrace_torch_copy_of_weights(address, copy.name.encode())
        return {one.holder.key: one.holder for one in found}

    def _is_called(self, module: torch.nn.Module) -> bool:
        return bool(self.library.memtrace_torch_module_is_called(id(module)))

    def _search_traceback(self) -> None:
        """Stores the memory kept by an exception's traceback, if the program calls its model while it handles the exception."""
        error = sys.exc_info()[1]
        if self.searches > 0 and error is not None and id(error) not in self.handled and len(self.handled) < MOST_TRACEBACKS:
            self.searches -= 1
            self.handled.add(id(error))
            with self.alone:
                found = holders.census(frames_from(caller())).values()
                self._store_large(one for one in found if one.kind == "traceback")

    def _search(self, loop: Loop, later: int = 0) -> None:
        """Finds the holders of a loop whose live bytes rise, at two of its iterations."""
        if (self.searches > 0 or loop.census is not None) and loop.rises in (FIRST + later, SECOND + later):
            with self.alone:
                self._compare(loop, later)

    def _compare(self, loop: Loop, later: int) -> None:
        if loop.census is None and loop.rises == FIRST + later:
            self.searches -= 1
            loop.census = holders.sizes_of(holders.census_with_owners(frames_from(caller())))
        elif loop.census is not None and not loop.is_compared and loop.rises == SECOND + later:
            loop.is_compared = True
            if self.measure is None or not self._store_cycles(loop):  # before a census, since that refers to objects
                now = holders.census_with_owners(frames_from(caller()), loop.census)
                found = holders.grown(loop.census, now, loop.size // LEAST_SHARE)
                graphs = self._held_by_graphs(now.values(), loop) if any(one.has_graph for one in found) else 0
                self._label_caches(found, loop)
                self._store([one for one in found if not one.is_chain][:MOST_HOLDERS], loop, graphs)
                for chain in self._keeping([one for one in found if one.is_chain and graphs][:MOST_HOLDERS], graphs):
                    self._store_one(chain, graphs, loop)

    def _keeping(self, chains: list[Holder], graphs: int) -> list[Holder]:
        """Returns the chains that keep at least half of the memory of all graphs; all chains if no chain does. A sum of losses keeps
        nothing after backward."""
        held = [self.measure([one], self.library) if self.measure is not None else None for one in chains]
        return [one for one, size in zip(chains, held) if size is not None and size >= graphs // 2] or chains

    def _label_caches(self, found: Iterable[Holder], loop: Loop) -> None:
        """Labels tensors that grow while their number does not, in a loop that generates or under such a name: they are key-value
        caches."""
        for holder in found:
            if self.phases.now != "generate" and not (self.phases.now == "inference" and CACHES.search(holder.name)):
                continue
            _, count, _ = (loop.census or {}).get(holder.key, holders.NOTHING)
            if not holder.has_graph and count == len(holder.blocks):
                for address in holder.blocks:
                    self.library.memtrace_torch_cache(holder.devices[address], address)

    def _held_by_graphs(self, everything: Iterable[Holder], loop: Loop) -> int:
        """Returns the bytes that all graphs together keep; 0 if they are less than half of the loop's growth, since the graph of a sum
        of losses is empty after backward. A single variable keeps nothing if others are computed from it."""
        held: Optional[int] = loop.size * loop.rises
        if self.measure is not None:
            held = self.measure([one for one in everything if one.has_graph], self.library)
        return held if held is not None and held >= loop.least_rise * loop.rises // 2 else 0

    def _store_cycles(self, loop: Loop) -> bool:
        """Stores reference cycles as the holder, if half of the loop's growth would be free without them. Otherwise the attributes of
        an object in a cycle would be named. The first iterations may also leave a workspace."""
        for holder, held in holders.in_cycles(self.library):
            if held >= loop.least_rise * loop.rises // 2:
                self._store_one(holder, held, loop)
                return True
        return False

    def _store(self, found: list[Holder], loop: Optional[Loop] = None, graphs: int = 0) -> None:
        """Stores holders, of a loop if they grow in it. `graphs`: the part of the growth that all graphs together keep, which applies to
        holders with graphs if none alone keeps as much, such as a queue whose tensors the last loss was computed from."""
        left = loop.least_rise * loop.rises if loop is not None else 0
        measured = [self._measure(holder, found) for holder in found]
        keeps_alone = any(held is not None and held >= left // 2 for held in measured)
        for holder, held in zip(found, measured):
            if held is None or holder.owners or (holder.has_graph and not keeps_alone):
                held = max(holder.size, held or 0, graphs if holder.has_graph else 0)
            if held > left // LEAST_SHARE:
                self._store_one(holder, held, loop)

    def _measure(self, holder: Holder, found: list[Holder]) -> Optional[int]:
        """Returns the bytes that would be free without a holder and all others with the same blocks; None: unknown. 0: something else
        keeps the blocks, such as the graph of another tensor."""
        if self.measure is None:
            return None
        held = self.measure([holder], self.library)
        sharing = [one for one in found if one.blocks.keys() & holder.blocks.keys()]
        return self.measure(sharing, self.library) if held is not None and held < holder.size and len(sharing) > 1 else held

    def _store_one(self, holder: Holder, held: int, loop: Optional[Loop]) -> None:
        kind = holder.kind_of(held).encode()
        place = (os.fsencode(loop.file), loop.line) if loop is not None else (None, 0)
        largest = sorted(holder.blocks.items(), key=lambda block: -block[1])[:MOST_BLOCKS]
        for address, _ in largest:
            self.library.memtrace_torch_holder(holder.devices[address], address, kind, holder.name.encode(),
                                               holder.owner.encode(), os.fsencode(holder.file), holder.line, held, *place)

    def end_out_of_memory(self, error: BaseException) -> None:
        """Stores the holders of tensors at the out-of-memory error. The frames in the traceback have the variables."""
        self._store_large(holders.census(frames_of_error(error)).values())

    def _store_large(self, found: Iterable[Holder]) -> None:
        least = self.library.memtrace_torch_live() // LEAST_SHARE
        self._store(sorted((one for one in found if one.size >= least), key=lambda one: -one.size))

    def note_card(self, device: int) -> Optional[Holder]:
        """Stores the holders of tensors on a card, as far as they are visible at the end of the program. Returns the largest."""
        found = holders.census([]).values() if self.searches > 0 else ()
        here = sorted((one for one in found if device in one.devices.values()), key=lambda one: -one.size)
        self._store(here)
        return here[0] if here else None

    # ---- checkpoints ----

    def follow_checkpoints(self) -> Iterator[Replaced]:
        """Follows functions that load and save, and yields the replacements."""
        if not has("checkpoints"):
            return
        yield self._put_in("torch.load", "load")
        yield self._put_in("torch.save", "save")
        yield self._put_in("torch.nn.Module.load_state_dict", "load", self._note_state)

    def _put_in(self, name: str, phase: str, before: Optional[Callable[..., None]] = None) -> Replaced:
        """Makes a PyTorch function run in a phase of the program, after another function."""
        original = original_of(name)

        @functools.wraps(original)
        def call(*given: Any, **named: Any) -> Any:
            if before is not None:
                before(*given, **named)
            with self.phases.during(phase):
                return original(*given, **named)

        return replace(name, call)

    def _note_state(self, module: Any, state: Any = None, *given: Any, **named: Any) -> None:
        """Stores the holder of a state dict on a card, whose tensors are copied."""
        state = named.get("state_dict", state)
        is_assigned = named.get("assign", given[1] if len(given) > 1 else False)
        if self.searches <= 0 or is_assigned or not isinstance(state, dict):
            return
        tensors = [tensor for tensor in tensors_of(dict(state)) if tensor.is_cuda]
        if not tensors:
            return
        self.searches -= 1
        with self.alone:
            found = holders.census(frames_from(sys._getframe(1)), tensors)
            self.loaded |= found.keys()
            tensors.clear()  # so that only the program refers to them
            self._store(list(found.values()))


def graphs_to_name(live: Live) -> list[torch.Tensor]:
    """Returns the tensors with graphs whose holders are not known."""
    return [one for one in holders.tensors_to_name(live) if one.grad_fn is not None]
