"""NVIDIA's driver, for libraries that ask it about the card: on a machine without one, libcuda.so.1 and libnvidia-ml.so.1 are
stand-ins (src/producers/torch/driver), which describe the simulated card.

A stand-in is loaded where a library was not found without it: by ctypes, or as an extension that is linked to it. From then on the
process finds it under the driver's name. A process that does without has none, and a machine with a driver keeps its own.
"""
from __future__ import annotations

import ctypes
import ctypes.util
import importlib.machinery
import re
from typing import Any, Optional

from .._library import find_driver_library

# The driver's libraries, as ctypes.util.find_library knows them, and our files.
LIBRARIES = {"cuda": "libmemtrace_driver.so", "nvidia-ml": "libmemtrace_nvml.so"}

NOT_FOUND = re.compile(r"lib(cuda|nvidia-ml)\.so(\.1)?: cannot open shared object file")


class Driver:
    """The stand-ins, for so many cards. `device` is the library that implements them for PyTorch."""

    def __init__(self, cards: int, device: Any) -> None:
        self.cards, self.device = cards, device
        self.loaded: dict[str, Any] = {}

    def stand_in(self, error: Exception) -> bool:
        """Loads the stand-in for the library that was not found. False if the error is another one."""
        found = NOT_FOUND.search(str(error))
        if found is None:
            return False
        if found.group(1) not in self.loaded:
            library = ctypes.CDLL(find_driver_library(LIBRARIES[found.group(1)]))
            library.memtrace_driver_begin(self.cards)
            if found.group(1) == "cuda":
                library.memtrace_driver_on_launch(self.device.memtrace_dry_launch)
            self.loaded[found.group(1)] = library
        return True

    def install(self) -> None:
        loader: Any = importlib.machinery.ExtensionFileLoader
        library: Any = ctypes.CDLL
        find, load, create = ctypes.util.find_library, library.__init__, loader.create_module

        def find_library(name: str) -> Optional[str]:
            return find(name) or (f"lib{name}.so.1" if name in LIBRARIES else None)

        def load_again(library: Any, name: Any = None, *given: Any, **named: Any) -> None:
            try:
                load(library, name, *given, **named)
            except OSError as error:
                if not self.stand_in(error):
                    raise
                load(library, f"{name}.1" if name in ("libcuda.so", "libnvidia-ml.so") else name, *given, **named)

        def create_again(loader: Any, spec: Any) -> Any:
            try:
                return create(loader, spec)
            except ImportError as error:
                if not self.stand_in(error):
                    raise
                return create(loader, spec)

        ctypes.util.find_library = find_library
        library.__init__ = load_again
        loader.create_module = create_again
