"""The objects of a program by kind, as searches for holders need them."""
import torch

from memtrace.recording.live_objects import objects_of


class Own(torch.nn.Linear):
    pass


class Unhashable(type):
    def __eq__(cls, other):
        return True


def test_objects_are_found_by_their_class_and_its_bases():
    module, optimizer = Own(2, 2), torch.optim.SGD([torch.nn.Parameter(torch.ones(2))])
    modules, optimizers = objects_of(torch.nn.Module, torch.optim.Optimizer)
    assert sum(one is module for one in modules) == 1 and sum(one is optimizer for one in optimizers) == 1
    assert all(isinstance(one, torch.nn.Module) for one in modules)


def test_a_class_of_a_program_that_has_no_hash_is_no_obstacle():
    strange = Unhashable("Strange", (torch.nn.Module,), {})()
    assert any(one is strange for one in objects_of(torch.nn.Module)[0])
