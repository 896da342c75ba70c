"""Trains a program of several GPUs, or counts what NCCL takes: under `memtrace record` or `memtrace dry-run`, with torchrun.

    torchrun --nproc-per-node 2 bench/rank_train.py NAME

Each rank prints PyTorch's own peaks of the first four steps as JSON, and takes a block of MARK_BYTES before and after the last
step, by which it is found in a trace. `nccl` prints the bytes that the driver counts after each step instead. The model is that
of bench/pytorch_own.py, with 4 sequences of 256 random tokens a rank.
"""
from __future__ import annotations

import argparse
import functools
import json
import os
import tempfile
from typing import Any, Callable, Optional

import torch
import torch.distributed as dist
from dry_stage import STEPS, Stage, Step
from pytorch_own import Block, Transformer
from pytorch_training import VOCABULARY
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecisionPolicy, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe, ScheduleInterleaved1F1B
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

BATCH, SEQUENCE, MICRO_BATCHES = 4, 256, 4
SPLIT_BY_COLUMNS, SPLIT_BY_ROWS = ("q_proj", "k_proj", "v_proj", "w1", "w3"), ("output_proj", "w2")


def optimizer_of(model: Any) -> Any:
    """Returns AdamW. Parameters that are split stand in a group of their own: operations on lists don't mix them with others."""
    groups: dict[type, list[Any]] = {}
    for parameter in model.parameters():
        groups.setdefault(type(parameter.data), []).append(parameter)
    return torch.optim.AdamW([{"params": group} for group in groups.values()], lr=1e-3, weight_decay=0.01)


def replicated(stage: Stage, size: str, zero: bool = False, compiles: bool = False, **options: Any) -> Step:
    """DDP, with AdamW on each rank or split by ZeRO; compiled as a whole if `compiles`."""
    model = DistributedDataParallel(stage.made(lambda: Transformer(size)), **options)
    optimizer = (ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3, weight_decay=0.01) if zero
                 else optimizer_of(model))
    called = torch.compile(model) if compiles else model
    return stage.trained(model, lambda: called(stage.words(VOCABULARY, BATCH, SEQUENCE)), optimizer, autocast="bfloat16")


def sharded(stage: Stage, size: str, dtype: Optional[torch.dtype] = torch.bfloat16, reshard: bool = True,
            accumulate: int = 1, compiles: bool = False) -> Step:
    """FSDP2 of each layer and of the root, reduced in fp32. Compiles each layer if `compiles`."""
    model = stage.made(lambda: Transformer(size))
    for layer in model.layers if compiles else ():
        layer.compile()
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32) if dtype else MixedPrecisionPolicy()
    for module in (*model.layers, model):
        fully_shard(module, mp_policy=policy, reshard_after_forward=reshard)
    return stage.trained(model, lambda: model(stage.words(VOCABULARY, BATCH, SEQUENCE)), optimizer_of(model),
                         accumulate=accumulate)


def wrapped(stage: Stage, size: str, **options: Any) -> Step:
    """FSDP1 of each layer and of the root."""
    model = FullyShardedDataParallel(stage.made(lambda: Transformer(size)), auto_wrap_policy=ModuleWrapPolicy({Block}), **options)
    return stage.trained(model, lambda: model(stage.words(VOCABULARY, BATCH, SEQUENCE)), optimizer_of(model), autocast="bfloat16")


class PartlyUsed(torch.nn.Module):
    """A model with a layer that no loss reaches."""

    def __init__(self, size: str) -> None:
        super().__init__()
        self.used, self.unused = Transformer(size), torch.nn.Linear(1024, 1024)

    def forward(self, tokens: Any) -> Any:
        return self.used(tokens)


def partly_used(stage: Stage, size: str) -> Step:
    """DDP that looks for unused parameters."""
    model = DistributedDataParallel(stage.made(lambda: PartlyUsed(size)), find_unused_parameters=True)
    return stage.trained(model, lambda: model(stage.words(VOCABULARY, BATCH, SEQUENCE)), optimizer_of(model), autocast="bfloat16")


def normalized(stage: Stage) -> Step:
    """Batch norm with statistics of all ranks."""
    layers = (layer for _ in range(8) for layer in (torch.nn.Linear(2048, 2048), torch.nn.BatchNorm1d(2048), torch.nn.ReLU()))
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(stage.made(lambda: torch.nn.Sequential(*layers)))
    model = DistributedDataParallel(model)
    return stage.trained(model, lambda: model(stage.noise(1024, 2048)).square().mean(), optimizer_of(model))


def trainer(stage: Stage) -> None:
    """The Trainer of transformers, whose DDP looks for unused parameters."""
    import transformers

    class Ends(transformers.TrainerCallback):  # type: ignore[misc]
        def on_step_end(self, *given: Any, **named: Any) -> None:
            stage.end_step()

    config = transformers.LlamaConfig(vocab_size=8000, hidden_size=512, intermediate_size=1536, num_hidden_layers=6,
                                      num_attention_heads=8)
    text = [torch.randint(0, 8000, (256,)) for _ in range(64)]
    given = transformers.TrainingArguments(tempfile.mkdtemp(), max_steps=STEPS, per_device_train_batch_size=4, report_to=[],
                                           save_strategy="no", ddp_find_unused_parameters=True)
    transformers.Trainer(transformers.LlamaForCausalLM(config), given, train_dataset=[{"input_ids": row, "labels": row} for row in text],
                         callbacks=[Ends()]).train()


def split(stage: Stage, size: str) -> Step:
    """Tensor parallel: each layer's first products by columns and its last ones by rows, over all ranks."""
    ranks = dist.get_world_size()
    mesh = init_device_mesh("cuda", (ranks,))
    model = stage.made(lambda: Transformer(size))
    for layer in model.layers:
        layer.heads //= ranks
        parallelize_module(layer, mesh, {**{name: ColwiseParallel() for name in SPLIT_BY_COLUMNS},
                                         **{name: RowwiseParallel() for name in SPLIT_BY_ROWS}})
    return stage.trained(model, lambda: model(stage.words(VOCABULARY, BATCH, SEQUENCE)), optimizer_of(model), autocast="bfloat16")


class Part(torch.nn.Module):
    """The layers of a model that are a pipeline's stage, with what comes before the first and after the last."""

    def __init__(self, whole: Any, index: int, count: int) -> None:
        super().__init__()
        layers, is_first, is_last = len(whole.layers), index == 0, index == count - 1
        first = [whole.token_embeddings] if is_first else []
        last = [whole.ln_final, whole.lm_head] if is_last else []
        self.chain = torch.nn.Sequential(*first, *whole.layers[layers * index // count:layers * (index + 1) // count], *last)

    def forward(self, values: Any) -> Any:
        return self.chain(values)


def piped(stage: Stage, size: str, schedule: Any, parts: int = 1) -> Step:
    """A pipeline of `parts` stages a rank, in four micro batches."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    device, count = torch.device("cuda", torch.cuda.current_device()), ranks * parts
    whole = stage.made(lambda: Transformer(size))
    stages = [PipelineStage(Part(whole, index, count), index, count, device) for index in range(rank, count, ranks)]
    run = schedule(stages if parts > 1 else stages[0], MICRO_BATCHES,
                   loss_fn=lambda logits, tokens: functional.cross_entropy(logits.flatten(0, 1), tokens.flatten()))
    optimizer = optimizer_of(torch.nn.ModuleList(part.submod for part in stages))

    def step() -> None:
        tokens = stage.words(VOCABULARY, BATCH, SEQUENCE)
        run.step(*([tokens] if rank == 0 else []), **({"target": tokens} if rank == ranks - 1 else {}))
        optimizer.step()
        optimizer.zero_grad()

    return step


def count_driver(stage: Stage) -> None:
    """Prints the bytes in use by the driver's count, as each step adds to them, less what PyTorch's allocator reserves."""
    rank, ranks, device = dist.get_rank(), dist.get_world_size(), torch.device("cuda", torch.cuda.current_device())
    values = torch.ones(1 << 20, device=device)
    parts = torch.empty(ranks << 20, device=device)
    found: dict[str, int] = {}

    def outside() -> int:
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return total - free - torch.cuda.memory_reserved()

    def send(sender: int) -> None:
        if rank < 2:
            (dist.send if rank == sender else dist.recv)(values, 1 - rank)

    steps: dict[str, Callable[[], Any]] = {
        "the context and init_process_group": lambda: None, "the first all-reduce": lambda: dist.all_reduce(values),
        "all-gather": lambda: dist.all_gather_into_tensor(parts, values),
        "reduce-scatter": lambda: dist.reduce_scatter_tensor(values, parts), "rank 0 sends to rank 1": lambda: send(0),
        "rank 1 sends to rank 0": lambda: send(1)}
    before = 0
    for name, act in steps.items():
        act()
        now = outside()
        found[name], before = now - before, now
    print(json.dumps({"outside": found, "rank": rank}), flush=True)


PROGRAMS: dict[str, Callable[[Stage], Optional[Step]]] = {
    "ddp": functools.partial(replicated, size="medium"),
    "ddp_view": functools.partial(replicated, size="medium", gradient_as_bucket_view=True),
    "ddp_static": functools.partial(replicated, size="medium", static_graph=True),
    "ddp_unused": functools.partial(partly_used, size="medium"),
    "ddp_batch_norm": normalized,
    "zero1": functools.partial(replicated, size="medium", zero=True),
    "fsdp": functools.partial(sharded, size="medium"),
    "fsdp_keep": functools.partial(sharded, size="medium", reshard=False),
    "fsdp_fp32": functools.partial(sharded, size="medium", dtype=None),
    "fsdp_accumulates": functools.partial(sharded, size="medium", accumulate=4),
    "ddp_compiled": functools.partial(replicated, size="small", compiles=True),
    "fsdp_compiled": functools.partial(sharded, size="medium", compiles=True),
    "fsdp1": functools.partial(wrapped, size="medium"),
    "fsdp1_original": functools.partial(wrapped, size="medium", use_orig_params=True),
    "fsdp_2.7B": functools.partial(sharded, size="2.7B"),
    "tensor": functools.partial(split, size="medium"),
    "gpipe": functools.partial(piped, size="medium", schedule=ScheduleGPipe),
    "1f1b": functools.partial(piped, size="medium", schedule=Schedule1F1B),
    "interleaved": functools.partial(piped, size="medium", schedule=ScheduleInterleaved1F1B, parts=2),
    "trainer": trainer,
    "nccl": count_driver,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=PROGRAMS)
    given = parser.parse_args()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    torch.manual_seed(0)
    stage = Stage(torch, "cuda")
    step = PROGRAMS[given.name](stage)
    if step:
        torch.cuda.reset_peak_memory_stats()
        for _ in range(STEPS):
            step()
            stage.end_step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
