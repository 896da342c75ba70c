#!/usr/bin/env python3
"""The program that the eager model repeats, in PyTorch: what it takes on this card.

Needs torch and a GPU, nothing else. Every matrix product is an einsum without bias; norms, softmax, attention, loss and
AdamW are written out, each intermediate result a tensor of its own, as tests/data/steps lists them and docs/eager.md
explains.

    bench/pytorch_eager.py --model 2.7B --seq 256 --precision bf16

Answers on stdin, as bench/peer.h says:

    step COUNT    milliseconds of a step, of its forward with the loss, its backward and its optimizer: medians; what is
                  cached is given back
    next COUNT    the same, and what is cached is kept
    peaks         bytes that were allocated and reserved at most
    empty         bytes in use by the driver's count, with the model given up
    full          the same after a step, with all that steps take still cached: the model is made anew if it was given up
"""
import math

import torch

from pytorch_training import SIZES, VOCABULARY, Training, serve_training


class Linear(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        bound = math.sqrt(3 / inputs)
        self.weight = torch.nn.Parameter(torch.empty(outputs, inputs).uniform_(-bound, bound))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class RMSNorm(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return (self.weight * (wide * scale)).to(x.dtype)


class FeedForward(torch.nn.Module):
    """SwiGLU: w2(silu(w1 x) * w3 x)."""

    def __init__(self, width, hidden):
        super().__init__()
        self.w1, self.w2, self.w3 = Linear(width, hidden), Linear(hidden, width), Linear(width, hidden)

    def forward(self, x):
        gate = self.w1(x)
        gate = gate * torch.sigmoid(gate)
        return self.w2(gate * self.w3(x))


def softmax(x):
    shifted = x - torch.amax(x, dim=-1, keepdim=True)
    exponentials = torch.exp(shifted)
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def attend(query, key, value, mask):
    scores = torch.einsum("bhqd,bhkd->bhqk", query, key)
    scores = scores / torch.sqrt(torch.tensor(query.shape[-1]).to(scores))
    minus_infinity = torch.tensor(float("-inf")).to(scores)
    scores = torch.where(mask, scores, minus_infinity)
    weights = softmax(scores)
    return torch.einsum("bhqk,bhkd->bhqd", weights, value)


class Attention(torch.nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (Linear(width, width) for _ in range(4))
        self.register_buffer("positions", torch.arange(length))

    def split(self, x):
        batch, length, width = x.shape
        return x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)

    def forward(self, x):
        query, key, value = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        query, key, value = self.split(query), self.split(key), self.split(value)
        mask = torch.tril(torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device))
        mixed = attend(query, key, value, mask)
        mixed = mixed.transpose(1, 2).reshape(x.shape)
        return self.output_proj(mixed)


class Block(torch.nn.Module):
    def __init__(self, width, hidden, heads, length):
        super().__init__()
        self.attn, self.ffn = Attention(width, heads, length), FeedForward(width, hidden)
        self.ln1, self.ln2 = RMSNorm(width), RMSNorm(width)

    def forward(self, x):
        to_attention = self.ln1(x)
        x = x + self.attn(to_attention)
        to_feed_forward = self.ln2(x)
        return x + self.ffn(to_feed_forward)


class Transformer(torch.nn.Module):
    def __init__(self, name, length):
        super().__init__()
        width, hidden, layers, heads = SIZES[name]
        self.token_embeddings = torch.nn.Parameter(torch.empty(VOCABULARY, width).uniform_(-1, 1))
        self.layers = torch.nn.ModuleList(Block(width, hidden, heads, length) for _ in range(layers))
        self.ln_final, self.lm_head = RMSNorm(width), Linear(width, VOCABULARY)

    def forward(self, tokens):
        x = self.token_embeddings[tokens]
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.ln_final(x))


def cross_entropy(logits, targets):
    shifted = logits - torch.amax(logits, dim=-1, keepdim=True)
    normalizer = torch.logsumexp(shifted, dim=-1)
    chosen = torch.gather(shifted, -1, targets.unsqueeze(-1)).squeeze(-1)
    return (normalizer - chosen).mean()


class AdamW:
    """Parameter by parameter, a kernel for each piece of the formula."""

    RATE, DECAY, BETA1, BETA2, EPSILON = 1e-3, 0.01, 0.9, 0.999, 1e-8

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.first = [torch.zeros_like(p) for p in self.parameters]
        self.second = [torch.zeros_like(p) for p in self.parameters]
        self.count = 0

    def zero_grad(self):
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self):
        self.count += 1
        rate = self.RATE * math.sqrt(1 - self.BETA2**self.count) / (1 - self.BETA1**self.count)
        for parameter, first, second in zip(self.parameters, self.first, self.second):
            gradient = parameter.grad
            parameter.mul_(1 - self.RATE * self.DECAY)
            first.mul_(self.BETA1).add_(gradient, alpha=1 - self.BETA1)
            second.mul_(self.BETA2).addcmul_(gradient, gradient, value=1 - self.BETA2)
            root = second.sqrt().add_(self.EPSILON)
            parameter.addcdiv_(first, root, value=-rate)


class Eager(Training):
    def __init__(self, given):
        super().__init__(given)
        with torch.device("cuda"):
            self.model = Transformer(given.model, given.seq)
        self.optimizer = AdamW(self.model.parameters())

    def loss(self, tokens):
        logits = self.model(tokens)
        loss = cross_entropy(logits, tokens)
        self.optimizer.zero_grad()
        return logits, loss


if __name__ == "__main__":
    serve_training(Eager, __doc__)
