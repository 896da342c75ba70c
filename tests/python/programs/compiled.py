"""Programs that torch.compile compiles, alone or under memtrace: prints what Dynamo counted and the losses of each, as JSON.

    compiled.py alone|watched
"""
import contextlib
import json
import sys

import torch
import torch._dynamo.compiled_autograd
import torch.distributed
import torch.utils.checkpoint

BACKEND = "aot_eager"
COUNTED = "stats", "frames", "graph_break", "unimplemented", "aot_autograd"
CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        return x + torch.relu(self.linear(self.norm(x)))


class Model(torch.nn.Module):
    def __init__(self, breaks=False, checkpoints=False):
        super().__init__()
        self.blocks, self.breaks, self.checkpoints = torch.nn.ModuleList((Block(), Block())), breaks, checkpoints

    def forward(self, x):
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) if self.checkpoints else block(x)
            if self.breaks:
                torch._dynamo.graph_break()
        return x


def train(watch, model, call, update=None, sizes=(4, 4, 4), backward=torch.Tensor.backward):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = optimizer.step if update is None else update(optimizer)
    losses = []
    with watch(model):
        for size in sizes:
            loss = call(torch.ones(size, 16)).square().mean()
            backward(loss)
            step()
            optimizer.zero_grad()
            losses.append(loss.item().hex())
    return losses


def compiled(model, **options):
    return torch.compile(model, backend=BACKEND, **options)


@case
def plain(watch):
    model = Model()
    return train(watch, model, compiled(model, fullgraph=True))


@case
def submodules(watch):
    model = Model()
    for block in model.blocks:
        block.compile(backend=BACKEND)
    return train(watch, model, model)


@case
def optimizer(watch):
    model = Model()
    return train(watch, model, compiled(model), lambda optimizer: compiled(lambda: optimizer.step()))


@case
def breaks(watch):
    model = Model(breaks=True)
    return train(watch, model, compiled(model))


@case
def recompiles(watch):
    model = Model()
    return train(watch, model, compiled(model), sizes=(4, 5, 6))


@case
def checkpoints(watch):
    model = Model(checkpoints=True)
    return train(watch, model, compiled(model, fullgraph=True))


@case
def compiled_autograd(watch):
    def backward(loss):
        with torch._dynamo.compiled_autograd._enable(compiled(None, fullgraph=True, dynamic=True)):
            loss.backward()

    model = Model()
    return train(watch, model, compiled(model), backward=backward)


@case
def parallel(watch):
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(Model())
    losses = train(watch, model, compiled(model))
    torch.distributed.destroy_process_group()
    return losses


@case
def whole_step(watch):
    """Everything is in one function, parts of which run uncompiled."""
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x):
        torch._dynamo.graph_break()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    with watch(model):
        call = compiled(step)
        return [call(torch.ones(4, 16)).item().hex() for _ in range(3)]


def watch_by(name):
    """Returns a function that watches a model for a while, as `memtrace record` and Labels.watch do, both at once."""
    if name == "alone":
        return lambda model: contextlib.nullcontext()
    from memtrace._declarations import load_torch_library
    from memtrace._library import find_torch_library
    from memtrace.recording import labels, watching

    library = load_torch_library(find_torch_library())

    @contextlib.contextmanager
    def watch(model):
        own = labels.Labels(library).watch(model)
        watcher = watching.Watcher(library)
        yield
        assert own.places
        watcher.unwatch()
        own.unwatch()

    return watch


def main():
    found = {}
    torch.set_num_threads(1)
    for name, run in CASES.items():
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        torch.manual_seed(0)
        losses = run(watch_by(sys.argv[1]))
        counters = torch._dynamo.utils.counters
        found[name] = {"losses": losses,
                       **{kind: {str(what).split("\n")[0]: count for what, count in counters[kind].items()} for kind in COUNTED}}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
