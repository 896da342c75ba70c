#!/usr/bin/env python3
"""Trains a Llama over many ranks with FSDP2 and, if asked, tensor parallelism: the shapes and settings of torchtitan's benchmarks.

    memtrace dry-run --only 0 -- torchrun --nnodes 32 --nproc-per-node 8 bench/sharded_llama.py --model 70B --tp 8 --batch 16

Needs torch alone. Parameters, gradients and the states of AdamW are fp32; forward and backward compute in bf16, gradients are reduced
in fp32. Each block and the root are sharded; the last block stays whole between forward and backward.
"""
from __future__ import annotations

import argparse
import contextlib
import functools
import os
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel,
                                               parallelize_module)
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

HEAD_WIDTH = 128
NORM_EPSILON = 1e-5
ROTARY_BASE = 500_000.0
MOST_NORM = 1.0  # of all gradients, which are scaled down to it


class Shape(NamedTuple):
    width: int
    hidden: int
    layers: int
    heads: int
    key_heads: int
    vocabulary: int


ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}

MODELS = {
    "tiny": Shape(512, 1024, 2, 4, 2, 1024),
    "8B": Shape(4096, 14336, 32, 32, 8, 128256),
    "70B": Shape(8192, 28672, 80, 64, 8, 128256),
    "405B": Shape(16384, 53248, 126, 128, 8, 128256),
}


class Norm(nn.Module):
    """RMSNorm of separate operators, as PyTorch's own was until 2.9."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + NORM_EPSILON)).type_as(x) * self.weight


def rotations(tokens: int) -> Tensor:
    """Returns the complex numbers that queries and keys are turned by: (tokens, HEAD_WIDTH / 2)."""
    steps = torch.arange(0, HEAD_WIDTH, 2).float() / HEAD_WIDTH
    angles = torch.outer(torch.arange(tokens).float(), ROTARY_BASE**-steps)
    return torch.polar(torch.ones_like(angles), angles)


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turns[:, None]).flatten(3).type_as(x)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.repeats = shape.heads // shape.key_heads
        self.query = nn.Linear(shape.width, shape.heads * HEAD_WIDTH, bias=False)
        self.key = nn.Linear(shape.width, shape.key_heads * HEAD_WIDTH, bias=False)
        self.value = nn.Linear(shape.width, shape.key_heads * HEAD_WIDTH, bias=False)
        self.out = nn.Linear(shape.heads * HEAD_WIDTH, shape.width, bias=False)

    def spread(self, x: Tensor) -> Tensor:
        """Returns keys or values with each head repeated for the queries that share it."""
        return x[:, :, :, None].expand(-1, -1, -1, self.repeats, -1).flatten(2, 3)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        query, key, value = (line(x).unflatten(-1, (-1, HEAD_WIDTH)) for line in (self.query, self.key, self.value))
        query, key = rotate(query, turns), rotate(key, turns)
        heads = (query, self.spread(key), self.spread(value))
        mixed = functional.scaled_dot_product_attention(*(part.transpose(1, 2) for part in heads), is_causal=True)
        return self.out(mixed.transpose(1, 2).contiguous().flatten(2))


class FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate = nn.Linear(shape.width, shape.hidden, bias=False)
        self.up = nn.Linear(shape.width, shape.hidden, bias=False)
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, shape: Shape, norm: type[nn.Module]) -> None:
        super().__init__()
        self.attention_norm, self.attention = norm(shape.width), Attention(shape)
        self.feed_norm, self.feed = norm(shape.width), FeedForward(shape)

    def forward(self, x: Tensor, turns: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x), turns)
        return x + self.feed(self.feed_norm(x))


class Llama(nn.Module):
    turns: Tensor

    def __init__(self, shape: Shape, tokens: int, norm: type[nn.Module]) -> None:
        super().__init__()
        self.tokens = tokens
        self.embedding = nn.Embedding(shape.vocabulary, shape.width)
        self.register_buffer("turns", rotations(tokens))
        self.layers = nn.ModuleList(Block(shape, norm) for _ in range(shape.layers))
        self.norm = norm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocabulary, bias=False)

    @torch.no_grad()
    def fill(self) -> None:
        """Gives values to parameters and buffers that have none yet."""
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.02)
        self.turns = rotations(self.tokens).to(self.turns.device)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.turns)
        return self.head(self.norm(x))


# ---- over ranks ----

def parallelize(model: Llama, mesh: DeviceMesh) -> None:
    """Shards products by columns and rows, and what lies between them by tokens."""
    along, whole = Shard(1), Replicate()
    parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=whole, output_layouts=along),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=along, output_layouts=Shard(-1), use_local_output=False)})
    plan: dict[str, Any] = {
        "attention": PrepareModuleInput(input_layouts=(along, None), desired_input_layouts=(whole, None)),
        "feed": PrepareModuleInput(input_layouts=(along,), desired_input_layouts=(whole,))}
    plan.update({name: SequenceParallel() for name in ("attention_norm", "feed_norm")})
    plan.update({name: ColwiseParallel() for name in ("attention.query", "attention.key", "attention.value", "feed.gate", "feed.up")})
    plan.update({name: RowwiseParallel(output_layouts=along) for name in ("attention.out", "feed.down")})
    for layer in model.layers:
        parallelize_module(layer, mesh, plan)


class KeptOperators:
    """The choice of selective checkpointing: keeps attention, what is scattered, and every other product."""

    def __init__(self) -> None:
        self.products = {False: 0, True: 0}
        aten = torch.ops.aten
        self.kept = {aten._scaled_dot_product_flash_attention.default, aten._scaled_dot_product_efficient_attention.default,
                     torch.ops._c10d_functional.reduce_scatter_tensor.default}

    def __call__(self, context: Any, operator: Any, *unused: Any, **named: Any) -> CheckpointPolicy:
        is_kept = operator in self.kept
        if operator is torch.ops.aten.mm.default:
            self.products[context.is_recompute] += 1
            is_kept = self.products[context.is_recompute] % 2 == 1
        return CheckpointPolicy.MUST_SAVE if is_kept else CheckpointPolicy.PREFER_RECOMPUTE


def checkpoint(model: Llama, how: str) -> None:
    """Wraps the blocks: "none", "full", "op", or each N-th."""
    every = int(how) if how.isdigit() else 0 if how == "none" else 1
    named: dict[str, Any] = {"context_fn": lambda: create_selective_checkpoint_contexts(KeptOperators())} if how == "op" else {}
    for place, layer in enumerate(model.layers):
        if every and (place + 1) % every == 0:
            model.layers[place] = checkpoint_wrapper(layer, preserve_rng_state=False, **named)


def shard(model: Llama, mesh: DeviceMesh) -> None:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=layer is not model.layers[-1])
    fully_shard(model, mesh=mesh, mp_policy=policy)


def make_model(given: argparse.Namespace, shape: Shape) -> Llama:
    world = dist.get_world_size()
    mesh = init_device_mesh("cuda", (world // given.tp, given.tp), mesh_dim_names=("data", "tensor"))
    norm = functools.partial(nn.RMSNorm, eps=NORM_EPSILON) if given.norm == "fused" else Norm
    with torch.device("meta"):
        model = Llama(shape, given.seq, norm)  # type: ignore[arg-type]
    if given.tp > 1:
        parallelize(model, mesh["tensor"])
    checkpoint(model, given.checkpoint)
    shard(model, mesh["data"])
    model.to_empty(device="cuda")
    model.fill()
    return model.train()


# ---- training ----

def lose(logits: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def train_step(model: Llama, optimizer: torch.optim.Optimizer, tokens: Tensor, labels: Tensor, is_split: bool) -> None:
    optimizer.zero_grad()
    if is_split:
        with loss_parallel():
            lose(model(tokens), labels).backward()
    else:
        lose(model(tokens), labels).backward()
    nn.utils.clip_grad_norm_(model.parameters(), MOST_NORM, foreach=True)
    optimizer.step()


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="tiny")
    parser.add_argument("--layers", type=int, help="instead of the model's")
    parser.add_argument("--tp", type=int, default=1, help="ranks that share a product (1)")
    parser.add_argument("--batch", type=int, default=2, help="sequences of a rank, or of ranks that share products (2)")
    parser.add_argument("--seq", type=int, default=8192, help="tokens of a sequence (8192)")
    parser.add_argument("--checkpoint", default="op", help="none, full, op (selective), or N: each N-th block (op)")
    parser.add_argument("--attention", choices=ATTENTION, help="which kernel (PyTorch's choice); op computes cudnn's twice")
    parser.add_argument("--norm", choices=("operators", "fused"), default="operators")
    parser.add_argument("--optimizer", choices=("foreach", "fused"), default="foreach")
    parser.add_argument("--steps", type=int, default=10)
    return parser


def main() -> None:
    given = options().parse_args()
    shape = MODELS[given.model]
    shape = shape._replace(layers=given.layers or shape.layers)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = make_model(given, shape)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, **{given.optimizer: True})
    for _ in range(given.steps):
        text = torch.randint(shape.vocabulary, (given.batch, given.seq + 1))
        with sdpa_kernel(ATTENTION[given.attention]) if given.attention else contextlib.nullcontext():
            train_step(model, optimizer, text[:, :-1].cuda(), text[:, 1:].cuda(), given.tp > 1)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
