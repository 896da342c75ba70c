"""Programs with encoders in evaluation, whose tokens PyTorch packs into nested tensors, and with torchvision's detectors."""
from __future__ import annotations

from typing import Any

import torch
from dry_stage import Stage, Step, program
from torch import nn

TEXTS, TOKENS, WIDTH, LAYERS = 16, 512, 512, 4


def encoder(stage: Stage, dtype: torch.dtype = torch.float32, width: int = WIDTH, heads: int = 8, **options: Any) -> Any:
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, batch_first=True, **options)
    return nn.TransformerEncoder(layer, LAYERS).to(stage.device, dtype).eval()


def evaluated(stage: Stage, model: Any, padded: bool = True, width: int = WIDTH) -> Step:
    """Returns a step: the encoder of texts; if padded, each text is 16 tokens shorter than the one before."""
    dtype = next(model.parameters()).dtype
    lengths = TOKENS - 16 * torch.arange(TEXTS, device=stage.device)
    padding = torch.arange(TOKENS, device=stage.device) >= lengths[:, None] if padded else None

    def step() -> None:
        with torch.no_grad():
            model(torch.randn(TEXTS, TOKENS, width, device=stage.device, dtype=dtype), src_key_padding_mask=padding).sum().item()

    return step


@program(1, suite="kernels")
def encoder_whole(stage: Stage) -> Step:
    return evaluated(stage, encoder(stage), padded=False)


@program(1, suite="kernels")
def encoder_padded(stage: Stage) -> Step:
    return evaluated(stage, encoder(stage))


@program(1, suite="kernels")
def encoder_padded_half(stage: Stage) -> Step:
    return evaluated(stage, encoder(stage, torch.float16, activation="gelu"))


@program(1, suite="kernels")
def encoder_padded_bf16(stage: Stage) -> Step:
    return evaluated(stage, encoder(stage, torch.bfloat16))


@program(2, suite="kernels")
def encoder_padded_unfused(stage: Stage) -> Step:
    """Heads of 20, which no fused kernel takes."""
    return evaluated(stage, encoder(stage, width=520, heads=26), width=520)


@program(2, suite="kernels")
def encoder_with_gaps(stage: Stage) -> Step:
    """A mask that is not of padding alone: no nested tensors, but a masked softmax."""
    model = encoder(stage)
    padding = torch.zeros(TEXTS, TOKENS, dtype=torch.bool, device=stage.device)
    padding[:, ::7] = True

    def step() -> None:
        with torch.no_grad():
            model(stage.noise(TEXTS, TOKENS, WIDTH), src_key_padding_mask=padding).sum().item()

    return step


@program(6, "torchvision", suite="kernels")
def detector(stage: Stage) -> Step:
    from torchvision.models import detection

    model = detection.fasterrcnn_resnet50_fpn(weights=None, weights_backbone=None, num_classes=91).to(stage.device)
    boxes = torch.tensor([[10.0, 20, 300, 400], [50, 60, 200, 220]], device=stage.device)
    targets = [{"boxes": boxes, "labels": torch.tensor([1, 2], device=stage.device)} for _ in range(2)]

    def loss() -> Any:
        return sum(model([torch.rand(3, 800, 1066, device=stage.device) for _ in targets], targets).values())

    return stage.trained(model, loss, torch.optim.SGD([each for each in model.parameters() if each.requires_grad], 0.001))
