"""Parameters that are spread over ranks, and their gradients: DTensors, FSDP's shards, and gradients in DDP's buckets.

Unlike for other gradients, autograd does not allocate a separate block: FSDP2 sets the gradients of a group after its backward,
FSDP and DDP before the optimizer. Both versions of FSDP gather the parameters of a group while they are used.
"""
from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable
from typing import Any, Callable, ContextManager, Optional, Protocol

import torch

from .._private_names import Replaced, has, wrap
from .gradients import GradientHooks
from .weak_tensors import WeakTensor

FSDP1 = "torch.distributed.fsdp._flat_param"
FSDP2 = "torch.distributed.fsdp._fully_shard._fsdp_param_group"
GATHERED = "gathered parameter"  # the class of a span whose blocks have this role
INITIALIZATION = "torch.nn.parallel.distributed.DistributedDataParallel._ddp_init_helper"
REBUILDING = "torch.distributed.Reducer._rebuild_buckets"


def local_of(tensor: Any) -> Any:
    """Returns this rank's part of a DTensor; any other tensor unchanged."""
    return getattr(tensor, "_local_tensor", tensor)


class Labels(Protocol):
    """The parts of labels.Labels that are used here."""

    gradient: int
    gradients: GradientHooks
    places: dict[int, Any]

    def patch(self, name: str, around: Callable[..., Any]) -> None: ...

    def labelled(self, category: str, span: Optional[str] = None, kind: str = "", module: Any = None) -> ContextManager[Any]: ...

    def relabel_all(self, tensors: Iterable[torch.Tensor], category: int, span: int) -> None: ...


class Rebuilding:
    """The hook of the function that reallocates DDP's buckets, in the forward of the second step, shared by all who label them."""

    def __init__(self) -> None:
        self.followers: list[SpreadGradients] = []
        self.hook: Optional[Replaced] = None

    def follow(self, follower: SpreadGradients) -> None:
        self.followers.append(follower)
        self.hook = self.hook or wrap(REBUILDING, self._call)

    def leave(self, follower: SpreadGradients) -> None:
        if follower in self.followers:
            self.followers.remove(follower)
        if not self.followers:
            self.end()

    def end(self) -> None:
        self.followers.clear()
        if self.hook is not None:
            self.hook.remove()
        self.hook = None

    def _call(self, original: Any, *given: Any, **named: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for follower in self.followers:
                stack.enter_context(follower.labels.labelled("Gradient", "buckets"))
            return original(*given, **named)


rebuilding = Rebuilding()


class SpreadGradients:
    """Labels these gradients once they exist. Costs nothing in programs without them."""

    def __init__(self, labels: Labels) -> None:
        self.labels = labels
        # Parameters whose gradients exist before the optimizer's step, by id, with the span of the gradient.
        self.late: dict[int, tuple[WeakTensor, int]] = {}
        self.watched: set[str] = set()  # modules of FSDP

    def watch_buckets(self) -> None:
        """Labels the buckets of DistributedDataParallel, which it allocates with its reducer and again after the first step."""
        if "torch.distributed" in sys.modules and torch.distributed.is_available() and has("buckets of gradients"):
            self.labels.patch(INITIALIZATION, self._as_gradients)
            rebuilding.follow(self)

    def _as_gradients(self, original: Any, *given: Any, **named: Any) -> Any:
        with self.labels.labelled("Gradient", "buckets"):
            return original(*given, **named)

    def watch_module(self, module: torch.nn.Module) -> None:
        """Follows a module at its first call. A compiler would trace a hook of DDP's forward."""
        if type(module).__name__ == "OptimizedModule":
            rebuilding.end()
        if getattr(module, "gradient_as_bucket_view", False):
            for parameter in module.parameters():
                self._label_late(parameter, 0)

    def watch(self, parameter: Any, span: int) -> bool:
        """Called for each watched parameter. Returns whether its gradient is labelled here."""
        if getattr(parameter, "_is_flat_param", False):
            self._label_late(parameter, span)
            if self._is_new(FSDP1) and has("gathered flat parameters"):
                self.labels.patch(f"{FSDP1}.FlatParamHandle.unshard", self._gather_flat)
        if local_of(parameter) is parameter:
            return False
        self.labels.gradients.add(parameter, lambda parameter: self._label([parameter], span))
        if self._is_new(FSDP2):
            self._watch_groups()
        return True

    def _is_new(self, module: str) -> bool:
        """True if a module is imported, at its first call."""
        is_new = module in sys.modules and module not in self.watched
        self.watched.add(module)
        return is_new

    def _watch_groups(self) -> None:
        """Follows the groups of parameters of FSDP2."""
        if has("sharded gradients"):
            self.labels.patch(f"{FSDP2}.FSDPParamGroup.post_backward", self._after_backward)
        if has("gathered parameters"):
            for name in ("unshard", "wait_for_unshard"):
                self.labels.patch(f"{FSDP2}.FSDPParamGroup.{name}", self._gather_group)

    def _gather_group(self, original: Any, group: Any, *given: Any, **named: Any) -> Any:
        with self.labels.labelled("Param", "gathered", GATHERED, group.modules[0]):
            return original(group, *given, **named)

    def _gather_flat(self, original: Any, handle: Any, *given: Any, **named: Any) -> Any:
        with self.labels.labelled("Param", "gathered", GATHERED, handle._fully_sharded_module):
            return original(handle, *given, **named)

    def _after_backward(self, original: Any, group: Any, *given: Any, **named: Any) -> Any:
        """Labels the reduced gradients of a group of parameters of FSDP2, which are one block."""
        result = original(group, *given, **named)
        place = self.labels.places.get(id(group.modules[0]))
        self._label((part.sharded_param for part in group.fsdp_params), place.span if place else 0)
        return result

    def _label_late(self, parameter: Any, span: int) -> None:
        self.late[id(parameter)] = WeakTensor(parameter), span

    def before_optimizer(self) -> None:
        for find, span in self.late.values():
            parameter = find()
            if parameter is not None:
                self._label([parameter], span)

    def _label(self, parameters: Iterable[Any], span: int) -> None:
        self.labels.relabel_all((each.grad for each in parameters if each.grad is not None), self.labels.gradient, span)
