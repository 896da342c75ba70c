"""What models in PyTorch share that are peers: sizes, a timed training step, and answering for them on stdin."""
import argparse
import gc
import statistics

import torch

from pytorch_serve import serve

SIZES = {  # d_model, d_ff, layers, heads
    "small": (768, 3072, 12, 12),
    "medium": (1024, 4096, 24, 16),
    "large": (1280, 5120, 36, 20),
    "xl": (1600, 6400, 48, 25),
    "2.7B": (2560, 10240, 32, 32),
}
VOCABULARY = 10000
WARM_UP = 3


class Training:
    """A model under training: a subclass sets `optimizer` and defines `loss(tokens)`, which returns what the step keeps until its
    end, as training loops do with logits, and the loss."""

    def __init__(self, given):
        self.shape = (given.batch, given.seq)
        self.autocast = given.precision == "bf16"
        torch.backends.cuda.matmul.allow_tf32 = given.precision == "tf32"
        torch.manual_seed(0)

    def step(self):
        """Milliseconds of one step, of its forward with the loss, its backward and its optimizer."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        marks[0].record()
        tokens = torch.randint(0, VOCABULARY, self.shape, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.autocast):
            kept, loss = self.loss(tokens)  # freed in this order
        marks[1].record()
        loss.backward()
        marks[2].record()
        self.optimizer.step()
        marks[3].record()
        torch.cuda.synchronize()
        parts = [marks[i].elapsed_time(marks[i + 1]) for i in range(3)]
        return [marks[0].elapsed_time(marks[3]), *parts]

    def next_steps(self, count):
        """Medians of so many steps."""
        times = [self.step() for _ in range(int(count))]
        return [statistics.median(part) for part in zip(*times)]

    def steps(self, count):
        """The same after a step that reserves again what is then left to others."""
        self.step()
        medians = self.next_steps(count)
        torch.cuda.empty_cache()
        return medians


def peaks():
    return [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()]


def used_bytes():
    """What is in use on the card, by the driver."""
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    return [total - free]


class Served:
    """A training that is made when it is needed and can be given up: between the two, nothing but its memory changes, since
    libraries and kernels stay loaded."""

    def __init__(self, make):
        self.make, self.training = make, None

    def get(self):
        if self.training is None:
            self.training = self.make()
            self.training.steps(WARM_UP)
        return self.training

    def empty(self):
        self.training = None
        gc.collect()
        torch._C._cuda_clearCublasWorkspaces()
        torch.cuda.empty_cache()
        return used_bytes()

    def full(self):
        self.get().step()
        return used_bytes()


def serve_training(kind, description):
    """Makes a training of the kind as the command line says, warms it up and answers for it."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--model", choices=SIZES, default="2.7B")
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16"), default="fp32")
    parser.add_argument("--compile", action="store_true", help="with torch.compile, where the model knows it")
    given = parser.parse_args()
    served = Served(lambda: kind(given))
    served.get()
    serve({
        "step": lambda count: served.get().steps(count),
        "next": lambda count: served.get().next_steps(count),
        "peaks": peaks,
        "empty": served.empty,
        "full": served.full,
    })
