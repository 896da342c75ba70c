#!/usr/bin/env python3
"""memtrace's allocator under PyTorch beside PyTorch's own: samples/pytorch/train.py with each, in turns.

    bench/pytorch_plugged.py --library build/release/libmemtrace_torch.so [--memtrace build/release/memtrace]

Prints rows for tools/figures: whether losses are equal to the bit, the time of a step, what was reserved at most; and what
an out-of-memory error is in Python. With a program, the trace of a labelled run is asked for its peak.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SAMPLE = ROOT / "samples/pytorch/train.py"
TURNS, STEPS_A_TURN, WARM_UP = 10, 20, 20
NO_SLOWER = 1.01  # than the slower of PyTorch's own two

OUT_OF_MEMORY = """
import torch, memtrace
memtrace.install_allocator()
kept = torch.ones(1000, device="cuda")
try:
    torch.empty(1 << 50, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print("out of memory:", error)
try:
    torch.cuda.set_per_process_memory_fraction(0.05)
    more = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(1000)]
except torch.OutOfMemoryError as error:
    print("out of memory:", error)
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    other = kept * 2
kept.record_stream(side)
del kept
torch.cuda.synchronize()
print("sum", float(other.sum()))
print(torch.cuda.memory_summary())
"""


class Trainer:
    """A training that waits for its turn."""

    def __init__(self, name, *options):
        self.name, self.losses, self.times, self.said = name, [], [], {}
        self.process = subprocess.Popen([sys.executable, str(SAMPLE), "--in-turns", *options], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def turn(self, steps):
        try:
            self.process.stdin.write(f"{steps}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its output ends, too
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{self.name}: ended with {self.process.wait()}")
        self.said = json.loads(line)
        self.losses += self.said["losses"]
        self.times.append(self.said["milliseconds"])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def row(what: str, unit: str, value: object, peer: object = "", relation: str = "", target: object = "") -> None:
    print(what, unit, value, peer, relation, target, sep="\t", flush=True)


def compare(model, precision, trace):
    own = ("--model", model, "--precision", precision)
    plain = Trainer("torch", "--allocator", "torch", *own)
    again = Trainer("torch again", "--allocator", "torch", *own)
    ours = Trainer("memtrace", "--allocator", "memtrace", "--no-labels", *own)
    labelled = Trainer("memtrace, labelled", "--allocator", "memtrace", "--trace", str(trace), *own)
    all_of_them = (plain, ours, again, labelled)
    for trainer in all_of_them:
        trainer.turn(WARM_UP)
        trainer.times.clear()
    for turn in range(1, TURNS):
        for trainer in all_of_them[turn % 4:] + all_of_them[: turn % 4]:
            trainer.turn(STEPS_A_TURN)
        say(f"{len(plain.losses)} steps; " + "; ".join(
            f"{one.name}: {one.times[-1]:.2f} ms, losses {'equal' if one.losses == plain.losses else 'DIFFER'}"
            for one in all_of_them))
    for trainer in all_of_them:
        trainer.end()
    title = f"PyTorch's {model} model, {precision}"
    steps = len(plain.losses)
    row(f"{title}: losses of {steps} steps are equal, PyTorch beside itself", "yes", int(plain.losses == again.losses))
    row(f"{title}: losses of {steps} steps are equal, memtrace", "yes", int(plain.losses == ours.losses), "", ">=", 1)
    row(f"{title}: and labelled in a trace", "yes", int(plain.losses == labelled.losses), "", ">=", 1)
    time = statistics.median(plain.times)
    time_again = statistics.median(again.times)
    row(f"{title}: a step", "ms", statistics.median(ours.times), time, "<=", round(max(time, time_again) * NO_SLOWER, 3))
    row(f"{title}: a step, PyTorch beside itself", "ms", time_again, time)
    row(f"{title}: a step, labelled in a trace", "ms", statistics.median(labelled.times), time)
    for what in ("allocated", "reserved"):
        row(f"{title}: {what} at most", "GiB", ours.said[f"peak_{what}"] / 2**30, plain.said[f"peak_{what}"] / 2**30)
    row(f"{title}: reserved over allocated", "", ours.said["peak_reserved"] / ours.said["peak_allocated"],
        plain.said["peak_reserved"] / plain.said["peak_allocated"])


def try_errors():
    """Whether PyTorch understands a refusal, and goes on."""
    told = subprocess.run([sys.executable, "-c", OUT_OF_MEMORY], text=True, capture_output=True)
    say(told.stdout + told.stderr)
    caught = told.stdout.count("out of memory:")
    row("torch.OutOfMemoryError is raised, and PyTorch goes on", "yes",
        int(told.returncode == 0 and caught == 2 and "sum 2000.0" in told.stdout), "", ">=", 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    parser.add_argument("--memtrace", help="the program, to ask the trace")
    parser.add_argument("--models", nargs="+", default=["small"])
    parser.add_argument("--precisions", nargs="+", default=["fp32", "bf16"])
    given = parser.parse_args()
    os.environ["MEMTRACE_TORCH_LIBRARY"] = os.path.abspath(given.library)
    os.environ["PYTHONPATH"] = str(ROOT / "python")
    try_errors()
    with tempfile.TemporaryDirectory() as folder:
        for model in given.models:
            for precision in given.precisions:
                trace = pathlib.Path(folder) / f"{model}-{precision}.db"
                compare(model, precision, trace)
                if given.memtrace:
                    subprocess.run([given.memtrace, "peak", "--trace", str(trace)], stdout=sys.stderr, check=True)


if __name__ == "__main__":
    main()
