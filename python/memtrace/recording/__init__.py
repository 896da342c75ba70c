"""Recording PyTorch on a card: its own allocator watched, or memtrace's in its place; labels, call stacks, operators."""
