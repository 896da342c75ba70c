#!/usr/bin/env python3
"""How long dry runs take, and how much host memory: three steps, with the imports of PyTorch and transformers.

    bench/dry_time.py --memtrace build/release/memtrace [--markdown]

Prints rows for tools/figures, or a table: Llama of 8B's shape in bf16 with checkpointing, one text of 4,096 tokens, with 8, 16 and
32 layers; GPT-2 in fp32, four texts of 1,024.
"""
from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

from pytorch_plugged import row

STEPS = 3


class Cost(NamedTuple):
    seconds: float
    bytes: int  # of the host, at most


class Target(NamedTuple):
    name: str  # of the model and its layers
    seconds: str = ""
    bytes: str = ""


TARGETS = (Target("llama-8"), Target("llama-16"), Target("llama-32", "30", str(3 << 30)), Target("gpt2-12", "5"))


def train(model: str, layers: int) -> None:
    import torch
    from dry_library_models import LLAMA_8B, checkpointed, gpt2, llama, reads
    from dry_stage import Stage

    stage = Stage(torch, "cuda")
    if model == "gpt2":
        step = reads(stage, gpt2(stage, n_layer=layers), 4, 1024)
    else:
        config = {**LLAMA_8B, "num_hidden_layers": layers}
        step = reads(stage, checkpointed(llama(stage, "bfloat16", **config)), 1, 4096)
    for _ in range(STEPS):
        step()


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
    parser.add_argument("--train", metavar="NAME", help="be the program")
    given = parser.parse_args()
    if given.train:
        model, layers = given.train.split("-")
        train(model, int(layers))
        return
    if given.markdown:
        print("| model | layers | seconds | host memory |\n| --- | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="memtrace-time.") as folder:
        for target in TARGETS:
            show(target, cost_of(given.memtrace, target.name, folder), given.markdown)


if __name__ == "__main__":
    main()
