"""The phases of a program, by the modules that it calls and the functions that call them."""
import types

import pytest
import torch
from torch import nn

from memtrace.recording import program_phases
from memtrace.recording.program_phases import ProgramPhases, phase_of_name


@pytest.fixture
def phases(monkeypatch):
    monkeypatch.setattr(program_phases, "phase_of_callers", lambda: None)  # the names of pytest's functions
    monkeypatch.setattr(program_phases, "marks_of_optimizers", set)
    return ProgramPhases(types.SimpleNamespace(memtrace_torch_program_phase=lambda name: None))


def call(phases, module):
    with torch.no_grad():
        phases.begin_forward(module.eval())
    return phases.now


def train(phases, student, teacher=None):
    """Returns the phases of the calls in a training step."""
    found = [call(phases, teacher)] if teacher is not None else []
    phases.begin_forward(student.train())
    phases.begin_backward()
    return [*found, phases.now]


def validate(phases, module):
    return call(phases, module)


def test_a_teacher_that_a_training_step_calls_is_no_validation(phases):
    student, teacher = nn.Linear(2, 2), nn.Linear(2, 2)
    train(phases, student)
    assert train(phases, student, teacher) == ["train", "train"]
    assert validate(phases, student) == validate(phases, teacher) == "validate"


def test_a_teacher_that_is_called_before_the_first_backward_is_part_of_training(phases, monkeypatch):
    student, teacher = nn.Linear(2, 2), nn.Linear(2, 2)
    monkeypatch.setattr(program_phases, "marks_of_optimizers", lambda: {id(one) for one in student.parameters()})
    assert call(phases, teacher) == "train"
    assert call(phases, student) == "validate"


def test_a_program_that_does_not_train_infers(phases):
    assert call(phases, nn.Linear(2, 2)) == "inference"


@pytest.mark.parametrize("name, phase", [
    ("evaluate", "validate"), ("run_eval", "validate"), ("testEpoch", "validate"), ("doValidation", "validate"), ("generate", "generate"),
    ("retrieval", None), ("latest_state", None), ("embed", None)])
def test_only_words_of_a_name_indicate_a_phase(name, phase):
    assert phase_of_name(name) == phase


def call_in_training(phases, module, batches=1):
    """Returns the phases of a loop's calls, and the sum of its outputs."""
    found, total = [], 0
    for _ in range(batches):
        phases.begin_forward(module)
        found.append(phases.now)
        total = total + module(torch.ones(1, 2)).sum()
    return found, total


def test_a_loop_without_backward_validates_also_in_training_mode_unless_a_sum_is_trained(phases):
    module = nn.Linear(2, 2)
    found = []
    for _ in range(3):
        steps, total = call_in_training(phases, module, 3)  # accumulates
        phases.begin_backward([total.grad_fn])
        evaluated, _ = call_in_training(phases, module, 3)
        again, loss = call_in_training(phases, module)
        phases.begin_backward([loss.grad_fn])
        found.append([*steps, *evaluated, *again])
    later = ["train", "train", "train", "validate", "validate", "validate", "train"]
    assert found == [[*later[:3], "train", *later[4:]], later, later]
