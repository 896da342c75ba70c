"""Runs a command under limits of time, host memory and output, and prints its outcome as JSON.

    python3 guard.py SECONDS MEMORY_BYTES OUTPUT_BYTES WORD...
    {"code": 0, "ended": null, "out": "…", "err": "…"}

`ended` is the limit that ended the command: time, memory, processes or output. When stdin closes, which happens however the
parent ends, the command is ended too. Only the end of stderr is kept.

It is a separate process because it adopts the command's orphans (PR_SET_CHILD_SUBREAPER): processes that start a session,
or whose parent has ended, are also found and killed. It needs Linux, and imports nothing of the package.
"""
from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
from typing import Optional

LOOK_SECONDS = 0.2  # between two checks of the memory
GRACE_SECONDS = 3.0  # for memtrace to close its trace and remove its files, once its program is killed
GIVE_UP_SECONDS = 10.0
MOST_PROCESSES = 512
KEPT_BYTES = 8192  # of stderr
READ_BYTES = 1 << 16
PR_SET_CHILD_SUBREAPER = 36


def parents() -> dict[int, int]:
    """Returns the parent of each process that has not ended."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue  # it is just ending
        if state not in (b"Z", b"X"):
            found[int(name)] = int(parent)
    return found


def descendants() -> set[int]:
    above, found, added = parents(), set[int](), {os.getpid()}
    while added:
        added = {process for process, parent in above.items() if parent in added} - found
        found |= added
    return found


def resident_bytes(process: int) -> int:
    """Returns the memory of a process, with all its shared pages; 0 if it is just ending."""
    try:
        with open(f"/proc/{process}/statm", "rb") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def held_bytes(process: int) -> int:
    """Returns the memory of a process, with shared pages divided among the processes that share them. Takes about 10 ms per
    GiB."""
    try:
        with open(f"/proc/{process}/smaps_rollup", "rb") as file:
            return 1024 * sum(int(line.split()[1]) for line in file if line.startswith((b"Pss:", b"SwapPss:")))
    except OSError:
        return resident_bytes(process)  # 0, or the kernel has no such file


def limit_own_processes(memory_bytes: int) -> None:
    """Sets limits that all processes inherit: no file larger than the memory, no core files, and they are killed first when
    the system runs out of memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    most = memory_bytes if most == resource.RLIM_INFINITY else min(most, memory_bytes)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Command:
    """A running command, and its output so far."""

    def __init__(self, words: list[str]) -> None:
        self.code: Optional[int] = None  # None while it runs
        self.out, self.err = bytearray(), bytearray()
        out, err = os.pipe(), os.pipe()
        self.texts = {out[0]: self.out, err[0]: self.err}  # by the file descriptor
        actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_DUP2, out[1], 1),
                   (os.POSIX_SPAWN_DUP2, err[1], 2)]
        self.process = os.posix_spawnp(words[0], words, os.environ, file_actions=actions, setsid=True)
        os.close(out[1])
        os.close(err[1])

    def read(self, seconds: float) -> bool:
        """Reads the output for that time. False if stdin has closed."""
        ready = select.select([0, *self.texts], [], [], seconds)[0]
        for file in set(ready) & set(self.texts):
            text = os.read(file, READ_BYTES)
            self.texts[file] += text
            if not text:
                del self.texts[file]
                os.close(file)
        del self.err[:-KEPT_BYTES]
        return 0 not in ready or bool(os.read(0, READ_BYTES))

    def read_rest(self) -> None:
        while select.select(list(self.texts), [], [], 0.0)[0] and self.read(0.0):
            pass

    def reap(self) -> None:
        """Reaps processes that have ended, including adopted ones."""
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            if process == self.process:
                self.code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)

    def end(self) -> None:
        """Kills all processes. Lets the command itself end cleanly first, unless it takes too long."""
        begin = time.monotonic()
        if self.code is None:
            os.kill(self.process, signal.SIGTERM)
        while time.monotonic() < begin + GIVE_UP_SECONDS:
            left = descendants()
            self.reap()
            if not left:
                return
            if time.monotonic() < begin + GRACE_SECONDS:
                left -= {self.process}
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self.read(0.0 if left else 0.02)


def broken_limit(memory_bytes: int) -> Optional[str]:
    processes = descendants()
    if len(processes) > MOST_PROCESSES:
        return "processes"
    for bytes_of in (resident_bytes, held_bytes):  # the second is never larger, but slow
        if sum(map(bytes_of, processes)) <= memory_bytes:
            return None
    return "memory"


def watch(command: Command, seconds: float, memory_bytes: int, output_bytes: int) -> Optional[str]:
    """Waits until the command ends; returns the broken limit if it must be killed."""
    begin = looked = time.monotonic()
    while command.code is None:
        if not command.read(LOOK_SECONDS / 4):
            return "parent"
        now = time.monotonic()
        if now > begin + seconds:
            return "time"
        if len(command.out) > output_bytes:
            return "output"
        if now > looked + LOOK_SECONDS:
            looked = now
            broken = broken_limit(memory_bytes)
            if broken is not None:
                return broken
        command.reap()
    return None


def main() -> None:
    seconds, memory_bytes, output_bytes = map(int, sys.argv[1:4])
    limit_own_processes(memory_bytes)
    command = Command(sys.argv[4:])
    ended = watch(command, seconds, memory_bytes, output_bytes)
    command.end()
    if ended != "output":
        command.read_rest()
    out, err = (bytes(text).decode("utf-8", "replace") for text in (command.out[:output_bytes], command.err))
    print(json.dumps({"code": command.code, "ended": ended, "out": out, "err": err}))


if __name__ == "__main__":
    main()
