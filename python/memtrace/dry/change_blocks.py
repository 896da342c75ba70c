"""Changes of a model's repeated blocks that `memtrace fit` tries: checkpointing them, sharding each, LoRA without dropout."""
from __future__ import annotations

import functools
from typing import Any, Callable

import torch
import torch.utils.checkpoint

from . import imported
from .change_places import ChangePlaces
from .files import replace_everywhere

Module = torch.nn.Module


def is_block(child: Module) -> bool:
    """False for a single layer of PyTorch's own: recomputing one saves nothing, since its input is kept in any case."""
    return next(child.children(), None) is not None or not type(child).__module__.startswith("torch.nn.modules")


def alike_blocks(model: Module) -> list[Module]:
    """Returns the children of ModuleLists and Sequentials that have the type and shapes of another child; of lists within such
    children none."""
    found: list[Module] = []
    inside: set[int] = set()
    for module in model.modules():
        if not isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)) or id(module) in inside:
            continue
        kinds = [(type(child), tuple(parameter.shape for parameter in child.parameters())) for child in module]
        for child, kind in zip(module, kinds):
            if kinds.count(kind) > 1 and is_block(child):
                found.append(child)
                inside.update(id(part) for part in child.modules())
    return found


class Checkpoints:
    """Computes the repeated blocks again in backward. Where the program checkpoints several blocks as one segment, each block
    becomes a segment of its own instead."""

    def __init__(self, changes: ChangePlaces) -> None:
        self.changes = changes
        self.original = torch.utils.checkpoint.checkpoint
        self.by_model = False  # the model was told to do so itself
        self.in_segment: list[int] = []  # of the program's segments that are under way: the blocks that ran in each
        changes.missing["checkpoint"] = "the model has no repeated blocks"
        replace_everywhere({id(self.original): self.of_program()})
        changes.before_models.append(self.prepare)

    def hinder(self) -> None:
        self.changes.hindered["checkpoint"] = "the program checkpoints already"

    def of_program(self) -> Callable[..., Any]:
        """Returns what the program calls instead of torch.utils.checkpoint.checkpoint."""
        @functools.wraps(self.original)
        def checked(function: Any, *given: Any, **named: Any) -> Any:
            if self.by_model or "checkpoint" not in self.changes.made:
                if not self.by_model:
                    self.hinder()
                return self.original(function, *given, **named)
            for option in ("use_reentrant", "context_fn", "determinism_check", "debug", "preserve_rng_state", "early_stop"):
                named.pop(option, None)
            self.in_segment.append(0)
            try:
                return function(*given, **named)
            finally:
                if self.in_segment.pop() < 2:
                    self.hinder()
        return checked

    def forward_of(self, block: Module) -> Callable[..., Any]:
        inner = block.forward

        def forward(*given: Any, **named: Any) -> Any:
            if not torch.is_grad_enabled():
                return inner(*given, **named)
            if self.in_segment:
                self.in_segment[-1] += 1
            return self.original(inner, *given, use_reentrant=False, **named)
        return forward

    def prepare(self, model: Module) -> None:
        module: Any
        for module in model.modules():
            if getattr(module, "is_gradient_checkpointing", False):
                self.by_model = True
                self.hinder()
                return
            if getattr(module, "supports_gradient_checkpointing", False) and hasattr(module, "gradient_checkpointing_enable"):
                self.by_model = True
                module.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
                self.changes.made["checkpoint"] = f"{type(module).__name__}.gradient_checkpointing_enable()"
                return
        blocks = alike_blocks(model)
        for block in blocks:
            block.forward = self.forward_of(block)
        if blocks:
            self.changes.made["checkpoint"] = f"{len(blocks)} of {type(blocks[0]).__name__}"


def checkpoint(changes: ChangePlaces) -> None:
    Checkpoints(changes)


def shard_blocks(changes: ChangePlaces) -> None:
    """Has FSDP gather each of the repeated blocks alone, where the program wraps the whole model only."""
    name = "shard-blocks"
    changes.missing[name] = "the program does not use FSDP"

    def blocks_without(module: Module, is_sharded: Callable[[Module], bool]) -> list[Module]:
        if any(is_sharded(part) for part in module.modules() if part is not module):
            changes.missing[name] = "the program wraps modules within the model already"
            return []
        return alike_blocks(module)

    def follow_fsdp2(library: Any) -> None:
        original, state = library.fully_shard, library.FSDPModule

        @functools.wraps(original)
        def fully_shard(module: Any, *given: Any, **named: Any) -> Any:
            blocks = [] if isinstance(module, (list, state)) else blocks_without(module, lambda part: isinstance(part, state))
            # A program that wraps blocks itself begins with them, so a module without blocks is no sign of a root.
            if blocks and changes.tries(name, f"{len(blocks)} of {type(blocks[0]).__name__}, by fully_shard()"):
                for block in blocks:
                    original(block, *given, **named)
            return original(module, *given, **named)

        replace_everywhere({id(original): fully_shard})

    def follow_fsdp1(library: Any) -> None:
        kind: Any = library.FullyShardedDataParallel
        original = kind.__init__

        def begin(wrapper: Any, module: Any, *given: Any, **named: Any) -> None:
            has_policy = len(given) > 3 or named.get("auto_wrap_policy") is not None
            blocks = [] if has_policy else blocks_without(module, lambda part: isinstance(part, kind))
            if blocks and changes.tries(name, f"{len(blocks)} of {type(blocks[0]).__name__}, by auto_wrap_policy"):
                from torch.distributed.fsdp.wrap import ModuleWrapPolicy
                named["auto_wrap_policy"] = ModuleWrapPolicy({type(block) for block in blocks})
            original(wrapper, module, *given, **named)

        kind.__init__ = begin

    def follow(library: Any) -> None:
        follow_fsdp1(library)
        if hasattr(library, "fully_shard"):
            follow_fsdp2(library)

    imported.follow({"torch.distributed.fsdp": follow})


def lora_dropout(changes: ChangePlaces) -> None:
    """Has the layers of LoRA go without dropout, which copies each layer's input."""
    def prepare(model: Module) -> None:
        module: Any
        found = 0
        for module in model.modules():
            drops = getattr(module, "lora_dropout", None)
            if not isinstance(drops, torch.nn.ModuleDict):
                continue
            for key, drop in drops.items():
                if getattr(drop, "p", 0) > 0:
                    found += 1
                    if changes.tries("lora-dropout", f"{found} layers of LoRA"):
                        drops[key] = torch.nn.Identity()

    changes.missing["lora-dropout"] = "no layer of LoRA has dropout"
    changes.before_models.append(prepare)
