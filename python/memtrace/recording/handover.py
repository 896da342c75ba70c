"""Answers of this process to `memtrace record` and `memtrace dry-run` (src/run/handover.h). Needs no torch."""
from __future__ import annotations

import os
import sys
from typing import Optional

from .._settings import settings

kept: Optional[list[tuple[str, str]]] = None  # what is said before the process that says it is forked (dry/server.py)

RANKS = "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"  # of torchrun, Slurm, Open MPI, MPICH


def tell(words: str, kind: str = "note") -> None:
    """Says something to `memtrace record`, as one of the lines of src/run/handover.h; or on stderr."""
    path = settings().answers
    if kept is not None:
        kept.append((words, kind))
        return
    if path is None:
        print("memtrace: " + words, file=sys.stderr)
        return
    line = words.replace("\\", "\\\\").replace("\n", "\\n")
    with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:  # names of files may hold any bytes
        file.write(f"{kind}\t{os.getpid()}\t0\t{line}\n")


def trace_of_rank() -> str:
    """Returns the path of the trace that `memtrace record` asks for, as src/run/process_trace.h has it for a rank."""
    path, ending = os.path.splitext(settings().trace)
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "0")
    return path + ("" if rank == "0" else f"-rank{rank}") + ending
