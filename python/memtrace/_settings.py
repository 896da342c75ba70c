"""The settings of a process started by `memtrace record` or `memtrace dry-run`: an environment variable with a JSON object
(src/run/handover.h). The simulated card is in a separate variable, MEMTRACE_DRY_DEVICE, which programs may read."""
from __future__ import annotations

import dataclasses
import json
import math
import os
from typing import Any, Optional

VARIABLE = "MEMTRACE_SETTINGS"


@dataclasses.dataclass(frozen=True)
class Settings:
    torch: str = "no"  # "own": PyTorch's allocator is recorded; "ours": memtrace's replaces it; or "dry"
    trace: str = ""  # an absolute path
    answers: Optional[str] = None  # the file for answers; None: memtrace did not start this process
    name: Optional[str] = None  # of the runs
    command: Optional[str] = None  # of the process, instead of its actual command line
    step: Optional[str] = None  # prefix of the names of NVTX ranges that are steps
    kernels: int = 0
    stacks: int = 1
    holders: int = 0  # holders of growing memory are searched, also under record
    device: int = -1  # the only GPU whose memory counts; -1: all
    cards: int = 1
    steps: int = 0  # number after which a dry run ends; 0: when its loops have settled, -1: never
    deadline: float = math.inf  # of a dry run, in seconds since 1970
    assumed: float = 1.0  # the value of numbers that are not computed
    masks: float = 1.0  # the fraction of a mask's elements that are true if it is not computed
    weights: str = ""  # "from-config": models of libraries need no checkpoint
    eager: int = 0  # torch.compile is left out
    inductor_cache: str = ""  # the folder with a card's autotuning choices
    changes: str = ""  # of the program, for memtrace fit
    files: str = ""  # the folder for files that the program writes
    mail: str = ""  # the folder for messages of ranks
    process: int = 0  # the first process of the program that has a card


_read: Optional[Settings] = None


def settings() -> Settings:
    """Returns the settings, which are read once. Fails with ValueError if they are damaged."""
    global _read
    if _read is None:
        try:
            _read = _parse(os.environ.get(VARIABLE) or "{}")
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{VARIABLE} is damaged ({error}): unset it, or start the program with memtrace again") from None
    return _read


def read_again() -> None:
    """Makes the next call of settings() read the environment, which another program's has replaced."""
    global _read
    _read = None


def _parse(text: str) -> Settings:
    defaults = dataclasses.asdict(Settings())
    return Settings(**{name: value if defaults[name] is None else type(defaults[name])(value)
                       for name, value in json.loads(text).items() if name in defaults})


def change(**fields: Any) -> None:
    """Changes settings, also for processes that this one starts."""
    global _read
    _read = dataclasses.replace(settings(), **fields)
    defaults = dataclasses.asdict(Settings())
    changed = {name: value for name, value in dataclasses.asdict(_read).items() if value != defaults[name]}
    if changed:
        os.environ[VARIABLE] = json.dumps(changed, ensure_ascii=False)
    else:
        os.environ.pop(VARIABLE, None)
