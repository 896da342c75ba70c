"""Changes of a program that `memtrace fit` tries: each is made as the program runs dry, without a line of it changed.

    changes = Changes()             after the import of torch, before anything else of the program runs
    changes.begin("checkpoint")     before the program runs

A change begins with its function, which says through `Changes` where the change was made, or why it was not. A name with a `?`
before it changes nothing: its answer says where the change would be made. At the program's end the answers go to memtrace, as
src/run/handover.h has them. src/analysis/fit/dry_fit.h has their names.
"""
from __future__ import annotations

import atexit
import contextlib
import functools
import os
import weakref
from collections.abc import Iterator
from typing import Any, Callable, ContextManager

import torch
import torch.utils.checkpoint
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from .._settings import settings
from ..recording import handover
from ..recording.alloc_conf import VARIABLES
from . import change_blocks, change_surroundings
from .change_places import ChangePlaces
from .files import replace_everywhere

Module = torch.nn.Module


class Changes(ChangePlaces):
    """The changes of a program, which it begins, follows and answers for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        self.seen: weakref.WeakSet[Module] = weakref.WeakSet()
        self.depth = 0
        self.watch_models()
        register_optimizer_step_post_hook(self.end_step)
        atexit.register(self.answer_all)

    def begin(self, names: str) -> None:
        """Begins the changes of those names."""
        begun = names.split(",")
        self.watched.update(name[1:] for name in begun if name.startswith("?"))
        for name in begun:
            self.names.append(name.lstrip("?"))
            CHANGES[self.names[-1]](self)

    def end_step(self, optimizer: Any, given: Any, named: Any) -> None:
        for act in self.after_steps:
            act(optimizer)

    def watch_models(self) -> None:
        """Looks at every call of a module, and takes the outermost ones that are for training, or that evaluate with gradients."""
        original: Callable[..., Any] = Module.__call__

        def call(module: Module, *given: Any, **named: Any) -> Any:
            if torch.compiler.is_compiling() or self.depth:
                return original(module, *given, **named)
            is_for_training = is_trained(module)
            if not is_for_training and not is_evaluated(module):
                return original(module, *given, **named)
            self.depth += 1
            try:
                if is_for_training:
                    return self.call_model(original, module, given, named)
                return call_within(self.around_evaluations, original, module, given, named)
            finally:
                self.depth -= 1

        Module.__call__ = call  # type: ignore[method-assign]

    def call_model(self, original: Callable[..., Any], model: Module, given: Any, named: Any) -> Any:
        if model not in self.seen:
            self.seen.add(model)
            for prepare in self.before_models:
                prepare(model)
        for convert in self.inputs:
            given, named = convert(model, given), convert(model, named)
        return call_within(self.around_calls, original, model, given, named)

    def answer_all(self) -> None:
        for name in self.names:
            self.answer(name)

    def answer(self, name: str) -> None:
        """Says what became of a change."""
        words = self.hindered.get(name)
        is_made = words is None and name in self.made
        if words is None:
            words = self.made.get(name) or self.missing.get(name) or "no module was trained"
        path = settings().answers
        if path is not None:
            handover.answer(path, "change", int(is_made), f"{name}: {words}")


def is_trained(module: Module) -> bool:
    """True if a call of the module is for training, and none that backward makes again."""
    return (module.training and torch.is_grad_enabled() and torch._C._current_graph_task_id() == -1 and
            next(module.parameters(), None) is not None)


def is_evaluated(module: Module) -> bool:
    """True if a call of the module records a graph of autograd, though the module is in evaluation mode."""
    return (not module.training and torch.is_grad_enabled() and torch._C._current_graph_task_id() == -1 and
            any(parameter.requires_grad for parameter in module.parameters()))


def call_within(arounds: list[Callable[[Module], ContextManager[Any]]], original: Callable[..., Any], module: Module, given: Any,
                named: Any) -> Any:
    """Calls a module within contexts."""
    with contextlib.ExitStack() as stack:
        for around in arounds:
            stack.enter_context(around(module))
        return original(module, *given, **named)


def has_fp32(model: Module) -> bool:
    return any(parameter.dtype == torch.float32 for parameter in model.parameters())


def on_floats(value: Any, dtype: torch.dtype) -> Any:
    """Returns the value with its tensors of fp32, also in lists and dictionaries, in another dtype."""
    if isinstance(value, torch.Tensor):
        return value.to(dtype) if value.dtype == torch.float32 else value
    if type(value) in (list, tuple):
        return type(value)(on_floats(item, dtype) for item in value)
    if type(value) is dict:
        return {name: on_floats(item, dtype) for name, item in value.items()}
    return value


# ---- precision ----

def hinder_by_scaler(changes: Changes, name: str) -> None:
    """Has a change to bf16 wait for a program without fp16."""
    def scale(original: Any, scaler: Any, *given: Any) -> Any:
        if scaler.is_enabled():
            changes.hindered.setdefault(name, "the program scales gradients of fp16 (GradScaler)")
        return original(scaler, *given)

    scaler: Any = torch.amp.grad_scaler.GradScaler
    original = scaler.scale
    scaler.scale = lambda *given: scale(original, *given)


def autocast(changes: Changes) -> None:
    """Has forward run under autocast to bf16."""
    class Ours(torch.autocast):
        pass

    original: Any = torch.autocast.__enter__

    def enter(context: Any) -> Any:
        # A checkpoint enters autocast again in backward as it was in forward, which may be this change's own.
        is_recomputing = torch._C._current_graph_task_id() != -1
        if context._enabled and context.device == "cuda" and not isinstance(context, Ours) and not is_recomputing:
            changes.hindered["autocast"] = "the program is under autocast already"
        return original(context)

    def around(model: Module) -> ContextManager[Any]:
        if not has_fp32(model):
            return contextlib.nullcontext()
        changes.made["autocast"] = f"forward of {type(model).__name__}"
        context: ContextManager[Any] = Ours("cuda", torch.bfloat16)
        return context

    changes.missing["autocast"] = "no parameter is of fp32"
    torch.autocast.__enter__ = enter  # type: ignore[method-assign]
    hinder_by_scaler(changes, "autocast")
    changes.around_calls.append(around)


def bf16_weights(changes: Changes) -> None:
    """Has parameters in bf16, from before they are moved to the card or, at last, from the first forward on."""
    originals: dict[str, Callable[..., Any]] = {"to": Module.to, "cuda": Module.cuda}

    def convert(model: Module) -> None:
        if has_fp32(model):
            originals["to"](model, torch.bfloat16)
            changes.made["bf16-weights"] = f"parameters of {type(model).__name__}"

    def moving(name: str) -> Callable[..., Any]:
        def move(model: Module, *given: Any, **named: Any) -> Any:
            convert(model)
            return originals[name](model, *given, **named)
        return move

    def take_inputs(model: Module, value: Any) -> Any:
        return on_floats(value, torch.bfloat16)

    changes.missing["bf16-weights"] = "no parameter is of fp32"
    Module.to, Module.cuda = moving("to"), moving("cuda")  # type: ignore[method-assign]
    hinder_by_scaler(changes, "bf16-weights")
    changes.before_models.append(convert)
    changes.inputs.append(take_inputs)


# ---- optimizers ----

def change_optimizers(changes: Changes, name: str, obstacle: Callable[[dict[str, Any]], str],
                      settings: dict[str, bool]) -> None:
    """Has optimizers begin with other settings, unless there is an obstacle."""
    original = Optimizer.__init__

    def begin(optimizer: Any, params: Any, defaults: dict[str, Any]) -> None:
        kind, words = type(optimizer).__name__, obstacle(defaults)
        if words:
            changes.missing[name] = f"{kind} {words}"
        else:
            defaults.update({setting: value for setting, value in settings.items() if setting in defaults})
            changes.made[name] = kind
        original(optimizer, params, defaults)

    changes.missing[name] = "no optimizer of torch.optim is made"
    Optimizer.__init__ = begin  # type: ignore[method-assign, assignment]


def fused_optimizer(changes: Changes) -> None:
    """Has one kernel update all parameters, without temporaries."""
    def obstacle(defaults: dict[str, Any]) -> str:
        return "has no fused form" if "fused" not in defaults else "is fused already" if defaults["fused"] else ""

    change_optimizers(changes, "fused-optimizer", obstacle, {"fused": True, "foreach": False})


def loop_optimizer(changes: Changes) -> None:
    """Has parameters updated one by one, with the temporaries of one."""
    def obstacle(defaults: dict[str, Any]) -> str:
        if defaults.get("fused"):
            return "is fused, which takes no temporaries"
        return "updates one by one already" if defaults.get("foreach", False) is False else ""

    change_optimizers(changes, "loop-optimizer", obstacle, {"foreach": False})


def zero_grad(changes: Changes) -> None:
    """Has gradients go as soon as the optimizer has used them."""
    in_step = [False]  # between an optimizer's step and the next forward

    def after_step(optimizer: Any) -> None:
        in_step[0] = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @contextlib.contextmanager
    def around(model: Module) -> Iterator[None]:
        if in_step[0]:
            changes.made["zero-grad"] = "after the optimizer's step"
        in_step[0] = False
        yield

    def clear(original: Any, *given: Any, **named: Any) -> Any:
        sets_to_none = named.get("set_to_none", given[1] if len(given) > 1 else True)
        if in_step[0] and sets_to_none:
            changes.hindered["zero-grad"] = "the program clears them before forward already"
        return original(*given, **named)

    changes.missing["zero-grad"] = "no optimizer of torch.optim has stepped before another forward"
    changes.after_steps.append(after_step)
    changes.around_calls.append(around)
    owner: Any
    for owner in (Optimizer, Module):
        owner.zero_grad = functools.partialmethod(functools.partial(clear, owner.zero_grad))


# ---- kernels and the allocator ----

def has_mask(given: Any, named: Any) -> bool:
    """True if a call of scaled_dot_product_attention has a mask."""
    return (given[3] if len(given) > 3 else named.get("attn_mask")) is not None


def flash_obstacle(given: Any, named: Any) -> str:
    """Returns the reason for which the flash kernel does not take a call."""
    query = given[0] if given else named["query"]
    if query.dtype not in (torch.float16, torch.bfloat16):
        return f"the kernel is for fp16 and bf16, and its calls are in {str(query.dtype)[6:]}"
    if has_mask(given, named):
        return "the kernel takes no mask"
    if query.shape[-1] > 256:
        return f"the kernel takes heads of at most 256, and these have {query.shape[-1]}"
    capability = torch.cuda.get_device_capability()
    if capability < (8, 0):
        return "the kernel needs compute capability 8.0, and the card has " + ".".join(map(str, capability))
    return "the kernel does not take calls of these shapes"


def flash(changes: Changes) -> None:
    """Has attention use PyTorch's flash kernel."""
    functional: Any = torch.nn.functional
    original = functional.scaled_dot_product_attention
    backend: Any = torch.nn.attention.SDPBackend
    chosen = "it is what the card chooses already"

    def attention(*given: Any, **named: Any) -> Any:
        if torch._fused_sdp_choice(*given, **named) == backend.FLASH_ATTENTION.value:
            changes.missing["flash"] = chosen
            return original(*given, **named)
        with torch.nn.attention.sdpa_kernel(backend.FLASH_ATTENTION):
            if torch._fused_sdp_choice(*given, **named) == backend.FLASH_ATTENTION.value:
                changes.made["flash"] = "scaled_dot_product_attention"
                return original(*given, **named)
        if changes.missing["flash"] != chosen:
            changes.missing["flash"] = flash_obstacle(given, named)
        return original(*given, **named)

    def prepare(model: Module) -> None:
        module: Any
        for module in model.modules():
            config = getattr(module, "config", None)
            if getattr(config, "_attn_implementation", "") == "eager" and hasattr(module, "set_attn_implementation"):
                module.set_attn_implementation("sdpa")

    changes.missing["flash"] = "the program does not call scaled_dot_product_attention"
    replace_everywhere({id(original): attention})
    changes.before_models.append(prepare)


def expandable_segments(changes: Changes) -> None:
    """Has the allocator's segments grow."""
    name = next((name for name in VARIABLES if os.environ.get(name)), VARIABLES[0])
    settings = os.environ.get(name, "")
    if "expandable_segments:true" in settings.lower():
        changes.missing["expandable-segments"] = f"{name} has them already"
        return
    os.environ[name] = ",".join(filter(None, (settings, "expandable_segments:True")))
    changes.made["expandable-segments"] = name

CHANGES: dict[str, Callable[[Changes], None]] = {
    "zero-grad": zero_grad,
    "no-grad-evaluation": change_surroundings.no_grad_evaluation,
    "eval-accumulation": change_surroundings.eval_accumulation,
    "map-location": change_surroundings.map_location,
    "bucket-view": change_surroundings.bucket_view,
    "expandable-segments": expandable_segments,
    "fused-optimizer": fused_optimizer,
    "loop-optimizer": loop_optimizer,
    "flash": flash,
    "autocast": autocast,
    "shard-blocks": change_blocks.shard_blocks,
    "lora-dropout": change_blocks.lora_dropout,
    "checkpoint": change_blocks.checkpoint,
    "bf16-weights": bf16_weights,
}
