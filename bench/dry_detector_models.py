"""Detectors, whose scratch memory cuDNN decides: suite "convolutions"."""
from __future__ import annotations

from typing import Any

import torch
from dry_convolution_models import SUITE, fitted, residual_stages
from dry_stage import Stage, Step, program
from torch import nn
from torch.nn import functional as F


def unit(inputs: int, outputs: int, size: int = 1, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs),
                         nn.SiLU(inplace=True))


class Split(nn.Module):
    """Half of the channels go through blocks, all of whose results are joined."""

    def __init__(self, inputs: int, outputs: int, depth: int) -> None:
        super().__init__()
        half = outputs // 2
        self.first, self.last = unit(inputs, outputs), unit((2 + depth) * half, outputs)
        self.blocks = nn.ModuleList(nn.Sequential(unit(half, half, 3), unit(half, half, 3)) for _ in range(depth))

    def forward(self, x: Any) -> Any:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(parts[-1] + block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pooled(nn.Module):
    """Maxima of neighbourhoods of three sizes."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = unit(width, width // 2), unit(2 * width, width)

    def forward(self, x: Any) -> Any:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.last(torch.cat(parts, 1))


class OneStage(nn.Module):
    """A detector like YOLO's: a tower, a pyramid up and down, and heads at three scales."""

    def __init__(self, classes: int = 80) -> None:
        super().__init__()
        self.stem = nn.Sequential(unit(3, 32, 3, 2), unit(32, 64, 3, 2), Split(64, 64, 1))
        self.tower = nn.ModuleList([nn.Sequential(unit(64, 128, 3, 2), Split(128, 128, 2)),
                                    nn.Sequential(unit(128, 256, 3, 2), Split(256, 256, 2)),
                                    nn.Sequential(unit(256, 512, 3, 2), Split(512, 512, 1), Pooled(512))])
        self.up = nn.ModuleList([Split(512 + 256, 256, 1), Split(256 + 128, 128, 1)])
        self.shrink = nn.ModuleList([unit(128, 128, 3, 2), unit(256, 256, 3, 2)])
        self.down = nn.ModuleList([Split(128 + 256, 256, 1), Split(256 + 512, 512, 1)])
        self.heads = nn.ModuleList(nn.Sequential(unit(width, 128, 3), unit(128, 128, 3), nn.Conv2d(128, 4 * 16 + classes, 1))
                                   for width in (128, 256, 512))

    def forward(self, x: Any) -> Any:
        x = self.stem(x)
        found = [x := part(x) for part in self.tower]
        middle = self.up[0](torch.cat([F.interpolate(found[2], scale_factor=2.0), found[1]], 1))
        large = self.up[1](torch.cat([F.interpolate(middle, scale_factor=2.0), found[0]], 1))
        middle = self.down[0](torch.cat([self.shrink[0](large), middle], 1))
        small = self.down[1](torch.cat([self.shrink[1](middle), found[2]], 1))
        return torch.cat([head(level).flatten(2) for head, level in zip(self.heads, (large, middle, small))], 2)


@program(6, suite=SUITE)
def one_stage_detector(stage: Stage) -> Step:
    model = stage.made(OneStage)

    def loss() -> Any:
        boxes, classes = model(stage.noise(8, 3, 416, 416)).split((64, 80), 1)
        wanted = torch.rand(8, 80, classes.shape[2], device=stage.device)
        sides = boxes.unflatten(1, (4, 16)).softmax(2).mul(torch.arange(16, device=stage.device)[:, None]).sum(2)
        return F.binary_cross_entropy_with_logits(classes, wanted) + F.l1_loss(sides, wanted[:, :4] * 16)

    return fitted(stage, model, loss, "float16")


class Frozen(nn.Module):
    """Batch norm with statistics that stay as they are."""

    scale: torch.Tensor
    shift: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("scale", torch.ones(1, width, 1, 1))
        self.register_buffer("shift", torch.zeros(1, width, 1, 1))

    def forward(self, x: Any) -> Any:
        return x * self.scale + self.shift


class TwoStages(nn.Module):
    """A detector like Faster R-CNN: a pyramid of features, proposals of the best scores, and a head for each proposal."""

    def __init__(self, width: int = 128, anchors: int = 3, classes: int = 21) -> None:
        super().__init__()
        self.stem, *rest = residual_stages((2, 2, 2, 2), Frozen)
        self.stages = nn.ModuleList(rest)
        self.side = nn.ModuleList(nn.Conv2d(256 << level, width, 1) for level in range(4))
        self.smooth = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.proposes = nn.Conv2d(width, width, 3, padding=1)
        self.scores, self.moves = nn.Conv2d(width, anchors, 1), nn.Conv2d(width, 4 * anchors, 1)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(width * 49, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU())
        self.classes, self.boxes = nn.Linear(512, classes), nn.Linear(512, 4 * classes)

    def pyramid(self, x: Any) -> list[Any]:
        found, x = [], self.stem(x)
        for stage, side in zip(self.stages, self.side):
            x = stage(x)
            found.append(side(x))
        for level in (2, 1, 0):
            found[level] = found[level] + F.interpolate(found[level + 1], size=found[level].shape[-2:])
        return [smooth(level) for smooth, level in zip(self.smooth, found)]

    def proposals(self, levels: list[Any]) -> tuple[Any, Any]:
        """Returns scores, and the boxes of the best 256 of each image."""
        hidden = [F.relu(self.proposes(level)) for level in levels]
        scores = torch.cat([self.scores(level).permute(0, 2, 3, 1).flatten(1) for level in hidden], 1)
        moves = torch.cat([self.moves(level).permute(0, 2, 3, 1).reshape(level.shape[0], -1, 4) for level in hidden], 1)
        best = scores.detach().topk(256, 1).indices
        return scores, moves.gather(1, best[..., None].expand(-1, -1, 4))

    def forward(self, x: Any) -> tuple[Any, ...]:
        levels = self.pyramid(x)
        scores, moves = self.proposals(levels)
        steps = torch.linspace(-0.1, 0.1, 7, device=x.device)
        grid = torch.stack(torch.meshgrid(steps, steps, indexing="xy"), -1)
        places = moves.detach()[..., None, None, :2].tanh() + grid  # (B, 256, 7, 7, 2)
        cut = F.grid_sample(levels[0], places.flatten(1, 2), align_corners=False)  # (B, C, 1792, 7)
        hidden = self.head(cut.unflatten(2, (256, 7)).transpose(1, 2).flatten(0, 1))
        return scores, moves, self.classes(hidden), self.boxes(hidden)


@program(6, suite=SUITE)
def two_stage_detector(stage: Stage) -> Step:
    model = stage.made(TwoStages)

    def loss() -> Any:
        scores, moves, classes, boxes = model(stage.noise(2, 3, 480, 640))
        return (F.binary_cross_entropy_with_logits(scores, torch.rand_like(scores)) + F.cross_entropy(classes, stage.words(21, 512))
                + F.smooth_l1_loss(moves, torch.rand_like(moves)) + F.smooth_l1_loss(boxes, torch.rand_like(boxes)))

    return fitted(stage, model, loss)
