"""Programs with CUDA graphs and memory pools: a captured training step, graphed modules, graphed decoding with a static cache, and a
pool of the program's own."""
from __future__ import annotations

from typing import Any, Optional

import torch
from dry_own_models import Block, Gpt, next_word_loss
from dry_stage import Stage, Step, program
from torch import nn
from torch.nn import functional as F

WARM_UP = 3


def warmed_up(call: Any) -> None:
    """Calls a function on a side stream, as before a capture."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            call()
    torch.cuda.current_stream().wait_stream(side)


@program(6, suite="kernels")
def graph_training(stage: Stage) -> Step:
    """The whole step is captured, in the first one."""
    model = stage.made(lambda: Gpt(dropout=0.1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, capturable=True)
    text, graph = stage.words(50000, 4, 512), torch.cuda.CUDAGraph()
    is_captured = False

    def run() -> Any:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, cache_enabled=False):
            loss = next_word_loss(model(text), text)
        loss.backward()
        optimizer.step()
        return loss

    def step() -> None:
        nonlocal is_captured
        if not is_captured:
            warmed_up(run)
            optimizer.zero_grad(set_to_none=True)
            with torch.cuda.graph(graph):
                run()
            is_captured = True
        text.copy_(stage.words(50000, 4, 512))
        graph.replay()

    return step


@program(4, suite="kernels")
def graph_modules(stage: Stage) -> Step:
    """Each layer is a pair of graphs, of one pool; the rest of the step is eager."""
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(Block(512, 8, 0.1) for _ in range(4))
            self.head = nn.Linear(512, 8000)

        def forward(self, x: Any) -> Any:
            for layer in self.layers:
                x = layer(x)
            return self.head(x)

    model = stage.made(Layers)
    sample = tuple((stage.noise(4, 512, 512).requires_grad_(),) for _ in model.layers)
    model.layers = nn.ModuleList(torch.cuda.make_graphed_callables(tuple(model.layers), sample))
    return stage.trained(model, lambda: model(stage.noise(4, 512, 512)).float().logsumexp(-1).mean(), clip=1.0)


class CachedLayer(nn.Module):
    """A layer of a decoder whose keys and values have a place for each position."""

    def __init__(self, width: int, heads: int, batch: int, length: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.register_buffer("cache", torch.zeros(2, batch, heads, length, width // heads))

    def forward(self, x: Any, places: Any) -> Any:
        batch = x.shape[0]
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        keys, values = self.cache[:, :batch]
        keys.index_copy_(2, places, k)
        values.index_copy_(2, places, v)
        seen = torch.arange(keys.shape[2], device=x.device) <= places[:, None]
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Decoder(nn.Module):
    def __init__(self, vocabulary: int = 16000, width: int = 512, layers: int = 4, batch: int = 8, length: int = 256) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        self.layers = nn.ModuleList(CachedLayer(width, 8, batch, length) for _ in range(layers))

    def forward(self, text: Any, places: Any) -> Any:
        x = self.words(text)
        for layer in self.layers:
            x = layer(x, places)
        return self.head(x[:, -1:]).argmax(-1)


class GraphedDecoding:
    """A graph for each size of a batch, all in one pool, the largest first."""

    SIZES = (8, 4, 2, 1)

    def __init__(self, model: Decoder) -> None:
        self.model, self.handle = model, torch.cuda.graph_pool_handle()
        self.text = torch.zeros(8, 1, dtype=torch.long, device="cuda")
        self.place = torch.zeros(1, dtype=torch.long, device="cuda")
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, Any]] = {}

    def capture(self) -> None:
        for size in self.SIZES:
            warmed_up(lambda: self.model(self.text[:size], self.place))
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=self.handle):
                out = self.model(self.text[:size], self.place)
            self.graphs[size] = graph, out

    def next_words(self, text: Any, place: int) -> Any:
        graph, out = self.graphs[len(text)]
        self.text[:len(text)].copy_(text)
        self.place.fill_(place)
        graph.replay()
        return out.clone()


@program(2, suite="kernels")
def graph_decoding(stage: Stage) -> Step:
    """Prompts are read eagerly, words are generated by graphs."""
    model = stage.made(Decoder, "bfloat16").eval()
    decoding: Optional[GraphedDecoding] = None

    @torch.no_grad()
    def step() -> None:
        nonlocal decoding
        if decoding is None:
            decoding = GraphedDecoding(model)
            decoding.capture()
        for size in GraphedDecoding.SIZES:
            text = model(stage.words(16000, size, 128), torch.arange(128, device="cuda"))
            words = [text]
            for place in range(128, 144):
                words.append(decoding.next_words(words[-1], place))
            torch.cat(words, 1)

    return step


@program(3, suite="kernels")
def memory_pools(stage: Stage) -> Step:
    """The first half of the layers have their activations in a pool, which is deleted after each second step."""
    model = stage.made(lambda: Gpt(layers=4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    pool: Optional[torch.cuda.MemPool] = None
    done = 0

    def step() -> None:
        nonlocal pool, done
        pool = pool or torch.cuda.MemPool()
        text = stage.words(50000, 4, 512)
        x = model.words(text) + model.places(torch.arange(512, device="cuda"))
        with torch.cuda.use_mem_pool(pool):
            for block in model.blocks[:2]:
                x = block(x)
        for block in model.blocks[2:]:
            x = block(x)
        next_word_loss(model.head(model.norm(x)), text).backward()
        optimizer.step()
        optimizer.zero_grad()
        done += 1
        if done % 2 == 0:
            pool = None
            torch.cuda.empty_cache()

    return step
