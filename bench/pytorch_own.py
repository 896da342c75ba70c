#!/usr/bin/env python3
"""The model that --impl fused trains, of PyTorch's own operations, as a peer: linear, rms_norm,
scaled_dot_product_attention, silu, cross_entropy and fused AdamW, eager or compiled.

    bench/pytorch_own.py --model 2.7B --seq 256 --precision bf16 [--compile]

Needs torch and a GPU, nothing else. Answers on stdin, as bench/peer.h says:

    step COUNT    milliseconds of a step, of its forward with the loss, its backward and its optimizer: medians; what is
                  cached is given back
    next COUNT    the same, and what is cached is kept
    peaks         bytes that were allocated and reserved at most
    empty         bytes in use by the driver's count, with the model given up
    full          the same after a step, with all that steps take still cached: the model is made anew if it was given up
"""
import torch
from torch.nn import functional

from pytorch_training import SIZES, VOCABULARY, Training, serve_training


class Block(torch.nn.Module):
    def __init__(self, width, hidden, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = torch.nn.RMSNorm(width, eps=1e-5), torch.nn.RMSNorm(width, eps=1e-5)
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (
            torch.nn.Linear(width, width, bias=False) for _ in range(4)
        )
        self.w1, self.w3 = torch.nn.Linear(width, hidden, bias=False), torch.nn.Linear(width, hidden, bias=False)
        self.w2 = torch.nn.Linear(hidden, width, bias=False)

    def split(self, x):
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def attend(self, x):
        query, key, value = self.split(self.q_proj(x)), self.split(self.k_proj(x)), self.split(self.v_proj(x))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output_proj(mixed.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.ln1(x))
        normal = self.ln2(x)
        return x + self.w2(functional.silu(self.w1(normal)) * self.w3(normal))


class Transformer(torch.nn.Module):
    def __init__(self, name):
        super().__init__()
        width, hidden, layers, heads = SIZES[name]
        self.token_embeddings = torch.nn.Embedding(VOCABULARY, width)
        self.layers = torch.nn.ModuleList(Block(width, hidden, heads) for _ in range(layers))
        self.ln_final = torch.nn.RMSNorm(width, eps=1e-5)
        self.lm_head = torch.nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.token_embeddings(tokens)
        for layer in self.layers:
            x = layer(x)
        logits = self.lm_head(self.ln_final(x))
        return functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class Own(Training):
    def __init__(self, given):
        super().__init__(given)
        with torch.device("cuda"):
            model = Transformer(given.model)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
        self.model = torch.compile(model) if given.compile else model

    def loss(self, tokens):
        self.optimizer.zero_grad()
        return None, self.model(tokens)


if __name__ == "__main__":
    serve_training(Own, __doc__)
