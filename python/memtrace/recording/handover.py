"""Answers of this process to `memtrace record` and `memtrace dry-run` (src/run/handover.h). Needs no torch."""
from __future__ import annotations

import contextlib
import os
import stat
import sys
from typing import Any, Optional

from .._settings import settings

kept: Optional[list[tuple[str, str]]] = None  # answers given before the fork of the process that sends them (dry/server.py)

RANKS = "RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK"  # set by torchrun, Slurm, Open MPI, MPICH


def tell(words: str, kind: str = "note") -> None:
    """Sends an answer to `memtrace record`, as one of the lines in src/run/handover.h, or prints it on stderr."""
    path = settings().answers
    if kept is not None:
        kept.append((words, kind))
        return
    if path is None:
        print("memtrace: " + words, file=sys.stderr)
        return
    answer(path, kind, 0, words)


def answer(path: str, kind: str, number: int, words: str) -> None:
    """Appends a line to the file of answers, like src/run/handover.c. The command may have ended and removed the file and its
    folder: then another user may have replaced it, and nobody reads answers."""
    line = words.replace("\\", "\\\\").replace("\n", "\\n")
    text = f"{kind}\t{os.getpid()}\t{number}\t{line}\n".encode("utf-8", "surrogateescape")  # file names may contain any bytes
    folder, name = os.path.split(path)
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        opened.callback(os.close, place)
        about = os.fstat(place)
        if about.st_uid == os.geteuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW, dir_fd=place)
            opened.callback(os.close, file)
            os.write(file, text)


def trace_of_rank() -> str:
    """Returns the path of the trace for `memtrace record`, for a rank as in src/run/process_trace.h."""
    path, ending = os.path.splitext(settings().trace)
    rank = next((os.environ[name] for name in RANKS if name in os.environ), "0")
    return path + ("" if rank == "0" else f"-rank{rank}") + ending


def store_arguments(library: Any) -> None:
    """Stores the program's arguments in its traces, without secrets."""
    words = "\0".join(sys.argv[1:]).encode(errors="replace")
    if words:
        library.memtrace_torch_arguments(words, len(words))
