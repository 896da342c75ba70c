"""Labels in PyTorch itself, on the CPU, over the library with fake cards: modules are known, and nothing else changes."""
import pytest
import torch

from memtrace import _declarations, _library
from memtrace.recording.labels import Labels, made_alone
from memtrace.recording.shapes import shape_of


@pytest.fixture(scope="module")
def labels():
    return Labels(_declarations.load_torch_library(_library.find_torch_library()))


class Block(torch.nn.Module):
    def __init__(self, seen):
        super().__init__()
        self.norm, self.ffn, self.seen = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8), seen

    def forward(self, x):
        self.seen("forward")
        y = self.ffn(self.norm(x))
        y.register_hook(lambda gradient: self.seen("backward"))
        return x + y.relu()


def train(labels, watched):
    """Trains a model; returns its losses to the bit, and the categories that were seen in it by phase."""
    torch.manual_seed(0)
    seen, category_now = set(), labels.library.memtrace_torch_category_now

    def see(phase):
        seen.add((phase, labels.library.memtrace_torch_category_name(category_now()).decode()))

    model = torch.nn.Sequential(Block(see), Block(see))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    if watched:
        labels.watch(model)
    losses = []
    for _ in range(4):
        with labels.step():
            loss = model(torch.randn(3, 8)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    if watched:
        labels.unwatch()
    return losses, seen


def test_a_watched_model_has_the_same_losses_to_the_bit(labels):
    assert train(labels, watched=True)[0] == train(labels, watched=False)[0]


def test_modules_have_their_categories_in_forward_and_backward(labels):
    assert train(labels, watched=True)[1] == {("forward", "Block"), ("backward", "einsum")}


def test_nothing_is_left_of_watching(labels):
    before = torch.autograd.backward
    train(labels, watched=True)
    assert torch.autograd.backward is before and not labels.handles and not labels.places
    assert not torch.nn.modules.module._global_forward_pre_hooks and not torch.nn.modules.module._global_forward_hooks


def test_only_the_modules_of_a_watched_model_have_spans(labels):
    def span_in(module):
        spans = []
        module.forward = lambda x: spans.append(labels.library.memtrace_torch_span_now()) or x
        return spans

    inner, other = torch.nn.ReLU(), torch.nn.ReLU()
    inside, outside = span_in(inner), span_in(other)
    labels.watch(torch.nn.Sequential(inner))
    inner(torch.ones(1))
    other(torch.ones(1))
    labels.unwatch()
    assert inside[0] != 0 and outside == [0]


def test_two_that_watch_at_once_leave_the_program_working(labels):
    second = Labels(labels.library)
    model = torch.nn.Sequential(torch.nn.ReLU())
    labels.watch(model)
    second.watch(model)
    assert model(-torch.ones(1)).item() == 0
    second.unwatch()
    labels.unwatch()
    assert model(torch.ones(1)).item() == 1


def test_where_hooks_can_not_be_set_that_is_said(labels, monkeypatch, capsys):
    monkeypatch.setattr(labels, "has_hooks", False)
    losses, seen = train(labels, watched=True)
    assert ("forward", "Block") not in seen and losses
    assert "modules, gradients, backward and steps are not followed" in capsys.readouterr().err


def test_an_interrupt_stays_the_class_for_which_python_ends_with_130():
    assert type(made_alone(KeyboardInterrupt())) is KeyboardInterrupt
    ended = made_alone(SystemExit(3))
    assert type(ended)().code == 3


@pytest.mark.parametrize("tensor, expected", [
    (torch.zeros(3, 4, dtype=torch.bfloat16), (15, [3, 4])), (torch.zeros((), dtype=torch.bool), (11, [])),
    (torch.zeros(4, 4)[0], None), (torch.zeros([1] * 17), None), (torch.zeros(4).to(torch.float8_e4m3fn), (24, [4]))])
def test_a_tensor_with_memory_of_its_own_has_a_shape(tensor, expected):
    found = shape_of(tensor)
    assert (found and (found.dtype, list(found.sizes)[:found.dims])) == expected


def test_a_label_does_not_change_a_traced_graph():
    class LabelledOnce(torch.nn.Sequential):
        calls = 0

        def forward(self, x):
            self.calls += 1
            for layer in self if self.calls == 1 else ():
                shape_of(layer.weight)
            return super().forward(x)

    net = LabelledOnce(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4)).eval()
    torch.jit.trace(net, torch.zeros(2, 4))  # traces again, and compares
