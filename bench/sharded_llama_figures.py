#!/usr/bin/env python3
"""Runs bench/sharded_llama.py dry with the settings of torchtitan's benchmarks, rank 0 of each job, and prints what it reserves
beside what was published.

    bench/sharded_llama_figures.py --memtrace build/release/memtrace [--model 8B]

The published figures are PyTorch's peak of reserved bytes on H100s with 96 GB, the highest of all ranks (torchtitan's repository,
benchmarks/llama3_h100_202412_torchtitan.md).
"""
from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

STEPS = 4
GIB = 1 << 30
CARD = "sim:gh200"  # of the cards with 96 GB the one with an H100's multiprocessors
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sharded_llama.py")


class Job(NamedTuple):
    model: str
    nodes: int  # of eight ranks
    published_gib: float
    words: tuple[str, ...]


class Cost(NamedTuple):
    seconds: float
    processor_seconds: float
    host_bytes: int


JOBS = (Job("8B", 1, 82.4, ("--batch", "2", "--checkpoint", "op", "--attention", "flash")),
        Job("8B", 16, 67.0, ("--batch", "2", "--checkpoint", "op", "--attention", "flash")),
        Job("70B", 32, 71.9, ("--tp", "8", "--batch", "16", "--checkpoint", "full")))


def run(memtrace: str, job: Job, trace: str) -> Cost:
    words = [memtrace, "dry-run", "--only", "0", "--device", CARD, "--steps", str(STEPS), "--trace", trace, "--",
             sys.executable, "-m", "torch.distributed.run", "--nnodes", str(job.nodes), "--nproc-per-node", "8",
             PROGRAM, "--model", job.model, *job.words]
    begin = time.monotonic()
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(words)}: exit code {process.returncode}")
    return Cost(time.monotonic() - begin, used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def gib_of(memtrace: str, trace: str) -> tuple[float, float]:
    """Returns the peaks of reserved and of allocated bytes."""
    said = json.loads(subprocess.run([memtrace, "peak", "--trace", trace, "--json"], check=True, capture_output=True).stdout)
    return said["reserved_bytes"] / GIB, said["allocated_bytes"] / GIB


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memtrace", default="memtrace")
    parser.add_argument("--model", choices=sorted({job.model for job in JOBS}), help="only this one")
    given = parser.parse_args()
    print("| model | ranks | published reserved | dry reserved | dry / published | dry allocated | seconds | of processors | host memory |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="memtrace-sharded.") as folder:
        for job in (job for job in JOBS if given.model in (None, job.model)):
            trace = os.path.join(folder, f"{job.model}-{job.nodes}.db")
            cost = run(given.memtrace, job, trace)
            reserved, allocated = gib_of(given.memtrace, trace)
            print(f"| {job.model} | {8 * job.nodes} | {job.published_gib} GiB | {reserved:.1f} GiB | "
                  f"{reserved / job.published_gib:.3f} | {allocated:.1f} GiB | {cost.seconds:.0f} | "
                  f"{cost.processor_seconds:.0f} | {cost.host_bytes >> 20} MiB |", flush=True)


if __name__ == "__main__":
    main()
