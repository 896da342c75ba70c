"""torch.compile in a dry run: PyTorch's own compiler works as for a card (inductor.py), if Triton is installed; otherwise the program
runs as it does without torch.compile, and the verdict says so."""
from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

import torch

from .._private_names import has, original_of, replace
from .._settings import settings
from ..recording.labels import Labels
from . import inductor
from .flex import WRAPPED, fused_attention
from .imported import follow
from .places import Place, place_of_user

OLDEST, NEWEST = (2, 11), (2, 14)  # of the versions of PyTorch whose Inductor was tried
CHANGES = f"{__package__}.changes"
left_out: dict[Place, str] = {}  # why torch.compile was left out, by the line of its call
optimizers: set[int] = set()  # those whose steps were compiled, by id


@functools.lru_cache(maxsize=None)
def obstacle() -> str:
    """Returns why programs are not compiled; "" if they are."""
    if settings().eager:
        return "--no-compile"
    if importlib.util.find_spec("triton") is None:
        return "Triton is not installed: pip install triton (it needs no card)"
    if OLDEST <= tuple(map(int, torch.__version__.split(".")[:2])) <= NEWEST:
        return ""
    importlib.import_module("torch._inductor.compile_fx")  # takes seconds, so it is not for versions that were tried
    return "" if inductor.is_changed else f"PyTorch {torch.__version__} is not supported"


def compile_eagerly(is_used: list[bool], note: Callable[[str], None], model: Any) -> Any:
    """Returns what torch.compile is given. FlexAttention is taken to be compiled in a program that compiles anything, since nobody means
    it to run without."""
    if getattr(model, "__name__", "") == WRAPPED:
        return fused_attention if is_used else model
    is_used.append(True)
    note(f"torch.compile is left out, and the program runs as an eager one ({obstacle()})")
    left_out[place_of_user()] = obstacle()
    return model if model is not None else lambda inner: inner


def replace_compile(note: Callable[[str], None]) -> None:
    original, is_used = original_of("torch.compile"), list[bool]()

    @functools.wraps(original)
    def compile(model: Any = None, *given: Any, **named: Any) -> Any:
        if obstacle():
            return compile_eagerly(is_used, note, model)
        return original(model, *given, **named)

    replace("torch.compile", compile)


def own_places() -> list[str]:
    """Returns folders and files of memtrace whose frames Dynamo is not to compile: all but changes.py, if it is used, since that
    puts frames between the program's. Few places, since Dynamo compares them with the file of each function that it traces."""
    package = pathlib.Path(__file__).parents[1]
    if CHANGES not in sys.modules:
        return [f"{package}{os.sep}"]
    others = (path for path in (*package.glob("*"), *package.glob("dry/*")) if path.name != "dry")
    return [str(path) for path in others if path.name != "changes.py"]


def skip_own_frames(rules: Any) -> None:
    """Has Dynamo compile no frame of memtrace. `rules` is torch._dynamo.trace_rules."""
    if has("frames"):
        rules.SKIP_DIRS.extend(own_places())
        rules._recompile_re()


def follow_optimizers(module: Any) -> None:
    """Notes the optimizers that are compiled, whose hooks are not called."""
    if not has("compiled optimizers"):
        return
    original = original_of("torch._dynamo.variables.optimizer.OptimizerVariable.call_method")

    def call_method(variable: Any, *given: Any, **named: Any) -> Any:
        optimizers.add(id(variable.value))
        return original(variable, *given, **named)

    replace("torch._dynamo.variables.optimizer.OptimizerVariable.call_method", call_method)


def begin(cards: Any, labels: Labels, note: Callable[[str], None], assume: Callable[[str, float], None]) -> None:
    torch._C._jit_override_can_fuse_on_gpu(False)
    torch._C._jit_set_texpr_fuser_enabled(False)
    replace_compile(note)
    if settings().eager:
        inductor.refuse_programs()
        return
    inductor.begin(cards, labels, assume)
    follow({"torch._dynamo.trace_rules": skip_own_frames, "torch._dynamo.variables.optimizer": follow_optimizers})
