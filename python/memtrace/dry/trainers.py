"""Stops transformers' Trainer and Lightning by their own means once their steps have shown all that they do, so that they evaluate,
save and return to the program as they do at the end of training."""
from __future__ import annotations

import functools
from typing import Any, Optional

from . import imported
from .loops import Loops
from .places import place_of_user
from .steps import Settling


def shorten(loops: Loops, what: str, done: int, total: Optional[int]) -> None:
    """Notes that a trainer is stopped after this many steps, and its growth."""
    place = place_of_user()
    loops.shorten(what, place, done, total)
    if loops.controlled is not None:
        loops.note_growth(place, loops.controlled, done, total)


def stop_transformers(loops: Loops, module: Any) -> None:
    """Follows transformers.trainer_callback. A Trainer stops at its `max_steps`; its evaluation and its last checkpoint come
    then, too."""
    handler = module.CallbackHandler
    begin, end_step, end = handler.on_train_begin, handler.on_step_end, handler.on_train_end

    def on_train_begin(self: Any, args: Any, state: Any, control: Any, **named: Any) -> Any:
        loops.controlled = Settling()
        return begin(self, args, state, control, **named)

    def on_step_end(self: Any, args: Any, state: Any, control: Any, **named: Any) -> Any:
        is_over = loops.should_stop() and state.global_step < state.max_steps
        if is_over:
            shorten(loops, "Trainer", state.global_step, state.max_steps)
            state.max_steps = state.global_step
        control = end_step(self, args, state, control, **named)
        if is_over and getattr(args, "eval_strategy", None) == "steps":
            control.should_evaluate = True
        return control

    def on_train_end(self: Any, *given: Any, **named: Any) -> Any:
        loops.controlled = None
        return end(self, *given, **named)

    handler.on_train_begin, handler.on_step_end, handler.on_train_end = on_train_begin, on_step_end, on_train_end


def follow_lightning_fit(loops: Loops, module: Any) -> None:
    """Follows the module of Lightning's loop over epochs."""
    run = module._FitLoop.run

    def run_controlled(self: Any) -> Any:
        loops.controlled = Settling()
        try:
            return run(self)
        finally:
            loops.controlled = None

    module._FitLoop.run = run_controlled


def stop_lightning(loops: Loops, module: Any) -> None:
    """Follows the module of Lightning's loop over batches. A trainer that should stop validates first."""
    advance_end = module._TrainingEpochLoop.on_advance_end

    def on_advance_end(self: Any, *given: Any) -> Any:
        trainer = self.trainer
        if loops.should_stop() and not trainer.should_stop:
            shorten(loops, "Lightning's fit", trainer.global_step, steps_of_lightning(trainer))
            self.min_steps = trainer.fit_loop.min_epochs = None
            if trainer.check_val_every_n_epoch is not None:
                trainer.check_val_every_n_epoch = 1
            trainer.should_stop = True
        return advance_end(self, *given)

    module._TrainingEpochLoop.on_advance_end = on_advance_end


def steps_of_lightning(trainer: Any) -> Any:
    """Returns the steps that a trainer would have made; None if it has no limit."""
    steps = trainer.estimated_stepping_batches
    return int(steps) if 0 < steps < float("inf") else None


def follow(loops: Loops) -> None:
    """Begins. Does nothing for programs without these libraries."""
    if not loops.is_shortening:
        return
    changes = {"transformers.trainer_callback": stop_transformers}
    for package in ("lightning.pytorch", "pytorch_lightning"):
        changes[f"{package}.loops.fit_loop"] = follow_lightning_fit
        changes[f"{package}.loops.training_epoch_loop"] = stop_lightning
    imported.follow({name: functools.partial(change, loops) for name, change in changes.items()})
