"""The labels of unmodified programs, with PyTorch's CPU build: modules, backward, steps."""
import gc
import pathlib
import shutil

import pytest
import torch
import torch.fx

from memtrace import _settings
from memtrace._declarations import load_torch_library
from memtrace._library import find_torch_library
from memtrace.recording import abi, watching

INCLUDE = pathlib.Path(torch.__file__).parent / "include"


@pytest.fixture
def watcher():
    watcher = watching.Watcher(load_torch_library(find_torch_library()))
    yield watcher
    watcher.unwatch()


class Probe(torch.autograd.Function):
    """Notes where the program is, in forward and in backward."""

    @staticmethod
    def forward(context, x, seen, now):
        context.seen, context.now = seen, now
        seen.append(now())
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        context.seen.append(context.now())
        return gradient, None, None


class Layer(torch.nn.Module):
    def __init__(self, seen, now):
        super().__init__()
        self.linear, self.seen, self.now = torch.nn.Linear(4, 4), seen, now

    def forward(self, x):
        return Probe.apply(self.linear(x), self.seen, self.now)


def span_of(watcher, module):
    return watcher.places[id(module)].span


def test_backward_is_of_the_module_whose_forward_made_the_node(watcher):
    seen = []
    model = torch.nn.Sequential(*(Layer(seen, watcher.library.memtrace_torch_span_now) for _ in range(3)))
    for _ in range(3):
        model(torch.ones(2, 4)).sum().backward()
        layers = [span_of(watcher, layer) for layer in model]
        assert seen == layers + layers[::-1] and len(set(layers)) == 3
        seen.clear()


def test_an_exception_in_forward_leaves_no_span_and_is_the_program_s(watcher):
    class Fails(torch.nn.Module):
        def forward(self, x, *, error):
            raise error

    with pytest.raises(KeyError, match="mine"):
        torch.nn.Sequential(Fails()).append(torch.nn.ReLU())[0](1, error=KeyError("mine"))
    assert watcher.library.memtrace_torch_span_now() == 0


def test_modules_are_not_kept_alive(watcher):
    model = torch.nn.Linear(4, 4)
    model(torch.ones(1, 4))
    assert watcher.places
    del model
    gc.collect()
    assert not watcher.places


def test_what_puts_the_call_of_modules_away_and_back_leaves_it_working(watcher):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    traced = torch.fx.symbolic_trace(model)
    x = torch.ones(1, 4)
    assert torch.equal(traced(x), model(x))
    assert span_of(watcher, model)


def losses():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    found = []
    for _ in range(5):
        loss = model(torch.randn(3, 4)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def test_a_watched_program_computes_the_same():
    alone = losses()
    watcher = watching.Watcher(load_torch_library(find_torch_library()))
    assert losses() == alone
    watcher.unwatch()


def test_unwatch_leaves_torch_as_it_was():
    before = torch.nn.Module.__call__, torch.autograd.backward, torch.profiler.profile.step
    watching.Watcher(load_torch_library(find_torch_library())).unwatch()
    assert (torch.nn.Module.__call__, torch.autograd.backward, torch.profiler.profile.step) == before


def test_the_headers_of_this_pytorch_are_understood():
    found = abi.derive(INCLUDE)
    assert found.name_slot > found.attach_slot > 20 and found.address_offset == 8 and found.oom == 8 and found.pool_offset in (0, 48)


@pytest.mark.parametrize("header, old, new", [
    ("c10/core/CachingDeviceAllocator.h", "  size_t size_;\n", "  SomethingElse size_;\n"),
    ("c10/core/CachingDeviceAllocator.h", "    OOM //", "    NO_MEMORY //"),
    ("c10/core/CachingDeviceAllocator.h", "  Action action_;\n", "  Action first_;\n"),
    ("c10/cuda/CUDACachingAllocator.h", "virtual std::string name() = 0;", "virtual std::string called() = 0;"),
    ("c10/cuda/CUDACachingAllocator.h", "virtual void enable(bool value) = 0;", "#if A\nvirtual void enable() = 0;\n#endif"),
    ("c10/cuda/CUDACachingAllocator.h", "class CUDAAllocator : public DeviceAllocator {", "class CUDAAllocator : A, B {"),
])
def test_headers_that_are_not_as_known_are_refused(tmp_path, header, old, new):
    for name in abi.HEADERS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(INCLUDE / name, tmp_path / name)
    path = tmp_path / header
    assert path.read_text().count(old) >= 1
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(abi.NotUnderstood):
        abi.derive(tmp_path)


@pytest.mark.parametrize("kind, how", [(torch.optim.SGD, "positional"), (torch.optim.SGD, "named"),
                                       (torch.optim.LBFGS, "positional")])
def test_a_closure_of_an_optimizer_has_the_phases_of_forward_and_backward(watcher, kind, how):
    seen = []
    model = Layer(seen, lambda: watcher.phase_now[0])
    optimizer = kind(model.parameters(), lr=1e-3)

    def closure():
        optimizer.zero_grad()
        loss = model(torch.ones(2, 4)).sum()
        loss.backward()
        return loss

    loss = optimizer.step(closure) if how == "positional" else optimizer.step(closure=closure)
    calls = 1 if kind is torch.optim.SGD else len(seen) // 2  # LBFGS calls it as often as it likes
    assert loss.requires_grad and calls > 0 and seen == ["forward", "backward"] * calls
    assert not watcher.in_step


def test_where_kernels_are_recorded_pytorch_is_not_watched_and_that_is_said(monkeypatch, capsys):
    monkeypatch.setattr(_settings, "_read", _settings.Settings(kernels=1))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    watching.begin_recorded()
    assert watching.watcher is None
    assert "kernels are recorded, so PyTorch's allocator is not watched" in capsys.readouterr().err
