"""Usage: read_snapshot.py PICKLE JSON PEAK
Reads a memory snapshot with Python's own modules: the pickle and the JSON are the same, blocks tile the segments, and
what is replayed has the peaks that PEAK (memtrace peak --json) says. The pickle may name no class."""
import json
import pickle
import sys


class Plain(pickle.Unpickler):
    def find_class(self, module, name):
        raise AssertionError(f"the pickle names {module}.{name}")


def replay(entries):
    live, requested, allocated, highest = {}, 0, 0, [0, 0]
    waiting = None
    for entry in entries:
        assert waiting is None or (entry["action"], entry["addr"]) == ("free_completed", waiting), entry
        waiting = None
        if entry["action"] == "alloc":
            assert entry["addr"] not in live, entry
            live[entry["addr"]] = entry
            requested += entry["size"]
            allocated += entry["block_bytes"]
        elif entry["action"] == "annotate":
            labelled = {key: entry[key] for key in ("frames", "user_metadata")}
            live[entry["addr"]] = {**live[entry["addr"]], **labelled}
        elif entry["action"] == "free_requested":
            waiting = entry["addr"]
            assert all(live[waiting][key] == entry[key] for key in ("frames", "user_metadata")), entry
        elif entry["action"] == "free_completed":
            ended = live.pop(entry["addr"])
            assert ended["size"] == entry["size"] and ended["stream"] == entry["stream"], entry
            requested -= ended["size"]
            allocated -= ended["block_bytes"]
        highest = [max(highest[0], requested), max(highest[1], allocated)]
    return live, highest


def replay_segments(entries):
    """What was reserved in the end, and at most."""
    reserved, highest = 0, 0
    for entry in entries:
        if entry["action"] in ("segment_alloc", "segment_map"):
            reserved += entry["size"]
        elif entry["action"] in ("segment_free", "segment_unmap"):
            reserved -= entry["size"]
        highest = max(highest, reserved)
    return reserved, highest


def check_refusals(entries, capacity):
    """What was free on the device, when a request was refused, is what was not reserved."""
    reserved = 0
    for entry in entries:
        if entry["action"] in ("segment_alloc", "segment_map"):
            reserved += entry["size"]
        elif entry["action"] in ("segment_free", "segment_unmap"):
            reserved -= entry["size"]
        elif entry["action"] == "oom":
            assert entry["device_free"] == capacity - reserved, (entry, reserved)


def check_segments(segments, live, growing):
    for segment in segments:
        assert segment["is_expandable"] == (segment["segment"] in growing), segment["address"]
        assert segment["segment_type"] == ("large" if segment["total_size"] > 2 << 20 else "small"), segment["address"]
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at, (segment["address"], at, block["address"])
            at += block["size"]
            if block["state"] == "active_allocated":
                alloc = live.pop(at - block["size"])
                assert alloc["block_bytes"] == block["size"] and alloc["size"] == block["requested_size"]
                assert alloc["user_metadata"] == block["user_metadata"] and alloc["frames"] == block["frames"]
            else:
                assert block["state"] == "inactive" and block["requested_size"] == 0, block
        assert at == segment["address"] + segment["total_size"], segment["address"]
        active = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
        assert segment["allocated_size"] == sum(block["size"] for block in active)
        assert segment["requested_size"] == sum(block["requested_size"] for block in active)
    assert not live, live


with open(sys.argv[1], "rb") as file:
    snapshot = Plain(file).load()
with open(sys.argv[2], encoding="utf-8") as file:
    assert snapshot == json.load(file), "the pickle and the JSON differ"
with open(sys.argv[3], encoding="utf-8") as file:
    peak = json.load(file)
entries = snapshot["device_traces"][0]
after = snapshot["memtrace"]["after"]
live, highest = replay(entries)
assert highest == [peak["requested_bytes"], peak["allocated_bytes"]], (highest, peak)
reserved, highest_reserved = replay_segments(entries)
assert highest_reserved == peak["reserved_bytes"], (highest_reserved, peak)
assert reserved == sum(segment["total_size"] for segment in snapshot["segments"]), reserved
print(len(entries), "entries,", len(after), "after the moment,", len(live), "blocks live")
growing = {entry["segment"] for entry in entries + after if entry["action"] in ("segment_map", "segment_unmap")}
check_segments(snapshot["segments"], live, growing)
left, _ = replay(entries + after)
assert not after or not left, "only the end of all blocks comes after the moment of a snapshot"
check_refusals(entries, snapshot["memtrace"]["capacity_bytes"])
