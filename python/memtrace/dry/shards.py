"""Distributed checkpoints (torch.distributed.checkpoint) in a dry run: a rank saves and loads its own part.

PyTorch has all ranks gather their plans on one. In a dry run a gathered list holds this rank's object for every rank, so the common
plan would be wrong. Here each rank makes a plan for itself, and writes the metadata that it reads back.
"""
from __future__ import annotations

import dataclasses
from typing import Any, Callable

from .._private_names import has, replace, wrap
from . import imported


def plan_alone(module: Any) -> None:
    """Has a rank plan what it saves and loads as if there were no others, whose plans are not known when it runs. Objects are sent
    all the same, since that takes memory on the card."""
    if not has("sharded checkpoints"):
        return

    def plan(wrapper: Any, step: str, map_fun: Callable[[], Any], reduce_fun: Callable[[list[Any]], Any]) -> Any:
        try:
            part = map_fun()
            wrapper.gather_object(part)
            return reduce_fun([part])
        except Exception as error:
            raise module.CheckpointException(step, {wrapper.rank: module._wrap_exception(error)}) from error

    def reduce_scatter(wrapper: Any, step: str, map_fun: Callable[[], Any], reduce_fun: Callable[[list[Any]], Any]) -> Any:
        planned = plan(wrapper, step, map_fun, reduce_fun)[0]
        wrapper.scatter_object([planned] * wrapper.get_world_size())
        return with_prefix(planned, wrapper.rank)

    def all_reduce(wrapper: Any, step: str, map_fun: Callable[[], Any], reduce_fun: Callable[[list[Any]], Any]) -> Any:
        result = plan(wrapper, step, map_fun, reduce_fun)
        wrapper.broadcast_object(result)
        return result

    replace("torch.distributed.checkpoint.utils._DistWrapper.reduce_scatter", reduce_scatter)
    replace("torch.distributed.checkpoint.utils._DistWrapper.all_reduce", all_reduce)


def with_prefix(plan: Any, rank: int) -> Any:
    """Returns a plan with the names of files of its rank, "__1_0.distcp"."""
    prefix: Any = getattr(plan, "storage_data", None)
    if not hasattr(prefix, "prefix"):
        return plan
    return dataclasses.replace(plan, storage_data=dataclasses.replace(prefix, prefix=f"__{rank}_"))


def accept_parts(module: Any) -> None:
    """Has a plan be valid although it holds the parts of one rank alone."""
    if has("plans of checkpoints"):
        metadata = module.Metadata({})
        wrap("torch.distributed.checkpoint.default_planner._validate_global_plan",
             lambda original, plan, given: original([], metadata))


def begin() -> None:
    """Begins, for PyTorch's modules as they are imported."""
    imported.follow({"torch.distributed.checkpoint.utils": plan_alone,
                     "torch.distributed.checkpoint.default_planner": accept_parts})
