"""Runs a command of memtrace under limits. The processes belong to `guard`: it ends them when a limit is broken, and when its
stdin closes, so that nothing keeps running after a call is cancelled or this server ends."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from typing import NamedTuple, Optional

import anyio
import anyio.to_thread

GUARD = pathlib.Path(__file__).with_name("guard.py")
MOST_OUTPUT_BYTES = 4 << 20
OWN_VARIABLES = ("PYTHONSAFEPATH", "MEMTRACE_PYTHON")  # set by `memtrace mcp` for this server


class Limits(NamedTuple):
    seconds: int
    memory_bytes: int  # of the host, for all processes of a command


class Outcome(NamedTuple):
    code: Optional[int]
    ended: Optional[str]  # the limit that ended it
    out: str
    err: str


def start(words: list[str], folder: pathlib.Path, limits: Limits) -> subprocess.Popen[bytes]:
    numbers = [str(limits.seconds), str(limits.memory_bytes), str(MOST_OUTPUT_BYTES)]
    environment = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    return subprocess.Popen([sys.executable, "-I", "-S", str(GUARD), *numbers, *words], cwd=folder, env=environment,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)


async def run_limited(words: list[str], folder: pathlib.Path, limits: Limits) -> Outcome:
    process = start(words, folder, limits)
    assert process.stdin is not None and process.stdout is not None
    try:
        said = await anyio.to_thread.run_sync(process.stdout.read, abandon_on_cancel=True)
    finally:
        process.stdin.close()
    process.wait()
    process.stdout.close()
    if not said:
        return Outcome(None, "memory", "", "")  # the guard itself was killed
    return Outcome(**json.loads(said))
