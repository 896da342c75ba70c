"""Writes the peaks of a trace to the logs of TensorBoard and Weights & Biases, with their own writers."""
from __future__ import annotations

from typing import Any, Union

from ._rows import Peak
from ._sizes import in_words
from ._trace import Path, Trace

MEASURES = ("allocated", "reserved")


def log_to(writer: Any, trace: Union[Path, Trace], run: Union[None, int, str] = None) -> None:
    """Logs the peaks of each step of a run, and the parts of the run's peak.

    writer: a `torch.utils.tensorboard.SummaryWriter`, or a run of `wandb`.
    trace: the path of a trace, or an open trace. run: a number or name; None is the newest.
    """
    if not isinstance(trace, Trace):
        with Trace(trace) as opened:
            return log_to(writer, opened, run)
    if not hasattr(writer, "add_scalar") and not hasattr(writer, "define_metric"):
        raise TypeError(f"{writer!r} is neither a SummaryWriter nor a run of wandb")
    log = log_to_tensorboard if hasattr(writer, "add_scalar") else log_to_wandb
    steps = [{measured: trace.peak(run, step=step, measured=measured).bytes for measured in MEASURES}
             for step in range(trace.run(run).steps)]
    log(writer, steps, trace.peak(run))
    return None


def log_to_tensorboard(writer: Any, steps: list[dict[str, int]], peak: Peak) -> None:
    for step, peaks in enumerate(steps):
        for measured, count in peaks.items():
            writer.add_scalar(f"memtrace/peak_{measured}_bytes", count, step)
    rows = [f"| {share.category} | {in_words(share.allocated_bytes)} | {share.blocks} |" for share in peak.shares]
    writer.add_text("memtrace/peak", "\n".join([f"| {peak.by} | allocated | blocks |", "|---|---|---|", *rows]))


def log_to_wandb(run: Any, steps: list[dict[str, int]], peak: Peak) -> None:
    run.define_metric("memtrace/*", step_metric="memtrace/step")
    for step, peaks in enumerate(steps):
        run.log({"memtrace/step": step, **{f"memtrace/peak_{name}_bytes": count for name, count in peaks.items()}})
    run.summary.update({f"memtrace/peak/{share.category}": share.allocated_bytes for share in peak.shares})
