"""CUDA graphs and memory pools on simulated cards: the classes and functions that torch.cuda finds in torch._C.

A capture sends allocations of its streams to a private pool, which lives as long as its graphs and MemPool objects. A replay does
nothing: what was written during the capture is not known anyway.
"""
from __future__ import annotations

import ctypes
import inspect
import itertools
import threading
import warnings
import weakref
from typing import Any, Optional

from .._declarations import dry as library_header
from .._declarations import torch as header

Pool = tuple[int, int]  # as PyTorch shows it: (1, 0) of a graph, (0, 1) of the program

graph_numbers, user_numbers = itertools.count(1), itertools.count(1)


def new_pool(is_user_created: bool = True) -> Pool:
    """Returns the handle of another pool."""
    return (0, next(user_numbers)) if is_user_created else (next(graph_numbers), 0)


def plain(pool: Any) -> Pool:
    """Returns the pair of a handle."""
    first, second = pool
    return first, second


def fail(words: str) -> None:
    """Fails as a call of CUDA does."""
    import torch

    raise getattr(torch, "AcceleratorError", RuntimeError)(f"CUDA error: {words}")


class Recording:
    """What a graph holds of a card, apart from the object that the program has, so that it can be freed with it."""

    def __init__(self, cards: Any) -> None:
        self.cards = cards
        self.device, self.pool, self.number = 0, (0, 0), 0
        self.is_capturing = self.is_captured = False
        self.states: list[Any] = []  # of generators that the program registered
        self.retained: list[Pool] = []  # other pools that it uses

    def begin(self, device: int, pool: Pool) -> None:
        number = ctypes.c_uint64()
        self.device, self.pool = device, pool
        if self.cards.device.memtrace_dry_capture_begin(*pool, ctypes.byref(number)):
            raise RuntimeError(f"a capture of this stream, or with the pool {pool}, is under way")
        self.number, self.is_capturing = number.value, True

    def end(self) -> None:
        outcome = self.cards.device.memtrace_dry_capture_end()
        if outcome == library_header().constants["MEMTRACE_DRY_OTHER_STREAM"]:
            raise RuntimeError("Capture must end on the same stream it began on.")
        self.is_capturing = False
        self.cards.device.memtrace_dry_route_end(self.device, *self.pool)
        if outcome:
            self.leave()
            fail("operation failed due to a previous error during capture")
        self.is_captured = True

    def retain(self, pool: Pool) -> None:
        use(self.cards, self.device, pool)
        self.retained.append(pool)

    def leave(self) -> None:
        for pool in (self.pool, *self.retained):
            self.cards.memory.memtrace_torch_pool_leave(self.device, *pool)
        self.retained.clear()
        self.states.clear()
        self.cards.device.memtrace_dry_forget_graph(self.number)

    def reset(self) -> None:
        if self.is_captured:
            self.leave()
        self.is_captured = False


def use(cards: Any, device: int, pool: Pool, kind: int = 0) -> None:
    """Adds a user of a pool."""
    if cards.memory.memtrace_torch_pool_use(device, *pool, kind, ctypes.byref(ctypes.c_uint32())):
        raise RuntimeError(cards.memory.memtrace_torch_last_error().decode())


def graph_class(cards: Any) -> type:
    """Returns torch._C._CUDAGraph."""

    class _CUDAGraph:
        recording: Recording
        keeps: bool  # keep_graph
        has_exec: bool  # it was instantiated

        def __new__(cls, keep_graph: bool = False) -> Any:
            made = super().__new__(cls)
            made.recording = Recording(cards)
            made.keeps, made.has_exec = keep_graph, False
            weakref.finalize(made, made.recording.reset).atexit = False
            return made

        @property
        def _has_graph_exec(self) -> bool:
            return self.has_exec

        def capture_begin(self, pool: Optional[Pool] = None, capture_error_mode: str = "global") -> None:
            if self.has_exec:
                raise RuntimeError("This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.")
            if capture_error_mode not in ("global", "thread_local", "relaxed"):
                raise RuntimeError(f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}")
            device = cards.exchange()
            if cards.stream(device)[0] == 0:
                raise RuntimeError("CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay "
                                   "them on the default stream.)")
            self.recording.begin(device, plain(pool) if pool is not None and any(pool) else new_pool(is_user_created=False))

        def capture_end_pre(self) -> None:
            self.recording.end()

        def capture_end_post(self) -> None:
            if not self.keeps:
                self.instantiate()

        def capture_end(self) -> None:
            _CUDAGraph.capture_end_pre(self)
            self.has_exec = not self.keeps

        def instantiate(self) -> None:
            if not self.recording.is_captured:
                raise RuntimeError("capture_end() must have been called before calling instantiate")
            self.has_exec = True

        def replay(self) -> None:
            if not self.recording.is_captured:
                raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
            self.has_exec = True

        def reset(self) -> None:
            self.recording.reset()
            self.has_exec = False

        def pool(self) -> Pool:
            if not self.recording.is_captured:
                raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
            return self.recording.pool

        def pools(self) -> list[Pool]:
            return [self.pool(), *self.recording.retained]

        def _retain_pool(self, pool: Pool) -> None:
            self.recording.retain(plain(pool))

        def register_generator_state(self, generator: Any) -> None:
            import torch

            if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13):
                self.recording.states += [torch.empty(1, dtype=torch.int64, device="cuda") for _ in range(2)]

        def enable_debug_mode(self) -> None:
            pass

        def debug_dump(self, debug_path: str) -> None:
            warnings.warn(f"memtrace: a dry run has no kernels in a CUDA graph, so {debug_path} is not written")

        def raw_cuda_graph(self) -> int:
            raise RuntimeError("memtrace: a dry run has no CUDA graph of the driver (raw_cuda_graph)")

        raw_cuda_graph_exec = raw_cuda_graph

    return _CUDAGraph


def pool_class(cards: Any) -> type:
    """Returns torch._C._MemPool."""
    constants = header().constants

    class _MemPool:
        def __init__(self, allocator: Any = None, is_user_created: bool = True, use_on_oom: bool = False, unsplit: bool = False) -> None:
            if allocator is not None:
                raise RuntimeError("memtrace: a dry run has no memory pools with allocators of the program's own (torch.cuda.MemPool): "
                                   "leave the allocator out where os.environ has MEMTRACE_DRY_DEVICE")
            self._id, self.device = new_pool(is_user_created), cards.exchange()
            is_unsplit = unsplit and "no_split" in inspect.signature(type(self).__init__).parameters  # 2.8: symmetric memory
            kind = is_unsplit * constants["MEMTRACE_TORCH_UNSPLIT"] + use_on_oom * constants["MEMTRACE_TORCH_LENT"]
            use(cards, self.device, self._id, kind)
            weakref.finalize(self, self._free, self.device, self._id).atexit = False

        @staticmethod
        def _free(device: int, pool: Pool) -> None:
            cards.memory.memtrace_torch_pool_leave(device, *pool)
            cards.memory.memtrace_torch_pool_empty(device, *pool)

        @property
        def id(self) -> Pool:
            return self._id

        @property
        def allocator(self) -> None:
            return None

        def use_count(self) -> int:
            return int(cards.memory.memtrace_torch_pool_users(self.device, *self._id))

    return _MemPool


def context_class() -> type:
    """Returns torch._C._MemPoolContext, of PyTorch 2.6 and 2.7."""
    active = threading.local()

    class _MemPoolContext:
        def __init__(self, pool: Any) -> None:
            before, active.pool = getattr(active, "pool", None), pool
            weakref.finalize(self, setattr, active, "pool", before).atexit = False

        @staticmethod
        def active_pool() -> Any:
            return getattr(active, "pool", None)

    return _MemPoolContext


def pieces(cards: Any, device: int) -> list[Any]:
    """Returns the blocks and the free memory of a card, by segment and address."""
    struct = header().structs["memtrace_torch_piece"]
    count = cards.memory.memtrace_torch_pieces(device, None, 0)
    found = (struct * count)()
    return list(found)[:min(count, cards.memory.memtrace_torch_pieces(device, found, count))]


def state_of(piece: Any) -> str:
    """Returns the state of a block, as PyTorch's snapshots name it."""
    if piece.is_waiting:
        return "active_pending_free"
    return "active_allocated" if piece.requested else "inactive"


def segment_of(device: int, parts: list[Any]) -> dict[str, Any]:
    """Returns a segment as torch.cuda.memory_snapshot shows it, of its pieces."""
    first = parts[0]
    active = [piece for piece in parts if piece.requested]
    return {
        "device": device, "address": first.address, "total_size": sum(piece.bytes for piece in parts),
        "allocated_size": sum(piece.bytes for piece in active if not piece.is_waiting),
        "active_size": sum(piece.bytes for piece in active), "requested_size": sum(piece.requested for piece in active),
        "stream": first.stream, "segment_type": "small" if first.is_small else "large",
        "segment_pool_id": (first.first, first.second), "is_expandable": bool(first.is_expandable), "frames": [],
        "blocks": [{"address": piece.address, "size": piece.bytes, "requested_size": piece.requested, "state": state_of(piece),
                    "frames": []} for piece in parts]}


def snapshot(cards: Any, given: Any = None) -> dict[str, Any]:
    """Returns the segments of all cards, of one pool if it is named."""
    pool = tuple(given[:2]) if given is not None else (0, 0)
    segments = [segment_of(device, list(parts)) for device in range(cards.count)
                for _, parts in itertools.groupby(pieces(cards, device), key=lambda piece: piece.segment)]
    return {"segments": [one for one in segments if pool in ((0, 0), one["segment_pool_id"])],
            "device_traces": [[] for _ in range(cards.count)], "allocator_settings": {}, "external_annotations": []}


def names(cards: Any) -> dict[str, Any]:
    """Returns the names for torch._C."""
    of = library_header().constants

    def router(whose: str) -> Any:
        def begin(device: int, *given: Any) -> None:
            pool = given[-1]
            if cards.device.memtrace_dry_route_begin(device, *pool, of[whose]):
                raise RuntimeError("beginAllocateToPool: already recording to mempool_id")
        return begin

    def end(device: int, pool: Pool) -> None:
        if cards.device.memtrace_dry_route_end(device, *pool):
            raise RuntimeError("endAllocatePool: not currently recording to mempool_id")

    def release(device: int, pool: Pool) -> None:
        cards.memory.memtrace_torch_pool_leave(device, *pool)

    def synchronize() -> None:
        if cards.device.memtrace_dry_synchronize():
            fail("operation not permitted when stream is capturing")

    return {
        "_CUDAGraph": graph_class(cards), "_graph_pool_handle": new_pool, "_MemPool": pool_class(cards),
        "_MemPoolContext": context_class(),
        "_cuda_beginAllocateToPool": router("MEMTRACE_DRY_OF_ALL"),
        "_cuda_beginAllocateCurrentStreamToPool": router("MEMTRACE_DRY_OF_STREAM"),
        "_cuda_beginAllocateCurrentThreadToPool": router("MEMTRACE_DRY_OF_THREAD"),
        "_cuda_endAllocateToPool": end, "_cuda_endAllocateCurrentStreamToPool": end, "_cuda_releasePool": release,
        "_cuda_isCurrentStreamCapturing": lambda: bool(cards.device.memtrace_dry_is_capturing()),
        "_cuda_synchronize": synchronize,
        "_cuda_clearCublasWorkspaces": lambda: cards.device.memtrace_dry_clear_workspaces(),  # a function of ctypes has no hash
        "_cuda_memorySnapshot": lambda given=None: snapshot(cards, given),
    }
