"""Recording PyTorch on a card: watches its own allocator, or replaces it by memtrace's; labels, call stacks, operators."""
