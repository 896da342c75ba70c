"""Programs whose memory depends on values that a dry run does not compute, or whose tensors are not plain: suite "values"."""
from __future__ import annotations

from typing import Any

import torch
from dry_library_models import LLAMA_TINY, llama
from dry_own_models import Gpt, next_word_loss
from dry_stage import Stage, Step, program
from torch import nn
from torch.nn import functional as F

SUITE = "values"


def perceptron(width: int = 2048, layers: int = 4) -> nn.Sequential:
    return nn.Sequential(*(layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.Tanh())))


def fitted(stage: Stage, search: str) -> Step:
    """Returns a step of L-BFGS: as many evaluations as the search needs, which depends on the losses."""
    model = stage.made(perceptron)
    x, y = stage.noise(1024, 2048), stage.noise(1024, 2048)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=10, history_size=8, line_search_fn=search or None)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    return lambda: optimizer.step(closure) and None


@program(3, suite=SUITE)
def lbfgs(stage: Stage) -> Step:
    return fitted(stage, "")


@program(3, suite=SUITE)
def lbfgs_wolfe(stage: Stage) -> Step:
    return fitted(stage, "strong_wolfe")


@program(3, suite=SUITE)
def rprop(stage: Stage) -> Step:
    model = stage.made(perceptron)
    optimizer = torch.optim.Rprop(model.parameters())
    return stage.trained(model, lambda: model(stage.noise(512, 2048)).square().mean(), optimizer)


@program(3, "transformers", suite=SUITE)
def beam_search(stage: Stage) -> Step:
    model = llama(stage, **LLAMA_TINY).eval()

    def step() -> None:
        model.generate(stage.words(8000, 4, 64), num_beams=4, max_new_tokens=32, min_new_tokens=32, do_sample=False, pad_token_id=0)

    return step


@program(3, suite=SUITE)
def masked_rows(stage: Stage) -> Step:
    """Half of the rows of a large tensor, chosen by a mask that is copied to the host and back."""
    model = stage.made(lambda: nn.Linear(1024, 1024))

    def loss() -> Any:
        x = stage.noise(8192, 1024)
        mask = (x.sum(1) > 0).cpu().to(stage.device)
        return model(x[mask]).square().mean()

    return stage.trained(model, loss)


@program(4, suite=SUITE)
def saved_on_host(stage: Stage) -> Step:
    model = stage.made(Gpt)

    def loss() -> Any:
        text = stage.words(50304, 8, 512)
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return next_word_loss(model(text), text)

    return stage.trained(model, loss)


@program(3, suite=SUITE)
def sparse_gradients(stage: Stage) -> Step:
    table = stage.made(lambda: nn.Embedding(100_000, 256, sparse=True))
    optimizer = torch.optim.SparseAdam(table.parameters())
    return stage.trained(table, lambda: table(stage.words(100_000, 64, 128)).square().mean(), optimizer)


@program(3, suite=SUITE)
def encoder(stage: Stage) -> Step:
    """Evaluates nn.TransformerEncoder on its fast path."""
    model = stage.made(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 6)).eval()

    def step() -> None:
        with torch.inference_mode():
            model(stage.noise(16, 256, 512))

    return step


@program(3, suite=SUITE)
def padded_encoder(stage: Stage) -> Step:
    """The same with sequences of different lengths, which become nested tensors."""
    model = stage.made(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 6)).eval()
    lengths = torch.linspace(32, 256, 16).long()
    padding = (torch.arange(256)[None] >= lengths[:, None]).to(stage.device)

    def step() -> None:
        with torch.inference_mode():
            model(stage.noise(16, 256, 512), src_key_padding_mask=padding)

    return step


@program(8, "torchvision", suite=SUITE)
def detector(stage: Stage) -> Step:
    """Evaluates Faster R-CNN: its boxes depend on scores."""
    import torchvision

    model = stage.made(lambda: torchvision.models.detection.fasterrcnn_mobilenet_v3_large_fpn(weights=None, weights_backbone=None)).eval()

    def step() -> None:
        with torch.inference_mode():
            model([stage.noise(3, 480, 640) for _ in range(2)])

    return step
