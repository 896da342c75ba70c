"""Programs with modules of their own: what people write who use PyTorch alone."""
from __future__ import annotations

from typing import Any

import torch
from dry_stage import Stage, Step, program
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    """A layer of a small GPT."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout))

    def forward(self, x: Any) -> Any:
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.dropout if self.training else 0.0)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, vocabulary: int = 50304, width: int = 512, layers: int = 6, length: int = 512, dropout: float = 0.0) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, 8, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.words.weight

    def forward(self, text: Any) -> Any:
        x = self.words(text) + self.places(torch.arange(text.shape[1], device=text.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def next_word_loss(logits: Any, text: Any) -> Any:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), text[:, 1:].flatten())


@program(5)
def nano_gpt(stage: Stage) -> Step:
    model = stage.made(lambda: Gpt(dropout=0.1))
    texts = (stage.words(50000, 8, 512) for _ in range(1000))

    def loss() -> Any:
        text = next(texts)
        return next_word_loss(model(text), text)

    return stage.trained(model, loss, autocast="bfloat16", clip=1.0, accumulate=2,
                         optimizer=torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True))


@program(3)
def distilled(stage: Stage) -> Step:
    teacher, student = stage.made(lambda: Gpt(8000, layers=4)).eval(), stage.made(lambda: Gpt(8000, 256, 2))

    def loss() -> Any:
        text = stage.words(8000, 8, 256)
        with torch.no_grad():
            wanted = F.softmax(teacher(text) / 2, -1)
        return F.kl_div(F.log_softmax(student(text) / 2, -1), wanted, reduction="batchmean")

    return stage.trained(student, loss, torch.optim.Adam(student.parameters(), amsgrad=True))


@program(3)
def translation(stage: Stage) -> Step:
    model = stage.made(lambda: nn.ModuleDict(dict(words=nn.Embedding(8000, 512), net=nn.Transformer(
        512, 8, 3, 3, batch_first=True, norm_first=True), head=nn.Linear(512, 8000))))

    def loss() -> Any:
        source, target = stage.words(8000, 16, 128), stage.words(8000, 16, 96)
        mask = nn.Transformer.generate_square_subsequent_mask(96, device=stage.device)
        y = model["net"](model["words"](source), model["words"](target), tgt_mask=mask, tgt_is_causal=True)
        return F.cross_entropy(model["head"](y).transpose(1, 2), target, label_smoothing=0.1)

    return stage.trained(model, loss)


def convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(convolution(inputs, outputs, stride), nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                                  nn.BatchNorm2d(outputs))
        self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: Any) -> Any:
        return F.relu(self.body(x) + self.skip(x))


@program(5)
def resnet(stage: Stage) -> Step:
    widths = (64, 64, 128, 256, 512)
    model = stage.made(lambda: nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        *(Residual(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:])),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100)))
    return stage.trained(model, lambda: F.cross_entropy(model(stage.noise(32, 3, 224, 224)), stage.words(100, 32)),
                         torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=1e-4))


class Denoiser(nn.Module):
    """A U of convolutions with group norm, and attention at its bottom."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        def part(inputs: int, outputs: int) -> nn.Sequential:
            return nn.Sequential(nn.GroupNorm(8, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.first, self.down1, self.down2 = nn.Conv2d(3, width, 3, padding=1), part(width, 2 * width), part(2 * width, 4 * width)
        self.attention = nn.MultiheadAttention(4 * width, 4, batch_first=True)
        self.up2, self.up1, self.last = part(6 * width, 2 * width), part(3 * width, width), part(width, 3)
        self.time = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, 4 * width))

    def forward(self, x: Any, time: Any) -> Any:
        a = self.first(x)
        b = self.down1(F.avg_pool2d(a, 2))
        c = self.down2(F.avg_pool2d(b, 2)) + self.time(time)[:, :, None, None]
        flat = c.flatten(2).transpose(1, 2)
        c = c + self.attention(flat, flat, flat, need_weights=False)[0].transpose(1, 2).reshape(c.shape)
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        return self.last(self.up1(torch.cat([F.interpolate(b, scale_factor=2), a], 1)))


@program(4)
def diffusion(stage: Stage) -> Step:
    model = stage.made(Denoiser)
    averaged = stage.made(Denoiser).requires_grad_(False)

    def loss() -> Any:
        image, noise, time = stage.noise(8, 3, 128, 128), stage.noise(8, 3, 128, 128), torch.rand(8, 1, device=stage.device)
        return F.mse_loss(model(image.lerp(noise, time[:, :, None, None]), time), noise)

    train = stage.trained(model, loss, autocast="bfloat16")

    def step() -> None:
        train()
        torch._foreach_lerp_(list(averaged.parameters()), list(model.parameters()), 0.01)

    return step


@program(3)
def lstm(stage: Stage) -> Step:
    model = stage.made(lambda: nn.ModuleDict(dict(words=nn.Embedding(10000, 512), net=nn.LSTM(
        512, 512, 2, batch_first=True, dropout=0.2), head=nn.Linear(512, 10000))))

    def loss() -> Any:
        text = stage.words(10000, 32, 64)
        return next_word_loss(model["head"](model["net"](model["words"](text))[0]), text)

    return stage.trained(model, loss, clip=0.5)


@program(4)
def recommender(stage: Stage) -> Step:
    model = stage.made(lambda: nn.ModuleDict(dict(
        tables=nn.ModuleList(nn.EmbeddingBag(200_000, 64, mode="sum") for _ in range(8)),
        bottom=nn.Sequential(nn.Linear(13, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU()),
        top=nn.Sequential(nn.Linear(64 + 36, 256), nn.ReLU(), nn.Linear(256, 1)))))
    left, right = torch.triu_indices(9, 9, 1, device=stage.device)

    def loss() -> Any:
        dense = model["bottom"](stage.noise(4096, 13))
        found = torch.stack([dense, *(table(stage.words(200_000, 4096, 4)) for table in model["tables"])], 1)
        crossed = torch.bmm(found, found.transpose(1, 2))[:, left, right]
        return F.binary_cross_entropy_with_logits(model["top"](torch.cat([dense, crossed], 1)).squeeze(1),
                                                  torch.rand(4096, device=stage.device))

    return stage.trained(model, loss, torch.optim.Adagrad(model.parameters(), 0.01))


@program(3)
def prefetched_by_a_stream(stage: Stage) -> Step:
    model = stage.made(lambda: nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 10)))
    side = torch.cuda.Stream()
    ahead: list[Any] = []

    def fetch() -> None:
        with torch.cuda.stream(side):
            ahead.append(torch.randn(4096, 1024).pin_memory().to(stage.device, non_blocking=True))

    def loss() -> Any:
        torch.cuda.current_stream().wait_stream(side)
        x = ahead.pop()
        x.record_stream(torch.cuda.current_stream())
        fetch()
        return model(x).logsumexp(-1).mean()

    fetch()
    return stage.trained(model, loss)


@program(3)
def gradient_penalty(stage: Stage) -> Step:
    def net(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(inputs, 1024), nn.LeakyReLU(0.2), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, outputs))

    critic, maker = stage.made(lambda: net(784, 1)), stage.made(lambda: net(64, 784))
    makes = torch.optim.Adam(maker.parameters(), 1e-4)

    def loss() -> Any:
        true, false = stage.noise(512, 784), maker(stage.noise(512, 64)).detach()
        mixed = true.lerp(false, torch.rand(512, 1, device=stage.device)).requires_grad_()
        slope, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
        return critic(false).mean() - critic(true).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()

    criticize = stage.trained(critic, loss)

    def step() -> None:
        criticize()
        (-critic(maker(stage.noise(512, 64))).mean()).backward()
        makes.step()
        makes.zero_grad(set_to_none=False)

    return step


@program(3)
def graph_net(stage: Stage) -> Step:
    model = stage.made(lambda: nn.ModuleList(nn.Linear(256, 256) for _ in range(4)))
    source, target = stage.words(20_000, 200_000), stage.words(20_000, 200_000)

    def loss() -> Any:
        x = stage.noise(20_000, 256)
        for layer in model:
            x = F.elu(torch.zeros_like(x).index_add(0, target, layer(x)[source])) + x
        return x.pow(2).mean()

    return stage.trained(model, loss, torch.optim.Adam(model.parameters(), foreach=False))
