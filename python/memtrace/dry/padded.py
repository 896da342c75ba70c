"""nn.TransformerEncoder in evaluation with a mask of padding: it keeps padded tokens, since nested tensors are not simulated."""
from __future__ import annotations

from typing import Any, Callable

import torch

from .._private_names import original_of, replace


def keep_padding(note: Callable[[str], None]) -> None:
    """Has the encoder find that it can't leave out padded tokens: masks are checked, and their tokens are not in front."""
    original = original_of("torch._nested_tensor_from_mask_left_aligned")

    def is_left_aligned(tokens: torch.Tensor, mask: torch.Tensor) -> Any:
        if not tokens.is_cuda:
            return original(tokens, mask)
        note("TransformerEncoder computes padded tokens, too, since nested tensors are not simulated: on a card it needs less")
        return False

    replace("torch._nested_tensor_from_mask_left_aligned", is_left_aligned)
    replace("torch.nn.TransformerEncoder.mask_check", property(lambda encoder: True, lambda encoder, value: None))
