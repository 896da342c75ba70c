"""Usage: peer_sums.py mosaic|_memory_viz.py RUN PEAK PEAK.json
Reads the snapshots of a run's end and of its peak with Mosaic, or with a file of PyTorch, and compares what they sum up
with what memtrace says of the peak."""
import importlib.util
import json
import pickle
import sys


def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)


def sum_of(lines, state):
    """The bytes of folded stacks that are in that state."""
    return sum(int(line.rsplit(" ", 1)[1]) for line in lines.splitlines() if f";{state};" in line)


def check_memory_viz(path, run, top, peak):
    spec = importlib.util.spec_from_file_location("_memory_viz", path)
    viewer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(viewer)
    for snapshot in (run, top):
        reserved = sum(segment["total_size"] for segment in snapshot["segments"])
        for view in (viewer.memory, viewer.segments):
            lines = view(snapshot, format_flamegraph=str)
            assert sum_of(lines, "active_allocated") + sum_of(lines, "inactive") == reserved > 0, view
        assert f"segments: {len(snapshot['segments'])}\n" in viewer.segsum(snapshot)
    lines = viewer.memory(top, format_flamegraph=str)
    assert sum_of(lines, "active_allocated") == peak["allocated_bytes"], (lines, peak)
    blocks = "\n".join(line for line in lines.splitlines() if "<gaps>" not in line)
    assert sum_of(blocks, "active_allocated") == peak["requested_bytes"], (lines, peak)


def check_mosaic(path, peak):
    from mosaic.libmosaic.analyzer.memory_abstract import MemoryAbstract

    abstract = MemoryAbstract(memory_snapshot_file=path)
    abstract.load_memory_snapshot()
    abstract.memory_snapshot.analyze_memory_snapshot(opt="memory_peak")
    snapshot = abstract.memory_snapshot
    assert snapshot.dynamic_memory_peak + snapshot.static_memory == peak["requested_bytes"], (path, peak)


viewer, run, top, peak = sys.argv[1:]
with open(peak, encoding="utf-8") as file:
    peak = json.load(file)
if viewer == "mosaic":
    check_mosaic(run, peak)
    check_mosaic(top, peak)
else:
    check_memory_viz(viewer, load(run), load(top), peak)
