"""Small training programs under torch.compile. Each function returns its step, and builds everything else before.

    python3 compiled_cases.py NAME      runs four steps, and prints PyTorch's peaks after each as JSON
"""
import json
import sys

STEPS = 4
DEVICE = "cuda"


def gpt2(compile_):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
    m = GPT2LMHeadModel(GPT2Config(n_layer=4, n_head=8, n_embd=512, vocab_size=20000, n_positions=256, use_cache=False)).to(DEVICE)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4)
    c = compile_(m)

    def step(i):
        x = torch.randint(0, 20000, (8, 256), device=DEVICE)
        c(input_ids=x, labels=x).loss.backward()
        o.step()
        o.zero_grad()
    return step


def llama(compile_):
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    m = LlamaForCausalLM(LlamaConfig(vocab_size=16000, hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8,
                                     num_key_value_heads=2, use_cache=False)).to(DEVICE)
    o = torch.optim.AdamW(m.parameters(), lr=1e-4, fused=True)
    c = compile_(m)

    def step(i):
        x = torch.randint(0, 16000, (4, 512), device=DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = c(input_ids=x, labels=x).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        o.zero_grad()
    return step


def vit(compile_):
    import torch
    from transformers import ViTConfig, ViTForImageClassification
    m = ViTForImageClassification(ViTConfig(num_hidden_layers=6, num_labels=10)).to(DEVICE)
    o = torch.optim.SGD(m.parameters(), lr=.1, momentum=.9)
    c = compile_(m)

    def step(i):
        x = torch.randn(8, 3, 224, 224, device=DEVICE)
        y = torch.randint(0, 10, (8,), device=DEVICE)
        loss = c(pixel_values=x, labels=y).loss
        loss.backward()
        o.step()
        o.zero_grad()
    return step


def conv(compile_):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, a, b, stride):
            super().__init__()
            self.c1, self.b1 = nn.Conv2d(a, b, 3, stride, 1, bias=False), nn.BatchNorm2d(b)
            self.c2, self.b2 = nn.Conv2d(b, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b)
            self.down = nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b)) if a != b or stride != 1 else nn.Identity()

        def forward(self, x):
            y = torch.relu(self.b1(self.c1(x)))
            return torch.relu(self.b2(self.c2(y)) + self.down(x))
    m = nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(3, 2, 1), Block(32, 32, 1), Block(32, 64, 2),
                      Block(64, 128, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(.1), nn.Linear(128, 100)).to(DEVICE)
    o = torch.optim.SGD(m.parameters(), lr=.1, momentum=.9, nesterov=True)
    c = compile_(m)

    def step(i):
        x = torch.randn(16, 3, 128, 128, device=DEVICE)
        y = torch.randint(0, 100, (16,), device=DEVICE)
        nn.functional.cross_entropy(c(x), y).backward()
        o.step()
        o.zero_grad()
    return step


def _mlp(width=1024, depth=3, dropout=0.):
    from torch import nn
    layers = []
    for _ in range(depth):
        layers += [nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout), nn.LayerNorm(width)]
    return nn.Sequential(*layers, nn.Linear(width, 1)).to(DEVICE)


def mlp_opt(compile_):
    """the optimizer's step compiled, and the model"""
    import torch
    m = _mlp()
    o = torch.optim.AdamW(m.parameters(), lr=torch.tensor(1e-3, device=DEVICE), capturable=True)
    c, ostep = compile_(m), compile_(lambda: o.step())

    def step(i):
        x = torch.randn(256, 1024, device=DEVICE)
        c(x).square().mean().backward()
        ostep()
        o.zero_grad()
    return step


def _transformer(vocab=8000, width=512, depth=3, heads=8, attention=None, hook=None, checkpoint=False):
    """own decoder; attention(q, k, v) defaults to causal SDPA; hook(layer) is called between the layers"""
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint as ckpt
    F = nn.functional
    attention = attention or (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, s, w = x.shape
            q, k, v = (t.view(b, s, heads, w // heads).transpose(1, 2) for t in self.qkv(self.n1(x)).chunk(3, -1))
            x = x + self.proj(attention(q, k, v).transpose(1, 2).reshape(b, s, w))
            return x + self.down(F.gelu(self.up(self.n2(x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.layers = nn.Embedding(vocab, width), nn.ModuleList(Layer() for _ in range(depth))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocab, bias=False)

        def forward(self, ids):
            x = self.emb(ids)
            for i, layer in enumerate(self.layers):
                x = ckpt(layer, x, use_reentrant=False) if checkpoint else layer(x)
                if hook:
                    hook(i)
            logits = self.head(self.norm(x))
            return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())
    return Model().to(DEVICE)


def _train(m, c, lengths=(256,) * STEPS, batch=4, vocab=8000, autocast=True, **opt):
    import torch
    o = torch.optim.AdamW(m.parameters(), lr=1e-4, **opt)

    def step(i):
        x = torch.randint(0, vocab, (batch, lengths[i]), device=DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=autocast):
            loss = c(x)
        loss.backward()
        o.step()
        o.zero_grad()
    return step


def flex(compile_):
    import torch
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k <= 128), None, None, 512, 512, device=DEVICE)
    m = _transformer(attention=lambda q, k, v: flex_attention(q, k, v, block_mask=mask))
    return _train(m, compile_(m), lengths=(512,) * STEPS)


def reduce_overhead(compile_):
    m = _transformer(depth=2)
    return _train(m, compile_(m, mode="reduce-overhead"))


def max_autotune(compile_):
    import torch
    m = _mlp(depth=2)
    c = compile_(m, mode="max-autotune-no-cudagraphs")
    o = torch.optim.AdamW(m.parameters(), lr=1e-3)

    def step(i):
        x = torch.randn(512, 1024, device=DEVICE)
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = c(x).float().square().mean()
        loss.backward()
        o.step()
        o.zero_grad()
    return step


def dynamic(compile_):
    m = _transformer(depth=2)
    return _train(m, compile_(m), lengths=(128, 160, 256, 192))  # static, then automatic dynamic


def graph_break(compile_):
    import torch
    m = _transformer(depth=3, hook=lambda i: torch._dynamo.graph_break() if i == 0 else None)
    return _train(m, compile_(m))


def checkpoint(compile_):
    m = _transformer(depth=4, checkpoint=True)
    return _train(m, compile_(m))


def budget(compile_):
    """min-cut partitioner with half of the activation memory"""
    import torch
    import torch._functorch.config as config
    config.activation_memory_budget = 0.5
    m = _transformer(depth=3)
    return _train(m, compile_(m), autocast=False)


def infer(compile_):
    """no gradients; fp16 weights"""
    import torch
    m = _transformer(depth=3).half().eval()
    c = compile_(m)

    def step(i):
        x = torch.randint(0, 8000, (8, 256), device=DEVICE)
        with torch.no_grad():
            c(x)
    return step


CASES = [gpt2, llama, vit, conv, mlp_opt, flex, reduce_overhead, max_autotune, dynamic, graph_break, checkpoint, budget, infer]


def figures(torch):
    """Returns the peaks since the last call, and the numbers of allocations and frees so far."""
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    torch.cuda.reset_peak_memory_stats()
    return {**{what: stats[f"{what}_bytes.all.peak"] for what in ("requested", "allocated", "reserved")},
            "events": stats["allocation.all.allocated"] + stats["allocation.all.freed"]}


def main():
    import torch

    torch.manual_seed(0)
    step = {case.__name__: case for case in CASES}[sys.argv[1]](torch.compile)
    print(json.dumps(figures(torch)))
    for index in range(STEPS):
        step(index)
        print(json.dumps(figures(torch)))


if __name__ == "__main__":
    main()
