"""Marks for tests that may not take, or keep, more memory than they say. The plugin of pytest obeys them
(pytest_plugin.py)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Union

from ._sizes import bytes_of

if TYPE_CHECKING:
    import pytest

LIMIT_MEMORY, LIMIT_LEAKS = "memtrace_limit_memory", "memtrace_limit_leaks"


def limit_memory(limit: Union[int, str]) -> pytest.MarkDecorator:
    """Marks a test that fails if PyTorch has more than `limit` ("20 GiB") allocated on any card while it runs. What
    fixtures hold counts, too."""
    import pytest

    mark: pytest.MarkDecorator = getattr(pytest.mark, LIMIT_MEMORY)(bytes_of(limit))
    return mark


def limit_leaks(limit: Union[int, str] = 0) -> pytest.MarkDecorator:
    """Marks a test that fails if more than `limit` is allocated on the cards after it than before it."""
    import pytest

    mark: pytest.MarkDecorator = getattr(pytest.mark, LIMIT_LEAKS)(bytes_of(limit))
    return mark
