"""Threads of the program, such as one that copies batches to the card ahead of training."""
from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Optional

NAME = "memtrace"  # of memtrace's own threads
WAITING = "threading.py", "selectors.py", "connection.py"  # files of Python whose functions wait
POLL, QUIET, MOST = 0.002, 0.02, 1.0  # seconds: between two looks; without a request; at one step
MOST_IDLE = 8  # steps in which no thread requested anything; then none does


def of_program() -> list[threading.Thread]:
    """Returns the program's other threads that are alive."""
    others = {threading.main_thread(), threading.current_thread()}
    return [one for one in threading.enumerate() if one not in others and one.name != NAME]


def are_waiting(threads: list[threading.Thread]) -> bool:
    """True if all threads wait for a lock, a queue or a file."""
    frames = sys._current_frames()
    files = [frames[one.ident].f_code.co_filename for one in threads if one.ident in frames]
    frames.clear()  # this function's frame is among them, in a reference cycle that would keep the program's variables
    return all(os.path.basename(file) in WAITING for file in files)


class Threads:
    """Lets the threads of a program run ahead of its steps. `requests` returns the number of requests so far."""

    def __init__(self, requests: Callable[[], int]) -> None:
        self.requests = requests
        self.idle_steps = 0

    def run_ahead(self) -> None:
        """Returns once the other threads wait, or request nothing more. A card computes a step meanwhile, so the number of
        batches in a queue does not depend on this machine's speed."""
        others = of_program() if self.idle_steps < MOST_IDLE else []
        begin = before = self.requests()
        end = quiet = time.monotonic()
        looks = 0  # in a row at which all waited; at the first one, a thread may have been woken that has not run yet
        while others and looks < 2 and time.monotonic() < min(end + MOST, quiet + QUIET):
            time.sleep(POLL)
            now = self.requests()
            looks = looks + 1 if now == before and are_waiting(others) else 0
            if now != before:
                before, quiet = now, time.monotonic()
        self.idle_steps = 0 if before != begin else self.idle_steps + 1


def is_ending() -> bool:
    """True if the main thread waits at the end of the program for other threads."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "_shutdown" and frame.f_code.co_filename == threading.__file__:
            return True
        frame = frame.f_back
    return False


def watch_end(end: Callable[[], None], interval: float = 1.0) -> Optional[threading.Thread]:
    """Calls `end` if the program waits at its end for other threads, as for one that fills a queue which nobody reads any more.
    Returns the thread that looks; None if there are no others."""
    def look() -> None:
        seconds = 0
        while seconds < 2:
            time.sleep(interval)
            seconds = seconds + 1 if is_ending() else 0
        end()

    if not of_program():
        return None
    thread = threading.Thread(target=look, name=NAME, daemon=True)
    thread.start()
    return thread
