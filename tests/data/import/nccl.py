"""Writes what Meta's build of NCCL (ncclx) says of its memory, with made-up events.

    nccl.py log|dump FILE

The forms follow comms/utils/logger/{EventMgr,NcclScubaSample,DataTable}.cc, comms/utils/memtrace/MemoryTrace.cc and
comms/ncclx/meta/commDump.cc of meta-pytorch/torchcomms at 59426ba4.
"""

import json
import sys

MIB = 1 << 20
sequence = 0


def sample(use, address, size=None, comm="default_pg", callsite="", **more):
    global sequence
    ints = {"commHash": 31, "rank": 0, "nranks": 2, "memoryAddr": address}
    normal = {"type": "MemoryEvent", "commDesc": comm or "undefined", "callsite": callsite, "use": use}
    if size is not None:
        ints["bytes"] = size
    for name, value in more.items():
        (normal if isinstance(value, str) else ints)[name] = value
    ints |= {"iteration": -1, "sequenceNumber": sequence, "globalRank": 0, "worldSize": 2}
    normal["hostname"] = "host"
    sequence += 1
    return json.dumps({"int": ints, "normal": normal, "normvector": {}, "tags": {}, "double": {}}) + "\n"


def log():
    yield sample("ncclCuMemAlloc", 0x7F0000000000, 8 * MIB, callsite="ProxySetup:0/1")
    yield sample("ncclCudaCalloc", 0x7F0001000000, 2 * MIB, comm="")
    yield sample("commCudaHostAlloc", 0x550000000000, 64 * MIB)
    yield sample("ncclCommRegister", 0x7F0002000000, 512 * MIB, numSegments=0, durationUs=40)
    yield sample("scopedRegister", 0x7F0003000000, 256 * MIB, numSegments=1, durationUs=9, memType="cudaMalloc")
    yield sample("cuMemCreate", 0x7F0004000000, 4 * MIB, comm="tp", callsite="nvlsAllocateMem")
    yield sample("ncclCuMemFree", 0x7F0000000000)
    yield sample("ncclCuMemAlloc", 0x7F0000000000, 3 * MIB)
    yield sample("cuMemRelease", 0x7F0004000000, 4 * MIB, comm="tp", callsite="nvlsAllocateMem")


def dump():
    """As PyTorch's flight recorder keeps it."""

    def communicator(name, peak):
        sums = {"totalAllocated": 2 * peak, "totalFreed": peak, "currentUsage": peak, "peakUsage": peak}
        return {"commDesc": name, "rank": "0", "nRanks": "2", "memory": json.dumps(sums)}

    state = {"0x1f": communicator("default_pg", 8 * MIB), "0x20": communicator("tp", 4 * MIB), "0x21": {"rank": "0"}}
    return json.dumps({"version": "2.9", "nccl_comm_state": state})


with open(sys.argv[2], "w", encoding="utf-8") as file:
    file.write("".join(log()) if sys.argv[1] == "log" else dump())
