"""Programs whose memory recurrent nets, Fourier transforms, CTC losses and searches for the largest decide."""
from __future__ import annotations

from typing import Any

import torch
from dry_stage import Stage, Step, program
from torch import nn

WORDS = 20_000


class WordNet(nn.Module):
    """Words, a recurrent net, and scores of the next words."""

    def __init__(self, kind: str, width: int, layers: int, dropout: float) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.net = getattr(nn, kind)(width, width, layers, dropout=dropout, batch_first=True)
        self.head = nn.Linear(width, WORDS)

    def forward(self, words: Any) -> Any:
        return self.head(self.net(self.embed(words))[0])


def next_scores(scores: Any, words: Any) -> Any:
    return nn.functional.cross_entropy(scores.flatten(0, 1), words.flatten())


@program(2, suite="convolutions")
def lstm_words(stage: Stage) -> Step:
    model = stage.made(lambda: WordNet("LSTM", 650, 2, 0.5))

    def loss() -> Any:
        words = stage.words(WORDS, 20, 71)
        return next_scores(model(words[:, :-1]), words[:, 1:])

    return stage.trained(model, loss, torch.optim.SGD(model.parameters(), lr=1.0), clip=0.25)


@program(2, suite="convolutions")
def lstm_words_narrow(stage: Stage) -> Step:
    """The same under autocast, which copies the weights in each call."""
    model = stage.made(lambda: WordNet("LSTM", 512, 3, 0.2))

    def loss() -> Any:
        words = stage.words(WORDS, 32, 65)
        return next_scores(model(words[:, :-1]), words[:, 1:])

    return stage.trained(model, loss, autocast="bfloat16")


class PackedNet(nn.Module):
    """Sentences of several lengths, read in both directions, and their classes."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 256)
        self.net = nn.GRU(256, 384, 2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(768, 5)

    def forward(self, words: Any, lengths: Any) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(words), lengths, batch_first=True)
        read, _ = nn.utils.rnn.pad_packed_sequence(self.net(packed)[0], batch_first=True)
        return self.head(read.mean(1))


@program(2, suite="convolutions")
def gru_packed(stage: Stage) -> Step:
    model, lengths = stage.made(PackedNet), torch.arange(96, 32, -1)
    classes = stage.words(5, 64)
    return stage.trained(model, lambda: nn.functional.cross_entropy(model(stage.words(WORDS, 64, 96), lengths), classes))


class Spectral(nn.Module):
    """Multiplies the lowest frequencies of an image by weights."""

    def __init__(self, width: int, modes: int) -> None:
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, width, width, modes, modes, dtype=torch.complex64) / width)

    def forward(self, x: Any) -> Any:
        spectrum, most = torch.fft.rfft2(x), self.modes
        kept = torch.zeros_like(spectrum)
        for rows, weight in zip((slice(None, most), slice(-most, None)), self.weight):
            kept[:, :, rows, :most] = torch.einsum("bixy,ioxy->boxy", spectrum[:, :, rows, :most], weight)
        return torch.fft.irfft2(kept, s=x.shape[-2:])


class Operator(nn.Module):
    def __init__(self, width: int = 32, modes: int = 12) -> None:
        super().__init__()
        self.lift, self.project = nn.Linear(3, width), nn.Linear(width, 1)
        self.spectral = nn.ModuleList(Spectral(width, modes) for _ in range(4))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(4))

    def forward(self, x: Any) -> Any:
        x = self.lift(x).permute(0, 3, 1, 2)
        for spectral, local in zip(self.spectral, self.local):
            x = nn.functional.gelu(spectral(x) + local(x))
        return self.project(x.permute(0, 2, 3, 1))


@program(2, suite="convolutions")
def fourier_operator(stage: Stage) -> Step:
    model = stage.made(Operator)
    return stage.trained(model, lambda: model(stage.noise(16, 85, 85, 3)).square().mean())


@program(2, suite="convolutions")
def ctc_speech(stage: Stage) -> Step:
    """Frames of speech, a recurrent net in both directions, and the characters' CTC loss."""
    net = stage.made(lambda: nn.LSTM(80, 320, 3, bidirectional=True, dropout=0.1))
    head = stage.made(lambda: nn.Linear(640, 32))
    lengths, counts = torch.full((16,), 300), torch.full((16,), 60)

    def loss() -> Any:
        scores = head(net(stage.noise(300, 16, 80))[0]).log_softmax(-1)
        return nn.functional.ctc_loss(scores, stage.words(31, 16, 60) + 1, lengths, counts)

    return stage.trained(nn.ModuleList([net, head]), loss)


@program(1, suite="convolutions")
def beams(stage: Stage) -> Step:
    """Four beams for each of eight sentences, extended by their best words."""
    net = stage.made(lambda: WordNet("GRU", 512, 1, 0.0)).eval()

    def step() -> None:
        words, sums = stage.words(WORDS, 32, 1), stage.noise(8, 4)
        with torch.no_grad():
            for _ in range(8):
                scores = net(words)[:, -1].log_softmax(-1).view(8, 4, -1) + sums[:, :, None]
                sums, places = scores.flatten(1).topk(4)
                parents = (places // WORDS + torch.arange(0, 32, 4, device=places.device)[:, None]).flatten()
                words = torch.cat([words[parents], (places % WORDS).view(-1, 1)], 1)

    return step
