"""Changes around a model that `memtrace fit` tries: how it is evaluated, loaded, and spread over ranks."""
from __future__ import annotations

import contextlib
import functools
from typing import Any, ContextManager

import torch

from . import imported
from .change_places import ChangePlaces
from .files import replace_everywhere


def no_grad_evaluation(changes: ChangePlaces) -> None:
    """Has modules in evaluation mode run without a graph of autograd."""
    def around(module: torch.nn.Module) -> ContextManager[Any]:
        if changes.tries("no-grad-evaluation", f"{type(module).__name__} in evaluation mode"):
            return torch.no_grad()
        return contextlib.nullcontext()

    changes.missing["no-grad-evaluation"] = "no module is called in evaluation mode with gradients enabled"
    changes.around_evaluations.append(around)


def eval_accumulation(changes: ChangePlaces) -> None:
    """Has transformers' Trainer move the outputs of each evaluation step to the host."""
    name = "eval-accumulation"

    def follow(library: Any) -> None:
        kind = library.Trainer
        original = kind.evaluation_loop

        @functools.wraps(original)
        def evaluate(trainer: Any, *given: Any, **named: Any) -> Any:
            if trainer.args.eval_accumulation_steps is not None:
                changes.missing[name] = "the program sets eval_accumulation_steps already"
            elif changes.tries(name, "TrainingArguments"):
                trainer.args.eval_accumulation_steps = 1
            return original(trainer, *given, **named)

        kind.evaluation_loop = evaluate

    changes.missing[name] = "transformers' Trainer does not evaluate"
    imported.follow({"transformers.trainer": follow})


def is_on_card(value: Any) -> bool:
    """True if there is a tensor on a card in a value, also in lists and dictionaries."""
    if isinstance(value, torch.Tensor):
        return value.is_cuda
    if isinstance(value, (list, tuple)):
        return any(map(is_on_card, value))
    return isinstance(value, dict) and any(map(is_on_card, value.values()))


def map_location(changes: ChangePlaces) -> None:
    """Has torch.load leave tensors on the host, from which load_state_dict() copies them to the model."""
    original = torch.load

    @functools.wraps(original)
    def load(*given: Any, **named: Any) -> Any:
        if "map-location" in changes.watched:
            loaded = original(*given, **named)
            if is_on_card(loaded):
                changes.tries("map-location", "torch.load")
            return loaded
        changes.made["map-location"] = "torch.load"
        return original(*given[:1], **{**named, "map_location": "cpu"})

    changes.missing["map-location"] = "torch.load puts no tensor on a card"
    replace_everywhere({id(original): load})


def bucket_view(changes: ChangePlaces) -> None:
    """Has gradients be views of the buckets of DistributedDataParallel, instead of copies."""
    kind: Any = torch.nn.parallel.DistributedDataParallel
    original = kind.__init__

    def begin(wrapper: Any, *given: Any, **named: Any) -> None:
        if named.get("gradient_as_bucket_view"):
            changes.missing["bucket-view"] = "the program sets gradient_as_bucket_view already"
        elif changes.tries("bucket-view", "DistributedDataParallel"):
            named["gradient_as_bucket_view"] = True
        original(wrapper, *given, **named)

    changes.missing["bucket-view"] = "the program does not use DistributedDataParallel"
    kind.__init__ = begin
