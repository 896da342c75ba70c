"""Calls every operator of PyTorch's own list of test inputs on the simulated card, forward and backward, and prints how many
run and how the others fail. What they compute is not looked at.

    memtrace dry-run --trace operators.db -- python3 bench/dry_operators.py [PART OF A NAME]
"""
from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

MOST_SAMPLES = 4


def dtype_of(op: Any) -> torch.dtype:
    types = op.supported_dtypes("cpu")
    return torch.float32 if torch.float32 in types else next(iter(types))


def samples(op: Any, needs_gradient: bool) -> Iterator[Any]:
    return islice(op.sample_inputs("cuda", dtype_of(op), requires_grad=needs_gradient), MOST_SAMPLES)


def run_forward(op: Any) -> None:
    for sample in samples(op, False):
        op(sample.input, *sample.args, **sample.kwargs)


def run_backward(op: Any) -> None:
    for sample in samples(op, True):
        results = op(sample.input, *sample.args, **sample.kwargs)
        results = results if isinstance(results, (tuple, list)) else [results]
        roots = [one for one in results if isinstance(one, torch.Tensor) and one.requires_grad]
        if roots:
            torch.autograd.backward(roots, [torch.ones_like(root) for root in roots])


def failure_of(run: Any, op: Any) -> str:
    """Returns why a run of the operator failed; "" if it did not."""
    try:
        run(op)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return ""


def report(direction: str, failures: dict[str, str]) -> None:
    good = sum(not why for why in failures.values())
    print(f"{direction}: {good} of {len(failures)} operators run")
    for name, why in failures.items():
        if why:
            print(f"  {name:40} {why[:150]}")


def main() -> None:
    warnings.filterwarnings("ignore")
    part = sys.argv[1] if len(sys.argv) > 1 else ""
    chosen = [op for op in op_db if part in op.name and op.supported_dtypes("cpu")]
    forward = {op.full_name: failure_of(run_forward, op) for op in chosen}
    backward = {op.full_name: failure_of(run_backward, op) for op in chosen
                if op.supports_autograd and dtype_of(op).is_floating_point and not forward[op.full_name]}
    report("forward", forward)
    report("backward", backward)


main()
