"""The holders of tensors on a card: variables, attributes and closures from which the tensors can be reached.

    census(frames)             names the referrers of the program's tensors, with the running frames
    census_with_owners(…)      also names the referrers of its modules and optimizers, such as a list of models
    grown(before, now)         the holders with more than in an earlier census
    measured_by_fork(holders)  the bytes that would be free without some holders, counted in a child process
    in_cycles()                the tensors in reference cycles, found in a child process

Searching takes tens of milliseconds for each level of containers, so it is done a few times in a run, at safe points in Python,
and never inside an allocator. Parameters, buffers, gradients and optimizer state are not searched: modules and optimizers own them.
"""
from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import types
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional

import torch

from .frames import is_of_library
from .holder_names import Holder, Names, Node
from .holder_paths import FunctionCache, fields_of
from .labels import start_of
from .live_objects import Live, live_now, objects_of
from .spread import local_of
from .weak_tensors import WeakTensor

PATIENCE = 20.0  # seconds for a child that counts
MOST_NODES = 4096  # of a graph that is searched for gradients
MOST_CYCLE_BLOCKS = 16  # the largest, as many as fit in one write to a pipe


# ---- tensors ----

def known_tensors(modules: Iterable[Any], optimizers: Iterable[Any]) -> set[int]:
    """Returns the ids of tensors with known holders: of modules, of optimizers, and gradients."""
    found: set[int] = set()
    for module in modules:
        for tensors in (vars(module).get("_parameters"), vars(module).get("_buffers")):
            for tensor in (tensors or {}).values():
                if tensor is not None and tensor.is_leaf:  # others replace parameters, as in torch.func.functional_call
                    found |= {id(tensor), id(tensor.grad)}
    for optimizer in optimizers:
        for state in optimizer.state.values():
            found |= {id(value) for value in (state.values() if isinstance(state, dict) else ())}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                found |= {id(parameter), id(parameter.grad)}
    return found


def tensors_on_cards() -> list[torch.Tensor]:
    return [one for one in objects_of(torch.Tensor)[0] if is_on_card(one)]


def is_on_card(tensor: torch.Tensor) -> bool:
    """True if a tensor has memory on a card, which the compiler's FakeTensor only pretends."""
    return type(tensor).__name__ != "FakeTensor" and start_of(tensor) != 0


def tensors_to_name(live: Live) -> list[torch.Tensor]:
    """Returns the tensors on cards whose holders are not known."""
    known = known_tensors(live.modules, live.optimizers)
    return [tensor for tensor in live.tensors if id(tensor) not in known and not isinstance(tensor, torch.nn.Parameter)
            and is_on_card(tensor)]


# ---- census ----

Census = dict[tuple[str, str, str], Holder]  # by name
Sizes = dict[tuple[str, str, str], tuple[int, int, frozenset[Node]]]  # bytes, tensors, and nodes
NOTHING: tuple[int, int, frozenset[Node]] = (0, 0, frozenset())


def census(frames: list[Any], tensors: Optional[list[torch.Tensor]] = None, before: Optional[Sizes] = None) -> Census:
    """Returns the holders of tensors on cards, by name. `frames` are the running ones; `tensors` None: all with unknown holders.
    `before`, from an earlier census, is needed to find chains."""
    asked = tensors_to_name(live_now()) if tensors is None else tensors
    names = Names(asked, frames)
    found: Census = {}
    for tensor in asked:
        holder = names.name(tensor)
        if holder is None:
            continue
        holder = found.setdefault(holder.key, holder)
        start = start_of(tensor)
        holder.blocks[start] = tensor.untyped_storage().nbytes()
        holder.devices[start] = tensor.device.index or 0
        holder.tensor_bytes += tensor.nbytes
        if tensor.grad_fn is not None:
            holder.nodes.add(node_of(tensor.grad_fn))
            holder.tensors.append(WeakTensor(tensor))
            if not holder.is_chain and is_computed_from(tensor.grad_fn, (before or {}).get(holder.key, NOTHING)[2]):
                holder.is_chain, holder.is_of_gradients = True, contains_gradients(tensor.grad_fn)
        holder.references += names.references(tensor)
    return found


def census_with_owners(frames: list[Any], before: Optional[Sizes] = None) -> Census:
    """Returns the same with the holders of modules and optimizers: of parameters, buffers and states."""
    found = census(frames, before=before)
    owners = owners_on_cards()  # the only list of them, so that none is mistaken for a holder
    names = Names(owners, frames)
    for one in owners:
        holder = names.name(one) if names.paths.is_reached(one) else None
        if holder is not None:
            holder = found.setdefault(holder.key, holder)
            holder.owners += 1
            holder.references += names.references(one)
            for tensor in owned_by(one):
                holder.blocks[start_of(tensor)] = local_of(tensor).untyped_storage().nbytes()
                holder.devices[start_of(tensor)] = tensor.device.index or 0
    return found


def owners_on_cards() -> list[Any]:
    """Returns the optimizers, and the modules that are in no other module, with tensors on cards."""
    modules, optimizers = objects_of(torch.nn.Module, torch.optim.Optimizer)
    return [one for one in (*outermost(modules), *optimizers) if next(owned_by(one), None) is not None]


def owned_by(owner: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors on cards that a module or an optimizer has."""
    if isinstance(owner, torch.nn.Module):
        yield from filter(is_on_card, (*owner.parameters(), *owner.buffers()))
    else:
        for state in owner.state.values():
            yield from (value for value in (state.values() if isinstance(state, dict) else ())
                        if isinstance(value, torch.Tensor) and is_on_card(value))


def outermost(modules: list[Any]) -> list[Any]:
    """Returns the modules that are in no other one."""
    inner = {id(child) for module in modules for child in module.children()}
    return [module for module in modules if id(module) not in inner]


def sizes_of(found: Census) -> Sizes:
    """Returns the part of a census to keep until the next one, without objects of the program."""
    return {key: (holder.size, len(holder.blocks), frozenset(holder.nodes)) for key, holder in found.items()}


def node_of(function: Any) -> Node:
    """Returns the number and the name of an autograd function. Each thread counts its own, so the number alone is not unique."""
    return function._sequence_nr(), function.name()


def is_computed_from(end: Any, before: frozenset[Node]) -> bool:
    """True if a graph that ends with a new node contains the last node of an earlier graph. A node has a larger number than the nodes
    of its inputs."""
    waiting, seen = [end], set(before)
    while waiting and before and node_of(end) not in before:
        for function, _ in waiting.pop().next_functions:
            node = node_of(function) if function is not None else (0, "")
            if node in before:
                return True
            if node > min(before) and node not in seen:
                seen.add(node)
                waiting.append(function)
    return False


def contains_gradients(end: Any) -> bool:
    """True if a graph contains nodes that differentiate gradients, such as LogSoftmaxBackwardDataBackward0. Searches its last nodes."""
    waiting, seen = deque([end]), {node_of(end)}
    while waiting and len(seen) < MOST_NODES:
        function = waiting.popleft()
        if function.name().count("Backward") > 1:
            return True
        inner = [one for one, _ in function.next_functions if one is not None and node_of(one) not in seen]
        seen |= {node_of(one) for one in inner}
        waiting += inner
    return False


def grown(before: Sizes, now: Census, least: int) -> list[Holder]:
    """Returns the holders with more bytes than before, by at least a limit, or with more graphs, largest growth first, then chains.
    Tensors with a graph precede others, since graphs are large."""
    def growth(holder: Holder) -> tuple[bool, bool, int, int]:
        size, blocks, _ = before.get(holder.key, NOTHING)
        return not holder.is_chain, holder.has_graph, holder.size - size, len(holder.blocks) - blocks

    def has_grown(holder: Holder) -> bool:
        _, has_graph, size, blocks = growth(holder)
        if holder.owners == 1 and holder.key not in before:
            return False  # a model, or an optimizer that has made its first step
        return holder.is_chain or size >= least or (has_graph and blocks > 0)

    return sorted(filter(has_grown, now.values()), key=growth, reverse=True)


# ---- how much a holder keeps ----

def release(holder: Holder) -> None:
    """Removes the references to a holder's tensors, and detaches them from their graphs."""
    targets: dict[int, tuple[Any, set[int]]] = {}
    for referrer, target in holder.references:
        targets.setdefault(id(referrer), (referrer, set()))[1].add(target)
    for referrer, ids in targets.values():
        with contextlib.suppress(Exception):
            remove(referrer, ids)
    for weak in holder.tensors:
        with contextlib.suppress(RuntimeError):  # for a view
            tensor = weak()
            if tensor is not None:
                tensor.detach_()


def remove(referrer: Any, targets: set[int]) -> None:
    """Removes the references of an object to others, given by their ids. It keeps its other values: a dict may contain a module's
    variables, and a variable may refer to one of a container's tuples."""
    if isinstance(referrer, FunctionCache):
        referrer.cache_clear()
    elif isinstance(referrer, types.FrameType):
        referrer.clear()
    elif isinstance(referrer, (list, set, deque)):
        kept = [one for one in referrer if id(one) not in targets]
        referrer.clear()
        (referrer.update if isinstance(referrer, set) else referrer.extend)(kept)
    elif isinstance(referrer, types.CellType):
        del referrer.cell_contents
    elif isinstance(referrer, dict):
        for key in [key for key, value in referrer.items() if id(value) in targets]:
            del referrer[key]
    else:
        for key in [key for key, value in fields_of(referrer) if id(value) in targets]:
            object.__delattr__(referrer, key)


@contextlib.contextmanager
def forked() -> Iterator[int]:
    """Yields the process id of a child, which is 0 in the child."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # from Python, about forks of a process with threads
        yield os.fork()


def in_child(work: Callable[[], str]) -> Optional[str]:
    """Returns the result of a function in a forked child, so that the program does not change; None if the child did not return."""
    begin, end = os.pipe()
    with forked() as child:
        if child == 0:
            try:
                os.write(end, work().encode())
            finally:
                os._exit(0)
    os.close(end)
    try:
        is_ready = bool(select.select([begin], [], [], PATIENCE)[0])
        answer = os.read(begin, select.PIPE_BUF) if is_ready else b""
    finally:
        os.close(begin)
        with contextlib.suppress(OSError):
            if not is_ready:
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    return answer.decode() or None


def freed_by(work: Callable[[], Any], library: Any) -> int:
    """Returns the bytes that a function and the garbage collector free, in a forked child."""
    before = library.memtrace_torch_freed_in_child()
    work()
    gc.collect()
    return int(library.memtrace_torch_freed_in_child() - before)


def measured_by_fork(found: list[Holder], library: Any) -> Optional[int]:
    """Returns the bytes that would be free without some holders; None: unknown. Releases them in a child."""
    def release_all() -> None:
        for holder in found:
            release(holder)

    def count() -> str:
        gc.collect()
        return str(freed_by(release_all, library))

    answer = in_child(count) if all(holder.references or holder.tensors for holder in found) else None
    return int(answer) if answer else None


# ---- cycles ----

def block_of(reference: weakref.ref[torch.Tensor]) -> Optional[tuple[int, int, int]]:
    """Returns the address, the bytes and the card of a tensor's block."""
    tensor = reference()
    return None if tensor is None else (start_of(tensor), tensor.untyped_storage().nbytes(), tensor.device.index or 0)


def drop_gradients_with_graphs() -> None:
    """Removes gradients computed by backward(create_graph=True). Their graphs and the parameters refer to each other, in cycles that
    the garbage collector does not see."""
    for tensor in tensors_on_cards():
        if tensor.is_leaf and tensor.grad is not None and tensor.grad.grad_fn is not None:
            tensor.grad = None


def freed_in_child(kind: str, name: str, work: Callable[[], Any], library: Any) -> Optional[tuple[Holder, int]]:
    """Returns the tensors that a function and the garbage collector free, as a holder, and the bytes that would be free."""
    references = [weakref.ref(tensor) for tensor in tensors_on_cards()]

    def collect() -> str:
        blocks = [(reference, block_of(reference)) for reference in references]
        freed = freed_by(work, library)
        gone = sorted((block for reference, block in blocks if block and reference() is None), key=lambda block: -block[1])
        return json.dumps([freed, gone[:MOST_CYCLE_BLOCKS]])

    answer = in_child(collect)
    freed, gone = json.loads(answer) if answer else (0, [])
    if not gone:
        return None
    holder = Holder(kind, name, "", "", 0, {address: size for address, size, _ in gone},
                    {address: device for address, _, device in gone})
    return holder, freed


def in_cycles(library: Any) -> Iterator[tuple[Holder, int]]:
    """Yields the tensors in reference cycles, as a holder, and the bytes that would be free without the cycles."""
    for kind, name, work in (("cycle", "reference cycles", gc.collect),
                             ("gradient cycle", "gradients with a graph", drop_gradients_with_graphs)):
        found = freed_in_child(kind, name, work, library)
        if found is not None:
            if kind == "cycle":
                name_cycle(found[0])
            yield found


def name_cycle(holder: Holder) -> None:
    """Adds the attribute by which an object of the program refers to the largest tensor in reference cycles."""
    largest = next(iter(holder.blocks))
    tensors = [one for one in tensors_on_cards() if start_of(one) == largest]
    names = Names(tensors, [])
    place = next(filter(None, map(names.name, tensors)), None)
    if place is not None and place.kind == "attribute" and not is_of_library(place.file):
        holder.owner, holder.file, holder.line = f"{place.name} of {place.owner}", place.file, place.line
