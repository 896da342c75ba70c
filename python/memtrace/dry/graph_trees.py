"""What torch._inductor.cudagraph_trees finds in torch._C: the state of a pool, which it restores before it records again, and the
storages of tensors that died while a graph was replayed."""
from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from .graphs import Pool, pieces


class Kept(NamedTuple):
    """A block of a pool, or free memory of it."""

    address: int
    size: int
    is_live: bool


class AllocatorState:
    """The blocks of a pool at some time."""

    def __init__(self, pool: Pool, blocks: list[Kept]) -> None:
        self.pool, self.blocks = pool, blocks


def blocks_of(cards: Any, device: int, pool: Pool) -> list[Kept]:
    return [Kept(piece.address, piece.bytes, bool(piece.requested) and not piece.is_waiting) for piece in pieces(cards, device)
            if (piece.first, piece.second) == tuple(pool)]


def free(cards: Any, device: int, block: Kept) -> None:
    cards.memory.memtrace_torch_free(block.address, block.size, device, None)


def restore(cards: Any, device: int, state: AllocatorState, stale: Iterable[int], owners: Iterable[int]) -> None:
    """Sets the pool's blocks to the blocks of the state, as c10's setCheckpointPoolState: frees all, takes each block of the state, and frees
    again what was free. `stale` and `owners` are addresses of storages: of blocks that are freed, and those that own the new ones."""
    import torch

    freed = [block for block in blocks_of(cards, device, state.pool) if block.is_live]
    addresses = {block.address for block in freed}
    for block in freed:
        free(cards, device, block)
    for storage in stale:
        if address_of(torch, storage) in addresses:
            cards.device.memtrace_dry_disown(storage)
    for block in state.blocks:
        if cards.memory.memtrace_torch_take_at(device, block.address, block.size):
            raise RuntimeError(f"memtrace: the memory pool {state.pool} has other segments than its checkpoint")
    for block in state.blocks:
        if not block.is_live:
            free(cards, device, block)
    unowned = {block.address: block for block in state.blocks if block.is_live}
    for storage in owners:
        owned = unowned.pop(address_of(torch, storage), None)
        if owned is not None:
            cards.device.memtrace_dry_adopt(storage, owned.size)
    for block in unowned.values():
        free(cards, device, block)


def address_of(torch: Any, storage: int) -> int:
    """Returns the address of a storage's memory, whose StorageImpl has the address `storage`."""
    return int(torch.UntypedStorage._new_with_weak_ptr(storage).data_ptr())


def names(cards: Any) -> dict[str, Any]:
    """Returns the names for torch._C."""
    cudnn = {"empties": True}

    def set_empties(value: bool) -> None:
        cudnn["empties"] = value
        cards.memory.memtrace_torch_keep_cache(not value)

    def live_allocations_are(device: int, pool: Pool, expected: Any) -> bool:
        return {block.address for block in blocks_of(cards, device, pool) if block.is_live} == set(expected)

    def drop(storage: int) -> None:
        import torch

        address = address_of(torch, storage)
        cards.device.memtrace_dry_disown(storage)
        raw_delete(address)

    def raw_delete(address: int) -> None:
        for device in range(cards.count):
            for piece in pieces(cards, device):
                if piece.address == address and piece.requested:
                    free(cards, device, Kept(address, piece.bytes, True))

    def tensor_of(metadata: dict[str, Any], storage: Any) -> Any:
        import torch

        made = torch.empty(0, dtype=metadata["dtype"], device=storage.device)
        return made.set_(storage, metadata["storage_offset"], metadata["size"], metadata["stride"])

    def have_addresses(tensors: Any, addresses: Any, places: Any) -> bool:
        return all(tensors[place].data_ptr() == addresses[place] for place in places)

    return {
        "_cuda_CUDAAllocator_AllocatorState": AllocatorState,
        "_cuda_getCheckpointState": lambda device, pool: AllocatorState(pool, blocks_of(cards, device, pool)),
        "_cuda_setCheckpointPoolState": lambda device, state, stale, owners: restore(cards, device, state, stale, owners),
        "_cuda_checkPoolLiveAllocations": live_allocations_are,
        "_cuda_cudaCachingAllocator_raw_delete": raw_delete,
        "_has_Standard_Deleter": lambda storage: bool(cards.device.memtrace_dry_owns(storage)),
        "_free_And_Remove_DeleterFn": drop,
        "_set_storage_access_error_msg": lambda tensor, words: cards.device.memtrace_dry_forbid_tensor(tensor._cdata, words.encode()),
        "_set_storage_data_ptr_access_error_msg":
            lambda storage, words: cards.device.memtrace_dry_forbid_storage(storage, words.encode()),
        "_construct_CUDA_Tensor_From_Storage_And_Metadata": tensor_of,
        "_tensors_data_ptrs_at_indices_equal": have_addresses,
        "_cuda_get_conv_benchmark_empty_cache": lambda: cudnn["empties"],
        "_cudnn_set_conv_benchmark_empty_cache": set_empties,
    }
