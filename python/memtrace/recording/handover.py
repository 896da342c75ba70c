"""What `memtrace record` and `memtrace dry-run` ask in the environment, and what this process answers (src/run/handover.h). Needs no
torch."""
from __future__ import annotations

import os
import sys

TRACE = "MEMTRACE_RECORD_TRACE"
ANSWERS = "MEMTRACE_RECORD_ANSWERS"
STACKS = "MEMTRACE_RECORD_STACKS"
RANKS = "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"  # of torchrun, Slurm, Open MPI, MPICH


def tell(words: str, kind: str = "note") -> None:
    """Says something to `memtrace record`, as one of the lines of src/run/handover.h; or on stderr."""
    path = os.environ.get(ANSWERS)
    if path is None:
        print("memtrace: " + words, file=sys.stderr)
        return
    line = words.replace("\\", "\\\\").replace("\n", "\\n")
    with open(path, "a", encoding="utf-8") as file:
        file.write(f"{kind}\t{os.getpid()}\t0\t{line}\n")


def trace_of_rank() -> str:
    """Returns the path of the trace that `memtrace record` asks for, as src/run/process_trace.h has it for a rank."""
    path, ending = os.path.splitext(os.environ[TRACE])
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "0")
    return path + ("" if rank == "0" else f"-rank{rank}") + ending
