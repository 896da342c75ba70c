"""Command lines of launchers in dry runs: ranks that know their place from Slurm or MPI. Skipped where there is a card."""
import subprocess
import sys
import textwrap

import pytest
import torch
from test_dry_run import dry  # noqa: F401

from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")


def start(dry, words, code, *options):  # noqa: F811
    """Runs a command line of Python dry."""
    done = subprocess.run([find_program(), "dry-run", "--device", "sim:h100", "--trace", dry.trace, *options, "--", *words],
                          capture_output=True, text=True, cwd=dry.folder, env=dry.environment())
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.parametrize("launcher, rank, size", [
    ("srun -n 2", "SLURM_PROCID", "SLURM_NTASKS"), ("mpirun -np 2", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")])
def test_ranks_without_torchrun_s_variables_meet(dry, launcher, rank, size):  # noqa: F811
    (dry.folder / "program.py").write_text(textwrap.dedent(f"""
        import os, torch, torch.distributed as dist
        rank, size = int(os.environ["{rank}"]), int(os.environ["{size}"])
        torch.cuda.set_device(rank)
        dist.init_process_group("nccl", init_method="tcp://127.0.0.1:29500", rank=rank, world_size=size)
        names = [f"from {{rank}}"]
        dist.broadcast_object_list(names, src=0)
        one = torch.ones(4 + rank, device="cuda")
        dist.all_reduce(one)
        print(rank, names[0], one.tolist()[0])
        """))
    said = start(dry, [*launcher.split(), sys.executable, "program.py"], 0)
    assert sorted(said.stdout.splitlines()) == ["0 from 0 2.0", "1 from 0 2.0"]
    assert dry.trace.with_name("dry-rank1.db").exists()
