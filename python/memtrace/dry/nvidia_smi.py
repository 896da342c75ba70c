"""Puts a command nvidia-smi that describes the simulated cards first in PATH, since programs choose a card or a batch size by it."""
from __future__ import annotations

import atexit
import functools
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

from .._settings import settings

COMMAND = "nvidia-smi"
DRIVER, UUID = "580.65.06", "6d656d74-7261-6365-0000"  # as the stand-in for NVML says
MIB = 1 << 20


def figures_of(cards: Any, index: int) -> dict[str, Any]:
    """Returns what describes a card, by the names of nvidia-smi's fields."""
    properties, (free, total) = cards.properties(index), cards.memory_info(index)
    return {"index": index, "count": cards.count, "name": properties.name, "uuid": f"GPU-{UUID}-{index:012x}",
            "driver_version": DRIVER, "compute_cap": f"{properties.major}.{properties.minor}", "memory.total": total // MIB,
            "memory.used": (total - free) // MIB, "memory.free": free // MIB, "utilization.gpu": 0, "utilization.memory": 0,
            "temperature.gpu": 0, "power.draw": "0.00"}


class Command:
    """The command of this process. Its folder is in the job's, which is removed even if the program is killed."""

    def __init__(self, cards: Any) -> None:
        self.cards, self.process = cards, os.getpid()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="nvidia-smi-", dir=settings().files or None))
        atexit.register(self.remove)
        self.figures = self.folder / "cards.json"
        words = [sys.executable, "-I", "-S", str(pathlib.Path(__file__).with_name("nvidia_smi_command.py")), str(self.figures)]
        script = self.folder / COMMAND
        script.write_text(f"#!/bin/sh\nexec {shlex.join(words)} \"$@\"\n")
        script.chmod(0o755)
        os.environ["PATH"] = os.pathsep.join(filter(None, (str(self.folder), os.environ.get("PATH", os.defpath))))

    def remove(self) -> None:
        if os.getpid() == self.process:  # not a child
            shutil.rmtree(self.folder, ignore_errors=True)

    def write_figures(self) -> None:
        if os.getpid() == self.process and self.folder.is_dir():  # not at the end of the program
            self.figures.write_text(json.dumps([figures_of(self.cards, index) for index in range(self.cards.count)]))


def begin(cards: Any) -> None:
    """Begins for this process. The figures are written when the program starts a command."""
    command = Command(cards)

    def around(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def start(*given: Any, **named: Any) -> Any:
            command.write_figures()
            return original(*given, **named)

        return start

    popen: Any = subprocess.Popen
    popen.__init__ = around(popen.__init__)
    os.system = around(os.system)
