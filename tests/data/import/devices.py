"""Writes memory snapshots of devices other than CUDA's, as their writers make them, with made-up events.

    devices.py xpu|ascend|ascend950|mtia|neuron|mlx FILE

Each takes 1000 bytes, 5 MiB and 3 MiB, frees the 3 MiB, and takes 4 MiB in their place. The sources of the forms:

xpu       torch/csrc/xpu/Module.cpp of PyTorch 2.14
ascend    torch_npu/csrc/npu/Module.cpp and torch_npu/csrc/core/npu/NPU*Allocator.cpp of Ascend/pytorch at 9e73e708:
          no times and no settings; workspaces before all events; 32 bytes are added to each request, except on newer chips
mtia      torch/mtia/__init__.py of PyTorch 2.14: a dict whose writer is not public, taken to be as CUDA's
neuron    the manual of torch-neuronx: a snapshot that PyTorch's viewer reads, taken to be as CUDA's
mlx       posts on a recorder for MLX: events alone, without streams, the operation as category and as user_metadata
"""

import json
import pickle
import sys

MIB = 1 << 20
SMALL, LARGE, WORKSPACE = 0x7F0000000000, 0x7F0010000000, 0x7F0020000000
PACKAGES = "/v/lib/python3.12/site-packages/"

# The innermost frame of an allocation.
ALLOCATORS = {
    "xpu": ("c10::xpu::XPUCachingAllocator::Native::NativeCachingAllocator::malloc", "??", 0),
    "ascend": ("c10_npu::NPUCachingAllocator::NpuCachingAllocator::malloc", "??", 0),
    "ascend950": ("empty", PACKAGES + "torch_npu/npu/memory.py", 12),
    "mtia": ("snapshot", PACKAGES + "torch/mtia/__init__.py", 225),
    "neuron": ("empty", PACKAGES + "torch_neuronx/allocator.py", 30),
    "mlx": ("__call__", PACKAGES + "mlx/nn/layers/linear.py", 68),
}


def frames(kind):
    places = (ALLOCATORS[kind], ("forward", "/home/me/model.py", 7), ("<module>", "/home/me/train.py", 20))
    return [{"name": name, "filename": file, "line": line} for name, file, line in places]


def rounded(kind, size):
    padding = 32 if kind == "ascend" else 0
    return (size + padding + 511) // 512 * 512


def event(kind, number, action, address, size):
    made = {"action": action, "addr": address, "size": size, "stream": 0}
    if kind == "mlx":
        made = {"action": action, "addr": address, "size": size}
        if action == "alloc":
            made |= {"category": "Matmul", "user_metadata": "Matmul", "frames": frames(kind)}
        return made | {"time_us": 1790000000000000 + number}
    if kind.startswith("ascend"):
        made["pool_id"] = (0, 0)
    else:
        made["time_us"] = 1790000000000000 + number
    return made | {"frames": frames(kind)}


def events(kind):
    first, second = LARGE, LARGE + rounded(kind, 5 * MIB)
    story = (
        ("segment_alloc", SMALL, 2 * MIB),
        ("alloc", SMALL, 1000),
        ("segment_alloc", LARGE, 20 * MIB),
        ("alloc", first, 5 * MIB),
        ("alloc", second, 3 * MIB),
        ("free_requested", second, 3 * MIB),
        ("free_completed", second, 3 * MIB),
        ("alloc", second, 4 * MIB),
        ("snapshot", 0, 0),
    )
    if kind == "mlx":
        story = [row for row in story if row[0] not in ("free_requested", "snapshot")]
    return [event(kind, number, *row) for number, row in enumerate(story)]


def workspace():
    """Its entries have no frames, and come before all others."""
    row = {"addr": WORKSPACE, "size": 6 * MIB, "stream": 0, "pool_id": (0, 0)}
    return [{"action": action, **row} for action in ("workspace_snapshot", "segment_alloc", "alloc")]


def segment(kind, address, total, sizes):
    blocks, at = [], address
    for requested, size in sizes:
        state = "active_allocated" if requested > 0 else "inactive"
        blocks.append({"address": at, "size": size, "requested_size": requested, "state": state, "frames": frames(kind)})
        at += size
    blocks.append({"address": at, "size": total - (at - address), "requested_size": 0, "state": "inactive", "frames": []})
    return {
        "device": 0,
        "address": address,
        "total_size": total,
        "allocated_size": at - address,
        "active_size": at - address,
        "requested_size": sum(requested for requested, _ in sizes),
        "stream": 0,
        "segment_type": "large" if total > 2 * MIB else "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def snapshot(kind):
    if kind == "mlx":
        return {"segments": [], "device_traces": [events(kind)]}
    sizes = [(size, rounded(kind, size)) for size in (5 * MIB, 4 * MIB)]
    made = {
        "segments": [
            segment(kind, SMALL, 2 * MIB, [(1000, rounded(kind, 1000))]),
            segment(kind, LARGE, 20 * MIB, sizes),
        ],
        "device_traces": [events(kind)],
    }
    if kind == "xpu":
        made["allocator_settings"] = {"PYTORCH_ALLOC_CONF": "expandable_segments:False", "expandable_segments": False}
    if kind.startswith("ascend"):
        made["segments"].append(segment(kind, WORKSPACE, 6 * MIB, [(6 * MIB - 100, 6 * MIB)]))
        made["device_traces"][0] = workspace() + made["device_traces"][0]
    return made


def main():
    kind, path = sys.argv[1:]
    made = snapshot(kind)
    if kind == "mlx":
        with open(path, "w", encoding="utf-8") as file:
            json.dump(made, file)
    else:
        with open(path, "wb") as file:
            pickle.dump(made, file)


main()
