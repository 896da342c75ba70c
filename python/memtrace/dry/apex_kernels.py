"""NVIDIA apex in a dry run. Its Python code runs as it is; its compiled modules, which launch kernels outside of PyTorch's operators, get
stand-ins. These allocate as the host code under csrc/ does, and what the kernels would write becomes unknown. So fused optimizers,
layer norms and Megatron's gradients of weights run, whether or not apex was built with its extensions here.

begin() answers imports of these modules from now on.
"""
from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Optional

import torch

Note = Callable[[str], None]
Function = Callable[..., Any]
NARROW = torch.float16, torch.bfloat16
NORM_BLOCKS = 320  # partial sums of a norm: csrc/multi_tensor_l2norm_kernel.cu
GRADIENT_PARTS = 16  # rows of partial sums of a weight's gradient: csrc/layer_norm_cuda_kernel.cu
UPDATES = ("adam", "adam_capturable", "adam_capturable_master", "sgd", "adagrad", "scale")  # the first list is only read
LAMB_STAGES = ("lamb_stage1_cuda", "lamb_stage2_cuda")


class Kernels:
    """What the modules' functions do instead."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def written(self, *tensors: Any) -> None:
        for tensor in tensors:
            if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
                self.device.memtrace_dry_written(tensor._cdata)
                self.device.memtrace_dry_used(tensor._cdata)

    def all_written(self, lists: Iterable[Sequence[Any]]) -> None:
        for tensors in lists:
            self.written(*tensors)

    # ---- amp_C: functions of a chunk size, a flag of overflow, which stays, and lists of tensors ----

    def update(self, chunk: int, flag: Any, lists: Sequence[Sequence[Any]], *given: Any) -> None:
        self.all_written(lists[1:])

    def combine(self, chunk: int, flag: Any, lists: Sequence[Sequence[Any]], *given: Any) -> None:
        """Replaces axpby, whose third list is its result."""
        self.all_written(lists[2:])

    def lamb_stage(self, chunk: int, flag: Any, lists: Sequence[Sequence[Any]], *given: Any) -> None:
        self.all_written(lists)

    def lamb(self, chunk: int, flag: Any, lists: Sequence[Sequence[Any]], *given: Any) -> None:
        """Norms of weights and of updates, which are written over the gradients."""
        norms = [self.norm(chunk, flag, [lists[which]], True) for which in (1, 0)]
        self.all_written(lists)
        del norms

    def novograd(self, chunk: int, flag: Any, lists: Sequence[Sequence[Any]], norms: Any, *given: Any) -> None:
        scratch = [*self.partial_norms(chunk, flag, lists[0], True), torch.empty(1, dtype=torch.float32, device=flag.device)]
        self.all_written(lists[1:])
        del scratch
        self.written(norms)

    def partial_norms(self, chunk: int, flag: Any, tensors: Sequence[Any], per_tensor: bool) -> list[Any]:
        """Returns sums of blocks, and with `per_tensor` of chunks."""
        zeros = [NORM_BLOCKS]
        if per_tensor:
            zeros.append(len(tensors) * max(-(-tensor.numel() // chunk) for tensor in tensors))
        return [torch.zeros(count, dtype=torch.float32, device=flag.device) for count in zeros]

    def norm(self, chunk: int, flag: Any, lists: Sequence[Sequence[Any]], *given: Any) -> tuple[Any, Any]:
        """Returns the norm of all tensors, and the norm of each tensor if the last argument says so."""
        per_tensor = bool(given and given[-1] is True)
        parts = self.partial_norms(chunk, flag, lists[0], per_tensor)
        each = torch.empty(len(lists[0]) if per_tensor else 0, dtype=torch.float32, device=flag.device)
        whole = torch.empty(1, dtype=torch.float32, device=flag.device)
        self.written(whole, each)
        del parts
        return whole, each

    def update_scale(self, scale: Any, *given: Any) -> Any:
        self.written(scale)
        return scale

    # ---- fused_layer_norm_cuda ----

    def normalized(self, x: Any, shape: Sequence[int], dtype: Any, statistics: int) -> list[Any]:
        """Returns the result, and one or two numbers for each row."""
        rows = x.numel() // max(product(shape), 1)
        made = [torch.empty_like(x, dtype=dtype)]
        made += [torch.empty(rows, dtype=wide(x.dtype), device=x.device) for _ in range(statistics)]
        self.written(*made)
        return made

    def gradients(self, x: Any, shape: Sequence[int], weights: Sequence[Any]) -> list[Any]:
        """Returns gradients of the input and of weights, whose partial sums live until then."""
        made = [torch.empty_like(each) for each in (x, *weights)]
        parts = [torch.empty(GRADIENT_PARTS, product(shape), dtype=wide(x.dtype), device=x.device) for _ in weights]
        self.written(*made)
        del parts
        return made

    def layer_norm(self, x: Any, shape: Any, *given: Any) -> list[Any]:
        return self.normalized(x, shape, x.dtype, 2)

    def mixed_layer_norm(self, x: Any, shape: Any, weight: Any, *given: Any) -> list[Any]:
        return self.normalized(x, shape, weight.dtype, 2)

    def rms_norm(self, x: Any, shape: Any, *given: Any) -> list[Any]:
        return self.normalized(x, shape, x.dtype, 1)

    def mixed_rms_norm(self, x: Any, shape: Any, weight: Any, *given: Any) -> list[Any]:
        return self.normalized(x, shape, weight.dtype, 1)

    def layer_norm_backward(self, gradient: Any, mean: Any, scale: Any, x: Any, shape: Any, *given: Any) -> Any:
        return self.gradients(x, shape, ())[0]

    def affine_layer_norm_backward(self, gradient: Any, mean: Any, scale: Any, x: Any, shape: Any, weight: Any, bias: Any,
                                   *given: Any) -> list[Any]:
        return self.gradients(x, shape, (weight, bias))

    def rms_norm_backward(self, gradient: Any, scale: Any, x: Any, shape: Any, *given: Any) -> Any:
        return self.gradients(x, shape, ())[0]

    def affine_rms_norm_backward(self, gradient: Any, scale: Any, x: Any, shape: Any, weight: Any, *given: Any) -> list[Any]:
        return self.gradients(x, shape, (weight,))

    # ---- fused_weight_gradient_mlp_cuda ----

    def add_weight_gradient(self, x: Any, gradient: Any, into: Any) -> None:
        """Adds a product to a gradient, by cuBLAS."""
        self.written(into)

    def modules(self) -> dict[str, dict[str, Function]]:
        norms: dict[str, Function] = {f"multi_tensor_{name}": self.norm
                                      for name in ("l2norm", "l2norm_mp", "l2norm_scale", "unscale_l2norm")}
        updates: dict[str, Function] = {f"multi_tensor_{name}": self.update for name in UPDATES}
        stages: dict[str, Function] = {f"multi_tensor_{name}": self.lamb_stage for name in LAMB_STAGES}
        lists: dict[str, Function] = {"multi_tensor_axpby": self.combine, "multi_tensor_novograd": self.novograd,
                                      "multi_tensor_lamb": self.lamb, "multi_tensor_lamb_mp": self.lamb,
                                      "update_scale_hysteresis": self.update_scale}
        return {
            "amp_C": {**norms, **updates, **stages, **lists},
            "apex_C": {"flatten": torch._utils._flatten_dense_tensors, "unflatten": torch._utils._unflatten_dense_tensors},
            "fused_layer_norm_cuda": {
                "forward": self.layer_norm, "forward_affine": self.layer_norm,
                "forward_affine_mixed_dtypes": self.mixed_layer_norm, "backward": self.layer_norm_backward,
                "backward_affine": self.affine_layer_norm_backward, "rms_forward": self.rms_norm,
                "rms_forward_affine": self.rms_norm, "rms_forward_affine_mixed_dtypes": self.mixed_rms_norm,
                "rms_backward": self.rms_norm_backward, "rms_backward_affine": self.affine_rms_norm_backward},
            "fused_weight_gradient_mlp_cuda": {
                "wgrad_gemm_accum_fp32": self.add_weight_gradient, "wgrad_gemm_accum_fp16": self.add_weight_gradient}}


def product(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def wide(dtype: Any) -> Any:
    return torch.float32 if dtype in NARROW else dtype


class Finder:
    """Answers imports of apex's compiled modules if apex is installed, built with them or not."""

    def __init__(self, modules: dict[str, dict[str, Function]], note: Note) -> None:
        self.modules, self.note = modules, note

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Optional[ModuleSpec]:
        if name not in self.modules or importlib.util.find_spec("apex") is None:
            return None
        return ModuleSpec(name, self)  # type: ignore[arg-type] # has what the import system calls

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self.modules[module.__name__])
        if PathFinder.find_spec(module.__name__) is None:
            self.note(f"apex is not built with {module.__name__} here: it counts as built, as on a card")


def begin(device: Any, note: Note) -> None:
    sys.meta_path.insert(0, Finder(Kernels(device).modules(), note))
