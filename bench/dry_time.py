#!/usr/bin/env python3
"""How long dry runs take, and how much host memory: three steps, with the imports of PyTorch and transformers.

    bench/dry_time.py --memtrace build/release/memtrace [--markdown]
    bench/dry_time.py --memtrace build/release/memtrace --card

Prints rows for tools/figures, or a table: Llama of 8B's shape in bf16 with checkpointing, one text of 4,096 tokens, with 8, 16 and
32 layers; GPT-2 in fp32, four texts of 1,024.

With --card, on a machine with a GPU: the median time that PyTorch's host code takes for a step of one text of 256 tokens, so few
that the GPU waits for the host, next to the time of the same step in a dry run.
"""
from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from dry_stage import Step
from pytorch_plugged import row

STEPS = 3
TIMED_STEPS, TIMED_TOKENS = 30, 256
MOST_RATIO = 1.5  # of a dry step to the host's part of a real one


class Cost(NamedTuple):
    seconds: float
    bytes: int  # of the host, at most


class Target(NamedTuple):
    name: str  # of the model and its layers
    seconds: str = ""
    bytes: str = ""


TARGETS = (Target("llama-8"), Target("llama-16"), Target("llama-32", "30", str(3 << 30)), Target("gpt2-12", "5"))


def step_of(model: str, layers: int, tokens: int = 0) -> Step:
    """Returns a step of a model, on as many tokens as the table says or on one text of `tokens`."""
    import torch
    from dry_library_models import LLAMA_8B, checkpointed, gpt2, llama, reads
    from dry_stage import Stage

    stage = Stage(torch, "cuda")
    if model == "gpt2":
        return reads(stage, gpt2(stage, n_layer=layers), *((1, tokens) if tokens else (4, 1024)))
    config = {**LLAMA_8B, "num_hidden_layers": layers}
    return reads(stage, checkpointed(llama(stage, "bfloat16", **config)), 1, tokens or 4096)


def train(model: str, layers: int) -> None:
    step = step_of(model, layers)
    for _ in range(STEPS):
        step()


def print_step_time(model: str, layers: int) -> None:
    """Prints the median seconds of a step, from its begin to the last launch."""
    import torch

    step, times = step_of(model, layers, TIMED_TOKENS), []
    for _ in range(TIMED_STEPS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    print(statistics.median(times))


def step_time_of(words: list[str], name: str) -> float:
    said = subprocess.run([*words, sys.executable, __file__, "--time-step", name], capture_output=True, text=True)
    if said.returncode:
        sys.exit(said.stderr)
    return float(said.stdout.splitlines()[-1])


def compare_with_card(memtrace: str, folder: str) -> None:
    for name in ("gpt2-12", "llama-8"):
        trace = os.path.join(folder, f"{name}-steps.db")
        on_card = step_time_of([], name)
        dry = step_time_of([memtrace, "dry-run", "--device", "sim:h100", "--steps", "all", "--trace", trace, "--"], name)
        row(f"step of {name}, dry run against the host's part on a card", "ms", f"{dry * 1e3:.2f}", f"{on_card * 1e3:.2f}", "<=",
            f"{MOST_RATIO * on_card * 1e3:.2f}")


def cost_of(memtrace: str, name: str, folder: str) -> Cost:
    words = [memtrace, "dry-run", "--device", "sim:h200", "--steps", str(STEPS), "--trace", os.path.join(folder, f"{name}.db"),
             "--", sys.executable, __file__, "--train", name]
    begin = time.monotonic()
    process = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(words)}: exit code {process.returncode}")
    return Cost(time.monotonic() - begin, used.ru_maxrss << 10)


def show(target: Target, cost: Cost, as_markdown: bool) -> None:
    if as_markdown:
        model, layers = target.name.split("-")
        print(f"| {model} | {layers} | {cost.seconds:.1f} | {cost.bytes >> 20} MiB |", flush=True)
        return
    for unit, value, most in (("s", f"{cost.seconds:.2f}", target.seconds), ("bytes", cost.bytes, target.bytes)):
        row(f"dry run of {target.name}, three steps", unit, value, "", "<=" if most else "", most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memtrace", default="memtrace")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--card", action="store_true")
    parser.add_argument("--train", metavar="NAME", help="be the program")
    parser.add_argument("--time-step", metavar="NAME", help="be the program of --card")
    given = parser.parse_args()
    if given.train or given.time_step:
        model, layers = (given.train or given.time_step).split("-")
        (train if given.train else print_step_time)(model, int(layers))
        return
    if given.markdown:
        print("| model | layers | seconds | host memory |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="memtrace-time.") as folder:
        if given.card:
            compare_with_card(given.memtrace, folder)
            return
        for target in TARGETS:
            show(target, cost_of(given.memtrace, target.name, folder), given.markdown)


if __name__ == "__main__":
    main()
