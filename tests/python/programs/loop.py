"""Epochs of training and validation, a best model that is saved, and loaded at the end."""
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

net = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512)).cuda()
optimizer = torch.optim.Adam(net.parameters())
train = DataLoader(TensorDataset(torch.randn(20 * 64, 512)), batch_size=64)
validation = DataLoader(TensorDataset(torch.randn(20 * 1024, 512)), batch_size=1024)
best = float("inf")
for epoch in range(2):
    net.train()
    for (x,) in train:
        net(x.cuda()).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    net.eval()
    with torch.no_grad():
        loss = sum(net(x.cuda()).pow(2).mean() for (x,) in validation) / len(validation)
    if loss < best:
        best = loss
        torch.save(net.state_dict(), "best.pt")
net.load_state_dict(torch.load("best.pt", map_location="cuda"))
