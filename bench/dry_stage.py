"""What the programs of bench/dry_library_models.py and bench/dry_own_models.py are made of: a stage, a step, and their list."""
from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple, Optional

PEAK_STEPS, STEPS = 4, 6
MARK_BYTES = 1_234_567
Step = Callable[[], None]
Loss = Optional[Callable[[], Any]]
Data = Optional[Callable[[], dict[str, Any]]]


class Stage:
    """Where a program runs, and who hears of its steps."""

    def __init__(self, torch: Any, device: str) -> None:
        self.torch, self.device, self.done = torch, device, 0

    def end_step(self) -> None:
        """Tells the peaks after the fourth step, and marks the last one."""
        self.done += 1
        if self.done == PEAK_STEPS:
            counted = self.torch.cuda.memory_stats()
            peaks = {what: counted[f"{what}_bytes.all.peak"] for what in ("requested", "allocated", "reserved")}
            print(json.dumps({**peaks, "rank": int(os.environ.get("RANK", 0))}), flush=True)
        if self.done in (STEPS - 1, STEPS):
            self.torch.empty(MARK_BYTES, dtype=self.torch.uint8, device=self.device)

    def narrow(self, dtype: str) -> contextlib.AbstractContextManager[Any]:
        """Returns autocast to a dtype; nothing for the empty one."""
        if not dtype:
            return contextlib.nullcontext()
        return self.torch.autocast(self.device, dtype=getattr(self.torch, dtype))

    def made(self, make: Callable[[], Any], dtype: str = "float32") -> Any:
        """Returns a model made on the device, in training."""
        with self.torch.device(self.device):
            self.torch.set_default_dtype(getattr(self.torch, dtype))
            model = make()
            self.torch.set_default_dtype(self.torch.float32)
        return model.train()

    def words(self, vocabulary: int, *size: int) -> Any:
        return self.torch.randint(0, vocabulary, size, device=self.device)

    def noise(self, *size: int) -> Any:
        return self.torch.randn(*size, device=self.device)

    def trained(self, model: Any, loss_of: Loss = None, optimizer: Any = None, data_of: Data = None, keeps_data: bool = False,
                autocast: str = "", accumulate: int = 1, clip: float = 0.0) -> Step:
        """Returns a step: `accumulate` losses and their gradients, clipped, and the optimizer's step, scaled in float16. The
        loss is `loss_of`'s, or that of a model of transformers on `data_of`'s data, which live to the step's end or less."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = optimizer or self.torch.optim.AdamW(parameters, lr=1e-4)
        scaler = self.torch.amp.GradScaler(self.device) if autocast == "float16" else None

        def step() -> None:
            for _ in range(accumulate):
                kept = data_of() if keeps_data else None
                with self.narrow(autocast):
                    loss = loss_of() if loss_of else model(**(kept or data_of())).loss
                (scaler.scale(loss) if scaler else loss).backward()
            if clip:
                self.torch.nn.utils.clip_grad_norm_(parameters, clip)
            if scaler:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            optimizer.zero_grad()

        return step


class Program(NamedTuple):
    make: Callable[[Stage], Optional[Step]]  # returns a step, or trains by itself and calls `end_step`
    gib: int  # what it takes of a card at most, rounded up: by it, programs share a card
    needs: tuple[str, ...] = ()  # libraries
    allocator: str = ""  # PYTORCH_CUDA_ALLOC_CONF
    suite: str = "dry-run"  # the name of the measurement in tools/gpu-test


PROGRAMS: dict[str, Program] = {}


def program(gib: int, *needs: str, allocator: str = "",
            suite: str = "dry-run") -> Callable[[Callable[[Stage], Optional[Step]]], None]:
    """Lists a function under its name."""
    def listed(make: Callable[[Stage], Optional[Step]]) -> None:
        PROGRAMS[make.__name__] = Program(make, gib, needs, allocator, suite)
    return listed
