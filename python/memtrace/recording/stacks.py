"""Call stacks and names of operators, for a watched allocator. The library reads both from the memory of Python and of PyTorch.
Before recording the first, this module checks that the layouts match."""
from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Optional

from .._private_names import has
from . import abi

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class NotKnown(Exception):
    """The layouts of stacks or operators do not match."""


def frames_of(frame: Optional[types.FrameType]) -> str:
    """Returns Python's frames in the library's text format, up to the frame that began the check."""
    found = ""
    while frame is not None and frame.f_code is not check.__code__:
        code = frame.f_code
        found += f"{getattr(code, 'co_qualname', code.co_name)}\t{code.co_filename}\t{frame.f_lineno}\n"
        frame = frame.f_back
    return found


def nest(look: Callable[[], int]) -> None:
    """Checks from within all kinds of frames: functions, generators, coroutines, class bodies, code without a function, and frames
    called by C."""
    def generate() -> Iterator[int]:
        yield look()
        yield from (look() for _ in range(1))

    async def wait() -> None:
        for _ in generate():
            [look() for _ in range(1)]

    class Body:
        sorted([1], key=lambda _: look())
        try:
            wait().send(None)
        except StopIteration:
            pass

    exec("look(\n)\nBody()", {"look": look, "Body": Body})


def check(library: Any) -> None:
    """Fails with NotKnown unless the library reads the same stack as Python."""
    def look() -> int:
        text, expected = library.memtrace_torch_stack_text(), frames_of(sys._getframe())
        if not text.decode().startswith(expected):
            raise NotKnown("the call stacks that are read are not Python's own")
        return 0

    nest(look)


def find(library: Any) -> None:
    """Makes the library find call stacks. Fails with NotKnown."""
    if sys.implementation.name != "cpython" or sys.abiflags or library.memtrace_torch_stacks(sys.version_info.minor):
        raise NotKnown(f"the call stacks of {sys.implementation.name} {sys.version.split()[0]}{sys.abiflags} are not known")
    check(library)


def begin_stacks(library: Any) -> None:
    """Begins to record call stacks. Fails with NotKnown."""
    find(library)
    library.memtrace_torch_stacks_begin(os.fsencode(PACKAGE))


def add_kernels(library: Any) -> None:
    """Names the operators with a kernel for CUDA to the library. Only this function of the module needs torch."""
    import torch

    if has("kernels"):
        for name in torch._C._dispatch_get_registrations_for_dispatch_key("CUDA"):
            library.memtrace_torch_kernel(name.partition(".")[0].encode())


def begin_operators(library: Any, include: os.PathLike[str]) -> None:
    """Begins to record the names of operators. Fails with NotKnown."""
    try:
        abi.check_observer(include)
    except (abi.NotUnderstood, OSError) as error:
        raise NotKnown(f"PyTorch's operators are not known: {error}") from error
    add_kernels(library)
    if library.memtrace_torch_operators():
        raise NotKnown(library.memtrace_torch_last_error().decode())


def begin(library: Any, include: os.PathLike[str]) -> Iterator[str]:
    """Begins to record both. Yields the reasons why one can't be recorded."""
    try:
        begin_stacks(library)
    except NotKnown as error:
        yield str(error)
    try:
        begin_operators(library, include)
    except NotKnown as error:
        yield str(error)


def end(library: Any) -> None:
    """Ends the recording."""
    library.memtrace_torch_stacks_end()
    library.memtrace_torch_operators_end()
