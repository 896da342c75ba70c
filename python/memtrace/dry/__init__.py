"""Dry runs: a PyTorch program on simulated cards, without a GPU."""
