"""The undocumented names of PyTorch and Triton that memtrace replaces or relies on: one table, one way to replace them.

    if has("archives"):                              # False, with a note, if this PyTorch lacks a name of the part
        wrap("torch.serialization._save", save)      # fails for a name that is not in the table

A PyTorch newer than NEWEST is used, with one note. docs/torch.md is this table (_private_page.py). Importing needs no torch.
"""
from __future__ import annotations

import functools
import inspect
import sys
from typing import Any, Callable, NamedTuple

from .recording.handover import tell

LIBRARIES = {"torch": "PyTorch", "triton": "Triton"}
OLDEST, NEWEST = (2, 6), (2, 15)  # versions tested by tests/python/versions.sh


class Missing(RuntimeError):
    """This PyTorch lacks a name that correct figures require."""


class Part(NamedTuple):
    """A part of memtrace and the names that it needs: "module.Class.name", or "module.name(first,second)" for a function whose
    first parameters have these names. A name with "?" is added where it is missing."""

    where: str  # the file
    names: tuple[str, ...]
    without: str  # the note and the lost function if a name is missing
    is_needed: bool = False  # nothing is measured without it


C10D = "torch.distributed.distributed_c10d."
CHECKPOINTS = "torch.distributed.checkpoint."
INDUCTOR = "torch._inductor."

PARTS = {
    "modules": Part("recording/labels.py", ("torch.nn.Module.__call__",), "modules are not labelled"),
    "moved modules": Part("recording/labels.py", ("torch.nn.Module._apply",), "parameters are labelled at their module's first call"),
    "swapped tensors": Part("recording/labels.py", ("torch.utils.swap_tensors",),
                            "modules of FSDP that move or change their dtype after their first call fail"),
    "backward": Part("recording/labels.py", ("torch.autograd.Variable._execution_engine.run_backward",), "backward is not followed"),
    "roots of backward": Part("recording/watching.py", (
        "torch.autograd.graph._engine_run_backward(t_outputs)",), "outputs that are not detached in another optimizer's step are not found"),
    "numbers of nodes": Part("recording/program_phases.py", (
        "torch.autograd._get_sequence_nr",), "loops that evaluate in training mode count as training"),
    "compiler": Part("recording/labels.py", (
        "torch._C._dynamo.eval_frame.set_eval_frame",), "torch.compile compiles functions of memtrace"),
    "generated code": Part("recording/generated.py", (
        "torch._inductor.compile_fx.compile_fx(model_)", "torch._inductor.compile_fx._compile_fx_inner(gm)",
        "torch._inductor.codecache.PyCodeCache.load_by_key_path(key,path)"), "memory of compiled code belongs to the module that was compiled"),
    "checkpoints": Part("recording/observer.py", (
        "torch.load", "torch.save", "torch.nn.Module.load_state_dict"), "loading and saving are not phases of the program"),
    "NVTX ranges": Part("recording/watching.py", (
        "torch.cuda.nvtx.range_push", "torch.cuda.nvtx.range_pop"), "ranges are not steps"),
    "sharded gradients": Part("recording/spread.py", (
        "torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup.post_backward",),
        "gradients of FSDP2 are not labelled"),
    "gathered parameters": Part("recording/spread.py", (
        "torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup.unshard",
        "torch.distributed.fsdp._fully_shard._fsdp_param_group.FSDPParamGroup.wait_for_unshard"),
        "parameters that FSDP2 gathers have the role activation"),
    "gathered flat parameters": Part("recording/spread.py", ("torch.distributed.fsdp._flat_param.FlatParamHandle.unshard",),
        "parameters that FSDP gathers have the role activation"),
    "buckets of gradients": Part("recording/spread.py", (
        "torch.nn.parallel.distributed.DistributedDataParallel._ddp_init_helper", "torch.distributed.Reducer._rebuild_buckets"),
        "buckets of DistributedDataParallel are not labelled"),
    "kernels": Part("recording/stacks.py", ("torch._C._dispatch_get_registrations_for_dispatch_key(dispatch_key)",),
        "blocks are named after operators that a kernel calls, unlike in a dry run"),
    "memory history": Part("recording/watching.py", (
        "torch.cuda._lazy_call", "torch.cuda.memory._record_memory_history", "torch.cuda.memory._dump_snapshot"),
        "nothing is recorded"),
    "cards": Part("dry/program.py", (
        "torch.version.cuda", "torch.cuda._get_device_properties?", "torch.cuda._device_count_nvml"),
        "programs would not see the card", is_needed=True),
    "storages": Part("dry/replaced.py", (
        "torch._C.StorageBase.__new__", "torch.UntypedStorage.__new__", "torch.UntypedStorage.resize_",
        "torch.UntypedStorage._cdata"), "storages could not be made or resized", is_needed=True),
    "operators": Part("dry/simulated.py", (
        "torch._C._dispatch_get_registrations_for_dispatch_key(dispatch_key)",),
        "operators of a CUDA build alone run as others do"),
    "custom operators": Part("dry/custom.py", (
        "torch.library.Library.impl(self,op_name,fn,dispatch_key)",
        "torch._library.fake_impl.construct_meta_kernel(qualname,fake_impl_holder)", "torch._library.fake_impl.set_ctx_getter",
        "torch._ops._Ops.load_library"), "other libraries' operators and launches of kernels fail"),
    "compilers": Part("dry/compilers.py", (
        "torch.compile", "torch._C._jit_override_can_fuse_on_gpu", "torch._C._jit_set_texpr_fuser_enabled"),
        "compiled programs are not run as eager ones"),
    "frames": Part("dry/compilers.py", (
        "torch._dynamo.trace_rules.SKIP_DIRS", "torch._dynamo.trace_rules._recompile_re"), "Dynamo may compile frames of memtrace"),
    "compiled optimizers": Part("dry/compilers.py", ("torch._dynamo.variables.optimizer.OptimizerVariable.call_method",),
                                "steps of compiled optimizers are not counted"),
    "Inductor's kernels": Part("dry/inductor.py", (
        "torch._C._dynamo.guards._empty_strided_cuda", f"{INDUCTOR}graph.GraphLowering.__init__",
        f"{INDUCTOR}compile_fx.compile_fx", f"{INDUCTOR}config.patch",
        f"{INDUCTOR}runtime.triton_heuristics.CachingAutotuner._precompile_config(self,cfg)",
        f"{INDUCTOR}runtime.triton_heuristics.TritonCompileResult.make_launcher",
        f"{INDUCTOR}runtime.triton_heuristics.check_autotune_cache(configs,filename,inductor_meta)",
        f"{INDUCTOR}async_compile._load_triton_kernel_from_source(kernel_name,source_code)",
        f"{INDUCTOR}runtime.benchmarking.InductorBenchmarker.benchmark_gpu",
        f"{INDUCTOR}runtime.autotune_cache.AutotuneCache._setup_local_cache(self,inductor_meta)",
        f"{INDUCTOR}codecache.CacheBase.get_local_cache(self)", f"{INDUCTOR}codecache.CacheBase.update_local_cache(self,local_cache)",
        f"{INDUCTOR}codecache.FxGraphCache._save_graph(key,compiled_graph)", f"{INDUCTOR}output_code.CompiledFxGraph.__call__",
        "torch._functorch._aot_autograd.autograd_cache.AOTAutogradCache.save(key,entry)",
        "torch._functorch._aot_autograd.autograd_cache.AOTAutogradCache._lookup(key)", "torch._guards.CompileContext.current_compile_id",
        f"{INDUCTOR}select_algorithm.AlgorithmSelectorCache.__call__(self,name,choices)"), "compiled programs run as eager ones"),
    "Triton's key": Part("dry/cached_keys.py", (f"{INDUCTOR}runtime.triton_compat.triton_key",), "Triton's files are hashed in each run"),
    "padding of matmuls": Part("dry/inductor_choices.py", (
        f"{INDUCTOR}fx_passes.pad_mm._should_pad(match,mat1,mat2,op,input)",
        f"{INDUCTOR}fx_passes.pad_mm.should_exclude_padding_time(match,arg_name)",
        f"{INDUCTOR}fx_passes.pad_mm.is_padded_faster(key,ori_time,pad_time)"), "Inductor pads no matmul"),
    "tensor types": Part("dry/replaced.py", ("torch.set_default_tensor_type",), "types such as torch.cuda.FloatTensor fail"),
    "archives": Part("dry/saving.py", (
        "torch._C.PyTorchFileWriter", "torch._C.PyTorchFileReader", "torch.serialization._save", "torch.serialization._legacy_save",
        "torch.serialization._load"), "checkpoints are written and read with all bytes"),
    "bytes of storages": Part("dry/saving.py", (
        "torch.UntypedStorage.cpu", "torch.UntypedStorage._write_file", "torch.UntypedStorage._set_from_file",
        "torch.UntypedStorage.from_file"), "checkpoints of the legacy format fail"),
    "weights": Part("dry/weights.py", (
        "torch.nn.Parameter.__new__", "torch.Tensor.numpy", "torch.Tensor.tolist", "torch.Tensor.new", "torch.Tensor.new_tensor",
        "torch.Tensor.__dlpack__", "torch.UntypedStorage.clone", "torch.UntypedStorage.__getitem__",
        "torch.UntypedStorage.__setitem__", "torch.UntypedStorage.tolist", "torch.UntypedStorage._share_fd_cpu_",
        "torch.UntypedStorage._share_filename_cpu_"), "weights on the host are initialized as without a dry run"),
    "scripts": Part("dry/saving.py", (
        "torch.jit.save", "torch.jit.RecursiveScriptModule.save", "torch._C.import_ir_module"),
        "TorchScript writes to the user's files"),
    "sharded checkpoints": Part("dry/shards.py", (
        f"{CHECKPOINTS}utils._DistWrapper.reduce_scatter", f"{CHECKPOINTS}utils._DistWrapper.all_reduce",
        f"{CHECKPOINTS}utils._wrap_exception"), "checkpoints of many ranks fail"),
    "plans of checkpoints": Part("dry/shards.py", (
        f"{CHECKPOINTS}default_planner._validate_global_plan(global_plan,metadata)",), "checkpoints of many ranks fail"),
    "process groups": Part("dry/ranks.py", (
        f"{C10D}_new_process_group_helper(group_size,group_rank,global_ranks_in_group,backend,store,group_name)",
        f"{C10D}rendezvous", f"{C10D}_NCCL_AVAILABLE", f"{C10D}default_pg_nccl_timeout", f"{C10D}_world.pg_map",
        f"{C10D}_world.pg_backend_config", f"{C10D}BackendConfig", "torch._C._distributed_c10d.FakeProcessGroup",
        "torch._C._distributed_c10d.HashStore"), "torch.distributed has no process groups"),
    "line searches": Part("dry/searches.py", (
        "torch.optim.lbfgs._strong_wolfe(obj_func,x,t,d)",), "LBFGS makes more evaluations in a line search than on a card"),
    "loaders": Part("dry/loops.py", (
        "torch.utils.data.DataLoader.__iter__", "torch.utils.data.dataloader._BaseDataLoaderIter.__next__"),
        "loops over loaders are not shortened"),
    "Triton's kernels": Part("dry/triton_kernels.py", (
        "triton.backends.backends", "triton.backends.nvidia.driver.CudaUtils", "triton.backends.nvidia.driver.CudaLauncher",
        "triton.compiler.compile(src,target,options)", "triton.compiler.CompiledKernel._init_handles(self)",
        "triton.compiler.CompiledKernel.launch_metadata(self,grid,stream)"), "kernels of Triton can't be launched"),
    "Triton's benchmarks": Part("dry/triton_tuning.py", (
        "triton.testing.do_bench(fn,warmup,rep)", "triton.testing.do_bench_cudagraph(fn,rep)",
        "triton.runtime.autotuner.Autotuner.prune_configs(self,kwargs)", "triton.runtime.autotuner.Autotuner._bench(self)",
        "triton.runtime.autotuner.get_cache_manager?"), "autotuning takes as many launches as on a card, and is not in the verdict"),
    "Triton's interpreter": Part("dry/triton_kernels.py", (
        "triton.runtime.interpreter.GridExecutor.__call__",), "interpreted kernels read memory that a simulated card does not have"),
}


class Layout(NamedTuple):
    """An interface that memtrace relies on but does not replace by name."""

    what: str
    where: str
    guard: str  # how it is checked before use
    without: str


LAYOUTS = (
    Layout("`CUDAAllocator`: slots of `name` and `attachAllocatorTraceTracker`. `TraceEntry`: offsets of fields, numbers of actions",
           "recording/abi.py", "derived from the headers of PyTorch's wheel", "PyTorch's memory history is recorded instead"),
    Layout("`c10::cuda::CUDACachingAllocator::allocator`, `c10::reportMemoryUsageToProfiler`", "torch_tracker.cpp",
           "symbols are looked up", "PyTorch's memory history is recorded instead"),
    Layout("`RecordFunctionCallback`: first fields, kinds. `at::addGlobalCallback`, `removeCallback`, `disableCallback`, "
           "`reenableCallback`, `RecordFunction::name`", "torch_record_function.cpp",
           "compared with the header; symbols are looked up", "operators are not recorded"),
    Layout("`c10::GradMode::is_enabled`", "torch_record_function.cpp", "symbol is looked up",
           "roles do not consider `torch.no_grad`"),
    Layout("autograd's `Node`: offsets of its number and its thread. `Node._sequence_nr`", "recording/labels.py",
           "two nodes are compared with Python's answers", "backward is not labelled by module"),
    Layout("`torch::autograd::get_current_node`, `at::sequence_number::peek`", "torch_graph.cpp", "symbols are looked up",
           "backward is not labelled by module"),
    Layout("`c10::OutOfMemoryError` and the constructor of `c10::Error`", "torch_alloc.cpp", "symbols are looked up",
           "memtrace's allocator raises RuntimeError"),
    Layout("entries of functions and methods in C", "src/producers/torch/torch_python.c", "types, and the entry's present value",
           "modules are not labelled, backward is not followed"),
    Layout("ranges `Optimizer.step#` and `ProfilerStep#`, of the kind `USER_SCOPE`", "recording/labels.py",
           "the kind is in the header; the optimizer is in the frame `wrapper`", "steps are not followed"),
    Layout("`CUDAPluggableAllocator._allocator.set_*_fn`", "recording/allocator.py", "looked for by name",
           "PyTorch does not call that function"),
    Layout("`Optimizer._init_group`", "recording/labels.py", "looked for by name", "state is labelled after the step"),
    Layout("`DTensor._local_tensor`, `Parameter._is_flat_param`", "recording/spread.py", "looked for by name",
           "gradients of shards are not labelled"),
    Layout("frames of CPython", "recording/stacks.py", "a walk is compared with `sys._getframe`", "call stacks are not recorded"),
    Layout("C++ of the dispatcher, of autograd and c10d; arguments of operators", "src/producers/torch/dry",
           "compiled with the headers of each version", "no dry run, with the compiler's message"),
    Layout("`c10::Dispatcher::addRegistrationListener`, and `OperatorEntry::registerKernel`, which it calls with the lock held",
           "src/producers/torch/dry/dry_custom.cpp", "compiled with the headers of each version",
           "no dry run, with the compiler's message"),
    Layout("`native_functions.yaml` of `torchgen`", "dry/simulated.py", "read", "no dry run"),
    Layout("`torch._C._current_graph_task_id`, `torch._fused_sdp_choice`, `autocast._enabled`", "dry/changes.py", "none",
           "`memtrace fit` can't try a change"),
    Layout("`OpOverload._schema`", "dry/quantized.py", "none", "bitsandbytes can't be imported"),
    Layout("Triton's `CompiledKernel`: attributes `module`, `function`, `packed_metadata`, `_run`, the parameters of its launcher. "
           "`JITFunction`: `parse`, `params`, `arg_names`", "dry/triton_kernels.py", "none", "a launch fails, with the name"),
    Layout("Inductor's `CachingAutotuner`: attributes `fn`, `configs`, `filename`, `inductor_meta`; of its launchers `config`, `n_regs`, "
           "`n_spills`, `shared`, `store_cubin`, `cache_hash`. `AutotuneCache.local_cache`. `torch._inductor.config`: "
           "`compile_threads`, `fx_graph_remote_cache`. `V.graph.sizevars.optimization_hint`", "dry/inductor.py", "none",
           "a compiled program fails, with the name"),
    Layout("`_flex_attention_hop_wrapper`", "dry/flex.py", "compared with a function's name",
           "FlexAttention runs as uncompiled"),
)
NAMES = {name.rstrip("?").partition("(")[0] for part in PARTS.values() for name in part.names}


class Replaced:
    """An attribute with a replaced value, until the replacement is removed."""

    def __init__(self, name: str, value: Any) -> None:
        assert name in NAMES, f"{name} is not in the table"
        self.owner, self.name = owner_of(name)
        self.original = getattr(self.owner, self.name, None)
        setattr(self.owner, self.name, value)

    def remove(self) -> None:
        setattr(self.owner, self.name, self.original)


def owner_of(name: str) -> tuple[Any, str]:
    """Returns the module or class of a name, and the last part of the name. Fails with AttributeError."""
    words = name.split(".")
    count = next(count for count in range(len(words) - 1, 0, -1) if count == 1 or ".".join(words[:count]) in sys.modules)
    owner: Any = sys.modules[".".join(words[:count])]
    for word in words[count:-1]:
        owner = getattr(owner, word)
    return owner, words[-1]


def original_of(name: str) -> Any:
    """Returns the value of a name. Fails with AttributeError."""
    owner, last = owner_of(name)
    return getattr(owner, last)


def replace(name: str, value: Any) -> Replaced:
    """Replaces the value of a name in the table."""
    return Replaced(name, value)


def wrap(name: str, around: Callable[..., Any]) -> Replaced:
    """Redirects calls of a function in the table to `around`, whose first argument is the function. Dynamo traces the function."""
    original = original_of(name)

    def call(*given: Any, **named: Any) -> Any:
        return around(original, *given, **named)

    return Replaced(name, traced_as(original, call))


def traced_as(original: Any, replacement: Callable[..., Any]) -> Callable[..., Any]:
    """Makes Dynamo trace a function instead of its replacement, as it does for what torch.compile returns. Returns the
    replacement."""
    replacement._torchdynamo_inline = original  # type: ignore[attr-defined]
    return replacement


def obstacle_of(name: str) -> str:
    """Returns why a name can't be used; "" if it can."""
    if name.endswith("?"):
        return ""
    path, _, words = name.rstrip(")").partition("(")
    try:
        found = original_of(path)
        expected = words.split(",") if words else []
        parameters = list(inspect.signature(found).parameters) if expected else []
    except AttributeError:
        return f"has no {path}"
    except ValueError:  # a C function without a signature
        return ""
    return "" if parameters[:len(expected)] == expected else f"has other parameters of {path}"


@functools.lru_cache(maxsize=None)
def has(part: str) -> bool:
    """True if this PyTorch, or Triton, has all names of a part. Otherwise prints a note, once, or fails with Missing for a part
    that is needed."""
    row = PARTS[part]
    obstacle = next(filter(None, map(obstacle_of, row.names)), "")
    if not obstacle:
        return True
    library = row.names[0].partition(".")[0]
    words = f"{LIBRARIES[library]} {original_of(library + '.__version__')} {obstacle}: {row.without}"
    if row.is_needed:
        raise Missing(f"{words}; {spelling(OLDEST)} to {spelling(NEWEST)} were tried")
    tell(words)
    return False


def spelling(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def note_newer(version: str) -> None:
    """Prints a note for a PyTorch newer than the tested ones."""
    if tuple(int(number) for number in version.split("+")[0].split(".")[:2]) > NEWEST:
        tell(f"PyTorch {version} is newer than memtrace was tried with ({spelling(NEWEST)}): its memory may differ from what is "
             "shown")
