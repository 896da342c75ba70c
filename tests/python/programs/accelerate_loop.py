"""A loop with accelerate's loaders, which read one batch ahead, and accumulated gradients."""
import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(gradient_accumulation_steps=4)
net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
net, optimizer, train, validation = accelerator.prepare(
    net, torch.optim.Adam(net.parameters()), DataLoader(TensorDataset(torch.randn(40 * 64, 512)), batch_size=64),
    DataLoader(TensorDataset(torch.randn(20 * 1024, 512)), batch_size=1024))
for epoch in range(2):
    net.train()
    for (x,) in train:
        with accelerator.accumulate(net):
            accelerator.backward(net(x).pow(2).mean())
            optimizer.step()
            optimizer.zero_grad()
    net.eval()
    for (x,) in validation:
        with torch.no_grad():
            accelerator.gather_for_metrics(net(x))
