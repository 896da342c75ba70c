"""FlexAttention as a compiler leaves it: its kernels hold no scores, unlike the operators that it consists of.

Source: the buffers of torch/_inductor/kernel/flex/flex_attention.py in PyTorch 2.13, which with blocks of its own are all that its
Triton kernels take.
"""
from __future__ import annotations

from typing import Any, Optional

import torch

WRAPPED = "_flex_attention_hop_wrapper"  # of torch.nn.attention.flex_attention, which compiles it at each call


def zeros_of(like: torch.Tensor, *sizes: int) -> torch.Tensor:
    return torch.zeros(sizes, dtype=torch.float32, device=like.device)


class FusedAttention(torch.autograd.Function):
    """Takes query (B, heads, M, D), key (B, its heads, N, D) and value (B, its heads, N, E); gives (B, heads, M, E), and two rows
    of statistics (B, heads, M) in fp32."""

    @staticmethod
    def forward(context: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, ...]:
        alike = query.shape[-1] == value.shape[-1]
        out = torch.zeros_like(query) if alike else query.new_zeros(*query.shape[:-1], value.shape[-1])
        sums, highest = zeros_of(query, *query.shape[:-1]), zeros_of(query, *query.shape[:-1])
        context.mark_non_differentiable(highest)
        context.set_materialize_grads(False)
        context.save_for_backward(query, key, value, out, sums)
        return out, sums, highest

    @staticmethod
    def backward(context: Any, gradient: Optional[torch.Tensor], *others: Any) -> tuple[Optional[torch.Tensor], ...]:
        query, key, value, _, sums = context.saved_tensors
        delta = torch.zeros_like(sums)
        of_query, of_value, of_key = (torch.zeros_like(each) for each in (query, value, key))
        del delta
        return of_query, of_key, of_value


def fused_attention(query: Any, key: Any, value: Any, *others: Any, **named: Any) -> tuple[torch.Tensor, ...]:
    """Stands for the higher-order operator. What its score function captures gets no gradient."""
    from torch.nn.attention import flex_attention

    results: tuple[torch.Tensor, ...] = FusedAttention.apply(query, key, value)  # type: ignore[no-untyped-call]
    return results if hasattr(flex_attention, "AuxOutput") else results[:2]
