"""Programs of convolutions, whose scratch memory cuDNN decides: suite "convolutions"."""
from __future__ import annotations

import itertools
from typing import Any

import torch
from dry_library_models import hf
from dry_own_models import convolution
from dry_stage import STEPS, Stage, Step, program
from torch import nn
from torch.nn import functional as F

SUITE = "convolutions"


def fitted(stage: Stage, model: nn.Module, loss: Any, autocast: str = "") -> Step:
    """Returns a step of SGD with momentum."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
    return stage.trained(model, loss, optimizer, autocast=autocast)


# ---- classifiers of images ----

class Bottleneck(nn.Module):
    """Three convolutions, of 1, 3 and 1 pixels, and what skips them."""

    def __init__(self, inputs: int, width: int, stride: int, norm: Any = nn.BatchNorm2d) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), norm(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), norm(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, outputs, 1, bias=False), norm(outputs))
        self.skip = nn.Sequential() if inputs == outputs and stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), norm(outputs))

    def forward(self, x: Any) -> Any:
        return F.relu(self.body(x) + self.skip(x), inplace=True)


def residual_stages(depths: tuple[int, ...], norm: Any = nn.BatchNorm2d) -> list[nn.Module]:
    """Returns the stem of a residual net and its stages, each half as large as the one before."""
    stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), norm(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1))
    stages: list[nn.Module] = [stem]
    inputs = 64
    for place, depth in enumerate(depths):
        width = 64 << place
        first = Bottleneck(inputs, width, 2 if place > 0 else 1, norm)
        stages.append(nn.Sequential(first, *(Bottleneck(4 * width, width, 1, norm) for _ in range(1, depth))))
        inputs = 4 * width
    return stages


def resnet50(stage: Stage, benchmark: bool = False, autocast: str = "", is_last: bool = False) -> Step:
    torch.backends.cudnn.benchmark = benchmark
    model = stage.made(lambda: nn.Sequential(*residual_stages((3, 4, 6, 3)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                             nn.Linear(2048, 1000)))
    order = torch.channels_last if is_last else torch.contiguous_format
    model.to(memory_format=order)
    return fitted(stage, model, lambda: F.cross_entropy(model(stage.noise(32, 3, 224, 224).contiguous(memory_format=order)),
                                                        stage.words(1000, 32)), autocast)


@program(9, suite=SUITE)
def resnet50_single(stage: Stage) -> Step:
    return resnet50(stage)


@program(9, suite=SUITE)
def resnet50_single_benchmark(stage: Stage) -> Step:
    return resnet50(stage, benchmark=True)


@program(9, suite=SUITE)
def resnet50_amp(stage: Stage) -> Step:
    return resnet50(stage, autocast="bfloat16")


@program(9, suite=SUITE)
def resnet50_amp_benchmark(stage: Stage) -> Step:
    return resnet50(stage, benchmark=True, autocast="bfloat16")


@program(9, suite=SUITE)
def resnet50_last(stage: Stage) -> Step:
    return resnet50(stage, autocast="float16", is_last=True)


@program(9, suite=SUITE)
def resnet50_last_benchmark(stage: Stage) -> Step:
    return resnet50(stage, benchmark=True, autocast="float16", is_last=True)


@program(9, suite=SUITE)
def resnet50_last_single(stage: Stage) -> Step:
    return resnet50(stage, is_last=True)


class Separable(nn.Module):
    """A block of MobileNet: wider, channel by channel, narrower."""

    def __init__(self, width: int, outputs: int, stride: int) -> None:
        super().__init__()
        wide = 6 * width
        self.body = nn.Sequential(
            nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
            nn.Conv2d(wide, wide, 3, stride, 1, groups=wide, bias=False), nn.BatchNorm2d(wide), nn.ReLU6(inplace=True),
            nn.Conv2d(wide, outputs, 1, bias=False), nn.BatchNorm2d(outputs))
        self.is_skipped = stride == 1 and width == outputs

    def forward(self, x: Any) -> Any:
        return x + self.body(x) if self.is_skipped else self.body(x)


def separable_net(stage: Stage, autocast: str, is_last: bool) -> Step:
    order = torch.channels_last if is_last else torch.contiguous_format
    widths = (16, 24, 24, 32, 32, 64, 64, 96, 160)
    model = stage.made(lambda: nn.Sequential(
        convolution(3, 16, 2), *(Separable(a, b, 1 if a == b else 2) for a, b in zip(widths, widths[1:])),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 100))).to(memory_format=order)
    return fitted(stage, model, lambda: F.cross_entropy(model(stage.noise(32, 3, 224, 224).contiguous(memory_format=order)),
                                                        stage.words(100, 32)), autocast)


@program(4, suite=SUITE)
def separable(stage: Stage) -> Step:
    return separable_net(stage, "", False)


@program(4, suite=SUITE)
def separable_last(stage: Stage) -> Step:
    return separable_net(stage, "float16", True)


@program(4, "transformers", suite=SUITE)
def convnext(stage: Stage) -> Step:
    model = hf(stage, "ConvNextForImageClassification", "ConvNextConfig", num_labels=100)
    return stage.trained(model, lambda: model(pixel_values=stage.noise(16, 3, 224, 224), labels=stage.words(100, 16)).loss,
                         autocast="bfloat16")


@program(3, suite=SUITE)
def behind_a_loader(stage: Stage) -> Step:
    """A small net on batches of a DataLoader; the last batch is smaller."""
    images, labels = torch.randn(144, 3, 96, 96), torch.randint(0, 10, (144,))
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), 64, shuffle=True, pin_memory=True)
    batches = itertools.chain.from_iterable(loader for _ in range(STEPS))
    model = stage.made(lambda: nn.Sequential(
        convolution(3, 48), nn.MaxPool2d(2), convolution(48, 96), nn.MaxPool2d(2), convolution(96, 192), nn.AdaptiveAvgPool2d(4),
        nn.Flatten(), nn.Dropout(0.5), nn.Linear(192 * 16, 10)))

    def loss() -> Any:
        image, label = (tensor.to(stage.device, non_blocking=True) for tensor in next(batches))
        return F.cross_entropy(model(image), label)

    return stage.trained(model, loss)


@program(3, suite=SUITE)
def frozen_inference(stage: Stage) -> Step:
    """A net traced and frozen, whose convolutions are fused with what follows them."""
    model = stage.made(lambda: nn.Sequential(*residual_stages((1, 1, 1, 1)), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                                             nn.Linear(2048, 100))).eval()
    frozen = torch.jit.optimize_for_inference(torch.jit.trace(model, stage.noise(16, 3, 224, 224)))

    def step() -> None:
        with torch.no_grad():
            frozen(stage.noise(16, 3, 224, 224))

    return step


# ---- pictures of pictures ----

class Timed(nn.Module):
    """A residual block that hears of the time."""

    def __init__(self, inputs: int, outputs: int, time: int) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, outputs))
        self.second = nn.Sequential(nn.GroupNorm(32, outputs), nn.SiLU(), nn.Dropout(0.1),
                                    nn.Conv2d(outputs, outputs, 3, padding=1))
        self.skip = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Any, time: Any) -> Any:
        return self.skip(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])


class Attentive(nn.Module):
    """Attention among pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(32, width), width // 64
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Any) -> Any:
        flat = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(flat).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.out(y).transpose(1, 2).reshape(x.shape)


class Diffuser(nn.Module):
    """A U-Net of the shape of diffusers' UNet2DModel: two blocks a level on the way down, three on the way up."""

    WIDTHS = (128, 256, 384, 512)

    def __init__(self) -> None:
        super().__init__()
        widths, time = self.WIDTHS, 4 * self.WIDTHS[0]
        self.time = nn.Sequential(nn.Linear(widths[0], time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(4, widths[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        inputs = widths[0]
        kept = [inputs]

        def block(outputs: int, added: int, level: int) -> nn.ModuleList:
            return nn.ModuleList([Timed(inputs + added, outputs, time), Attentive(outputs) if level > 1 else nn.Identity()])

        for level, width in enumerate(widths):
            for _ in range(2):
                self.down.append(block(width, 0, level))
                kept.append(inputs := width)
            if level < len(widths) - 1:
                self.down.append(nn.Conv2d(width, width, 3, 2, 1))
                kept.append(width)
        self.middle = nn.ModuleList([Timed(inputs, inputs, time), Attentive(inputs), Timed(inputs, inputs, time)])
        for level, width in reversed(list(enumerate(widths))):
            for _ in range(3):
                self.up.append(block(width, kept.pop(), level))
                inputs = width
            if level > 0:
                self.up.append(nn.Conv2d(width, width, 3, padding=1))
        self.last = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, 4, 3, padding=1))

    def forward(self, x: Any, time: Any) -> Any:
        time, x = self.time(time), self.first(x)
        kept = [x]
        for part in self.down:
            x = part(x) if isinstance(part, nn.Conv2d) else part[1](part[0](x, time))
            kept.append(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, time)), time)
        for part in self.up:
            if isinstance(part, nn.Conv2d):
                x = part(F.interpolate(x, scale_factor=2.0, mode="nearest"))
            else:
                x = part[1](part[0](torch.cat([x, kept.pop()], 1), time))
        return self.last(x)


def diffused(stage: Stage, autocast: str, benchmark: bool = False) -> Step:
    torch.backends.cudnn.benchmark = benchmark
    model = stage.made(Diffuser)

    def loss() -> Any:
        noise = stage.noise(4, 4, 64, 64)
        return F.mse_loss(model(stage.noise(4, 4, 64, 64) + noise, stage.noise(4, 128)), noise)

    return stage.trained(model, loss, autocast=autocast, clip=1.0)


@program(8, suite=SUITE)
def diffusion_unet(stage: Stage) -> Step:
    return diffused(stage, "bfloat16")


@program(8, suite=SUITE)
def diffusion_unet_benchmark(stage: Stage) -> Step:
    return diffused(stage, "float16", benchmark=True)


def volumes(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(*(layer for width in (inputs, outputs) for layer in (
        nn.Conv3d(width, outputs, 3, padding=1), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01, inplace=True))))


class Segmenter(nn.Module):
    """A U-Net of volumes."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128, 256)) -> None:
        super().__init__()
        self.down = nn.ModuleList(volumes(a, b) for a, b in zip((1, *widths), widths))
        self.grow = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.up = nn.ModuleList(volumes(2 * width, width) for width in widths[:-1])
        self.last = nn.Conv3d(widths[0], 3, 1)

    def forward(self, x: Any) -> Any:
        kept: list[Any] = []
        for part in self.down:
            x = part(F.max_pool3d(x, 2) if kept else x)
            kept.append(x)
        for level in reversed(range(len(self.up))):
            x = self.up[level](torch.cat([self.grow[level](x), kept[level]], 1))
        return self.last(x)


@program(8, suite=SUITE)
def volume_unet(stage: Stage) -> Step:
    model, sizes = stage.made(Segmenter), (64, 64, 64)
    return fitted(stage, model, lambda: F.cross_entropy(model(stage.noise(2, 1, *sizes)), stage.words(3, 2, *sizes)), "float16")


@program(4, "transformers", suite=SUITE)
def segformer(stage: Stage) -> Step:
    model = hf(stage, "SegformerForSemanticSegmentation", "SegformerConfig", num_labels=20)
    return stage.trained(model, lambda: model(pixel_values=stage.noise(4, 3, 512, 512), labels=stage.words(20, 4, 512, 512)).loss)


@program(3, suite=SUITE)
def dcgan(stage: Stage) -> Step:
    """Two nets against each other, the maker of transposed convolutions."""
    def grown(inputs: int, outputs: int, stride: int, padding: int) -> nn.Sequential:
        return nn.Sequential(nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False), nn.BatchNorm2d(outputs),
                             nn.ReLU(True))

    def shrunk(inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False), nn.BatchNorm2d(outputs), nn.LeakyReLU(0.2, True))

    maker = stage.made(lambda: nn.Sequential(
        grown(100, 512, 1, 0), grown(512, 256, 2, 1), grown(256, 128, 2, 1), grown(128, 64, 2, 1),
        nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh()))
    critic = stage.made(lambda: nn.Sequential(
        nn.Conv2d(3, 64, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True), shrunk(64, 128), shrunk(128, 256), shrunk(256, 512),
        nn.Conv2d(512, 1, 4, bias=False), nn.Flatten(0)))
    makes, criticizes = (torch.optim.Adam(net.parameters(), 2e-4, betas=(0.5, 0.999)) for net in (maker, critic))

    def judged(image: Any, is_true: float) -> Any:
        score = critic(image)
        return F.binary_cross_entropy_with_logits(score, torch.full_like(score, is_true))

    def step() -> None:
        made = maker(stage.noise(64, 100, 1, 1))
        criticizes.zero_grad()
        judged(stage.noise(64, 3, 64, 64), 1.0).backward()
        judged(made.detach(), 0.0).backward()
        criticizes.step()
        makes.zero_grad()
        judged(made, 1.0).backward()
        makes.step()

    return step


# ---- sound ----

@program(5, "transformers", suite=SUITE)
def wav2vec2(stage: Stage) -> Step:
    import numpy

    numpy.random.seed(0)  # by which spans are masked
    model = hf(stage, "Wav2Vec2ForCTC", "Wav2Vec2Config", num_hidden_layers=4, ctc_loss_reduction="mean")
    model.to(stage.device)  # one of its weights is made on the host
    labels = torch.randint(1, 32, (2, 40)).to(stage.device)
    return stage.trained(model, lambda: model(input_values=stage.noise(2, 48000), labels=labels).loss)


@program(5, "transformers", suite=SUITE)
def whisper_single(stage: Stage) -> Step:
    model = hf(stage, "WhisperForConditionalGeneration", "WhisperConfig", d_model=512, encoder_layers=3, decoder_layers=3,
               encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=2048, decoder_ffn_dim=2048)
    return stage.trained(model, lambda: model(input_features=stage.noise(4, 80, 3000), labels=stage.words(50000, 4, 64)).loss)


class Causal(nn.Module):
    """A residual block of a temporal net: dilated convolutions that see the past alone."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.reach = 2 * dilation
        self.body = nn.Sequential(nn.Conv1d(width, width, 3, padding=self.reach, dilation=dilation), nn.GELU(),
                                  nn.Conv1d(width, width, 1))

    def forward(self, x: Any) -> Any:
        return x + self.body(x)[..., :x.shape[-1]]


@program(3, suite=SUITE)
def temporal_net(stage: Stage) -> Step:
    model = stage.made(lambda: nn.Sequential(
        nn.Conv1d(1, 64, 16, 8, 4), *(Causal(64, 1 << level) for level in range(6)), nn.Conv1d(64, 64, 7, groups=64),
        nn.ConvTranspose1d(64, 1, 16, 8)))
    return stage.trained(model, lambda: model(stage.noise(8, 1, 16000)).square().mean(), autocast="float16")
