#!/usr/bin/env python3
"""What labels cost the host under PyTorch: steps of a small model, watched by memtrace and not, in turns.

    bench/pytorch_hooks.py --library build/release/libmemtrace_torch.so

Needs torch, and no card: the model is on the CPU, where memtrace allocates nothing and its hooks run all the same. Prints
rows for tools/figures, of which the one of a module counts: all that was added to a step over the number of modules.
"""
import argparse
import pathlib
import statistics
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "python"), str(ROOT / "samples/pytorch")]
import train  # noqa: E402
from memtrace.recording.labels import Labels  # noqa: E402
from memtrace._declarations import load_torch_library  # noqa: E402
from memtrace.recording.watching import Watcher  # noqa: E402
from pytorch_plugged import row  # noqa: E402

TURNS, STEPS_A_TURN, WARM_UP = 40, 8, 2
train.SIZES["hooks"], train.VOCABULARY = (8, 16, 12, 2), 16  # so small that the host is all that counts


class Steps:
    """A model that is stepped; times of its steps in microseconds of this thread: alone, with the hooks that
    `memtrace record --no-stacks` has, with an observer of operators, too, and with the hooks of Labels.watch."""

    def __init__(self, library):
        self.library, self.model = library, train.Transformer("hooks")
        self.labels = Labels(library)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.tokens = torch.zeros(1, 5, dtype=torch.long)
        self.plain, self.recorded, self.observed, self.watched = [], [], [], []

    def step(self):
        train.cross_entropy(self.model(self.tokens[:, :-1]), self.tokens[:, 1:]).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def turn(self, times):
        for _ in range(WARM_UP):
            self.step()
        for _ in range(STEPS_A_TURN):
            began = time.thread_time()
            self.step()
            times.append(1e6 * (time.thread_time() - began))

    def turns(self):
        for _ in range(TURNS):
            self.turn(self.plain)
            watcher = Watcher(self.library)
            self.turn(self.recorded)
            self.library.memtrace_torch_operators()
            self.turn(self.observed)
            self.library.memtrace_torch_operators_end()
            watcher.unwatch()
            self.labels.watch(self.model)
            self.turn(self.watched)
            self.labels.unwatch()


def undisturbed(times):
    """The time that one in ten is below: a busy machine only adds."""
    return statistics.quantiles(times, n=10)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    steps = Steps(load_torch_library(given.library))
    steps.turns()
    modules = sum(1 for module in steps.model.modules() if not isinstance(module, torch.nn.ModuleList))
    plain = undisturbed(steps.plain)
    for name, times in (("recorded", steps.recorded), ("recorded with operators", steps.observed), ("watched", steps.watched)):
        taken = undisturbed(times)
        row(f"PyTorch {torch.__version__}, a step of {modules} modules on the CPU, {name}", "us", taken, plain)
        row(f"and what is added for a module, {name}", "us", (taken - plain) / modules)



if __name__ == "__main__":
    main()
