"""Runs the program memtrace for answers that libmemtrace.so does not provide: the English texts and the page."""
from __future__ import annotations

import subprocess

from ._library import find_program
from ._questions import MemtraceError


def ask_program(*words: str) -> str:
    """Runs the program and returns its output. Raises MemtraceError with its message and its exit code if it fails."""
    done = subprocess.run([find_program(), *words], capture_output=True, encoding="utf-8", errors="replace", check=False)
    if done.returncode != 0:
        raise MemtraceError(done.returncode, done.stderr.strip().removeprefix("memtrace: "))
    return done.stdout
