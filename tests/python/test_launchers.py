"""Command lines of launchers in dry runs: accelerate's own, and ranks that know their place from Slurm or MPI. Skipped where there is
a card."""
import pathlib
import sqlite3
import subprocess
import sys
import textwrap

import pytest
import torch
from test_dry_run import dry  # noqa: F401

from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")
PROGRAMS = pathlib.Path(__file__).parent / "programs"
ACCELERATE = "-m", "accelerate.commands.launch"

# Prints the variables of a rank that do not depend on the moment. It is no dry run, since it does not import PyTorch.
VARIABLES = """
import os
names = "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "MASTER_ADDR"
begins = "ACCELERATE_", "FSDP_", "PARALLELISM_", "MEGATRON_"
variables = {name: value for name, value in os.environ.items() if name in names or name.startswith(begins)}
os.write(1, (repr(sorted(variables.items())) + "\\n").encode())
"""

FSDP_FILE = """
compute_environment: LOCAL_MACHINE
debug: false
distributed_type: FSDP
fsdp_config:
  fsdp_version: 2
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_transformer_layer_cls_to_wrap: GPT2Block
  fsdp_activation_checkpointing: true
machine_rank: 0
mixed_precision: bf16
num_machines: 1
num_processes: 2
use_cpu: false
"""


def start(dry, words, code, *options):  # noqa: F811
    """Runs a command line of Python dry."""
    done = subprocess.run([find_program(), "dry-run", "--device", "sim:h100", "--trace", dry.trace, *options, "--", *words],
                          capture_output=True, text=True, cwd=dry.folder, env=dry.environment())
    assert done.returncode == code, done.stderr
    return done


def peaks(trace):
    with sqlite3.connect(trace) as database:
        return database.execute("SELECT measure, bytes FROM summary_peak WHERE step = -2 ORDER BY measure").fetchall()


@pytest.mark.parametrize("options", [
    ["--multi_gpu", "--num_processes=2", "--mixed_precision", "bf16", "--dynamo_backend", "eager", "--gradient_accumulation_steps", "4"],
    ["--config_file", "fsdp.yaml"],
    ["--num_processes", "1", "--mixed-precision", "fp16"]], ids=["options", "file", "one"])
def test_accelerate_gives_ranks_the_variables_of_a_real_launch(dry, options):  # noqa: F811
    pytest.importorskip("accelerate")
    (dry.folder / "fsdp.yaml").write_text(FSDP_FILE)
    (dry.folder / "variables.py").write_text(VARIABLES)
    words = [sys.executable, *ACCELERATE, *options, "variables.py"]
    real = subprocess.run(words, capture_output=True, text=True, cwd=dry.folder, env=dry.environment())
    assert real.returncode == 0, real.stderr
    assert sorted(start(dry, words, 8).stdout.splitlines()) == sorted(real.stdout.splitlines())


def test_accelerate_starts_the_ranks_that_torchrun_starts(dry):  # noqa: F811
    pytest.importorskip("accelerate")
    second, found = dry.trace.with_name("dry-rank1.db"), []
    for words in ([*ACCELERATE, "--num_processes", "2"], ["-m", "torch.distributed.run", "--nproc-per-node", "2"]):
        start(dry, [sys.executable, *words, PROGRAMS / "accelerate_loop.py"], 0)
        found.append(peaks(dry.trace) + peaks(second))
        dry.trace.unlink()
        second.unlink()
    assert found[0] == found[1] and found[0]


def test_accelerate_s_errors_are_shown(dry):  # noqa: F811
    pytest.importorskip("accelerate")
    for words, says in ((["--what", "1"], "unrecognized arguments: --what"), (["--tpu"], "TPUs"),
                        (["--config_file", "none.yaml"], "none.yaml")):
        assert says in start(dry, [sys.executable, *ACCELERATE, *words, "train.py"], 2).stderr


@pytest.mark.parametrize("launcher, rank, size", [
    ("srun -n 2", "SLURM_PROCID", "SLURM_NTASKS"), ("mpirun -np 2", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")])
def test_ranks_without_torchrun_s_variables_meet(dry, launcher, rank, size):  # noqa: F811
    (dry.folder / "program.py").write_text(textwrap.dedent(f"""
        import os, torch, torch.distributed as dist
        rank, size = int(os.environ["{rank}"]), int(os.environ["{size}"])
        torch.cuda.set_device(rank)
        try:
            dist.init_process_group("nccl")
        except ValueError as error:
            print("RANK expected" in str(error))
        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29500", rank=rank, world_size=size)
        names = [f"from {{rank}}"]
        dist.broadcast_object_list(names, src=0)
        one = torch.ones(4 + rank, device="cuda")
        dist.all_reduce(one)
        print(rank, names[0], one.tolist()[0])
        """))
    said = start(dry, [*launcher.split(), sys.executable, "program.py"], 0)
    assert sorted(said.stdout.splitlines()) == ["0 from 0 2.0", "1 from 0 2.0", "True", "True"]
    assert dry.trace.with_name("dry-rank1.db").exists()
