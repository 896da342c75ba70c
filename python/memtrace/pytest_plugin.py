"""The pytest plugin: tests marked with memtrace.limit_memory and memtrace.limit_leaks are measured, and failures name the
holders of the memory. They are skipped without a card. pytest finds the plugin by its entry point."""
from __future__ import annotations

from collections.abc import Generator
from typing import Any, Optional

import pytest

from ._limits import LIMIT_LEAKS, LIMIT_MEMORY
from ._sizes import in_words


class Hooks:
    """The hooks that this plugin adds."""

    @pytest.hookspec(firstresult=True)
    def pytest_memtrace_meter(self, item: pytest.Item) -> Optional[Any]:
        """Returns a meter for this test's memory (memtrace._meter.Meter); None lets the next plugin provide one."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(Hooks)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"{LIMIT_MEMORY}(bytes): of memtrace.limit_memory(\"20 GiB\")")
    config.addinivalue_line("markers", f"{LIMIT_LEAKS}(bytes): of memtrace.limit_leaks(\"1 MiB\")")


@pytest.hookimpl(trylast=True)
def pytest_memtrace_meter(item: pytest.Item) -> Optional[Any]:
    try:
        from ._meter import find_meter
    except ImportError:
        return None
    return find_meter()


def limit_of(item: pytest.Item, mark: str) -> Optional[int]:
    """Returns the limit in a test's mark; None if it has none."""
    found = item.get_closest_marker(mark)
    return None if found is None else int(found.args[0])


def complaint(said: str, found: int, limit: int, holders: Any = ()) -> str:
    """Returns the message for a test that exceeded a limit, with the largest holders if they are known."""
    lines = [f"{said} {in_words(found)}, {in_words(found - limit)} over its limit of {in_words(limit)}"]
    for block in holders:
        place = f" at {block.span}" if block.span else ""
        kind = " ".join(word for word in (block.role, block.category, block.dtype, block.shape) if word)
        blocks = f"{block.count:,} block{'' if block.count == 1 else 's'}"
        lines.append(f"  {in_words(block.bytes * block.count)} in {blocks}: {kind}{place}")
    return "\n".join(lines)


def verdict(meter: Any, memory: Optional[int], leaks: Optional[int]) -> Optional[str]:
    """Returns a message about the exceeded limit; None if the test kept its limits."""
    if memory is not None and (peak := meter.peak_bytes()) > memory:
        return complaint("memtrace: the test's peak is", peak, memory, meter.holders())
    if leaks is not None and (left := meter.left_bytes()) > leaks:
        return complaint("memtrace: the test leaves", left, leaks)
    return None


def fail_test(outcome: Any, said: str) -> None:
    """Makes a failure the outcome of a hook. Before pluggy 1.1, raising it does."""
    try:
        pytest.fail(said, pytrace=False)
    except pytest.fail.Exception as failure:
        if not hasattr(outcome, "force_exception"):
            raise
        outcome.force_exception(failure)


@pytest.hookimpl(hookwrapper=True)  # `wrapper` requires pluggy 1.2; with an older one, no test at all would run
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, None]:
    memory, leaks = limit_of(pyfuncitem, LIMIT_MEMORY), limit_of(pyfuncitem, LIMIT_LEAKS)
    if memory is None and leaks is None:
        yield
        return
    meter = pyfuncitem.ihook.pytest_memtrace_meter(item=pyfuncitem)
    if meter is None:
        pytest.skip("memtrace: torch sees no CUDA device to measure")
    meter.begin()
    try:
        outcome = yield
        said = verdict(meter, memory, leaks) if outcome.excinfo is None else None
    finally:
        meter.end()
    if said is not None:
        fail_test(outcome, said)
