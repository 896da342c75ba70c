"""What `accelerate launch` would start: python3 -m memtrace.dry.accelerate_launch FILE CARDS OPTIONS SCRIPT

accelerate's own code reads its options and its configuration file, and prepares the variables of the processes, as on a machine
with CARDS cards; 0: as many as processes. Only its functions that start processes are replaced. They write into FILE, each text
with a NUL at its end: variables NAME=VALUE, an empty text, and a command line of torchrun, or else of one process.
"""
from __future__ import annotations

import argparse
import importlib
import os
import sys
from typing import Any


def import_launcher() -> Any:
    """Returns the module accelerate.commands.launch."""
    try:
        return importlib.import_module("accelerate.commands.launch")
    except ImportError as error:
        sys.exit(f"{sys.executable} can't import accelerate ({error}): install it there, or give the number of ranks and the program alone")


def show_cards(cuda: Any, count: int) -> None:
    """Replaces answers of torch.cuda: there are so many cards, which can compute in bf16."""
    cuda.is_available = lambda: True
    cuda.device_count = lambda: count
    cuda.is_bf16_supported = lambda *unused, **named: True


def answer(path: str, environment: dict[str, str], words: list[str]) -> None:
    added = [f"{name}={value}" for name, value in environment.items() if os.environ.get(name) != value]
    with open(path, "wb") as file:
        file.write(b"".join(os.fsencode(text) + b"\0" for text in (*added, "", *words)))


def torchrun_words(args: argparse.Namespace) -> list[str]:
    """Returns the command line of torchrun for options that accelerate has prepared for it."""
    words = ["torchrun", f"--nnodes={getattr(args, 'nnodes', 1)}", f"--nproc-per-node={args.nproc_per_node}"]
    words += ["--module"] if args.module else []
    words += ["--no-python"] if args.no_python else []
    return [*words, args.training_script, *args.training_script_args]


def replace_starts(launch: Any, path: str) -> None:
    """Replaces the functions of accelerate that start processes."""

    def start_ranks(args: argparse.Namespace) -> None:
        environment = launch.prepare_multi_gpu_env(args)
        answer(path, environment, torchrun_words(args))

    def start_deepspeed(args: argparse.Namespace) -> None:
        args.deepspeed_multinode_launcher = "standard"  # the others start `deepspeed`, which gives ranks the same variables
        environment = launch.prepare_deepspeed_cmd_env(args)[1]
        answer(path, environment, torchrun_words(args))

    def start_one(args: argparse.Namespace) -> None:
        words, environment = launch.prepare_simple_launcher_cmd_env(args)
        answer(path, environment, words)

    def refuse(*unused: Any) -> None:
        sys.exit("a job on TPUs or SageMaker can't be run dry")

    launch.multi_gpu_launcher = start_ranks
    launch.deepspeed_launcher = start_deepspeed
    launch.simple_launcher = start_one
    launch.tpu_launcher = launch.tpu_pod_launcher = launch.sagemaker_launcher = refuse


def main() -> None:
    path, cards, *words = sys.argv[1:]
    launch = import_launcher()
    args = launch.launch_command_parser().parse_args(words)
    args.machine_rank = 0  # all ranks are run here, whichever machine this is
    show_cards(launch.torch.cuda, int(cards) or (args.num_processes or 1) // (args.num_machines or 1) or 1)
    replace_starts(launch, path)
    launch.launch_command(args)


if __name__ == "__main__":
    main()
