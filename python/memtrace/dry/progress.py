"""The progress of a dry run, on a terminal."""
from __future__ import annotations

import sys
import time
from typing import Any

from .._settings import settings
from .._sizes import in_words

SECONDS = 1.0  # between two lines


class Progress:
    """One line on stderr that is written again and again; nothing where stderr is no terminal."""

    def __init__(self, cards: Any) -> None:
        self.cards = cards
        self.begun = self.shown = time.monotonic()
        self.is_shown = False
        self.is_wanted = settings().answers is not None and sys.stderr is not None and sys.stderr.isatty()

    def show(self, steps: int) -> None:
        now = time.monotonic()
        if not self.is_wanted or now - self.shown < SECONDS:
            return
        self.shown, self.is_shown = now, True
        peak = in_words(self.cards.peak())
        print(f"\r\033[Kmemtrace: {steps} steps, peak {peak}, {now - self.begun:.0f} s", end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self.is_shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
        self.is_shown = False
