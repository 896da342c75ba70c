#!/usr/bin/env python3
"""Trains a small transformer on synthetic text, with PyTorch's allocator or with memtrace's.

    train.py --allocator memtrace --trace train.db
    train.py --allocator torch

Prints the losses, the median time of a step and the peaks as JSON. Needs torch and a card. With --in-turns it trains so many
steps for each line of input that is a number and answers each with a line, so that several can be compared side by side.
"""
import argparse
import json
import math
import statistics
import sys

import torch

import memtrace

SIZES = {  # d_model, d_ff, layers, heads
    "tiny": (64, 256, 2, 2),
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7B": (2560, 10240, 32, 32),
}
VOCABULARY = 10000


class Linear(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        bound = math.sqrt(3 / inputs)
        self.weight = torch.nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class Embedding(torch.nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(count, width).uniform_(-1, 1))

    def forward(self, tokens):
        return self.weight[tokens]


class RMSNorm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5))).to(x.dtype)


class Softmax(torch.nn.Module):
    def forward(self, x):
        exponentials = torch.exp(x - torch.amax(x, dim=-1, keepdim=True))
        return exponentials / exponentials.sum(dim=-1, keepdim=True)


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (Linear(width, width) for _ in range(4))
        self.softmax = Softmax()

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x):
        query, key, value = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        mask = torch.tril(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device))
        scores = torch.einsum("bhqd,bhkd->bhqk", query, key) / math.sqrt(query.shape[-1])
        weights = self.softmax(torch.where(mask, scores, float("-inf")))
        mixed = torch.einsum("bhqk,bhkd->bhqd", weights, value)
        return self.output_proj(mixed.transpose(1, 2).flatten(2))


class FeedForward(torch.nn.Module):
    """SwiGLU: w2(silu(w1 x) * w3 x)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(width, hidden), Linear(hidden, width), Linear(width, hidden)

    def forward(self, x):
        gate = self.w1(x)
        return self.w2(gate * torch.sigmoid(gate) * self.w3(x))


class Block(torch.nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.ln1, self.attn = RMSNorm(width), Attention(width, heads)
        self.ln2, self.ffn = RMSNorm(width), FeedForward(width, hidden)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class Transformer(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        width, hidden, layers, heads = SIZES[size]
        self.token_embeddings = Embedding(VOCABULARY, width)
        self.layers = torch.nn.ModuleList(Block(width, hidden, heads) for _ in range(layers))
        self.ln_final, self.lm_head = RMSNorm(width), Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.token_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_final(x))


def cross_entropy(logits, targets):
    shifted = logits - torch.amax(logits, dim=-1, keepdim=True)
    chosen = torch.gather(shifted, -1, targets.unsqueeze(-1)).squeeze(-1)
    return (torch.logsumexp(shifted, dim=-1) - chosen).mean()


class AdamW(torch.optim.Optimizer):
    """AdamW, one parameter after the other, with a kernel for each term of the formula."""

    RATE, DECAY, BETA1, BETA2, EPSILON = 1e-3, 0.01, 0.9, 0.999, 1e-8

    def __init__(self, parameters):
        super().__init__(parameters, {})
        self.count = 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        rate = self.RATE * math.sqrt(1 - self.BETA2**self.count) / (1 - self.BETA1**self.count)
        for parameter in self.param_groups[0]["params"]:
            state = self.state[parameter]
            if not state:
                state["first"], state["second"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
            first, second, gradient = state["first"], state["second"], parameter.grad
            parameter.mul_(1 - self.RATE * self.DECAY)
            first.mul_(self.BETA1).add_(gradient, alpha=1 - self.BETA1)
            second.mul_(self.BETA2).addcmul_(gradient, gradient, value=1 - self.BETA2)
            parameter.addcdiv_(first, second.sqrt().add_(self.EPSILON), value=-rate)


class Training:
    """A model in training. The text is a walk through the vocabulary, which a model can learn."""

    def __init__(self, given, labels):
        self.given, self.labels = given, labels
        torch.manual_seed(given.seed)
        with torch.device("cuda"):
            self.model = Transformer(given.model)
        if labels is not None and given.labels:
            labels.watch(self.model)
        self.optimizer = AdamW(self.model.parameters())
        self.losses, self.times = [], []

    def tokens(self):
        starts = torch.randint(0, VOCABULARY, (self.given.batch, 1), device="cuda")
        return (starts + 7 * torch.arange(self.given.seq + 1, device="cuda")) % VOCABULARY

    def train(self):
        tokens = self.tokens()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.given.precision == "bf16"):
            loss = cross_entropy(self.model(tokens[:, :-1]), tokens[:, 1:])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def step(self):
        if self.labels is None:
            return self.train()
        with self.labels.step():
            return self.train()

    def steps(self, count):
        """Trains, and stores losses and milliseconds."""
        losses = []
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
        marks[0].record()
        for i in range(count):
            losses.append(self.step())
            marks[i + 1].record()
        torch.cuda.synchronize()
        self.losses += [float(loss) for loss in losses]
        self.times += [marks[i].elapsed_time(marks[i + 1]) for i in range(count)]

    def report(self, last=None):
        """Returns the results of the steps, or of the last ones."""
        kept = slice(None) if last is None else slice(-last, None)
        return {
            "allocator": self.given.allocator,
            "losses": self.losses[kept],
            "milliseconds": statistics.median(self.times[kept]),
            "peak_allocated": torch.cuda.max_memory_allocated(),
            "peak_reserved": torch.cuda.max_memory_reserved(),
        }


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--allocator", choices=("memtrace", "torch"), default="memtrace")
    parser.add_argument("--alloc", default="", help="settings of memtrace's allocator, such as policy=torch")
    parser.add_argument("--trace", help="the trace of the run")
    parser.add_argument("--labels", action=argparse.BooleanOptionalAction, default=True, help="watch the modules")
    parser.add_argument("--model", choices=SIZES, default="small")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--in-turns", action="store_true", help="train as many steps as each line of input says")
    return parser.parse_args()


def main():
    given = parse()
    allocator = None
    if given.allocator == "memtrace":
        allocator = memtrace.install_allocator(trace=given.trace, alloc=given.alloc)
    training = Training(given, allocator)
    if given.in_turns:
        for line in sys.stdin:
            training.steps(int(line))
            print(json.dumps(training.report(int(line))), flush=True)
        return
    training.steps(given.steps)
    print(json.dumps(training.report()))
    if allocator is not None:
        print(allocator.summary(), file=sys.stderr)


if __name__ == "__main__":
    main()
