#!/usr/bin/env python3
"""By how much a step costs more while its metrics are written to a file and scraped each second: pairs of runs on the CPU, in turns.

    bench/metrics_cost.py --memtrace build/release/memtrace [--pairs 12]

Prints rows for tools/figures. The model computes on one thread, so that a machine of two cores has one for the rest.
"""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request

from pytorch_plugged import row, say

RUN = ("run --device cpu --vocab 512 --d-model 256 --d-ff 512 --layers 8 --heads 4 --seq 128 --batch 2 --steps 40 --warmup 5"
       " --json --no-grad-norms").split()
MOST_COST = 1.002


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def scrape(port: int, ended: threading.Event) -> None:
    while not ended.wait(1):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=1).read()
        except (urllib.error.URLError, OSError):  # before the run, and after it
            pass


def step_ms(memtrace: str, *options: str) -> float:
    """Returns the median time of a step."""
    with tempfile.TemporaryDirectory(prefix="memtrace-metrics.") as folder:
        command = [memtrace, *RUN, "--trace", str(pathlib.Path(folder, "run.db")), *options]
        said = subprocess.run(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, check=True)
    return statistics.median(json.loads(said.stdout)["wall_ms"])


def scraped_step_ms(memtrace: str) -> float:
    port, ended = free_port(), threading.Event()
    scraper = threading.Thread(target=scrape, args=[port, ended])
    scraper.start()
    with tempfile.TemporaryDirectory(prefix="memtrace-metrics.") as folder:
        found = step_ms(memtrace, "--metrics", str(pathlib.Path(folder, "run.prom")), "--metrics-port", str(port))
    ended.set()
    scraper.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memtrace", default="memtrace")
    parser.add_argument("--pairs", type=int, default=12)
    given = parser.parse_args()
    plain, scraped = [], []
    for pair in range(given.pairs):
        if pair % 2:
            scraped.append(scraped_step_ms(given.memtrace))
        plain.append(step_ms(given.memtrace))
        if not pair % 2:
            scraped.append(scraped_step_ms(given.memtrace))
        say(f"{plain[-1]:.1f} and {scraped[-1]:.1f} ms")
    ratio = statistics.median(after / before for before, after in zip(plain, scraped))
    row("a step with metrics", "ms", f"{statistics.median(scraped):.2f}", f"{statistics.median(plain):.2f}")
    row("a step with metrics, beside one without", "times", f"{ratio:.4f}", "", "<=", MOST_COST)


if __name__ == "__main__":
    main()
