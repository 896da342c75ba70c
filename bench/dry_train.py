"""Trains a program of the list that bench/dry_card.py compares: under `memtrace record`, or `memtrace dry-run`.

    python3 bench/dry_train.py NAME             trains six steps on cuda
    python3 bench/dry_train.py NAME --estimate  prints as JSON what two estimators say of it

The first prints PyTorch's own peaks of the first four steps as JSON, and takes a block of MARK_BYTES before and after the last
step, by which it is found in a trace. Weights and data are random; nothing is downloaded.
"""
from __future__ import annotations

import argparse
import json
from typing import Any, Optional

import dry_compiled_models  # noqa: F401 (lists its programs)
import dry_convolution_models  # noqa: F401 (lists its programs)
import dry_detector_models  # noqa: F401 (lists its programs)
import dry_graph_models  # noqa: F401 (lists its programs)
import dry_layout_models  # noqa: F401 (lists its programs)
import dry_library_models
import dry_operator_models  # noqa: F401
import dry_own_models  # noqa: F401 (lists its programs)
import dry_quantized_models  # noqa: F401
import dry_sequence_models  # noqa: F401
import dry_triton_models  # noqa: F401 (lists its programs)
import dry_value_models  # noqa: F401
import torch
from dry_stage import PEAK_STEPS, PROGRAMS, STEPS, Program, Stage

REFERENCE = dry_library_models.REFERENCE
ADAM_COPIES = 4  # `accelerate estimate-memory`: weights, gradients, and two states of Adam


def train(program: Program) -> None:
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(0)
    stage = Stage(torch, "cuda")
    step = program.make(stage)
    if step is None:
        return
    torch.cuda.reset_peak_memory_stats()
    for _ in range(STEPS):
        step()
        stage.end_step()


class Weighed(Stage):
    """A stage that keeps the first model that is made."""

    model: Any = None

    def made(self, *arguments: Any) -> Any:
        made = super().made(*arguments)
        self.model = self.model or made
        return made


def accelerate_estimate(program: Program) -> int:
    """Returns what calculate_maximum_sizes says of the program's first model, for training with Adam."""
    from accelerate.utils import calculate_maximum_sizes

    stage = Weighed(torch, "cuda")
    program.make(stage)
    return int(calculate_maximum_sizes(stage.model)[0]) * ADAM_COPIES


def tracker_estimate(program: Program) -> int:
    """Returns the peak that MemTracker finds in four steps of fake tensors. They need a card, or a dry run's."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    tracker = MemTracker()
    with FakeTensorMode(), tracker:
        step = program.make(Stage(torch, "cuda"))
        for _ in range(PEAK_STEPS):
            assert step is not None
            step()
            tracker.reset_mod_stats()
    return max(int(kinds["Total"]) for kinds in tracker.get_tracker_snapshot("peak").values())


def estimate(program: Program) -> dict[str, Optional[int]]:
    """Returns both figures; None for one that its estimator failed to give."""
    found: dict[str, Optional[int]] = {}
    for name, estimator in (("tracker", tracker_estimate), ("accelerate", accelerate_estimate)):
        try:
            found[name] = estimator(program)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}")
            found[name] = None
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=PROGRAMS)
    parser.add_argument("--estimate", action="store_true")
    given = parser.parse_args()
    if given.estimate:
        print(json.dumps(estimate(PROGRAMS[given.name])))
    else:
        train(PROGRAMS[given.name])


if __name__ == "__main__":
    main()
