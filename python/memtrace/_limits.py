"""Marks for tests that limit the memory that a test may use, or still hold at its end. The pytest plugin enforces them
(pytest_plugin.py)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Union

from ._sizes import bytes_of

if TYPE_CHECKING:
    import pytest

LIMIT_MEMORY, LIMIT_LEAKS = "memtrace_limit_memory", "memtrace_limit_leaks"


def limit_memory(limit: Union[int, str]) -> pytest.MarkDecorator:
    """Marks a test that fails if PyTorch has more than `limit` ("20 GiB") allocated on any card while it runs, including
    memory held by fixtures."""
    import pytest

    mark: pytest.MarkDecorator = getattr(pytest.mark, LIMIT_MEMORY)(bytes_of(limit))
    return mark


def limit_leaks(limit: Union[int, str] = 0) -> pytest.MarkDecorator:
    """Marks a test that fails if more than `limit` is allocated on the cards after it than before it."""
    import pytest

    mark: pytest.MarkDecorator = getattr(pytest.mark, LIMIT_LEAKS)(bytes_of(limit))
    return mark
