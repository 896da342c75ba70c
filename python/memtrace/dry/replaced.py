"""What a dry run replaces in torch, and what it says of the program's lines that meet it."""
from __future__ import annotations

import collections
import ctypes
import os
from collections.abc import Callable
from typing import Any, Optional

import torch

from .._private_names import has, original_of
from .._private_names import replace as replace_name
from .._settings import settings
from ..recording.handover import tell
from . import apex_kernels, custom, deepspeed_kernels, quantized, saving, searches, services, typed, weights
from .leaving import decides_loop, leave_loop_of
from .places import Place, frames_to_user, innermost, is_printing, is_users, place_of_user

ASSUMPTION = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_double)
MOST_READS = 1000  # of values that were not computed, by one line, before the next backward or step
MOST_ROUNDS = 10  # of a `while` that such values keep up, before the next call of a module, backward or step
OPTIMIZERS = os.path.join(os.path.dirname(torch.__file__), "optim", "")  # whose loops are bounded


class Assumed:
    """A value that a line of the program read and that was not computed."""

    def __init__(self, value: float) -> None:
        self.value, self.reads = value, 0


class Notes:
    """What a dry run does otherwise, by line of the program."""

    def __init__(self) -> None:
        self.said: set[tuple[Place, str]] = set()
        self.assumed: dict[tuple[Place, str], Assumed] = {}
        self.recent: collections.Counter[Place] = collections.Counter()  # reads since the last backward or step
        self.rounds: collections.Counter[tuple[Any, int]] = collections.Counter()  # by the code and line that decide
        self.on_endless: Optional[Callable[[Place], None]] = None  # is called once a line has made MOST_READS
        self.on_left: Optional[Callable[[Place], None]] = None  # is called once a loop of the user's was left
        self.callback = ASSUMPTION(lambda name, value: self.assume(name.decode(), value))

    def note(self, words: str) -> None:
        """Says something, once for each line."""
        place = place_of_user()
        if (place, words) not in self.said:
            self.said.add((place, words))
            tell(f"{place}: {words}" if place.line else words)

    def assume(self, name: str, value: float) -> None:
        """Counts a value that was not computed, unless it is only printed."""
        if is_printing():
            return
        place = place_of_user()
        assumed = self.assumed.setdefault((place, name), Assumed(value))
        assumed.reads += 1
        frame = innermost()
        if frame is not None and frame.f_code.co_filename.startswith(OPTIMIZERS) or self._ends_rounds(frame):
            return
        self.recent[place] += 1
        if self.recent[place] == MOST_READS and self.on_endless is not None:
            self.on_endless(place)

    def _ends_rounds(self, frame: Any) -> bool:
        """Counts the iterations of a `while` that a value keeps up, as of a sampler that rejects or of an iteration until convergence,
        in the program or in a function that it called. Leaves the loop after MOST_ROUNDS."""
        deciding = next((one for one in frames_to_user(frame) if decides_loop(one)), None)
        if deciding is None:
            return False
        key = deciding.f_code, deciding.f_lineno
        self.rounds[key] += 1
        if self.rounds[key] < MOST_ROUNDS or not leave_loop_of(deciding):
            return False
        del self.rounds[key]
        if self.on_left is not None and is_users(deciding.f_code.co_filename):
            self.on_left(Place(deciding.f_code.co_filename, deciding.f_lineno))
        return True

    def forget_rounds(self) -> None:
        self.rounds.clear()

    def forget_reads(self) -> None:
        self.recent.clear()
        self.rounds.clear()


notes = Notes()


def replace_storage(cards: Any) -> None:
    """Has storages on a card be made and resized, which a build without CUDA refuses, and one with CUDA asks a driver for."""
    new, resize = original_of("torch._C.StorageBase.__new__"), original_of("torch.UntypedStorage.resize_")

    def make(cls: type, *given: Any, **named: Any) -> Any:
        device = named.get("device")
        if device is None or torch.device(device).type != "cuda":
            return new(cls, *given, **named)
        storage = torch.empty(0, dtype=torch.uint8, device=device).untyped_storage()
        resize_(storage, given[0] if given else named.get("size", 0))
        return storage

    def resize_(storage: Any, size: int) -> Any:
        if storage.device.type != "cuda":
            return resize(storage, size)
        if size < 0:
            raise RuntimeError(f"Requested storage size ({size}) cannot be represented as a size_t")
        if not storage.resizable():
            raise RuntimeError("Trying to resize storage that is not resizable")
        if size != storage.nbytes() and cards.device.memtrace_dry_resize(storage._cdata, size):
            raise torch.OutOfMemoryError(cards.memory.memtrace_torch_last_error().decode())
        return storage

    replace_name("torch.UntypedStorage.__new__", make)
    replace_name("torch.UntypedStorage.resize_", resize_)


def replace(cards: Any, on_parameter: Callable[[Any], None]) -> None:
    """Replaces all. `on_parameter` is called with each parameter that is made on a card."""
    if has("storages"):
        replace_storage(cards)
    saving.begin(cards, weights.begin(cards.device, on_parameter))
    services.begin()
    quantized.begin(cards)
    deepspeed_kernels.begin(cards.device)
    apex_kernels.begin(cards.device, notes.note)
    if has("custom operators"):
        custom.follow(cards.device, notes.note)
    if has("line searches"):
        searches.end_at_first_step(cards.device)
    if has("tensor types") and not hasattr(torch._C, "_cuda_getCompiledVersion"):  # which a build with CUDA has
        typed.add_types()
        replace_name("torch.set_default_tensor_type", typed.default_type_setter(torch.set_default_tensor_type, notes.note))


def begin(cards: Any, on_endless: Callable[[Place], None], on_left: Callable[[Place], None]) -> None:
    """Begins to assume values that are not computed, and to count their uses."""
    notes.on_endless, notes.on_left = on_endless, on_left
    cards.device.memtrace_dry_assume(settings().assumed, settings().masks, ctypes.cast(notes.callback, ctypes.c_void_p))
