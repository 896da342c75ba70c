"""torch.distributed in a dry run: this rank is alone, and its groups move nothing (src/producers/torch/dry/dry_group.h).

`memtrace dry-run --ranks` runs one rank at a time, with the variables that torchrun sets. The program's groups are made by
PyTorch's own code; only the backends behind them are replaced, and ranks do not meet before they begin.
"""
from __future__ import annotations

import ctypes
import datetime
import functools
import os
from typing import Any

import torch
import torch.distributed as dist

from .._private_names import C10D, has, replace, wrap
from .._settings import settings
from ..recording.handover import tell
from . import simulated

NAME = "memtrace"  # of the backend that PyTorch's code makes, and that ours replaces
NCCL_VERSION = 2, 28, 9  # of PyTorch 2.11's wheel


def make_backend(options: Any, unused: Any) -> Any:
    """Returns a backend of PyTorch's for the moment between a group's making and its replacement."""
    from torch._C._distributed_c10d import FakeProcessGroup

    make: Any = getattr(FakeProcessGroup, "_create_internal", FakeProcessGroup)
    return make(options.group_rank, options.group_size)


def number_in(name: str) -> int:
    """Returns the number in a variable. As PyTorch, fails without it: launchers other than torchrun do not set it."""
    if name not in os.environ:
        raise ValueError(f"Error initializing torch.distributed using env:// rendezvous: environment variable {name} expected, but not set")
    return int(os.environ[name])


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **named: Any) -> Any:
    """Yields a store of this rank's own, and its place, which is in the environment if the program does not say it."""
    rank = rank if rank >= 0 else number_in("RANK")
    world_size = world_size if world_size >= 0 else number_in("WORLD_SIZE")
    from torch._C._distributed_c10d import HashStore

    yield HashStore(), rank, world_size


def backends_of(asked: Any) -> dict[str, str]:
    """Returns the backend for each kind of device: {"cuda": "nccl", "cpu": "gloo"}."""
    from torch.distributed.distributed_c10d import BackendConfig

    found = BackendConfig(dist.Backend(str(asked))).get_device_backend_map()
    return {device: str(backend) for device, backend in found.items() if device in ("cpu", "cuda")}


@functools.cache
def tell_unknown_card(cards: Any) -> None:
    if not cards.memory.memtrace_torch_knows_nccl():
        tell(f"NCCL's memory is unknown for {cards.description.name.decode()}, and not counted")


def replace_groups(c10d: Any) -> None:
    """Has each new group use ours, under the name of the backend that the program asked for."""
    cards: Any = simulated.cards

    def make_group(original: Any, size: int, rank: int, ranks: Any, backend: Any, store: Any, group_name: str, *rest: Any, **named: Any) -> Any:
        backends = backends_of(backend)
        named.pop("backend_options", None)
        named.pop("pg_options", None)
        spelling = ",".join(f"{device}:{NAME}" for device in backends)
        made, prefix = original(size, rank, ranks, spelling, store, group_name, None, *rest[1:], **named)
        if made is not c10d.GroupMember.NON_GROUP_MEMBER:
            numbers = (ctypes.c_int * size)(*(ranks or range(size)))
            if size > 1 and "nccl" in backends.values():
                tell_unknown_card(cards)
            for device, name in backends.items():
                cards.device.memtrace_dry_group(group_name.encode(), os.fsencode(settings().mail), device.encode(), name.encode(),
                                                   numbers)
            c10d._world.pg_map[made] = (dist.Backend(str(backend)), c10d._world.pg_map[made][1])
            c10d._world.pg_backend_config[made] = str(c10d.BackendConfig(dist.Backend(str(backend))))
        return made, prefix

    wrap(C10D + "_new_process_group_helper", make_group)


def install() -> None:
    """Begins. Does nothing for a PyTorch without torch.distributed."""
    if not dist.is_available() or not has("process groups"):
        return
    c10d: Any = dist.distributed_c10d
    C: Any = torch._C
    dist.Backend.register_backend(NAME, make_backend, extended_api=True, devices=["cpu", "cuda"])
    replace(C10D + "_NCCL_AVAILABLE", True)
    replace(C10D + "default_pg_nccl_timeout", datetime.timedelta(minutes=10))
    if not hasattr(C, "_nccl_version"):
        C._nccl_version = lambda: NCCL_VERSION[0] << 32 | NCCL_VERSION[1] << 16 | NCCL_VERSION[2]
        C._nccl_version_suffix = lambda: b""
    replace(C10D + "rendezvous", rendezvous)
    replace_groups(c10d)
    if not hasattr(c10d, "ProcessGroupNCCL"):
        distributed: Any = dist
        distributed.ProcessGroupNCCL = c10d.ProcessGroupNCCL = type("ProcessGroupNCCL", (), {"Options": NCCLOptions})


class NCCLOptions:
    """Options of NCCL, which a program may make and which change nothing."""

    def __init__(self, is_high_priority_stream: bool = False) -> None:
        self.is_high_priority_stream = is_high_priority_stream
        self.config = type("Config", (), {})()
