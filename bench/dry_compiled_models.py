"""Programs under torch.compile: whole models, layers and losses alone, optimizers, CUDA graphs, lengths that change."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from dry_convolution_models import fitted, residual_stages
from dry_own_models import Block, Gpt, next_word_loss
from dry_stage import Stage, Step, program
from torch import nn
from torch.nn import functional as F

LENGTHS = 128, 160, 256, 192, 96, 256  # of the texts of the steps
WORDS = 32000


def text_loss(stage: Stage, model: Any, vocabulary: int, batch: int = 4, length: int = 512,
              loss: Callable[[Any, Any], Any] = next_word_loss) -> Callable[[], Any]:
    """Returns the loss of a model on texts of its own."""
    def loss_of_text() -> Any:
        text = stage.words(vocabulary, batch, length)
        return loss(model(text), text)
    return loss_of_text


@program(8, suite="compiled")
def compiled_odd_vocabulary(stage: Stage) -> Step:
    """GPT-2's vocabulary under autocast: Inductor may pad the head and its gradients."""
    model = stage.made(lambda: Gpt(vocabulary=50257))
    return stage.trained(model, text_loss(stage, torch.compile(model), 50257, batch=8), autocast="bfloat16")


@program(6, suite="compiled")
def compiled_loss_alone(stage: Stage) -> Step:
    """The model is eager, and the loss a compiled function."""
    model = stage.made(lambda: Gpt(vocabulary=WORDS))
    return stage.trained(model, text_loss(stage, model, WORDS, loss=torch.compile(next_word_loss)), autocast="bfloat16")


@program(4, suite="compiled")
def compiled_layers(stage: Stage) -> Step:
    """Each layer is compiled in place, and all share one graph."""
    model = stage.made(lambda: Gpt(vocabulary=WORDS))
    for block in model.blocks:
        block.compile()
    return stage.trained(model, text_loss(stage, model, WORDS), autocast="bfloat16")


@program(4, suite="compiled")
def compiled_accumulation(stage: Stage) -> Step:
    model = stage.made(lambda: Gpt(vocabulary=WORDS, layers=4, dropout=0.1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    return stage.trained(model, text_loss(stage, torch.compile(model), WORDS), optimizer, accumulate=3, clip=1.0)


@program(3, suite="compiled")
def compiled_lengths(stage: Stage) -> Step:
    """The second length makes the graph dynamic."""
    model, lengths = stage.made(lambda: Gpt(vocabulary=WORDS, layers=3)), iter(LENGTHS)
    compiled = torch.compile(model)
    return stage.trained(model, lambda: text_loss(stage, compiled, WORDS, length=next(lengths))(), autocast="bfloat16")


@program(4, suite="compiled")
def compiled_graphs_in_training(stage: Stage) -> Step:
    model = stage.made(lambda: Gpt(vocabulary=WORDS, layers=3))
    return stage.trained(model, text_loss(stage, torch.compile(model, mode="reduce-overhead"), WORDS), autocast="bfloat16")


@program(3, suite="compiled")
def compiled_graphs_in_inference(stage: Stage) -> Step:
    """Two shapes in turn: two graphs live in one pool."""
    model = stage.made(lambda: Gpt(vocabulary=WORDS, layers=4), dtype="bfloat16").eval()
    compiled, sizes = torch.compile(model, mode="reduce-overhead", dynamic=False), [(8, 256), (2, 512)] * 3

    def step() -> None:
        with torch.no_grad():
            compiled(stage.words(WORDS, *sizes.pop())).argmax(-1)

    return step


@program(4, suite="compiled")
def compiled_optimizer(stage: Stage) -> Step:
    """The model and the optimizer's step are compiled, each by itself."""
    model = stage.made(lambda: Gpt(vocabulary=WORDS, layers=3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=torch.tensor(1e-4, device=stage.device), capturable=True)
    loss, update = text_loss(stage, torch.compile(model), WORDS), torch.compile(lambda: optimizer.step())

    def step() -> None:
        with stage.narrow("bfloat16"):
            found = loss()
        found.backward()
        update()
        optimizer.zero_grad()

    return step


@program(6, suite="compiled")
def compiled_convolutions(stage: Stage) -> Step:
    """A residual net. cuDNN decides the workspaces of its convolutions, and their layout is Inductor's choice."""
    model = stage.made(lambda: nn.Sequential(*residual_stages((2, 2, 2)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1024, 1000)))
    compiled = torch.compile(model)
    return fitted(stage, model, lambda: F.cross_entropy(compiled(stage.noise(16, 3, 160, 160)), stage.words(1000, 16)), "bfloat16")


@program(6, "transformers", suite="compiled")
def compiled_llama(stage: Stage) -> Step:
    """Weights in bf16, and layers that are checkpointed within the graph."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(vocab_size=WORDS, hidden_size=1024, intermediate_size=2816, num_hidden_layers=6, num_attention_heads=16,
                         num_key_value_heads=4, use_cache=False)
    model = stage.made(lambda: LlamaForCausalLM(config), dtype="bfloat16")
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    compiled = torch.compile(model)

    def loss() -> Any:
        text = stage.words(WORDS, 4, 1024)
        return compiled(input_ids=text, labels=text).loss

    return stage.trained(model, loss, clip=1.0)


class WindowBlock(Block):
    """A layer whose attention sees a window, with FlexAttention."""

    mask: Any = None

    def forward(self, x: Any) -> Any:
        from torch.nn.attention.flex_attention import flex_attention

        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(flex_attention(q, k, v, block_mask=self.mask).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


@program(4, suite="compiled")
def compiled_flex_attention(stage: Stage) -> Step:
    from torch.nn.attention.flex_attention import create_block_mask

    mask = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k <= 256), None, None, 1024, 1024, device=stage.device)
    model = stage.made(lambda: nn.Sequential(*(WindowBlock(512, 8, 0.0) for _ in range(3)), nn.Linear(512, 1)), dtype="bfloat16")
    for block in model[:-1]:
        block.mask = mask
    compiled = torch.compile(model)
    return stage.trained(model, lambda: compiled(stage.noise(4, 1024, 512).bfloat16()).float().square().mean())


@program(3, suite="compiled")
def compiled_with_breaks(stage: Stage) -> Step:
    """A value that is read breaks the graph in the middle of the model."""
    class Halves(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.head = Block(512, 8, 0.0), Block(512, 8, 0.0), nn.Linear(512, 100)

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            if x.float().mean().item() > 1e9:
                x = x * 2
            return self.head(self.second(x)).mean(1)

    model = stage.made(Halves)
    compiled = torch.compile(model)
    return stage.trained(model, lambda: F.cross_entropy(compiled(stage.noise(8, 256, 512)), stage.words(100, 8)), autocast="bfloat16")


@program(3, suite="compiled")
def compiled_backward(stage: Stage) -> Step:
    """The whole backward is compiled, too: compiled autograd."""
    model = stage.made(lambda: nn.Sequential(*(Block(512, 8, 0.0) for _ in range(3)), nn.Linear(512, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    compiled = torch.compile(model)

    def step() -> None:
        with torch._dynamo.config.patch(compiled_autograd=True):
            torch.compile(lambda: compiled(stage.noise(4, 512, 512)).square().mean().backward())()
        optimizer.step()
        optimizer.zero_grad()

    return step
