"""Traces two steps of a small model with torch.profiler, on the CPU: python3 profile_trace.py FILE."""
import sys

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(64)
        self.up = nn.Linear(64, 256)

    def forward(self, x):
        return torch.relu(self.up(self.norm(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(256, 10)

    def forward(self, x):
        return self.head(self.block(x))


model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
settings = {"activities": [ProfilerActivity.CPU], "profile_memory": True, "with_stack": True, "with_modules": True}
with profile(**settings) as profiler:
    for step in range(2):
        with record_function(f"ProfilerStep#{step}"):
            loss = nn.functional.cross_entropy(model(torch.randn(32, 64)), torch.randint(0, 10, (32,)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
profiler.export_chrome_trace(sys.argv[1])
