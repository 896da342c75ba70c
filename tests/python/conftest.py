"""What the tests of the package share: a trace of two runs that the program wrote."""
import json
import os
import signal
import subprocess
import sys

import pytest

from memtrace._library import find_program

pytest_plugins = ["pytester"]
signal.signal(signal.SIGINT, signal.default_int_handler)  # programs inherit that interrupts are ignored, as in a background job

TINY = ("--vocab 64 --d-model 32 --d-ff 64 --layers 2 --heads 2 --seq 16 --steps 3").split()


def run_program(*arguments):
    """Runs the program, which must end well, and returns what it printed."""
    done = subprocess.run([find_program(), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Asked:
    """A trace, and the program's answers to compare with."""

    def __init__(self, path):
        self.path = path

    def json(self, *arguments):
        return json.loads(run_program(*arguments, "--trace", self.path, "--json"))


@pytest.fixture(scope="session")
def asked(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "two.db"
    for name, batch in (("small", 2), ("large", 4)):
        run_program("run", "--device", "sim:l4", "--trace", path, "--name", name, "--batch", batch, *TINY)
    return Asked(path)


class DryFolder:
    """Where programs run dry."""

    def __init__(self, path):
        self.path = path
        self.environment = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}  # a fake one

    def dry(self, source, *words, options=(), trace="dry.db"):
        (self.path / "program.py").write_text(source)
        return subprocess.run([find_program(), "dry-run", "--device", "sim:200GiB", "--steps", "all", "--trace", trace, *options, "--",
                               sys.executable, "program.py", *words], cwd=self.path, capture_output=True, text=True, check=False,
                              env=self.environment)

    def rows(self, query, trace="dry.db"):
        told = subprocess.run([find_program(), "sql", "--trace", trace, "--json", query], cwd=self.path, check=True, capture_output=True,
                              text=True)
        return json.loads(told.stdout)["rows"]


@pytest.fixture
def folder(tmp_path):
    return DryFolder(tmp_path)
