"""Weak references to tensors, also while PyTorch swaps the tensors' contents."""
import weakref

import pytest
import torch

from memtrace.recording.weak_tensors import WeakTensor, swap


def test_a_weak_tensor_keeps_nothing_alive():
    tensor = torch.ones(1)
    weak = WeakTensor(tensor)
    assert weak() is tensor
    del tensor
    assert weak() is None


def test_tensors_with_weak_references_can_be_swapped():
    first, second = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.ones(3))
    weak = [WeakTensor(first), WeakTensor(first), WeakTensor(second)]
    swap(torch.utils.swap_tensors, first, second)
    assert all(one() is tensor for one, tensor in zip(weak, (first, first, second)))
    assert first.tolist() == [1, 1, 1]


def test_references_are_back_after_a_swap_that_fails():
    first, second = torch.zeros(2), torch.ones(3)
    weak, theirs = WeakTensor(first), weakref.ref(first)
    with pytest.raises(RuntimeError, match="weakref"):
        swap(torch.utils.swap_tensors, first, second)
    assert weak() is theirs() is first
