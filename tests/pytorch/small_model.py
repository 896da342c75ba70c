"""A module with a norm inside and an optimizer, of the fake PyTorch: what the tests here have recorded."""
import torch

MIB = 1 << 20
STATE = 7 * MIB + 1  # is rounded up


class RMSNorm(torch.nn.Module):
    def __init__(self):
        self.weight = torch.nn.Parameter(1 * MIB)

    def forward(self, x):
        return torch.Tensor(2 * MIB, torch.Node(3 * MIB, x.grad_fn))


class FeedForward(torch.nn.Module):
    """A module with a norm inside, and memory of its own after that."""

    def __init__(self):
        self.ln = RMSNorm()
        self.fails = False

    def forward(self, x):
        y = self.ln(x)
        if self.fails:
            raise ValueError("in forward")
        return torch.Tensor(4 * MIB, torch.Node(5 * MIB, y.grad_fn))


class Adam(torch.optim.Optimizer):
    def __init__(self, parameter):
        super().__init__()
        self.parameter = parameter

    def update(self):
        torch.Tensor(6 * MIB)
        if not self.state:
            self.state[self.parameter] = {"first": torch.Tensor(STATE), "count": 1}
