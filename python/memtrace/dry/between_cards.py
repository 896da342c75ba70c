"""What DataParallel moves between the cards of one process: torch._C's functions behind torch.nn.parallel.comm, out of copies.

They allocate what PyTorch's own do (torch/csrc/cuda/comm.cpp) where NCCL is not used.
"""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Optional


def stream_of(streams: Optional[Sequence[Any]], number: int) -> Any:
    """Returns a context in which the stream of a chunk is the current one, if there is one."""
    import torch

    return torch.cuda.stream(streams[number] if streams and number < len(streams) else None)


def scatter(tensor: Any, devices: Sequence[int], sizes: Optional[Sequence[int]], dim: int,
            streams: Optional[Sequence[Any]] = None) -> list[Any]:
    """Returns the chunks of a tensor, each on its card. A chunk that is there already is a view."""
    chunks = list(tensor.split_with_sizes(sizes, dim) if sizes else tensor.chunk(len(devices), dim))
    for number, device in zip(range(len(chunks)), devices):
        if device != tensor.get_device():
            with stream_of(streams, number):
                chunks[number] = chunks[number].to(f"cuda:{device}", non_blocking=True)
    return chunks


def scatter_out(tensor: Any, out: Sequence[Any], dim: int, streams: Optional[Sequence[Any]] = None) -> Sequence[Any]:
    chunks = tensor.split_with_sizes([each.size(dim) for each in out], dim)
    for number, (chunk, target) in enumerate(zip(chunks, out)):
        with stream_of(streams, number):
            target.copy_(chunk, non_blocking=True)
    return out


def gather_out(tensors: Sequence[Any], out: Any, dim: int) -> Any:
    for tensor, target in zip(tensors, out.split_with_sizes([each.size(dim) for each in tensors], dim)):
        target.copy_(tensor, non_blocking=True)
    return out


def gather(tensors: Sequence[Any], dim: int, destination: Optional[int] = None) -> Any:
    """Returns the tensors in one, on the card of that number, the current one (None) or the host (-1)."""
    import torch

    first = tensors[0]
    device = "cpu" if destination == -1 else "cuda" if destination is None else f"cuda:{destination}"
    sizes = list(first.shape)
    sizes[dim] = sum(each.size(dim) for each in tensors)
    is_last = all(each.dim() == 4 and each.is_contiguous(memory_format=torch.channels_last) and not each.is_contiguous()
                  for each in tensors)
    out = torch.empty(sizes, dtype=first.dtype, device=device,
                      memory_format=torch.channels_last if is_last else torch.contiguous_format)
    return gather_out(tensors, out, dim)


def broadcast_out(tensor: Any, out: Sequence[Any]) -> Sequence[Any]:
    for target in out:
        target.copy_(tensor, non_blocking=True)
    return out


def broadcast(tensor: Any, devices: Sequence[int]) -> list[Any]:
    """Returns the tensor and its copies, one for each card. The first is the tensor itself if it is on the first card."""
    import torch

    copies = [torch.empty_like(tensor, device=f"cuda:{device}") for device in devices
              if device != tensor.get_device()]
    broadcast_out(tensor, copies)
    return [tensor, *copies] if len(copies) < len(devices) else copies


def groups_of(tensors: Iterable[Any], most_bytes: int) -> list[list[Any]]:
    """Returns the tensors in groups of one dtype, which end once they have `most_bytes`."""
    groups: list[list[Any]] = []
    open_groups: dict[Any, list[Any]] = {}
    for tensor in tensors:
        group = open_groups.setdefault(tensor.dtype, [])
        group.append(tensor)
        if sum(each.nbytes for each in group) >= most_bytes:
            groups.append(open_groups.pop(tensor.dtype))
    return groups + list(open_groups.values())


def broadcast_coalesced(tensors: Sequence[Any], devices: Sequence[int], buffer_size: int) -> list[list[Any]]:
    """Returns the tensors for each card: themselves on the first, and views of flat copies on others."""
    from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors

    copies: list[dict[int, Any]] = [{} for _ in devices[1:]]
    for group in groups_of(tensors, buffer_size) if len(devices) > 1 else []:
        flat = broadcast(_flatten_dense_tensors(group), devices)
        for copied, on_card in zip(copies, flat[1:]):
            copied.update(zip(map(id, group), _unflatten_dense_tensors(on_card, group)))
    return [list(tensors), *([copied[id(each)] for each in tensors] for copied in copies)]


FUNCTIONS = {"_scatter": scatter, "_scatter_out": scatter_out, "_gather": gather, "_gather_out": gather_out, "_broadcast": broadcast,
             "_broadcast_out": broadcast_out, "_broadcast_coalesced": broadcast_coalesced}
