"""A small training program, whose memory grows with --batch."""
import argparse

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=64)
batch = parser.parse_args().batch

net = torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096)).cuda()
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(100):
    inputs = torch.randn(batch, 4096, device="cuda")
    loss = net(inputs).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
