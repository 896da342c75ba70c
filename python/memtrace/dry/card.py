"""The functions that PyTorch's CUDA build has in torch._C, for a build without CUDA and a card that is simulated.

torch.cuda itself is PyTorch's own Python. It asks these functions, and so it sees the card.
"""
from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from typing import Any, Optional

from .._declarations import torch as header
from . import between_cards, graph_trees, graphs

CUDA = 1  # the number of the device type
COUNTED = ("allocation", "segment", "inactive_split", "oversize_allocations", "oversize_segments", "requested_bytes",
           "allocated_bytes", "reserved_bytes", "inactive_split_bytes")
POOLS = ("small_pool", "large_pool", "all")


class Properties:
    """Some named values."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)


def now_of(counted: str) -> int:
    """Returns the index of a counter's present value, of all pools, in the array of memtrace_torch_counters. Its peak follows."""
    return (COUNTED.index(counted) * len(POOLS) + POOLS.index("all")) * 3


LIVE, RESERVED, REQUESTED = now_of("allocated_bytes"), now_of("reserved_bytes"), now_of("requested_bytes")

class Cards:
    """Cards of one kind. `memory` is libmemtrace_torch.so, `device` the library that was compiled for this PyTorch."""

    def __init__(self, memory: Any, device: Any, spelling: str, count: int) -> None:
        self.memory, self.device, self.count = memory, device, count
        self.description = header().structs["memtrace_torch_description"]()
        if memory.memtrace_torch_describe(spelling.encode(), ctypes.byref(self.description)):
            raise RuntimeError(memory.memtrace_torch_last_error().decode())
        self.fractions = [1.0] * count
        self.configure: Optional[Callable[[str], None]] = None  # takes PyTorch's settings of the allocator, before its first block
        self.process: Optional[int] = None  # in which CUDA was initialized; its forked children have no card

    def initialize(self) -> None:
        import torch

        self.process = os.getpid()
        cuda: Any = torch.cuda
        cuda.default_generators = self.generators()

    def generators(self) -> tuple[Any, ...]:
        """Returns the cards' default generators. PyTorch 2.6 with CUDA makes generators that need a driver; then it has the
        host's, which seed nothing here."""
        import torch

        self.device.memtrace_dry_gives_default(1)
        try:
            return tuple(torch.Generator(f"cuda:{device}") for device in range(self.count))
        except RuntimeError:
            return tuple(torch.Generator() for _ in range(self.count))
        finally:
            self.device.memtrace_dry_gives_default(0)

    def is_in_bad_fork(self) -> bool:
        return self.process is not None and self.process != os.getpid()

    def properties(self, device: int) -> Any:
        card = self.description
        return Properties(
            name=card.name.decode(), major=card.capability // 10, minor=card.capability % 10,
            total_memory=card.total_bytes, multi_processor_count=card.multiprocessors,
            max_threads_per_multi_processor=card.threads_per_multiprocessor, warp_size=32, regs_per_multiprocessor=65536,
            is_integrated=0, is_multi_gpu_board=0, L2_cache_size=card.l2_bytes, max_threads_per_block=1024, gcnArchName="", uuid="",
            shared_memory_per_block=48 << 10, shared_memory_per_block_optin=card.block_shared_bytes,
            shared_memory_per_multiprocessor=card.multiprocessor_shared_bytes)

    def check(self, device: int) -> None:
        """Fails if there is no such card, with the words of PyTorch's allocator."""
        if not 0 <= device < self.count:
            raise RuntimeError(f"Invalid device argument {device}: did you call init? The simulated cards are 0 to {self.count - 1}")

    def stats(self, device: int) -> dict[str, Any]:
        """Returns what torch.cuda.memory_stats shows."""
        numbers = self.counters(device)
        found: dict[str, Any] = {}
        for row, name in enumerate(COUNTED):
            pools = {}
            for column, pool in enumerate(POOLS):
                now, peak, total = numbers[(row * 3 + column) * 3:(row * 3 + column) * 3 + 3]
                pools[pool] = {"current": now, "peak": peak, "allocated": total, "freed": total - now}
            found[name] = pools["all"] if name.startswith("oversize") else pools
        found["active"], found["active_bytes"] = found["allocation"], found["allocated_bytes"]
        found.update(num_alloc_retries=numbers[-2], num_ooms=numbers[-1], max_split_size=-1, num_sync_all_streams=0,
                     num_device_alloc=found["segment"]["all"]["allocated"],
                     num_device_free=found["segment"]["all"]["freed"])
        return found

    def counters(self, device: int) -> Any:
        """Returns the numbers of memtrace_torch_counters."""
        self.check(device)
        numbers = (ctypes.c_uint64 * (len(COUNTED) * len(POOLS) * 3 + 2))()
        self.memory.memtrace_torch_counters(device, numbers)
        return numbers

    def live_bytes(self) -> tuple[int, ...]:
        """Returns the requested bytes of live blocks, the bytes of these blocks, and the bytes of segments, of all cards."""
        numbers = [self.counters(device) for device in range(self.count)]
        return tuple(sum(one[kind] for one in numbers) for kind in (REQUESTED, LIVE, RESERVED))

    def requested_bytes(self) -> int:
        """Returns the bytes that were requested so far, of all cards."""
        return sum(int(self.counters(device)[REQUESTED + 2]) for device in range(self.count))

    def least_free(self) -> int:
        """Returns the free bytes of the card in use that has the least."""
        used = [device for device in range(self.count) if self.counters(device)[RESERVED]]
        return min((self.memory_info(device)[0] for device in used), default=self.memory_info(0)[0])

    def peak(self) -> int:
        """Returns the peak of live bytes of the card on which it is highest."""
        return max(int(self.counters(device)[LIVE + 1]) for device in range(self.count))

    def memory_info(self, device: int = 0) -> tuple[int, int]:
        """Returns the free and the total bytes, as cudaMemGetInfo does."""
        card = self.description
        reserved = self.stats(device)["reserved_bytes"]["all"]["current"]
        held = self.memory.memtrace_torch_held(device)
        return max(0, card.total_bytes - card.others_bytes - held - reserved), card.total_bytes

    def limit(self, fraction: float, device: int) -> None:
        self.check(device)
        if not 0 <= fraction <= 1:
            raise RuntimeError(f"invalid fraction:{fraction}. Please set within [0, 1].")
        self.fractions[device] = fraction
        self.memory.memtrace_torch_memory_fraction(fraction, device)

    def set_alloc(self, configuration: str) -> None:
        """Sets the allocator's settings, as PYTORCH_ALLOC_CONF does. Once a card is in use they stay, with a note."""
        assert self.configure is not None
        self.configure(configuration)

    def empty_cache(self) -> None:
        self.memory.memtrace_torch_reset()

    def fraction(self, device: int) -> float:
        self.check(device)
        return self.fractions[device]

    def reset_peaks(self, device: int) -> None:
        self.check(device)
        self.memory.memtrace_torch_reset_peaks(device)

    def pin(self, address: int, size: int, flags: int = 0) -> int:
        """Records that memory of the host is pinned where it is. Returns CUDA's code of success."""
        self.device.memtrace_dry_pin(address, size)
        return 0

    def unpin(self, address: int) -> int:
        self.device.memtrace_dry_unpin(address)
        return 0

    def exchange(self, device: int = -1) -> int:
        """Sets the current device, unless it is negative, and returns the one before."""
        import torch

        if device >= self.count:
            raise getattr(torch, "AcceleratorError", RuntimeError)(
                f"CUDA error: invalid device ordinal: {device}; the simulated cards are 0 to {self.count - 1} "
                "(--cards N for more)")
        return int(self.device.memtrace_dry_device(device))

    def stream(self, device: int, stream: int = -1) -> tuple[int, int, int]:
        self.check(device)
        return int(self.device.memtrace_dry_stream(device, stream)), device, CUDA


def stream_class(C: Any, cards: Cards) -> type:
    """Returns torch._C._CudaStreamBase."""

    class _CudaStreamBase(C.Stream):  # type: ignore[misc]
        def __new__(cls, priority: int = 0, stream_id: Optional[int] = None, device_index: Optional[int] = None,
                    device_type: int = CUDA, stream_ptr: int = 0) -> Any:
            if stream_id is None:
                stream_id, device_index = cards.device.memtrace_dry_new_stream(), cards.device.memtrace_dry_device(-1)
            return super().__new__(cls, stream_id=stream_id, device_index=device_index, device_type=CUDA)

        @property
        def cuda_stream(self) -> int:
            return int(self.stream_id)

        @property
        def priority(self) -> int:
            return 0

        @staticmethod
        def priority_range() -> tuple[int, int]:
            return 0, -5

    return _CudaStreamBase


def event_class(C: Any) -> type:
    """Returns torch._C._CudaEventBase."""

    class _CudaEventBase(C.Event):  # type: ignore[misc]
        def __new__(cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                    external: bool = False) -> Any:
            return super().__new__(cls, "cuda", enable_timing=enable_timing)

        @property
        def cuda_event(self) -> int:
            return id(self)

        def elapsed_time(self, end: Any) -> float:
            return 1.0  # as everything that is not computed

    return _CudaEventBase


# What is there and can't be used, so that programs may import it.
REFUSED = {
    "_cuda_customAllocator": "allocators of the program's own",
    "_cuda_cudaCachingAllocator_raw_alloc": "memory without a tensor",
    "_cuda_jiterator_compile_and_launch_kernel": "kernels that the program compiles",
}


def refused(name: str, what: str) -> type:
    """Returns a class, or function, that can be imported and not be called."""
    def refuse(cls: type, *given: Any, **named: Any) -> Any:
        raise RuntimeError(f"memtrace: a dry run has no {what} (torch._C.{name}): leave them out where os.environ has "
                           f"MEMTRACE_DRY_DEVICE")
    return type(name, (), {"__new__": refuse})


def begin_memory(C: Any, cards: Cards) -> dict[str, Any]:
    return {
        "_cuda_memoryStats": cards.stats,
        "_cuda_resetPeakMemoryStats": cards.reset_peaks,
        "_cuda_resetAccumulatedMemoryStats": lambda device: None,
        "_cuda_hostMemoryStats": dict,
        "_cuda_emptyCache": cards.empty_cache,
        "_cuda_setMemoryFraction": cards.limit,
        "_cuda_getMemoryFraction": cards.fraction,
        "_cuda_record_memory_history": lambda *given, **named: None,
        "_cuda_getAllocatorBackend": lambda: "native",
        "_cuda_cudaCachingAllocator_enable": lambda value: None,
        "_cuda_cudaCachingAllocator_is_enabled": lambda: True,
        **dict.fromkeys(("_accelerator_setAllocatorSettings", "_cuda_cudaCachingAllocator_set_allocator_settings"), cards.set_alloc),
        "_accelerator_isAllocatorInitialized": lambda: True,
        "_accelerator_getDeviceStats": cards.stats,
        "_accelerator_getMemoryInfo": cards.memory_info,
        "_accelerator_emptyCache": cards.empty_cache,
        "_accelerator_resetPeakStats": cards.reset_peaks,
        "_accelerator_resetAccumulatedStats": lambda device: None,
        **{name: lambda: None for name in (
            "_cuda_ipc_collect", "_cuda_resetPeakHostMemoryStats",
            "_cuda_resetAccumulatedHostMemoryStats", "_host_emptyCache", "_accelerator_emptyHostCache")},
    }


def begin_devices(C: Any, cards: Cards) -> dict[str, Any]:
    def set_device(device: int) -> None:
        cards.exchange(device)

    def set_stream(stream_id: int, device_index: int, device_type: int = CUDA) -> None:
        cards.stream(device_index, stream_id)

    return {
        "_cuda_init": cards.initialize,
        "_cuda_getDeviceCount": lambda: cards.count,
        "_cuda_getDevice": cards.exchange,
        "_cuda_setDevice": set_device,
        "_cuda_exchangeDevice": cards.exchange,
        "_cuda_maybeExchangeDevice": cards.exchange,
        "_cuda_canDeviceAccessPeer": lambda device, peer: True,
        "_cuda_getCurrentStream": cards.stream,
        "_cuda_getCurrentRawStream": lambda device: cards.stream(device)[0],
        "_cuda_getDefaultStream": lambda device: (0, *cards.stream(device)[1:]),
        "_cuda_setStream": set_stream,
        "_cuda_isInBadFork": cards.is_in_bad_fork,
        "_cuda_isHistoryEnabled": lambda: False,
        "_cuda_getArchFlags": lambda: "sm_60 sm_70 sm_75 sm_80 sm_86 sm_90 sm_100 sm_120",
        "_cuda_get_sync_debug_mode": lambda: 0,
        "_cuda_set_sync_debug_mode": lambda mode: None,
        "_cuda_hasPrimaryContext": lambda device: True,
        "_cuda_getStreamFromExternal": lambda stream, device: (stream, device, CUDA),
        "_cuda_sleep": lambda cycles: None,
        "_cuda_get_cudnn_benchmark_limit": lambda: 10,
        "_cuda_set_cudnn_benchmark_limit": lambda limit: None,
        "_CudaStreamBase": stream_class(C, cards),
        "_CudaEventBase": event_class(C),
        "_CudaDeviceProperties": Properties,
        "_has_cuda": True,
    }


def cudart(cards: Cards) -> Any:
    """Returns the module of CUDA's runtime, torch.cuda.cudart()."""
    return Properties(
        cudaGetErrorString=lambda code: "CUDA error", cudaMemGetInfo=cards.memory_info, cudaError=Properties(success=0),
        cudaProfilerStart=lambda: 0, cudaProfilerStop=lambda: 0, cudaHostRegister=cards.pin, cudaHostUnregister=cards.unpin)


def nvtx() -> Any:
    """Returns the module of NVTX, whose ranges nobody sees."""
    return Properties(
        rangePushA=lambda name: 0, rangePop=lambda: 0, rangeStartA=lambda name: 0, rangeEnd=lambda number: None,
        markA=lambda name: None, deviceRangeStart=lambda name, stream: None, deviceRangeEnd=lambda given, stream: None)


def cudnn() -> Any:
    """Returns the module of cuDNN, of the version that src/producers/torch/dry/dry_hooks.cpp tells, too."""
    return Properties(getRuntimeVersion=lambda: (9, 19, 0), getCompileVersion=lambda: (9, 19, 0), getVersionInt=lambda: 91900,
                      is_cuda=True, RNNMode=Properties(rnn_relu=0, rnn_tanh=1, lstm=2, gru=3))


def functions(C: Any, cards: Cards) -> dict[str, Any]:
    """Returns all names that a dry run adds to torch._C."""
    modules = {"_cudart": cudart(cards), "_nvtx": nvtx(), "_cudnn": cudnn(), "_has_cudnn": True}
    names = {name: refused(name, what) for name, what in REFUSED.items()}
    return {**names, **modules, **between_cards.FUNCTIONS, **begin_devices(C, cards), **begin_memory(C, cards), **graphs.names(cards),
            **graph_trees.names(cards)}


def missing(name: str) -> Any:
    """Is called for names that torch._C lacks, as a newer torch.cuda may use."""
    raise AttributeError(f"module 'torch._C' has no attribute '{name}', nor does a dry run of memtrace add it")


def as_own(value: Any) -> Any:
    """Returns a function of its own for each name, as Dynamo expects, which has a table by function. Classes and modules are returned
    as they are."""
    return value if isinstance(value, type) or not callable(value) else lambda *given, **named: value(*given, **named)


def install(C: Any, cards: Cards) -> None:
    """Puts the functions into torch._C, before torch.cuda is imported."""
    names = {name: as_own(value) for name, value in functions(C, cards).items()}
    vars(C).update(names, __getattr__=missing)
