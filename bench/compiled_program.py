#!/usr/bin/env python3
"""A program of PyTorch that trains a model, eager or compiled: bench/record_compiled.py runs it, recorded and not.

    compiled_program.py MODEL [--steps N] [--device DEVICE]         prints what it computed and how PyTorch compiled it, as JSON
    compiled_program.py MODEL --turns N --memtrace FOLDER           prints times of steps by way of watching, as JSON

In turns, one process is watched in each way for some steps, so that only the watching differs: nothing, hooks that record nothing,
recording without stacks, without names of operators, with all, and PyTorch's memory history.
"""
import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time

import torch

WARM_UP, STEPS_A_TURN = 2, 8
OPTIMIZER = {"foreach": True}


class Mlp(torch.nn.Module):
    def __init__(self, width=256, layers=4):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(layers))
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x)) + x
        return self.norm(x).square().mean()


def llama(device, width, inner, layers, vocabulary=32000):
    import transformers

    config = transformers.LlamaConfig(hidden_size=width, intermediate_size=inner, num_hidden_layers=layers,
                                      num_attention_heads=width // 64, vocab_size=vocabulary, tie_word_embeddings=True, use_cache=False)
    with torch.device(device):
        return transformers.LlamaForCausalLM(config)


class Llama:
    """Trains a Llama of transformers under autocast."""

    def __init__(self, device, shape, batch, length, mode=None):
        self.device, self.model = device, llama(device, *shape)
        self.call = self.model if mode is None else torch.compile(self.model, mode=None if mode == "default" else mode)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, **OPTIMIZER)
        self.tokens = torch.randint(0, 32000 if shape[0] > 64 else 100, (batch, length), device=device)

    def step(self):
        torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(self.device, torch.bfloat16):
            loss = self.call(input_ids=self.tokens, labels=self.tokens).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


class Small:
    """A model compiled as one graph, and a compiled optimizer."""

    def __init__(self, device):
        self.model = Mlp().to(device)
        self.call = torch.compile(self.model, fullgraph=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, **OPTIMIZER)
        self.update = torch.compile(lambda: self.optimizer.step())
        self.x = torch.randn(64, 256, device=device)

    def step(self):
        loss = self.call(self.x)
        loss.backward()
        self.update()
        self.optimizer.zero_grad()
        return loss.detach()


class Nested(Small):
    """Backward by compiled autograd, submodules compiled one by one, and a break of the graph."""

    def __init__(self, device):
        super().__init__(device)
        self.update = self.optimizer.step
        for layer in self.model.layers:
            layer.compile()
        self.call = torch.compile(lambda x: (self.model(x), torch._dynamo.graph_break())[0])

    def step(self):
        loss = self.call(self.x)
        with torch._dynamo.compiled_autograd._enable(torch.compile(dynamic=True)):
            loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()


SHORT, MIDDLE, LARGE = (768, 2176, 4), (768, 2176, 24), (2048, 5632, 16)
PROGRAMS = {
    "small": Small,
    "nested": Nested,
    "short": lambda device: Llama(device, SHORT, 4, 512, "default"),
    "eager": lambda device: Llama(device, MIDDLE, 4, 512),
    "compiled": lambda device: Llama(device, MIDDLE, 4, 512, "default"),
    "reduce-overhead": lambda device: Llama(device, MIDDLE, 4, 512, "reduce-overhead"),
    "large": lambda device: Llama(device, LARGE, 8, 1024),
    "tiny": lambda device: Llama(device, (64, 128, 2, 100), 2, 16, "default"),  # to try this file without a card
}


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def counted():
    """Returns what Dynamo counted. Hits of caches depend on runs before."""
    counters = torch._dynamo.utils.counters
    return {kind: {str(name).split("\n")[0]: count for name, count in counters[kind].items()}
            for kind in ("stats", "frames", "graph_break", "unimplemented")}


def compute(program, given):
    """Sums are in one order, so that the losses of two runs can be compared."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    losses = [program.step() for _ in range(given.steps)]
    synchronize(given.device)
    found = {"losses": [float(loss).hex() for loss in losses], "counters": counted()}
    if given.device == "cuda":
        stats = torch.cuda.memory_stats()
        found["peaks"] = [stats[f"{name}_bytes.all.peak"] for name in ("requested", "allocated", "reserved")]
    return found


# ---- times ----

@contextlib.contextmanager
def history():
    torch.cuda.memory._record_memory_history(max_entries=1_000_000)
    yield
    torch.cuda.memory._record_memory_history(enabled=None)


@contextlib.contextmanager
def hooks():
    from memtrace._declarations import load_torch_library
    from memtrace._library import find_torch_library
    from memtrace.recording.watching import Watcher

    watcher = Watcher(load_torch_library(find_torch_library()))
    yield
    watcher.unwatch()


@contextlib.contextmanager
def recorded(folder, stacks, operators=True):
    from memtrace.recording import watching

    watcher = watching.begin(tempfile.mkdtemp(dir=folder) + "/t.db", with_stacks=stacks)
    if not operators:
        watcher.library.memtrace_torch_operators_end()
    yield
    watching.end()


def ways(given):
    """Returns the ways of watching, by name. Without a card there is nothing to record."""
    found = {"nothing": contextlib.nullcontext, "hooks": hooks}
    if given.device == "cuda":
        found.update({"no stacks": lambda: recorded(given.folder, False), "no operators": lambda: recorded(given.folder, True, False),
                      "stacks": lambda: recorded(given.folder, True), "history": history})
    return found


def quartile_and_median(turns, which):
    """Returns the lower quartile, to which a busy machine adds little, and the median of the steps of all turns."""
    times = [time for one in turns for time in one[which]]
    return statistics.quantiles(times, n=4)[0], statistics.median(times)


def ratio(turns, alone):
    """Returns the median over turns of the ratio of median steps. The two steps of a ratio ran within seconds of each other, since
    a shared host's speed drifts."""
    return statistics.median(statistics.median(watched[1]) / statistics.median(plain[1]) for watched, plain in zip(turns, alone))


def turn(program, given, watch):
    """Returns the times of steps in milliseconds: until all is queued, and until all is done."""
    queued, done = [], []
    with watch():
        for index in range(WARM_UP + STEPS_A_TURN):
            synchronize(given.device)
            began = time.perf_counter()
            program.step()
            queued.append(1e3 * (time.perf_counter() - began))
            synchronize(given.device)
            done.append(1e3 * (time.perf_counter() - began))
    return queued[WARM_UP:], done[WARM_UP:]


def measure(program, given):
    for _ in range(6):
        program.step()
    times = {}
    for index in range(given.turns):
        for name, watch in sorted(ways(given).items(), reverse=index % 2 == 1):
            times.setdefault(name, []).append(turn(program, given, watch))
    return {name: {"queued_ms": quartile_and_median(turns, 0), "done_ms": quartile_and_median(turns, 1),
                   "ratio": ratio(turns, times["nothing"])} for name, turns in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=PROGRAMS)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--turns", type=int, default=0)
    parser.add_argument("--memtrace", help="the folder with the Python package")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    torch.manual_seed(0)
    program = PROGRAMS[given.model](given.device)
    if given.turns:
        sys.path.insert(0, given.memtrace)
        with tempfile.TemporaryDirectory(prefix="memtrace-compiled.") as given.folder:
            found = measure(program, given)
    else:
        torch.use_deterministic_algorithms(True)  # losses are compared to the bit, and backward of attention is not deterministic
        found = compute(program, given)
    print("said " + json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
