"""The hook that follows the import of PyTorch, however and by whomever it is imported, and what happens without it."""
import importlib
import importlib.util
import os
import subprocess
import sys

import pytest
import torch
from test_dry_run import Dry

from memtrace.recording.import_hook import ImportHook
from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

USE = "print(torch.zeros(1024, 1024, device='cuda').device)\n"
FIRST = [
    "import importlib.util\nassert importlib.util.find_spec('torch') is not None\n",
    "import importlib.util\nfor _ in range(3): importlib.util.find_spec('torch')\n",
    "import transformers\n",
    "import accelerate, transformers.utils.import_utils as u\nassert u.is_torch_available()\n",
    "import pkgutil\nassert pkgutil.get_loader('torch') is not None\n",
    "import sys\nsys.meta_path[:] = [one for one in sys.meta_path if hasattr(one, '__name__')]\n",  # without our finder
    "import sys, importlib.machinery\nsys.meta_path.insert(0, importlib.machinery.PathFinder)\n",  # another one first
]


@pytest.fixture
def dry(tmp_path):
    return Dry(tmp_path)


@pytest.mark.parametrize("first", FIRST)
def test_torch_is_followed_whoever_asks_for_it_first(dry, first):
    for module in ("transformers", "accelerate"):
        if module in first and importlib.util.find_spec(module) is None:
            pytest.skip(f"there is no {module}")
    said = dry.run(first + "import torch\n" + USE)
    assert said.stdout.endswith("cuda:0\n")
    assert dry.rows("SELECT count(*) FROM run") == [(1,)]


def test_a_spawned_process_is_followed_too(dry):
    dry.run("""
        import importlib.util, multiprocessing
        def work():
            importlib.util.find_spec("torch")
            import torch
            torch.zeros(1024, 1024, device="cuda")
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=work)
            process.start()
            process.join()
            assert process.exitcode == 0
        """)
    assert dry.rows("SELECT count(*) FROM run") == [(1,)]


def test_a_program_that_imports_torch_unseen_ends_at_once(dry):
    said = dry.run("""
        import importlib.util, sys
        spec = importlib.util.find_spec("torch")
        module = importlib.util.module_from_spec(spec)
        sys.modules["torch"] = module
        type(spec.loader).exec_module(spec.loader, module)
        print("trains on the host")
        """, code=8)
    assert said.stdout == ""
    assert "no dry run: torch was imported in a way that memtrace can't follow" in said.stderr


@pytest.mark.parametrize("source, reason", [
    ("print('nothing')", "the program did not import PyTorch"),
    ("import torch\nprint(torch.zeros(4).sum())", "the program put nothing on a card"),
])
def test_a_dry_run_that_did_not_take_place_is_an_error(dry, source, reason):
    assert dry.run(source, code=8).stderr.splitlines()[-1] == f"memtrace: no dry run took place: {reason}"


@pytest.mark.parametrize("command", ["dry-run", "record"])
def test_a_python_without_pytorch_is_named(tmp_path, command):
    script = tmp_path / "program.py"
    script.write_text("import sys\nsys.modules['torch'] = None\nimport torch\n")
    done = subprocess.run([find_program(), command, "--trace", str(tmp_path / "t.db"), "--python", sys.executable, str(script)],
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert f"memtrace: {sys.executable} has no PyTorch: activate the environment that has it" in done.stderr
    script.write_text("import sys\nsys.modules['torch'] = None\ntry:\n    import torch\nexcept ImportError:\n    print('goes on')\n")
    done = subprocess.run([find_program(), command, "--trace", str(tmp_path / "t.db"), "--python", sys.executable, str(script)],
                          capture_output=True, text=True)
    assert done.stdout == "goes on\n" and "has no PyTorch" not in done.stderr


def test_a_program_s_own_failure_keeps_its_code(dry):
    dry.run("raise SystemExit(3)", code=3)


def test_record_warns_of_a_torch_that_it_cannot_follow(tmp_path):
    script = tmp_path / "program.py"
    script.write_text("import importlib.util, sys\nspec = importlib.util.find_spec('torch')\n"
                      "module = importlib.util.module_from_spec(spec)\nsys.modules['torch'] = module\n"
                      "type(spec.loader).exec_module(spec.loader, module)\nprint(module.ones(2).sum().item())\n")
    environment = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    done = subprocess.run([find_program(), "record", "--trace", str(tmp_path / "t.db"), "--", sys.executable, str(script)],
                          capture_output=True, text=True, env=environment)
    assert done.returncode == 0 and done.stdout == "2.0\n"
    assert "torch was imported in a way that memtrace can't follow" in done.stderr


def test_a_module_is_executed_once_within_the_hook(tmp_path, monkeypatch):
    (tmp_path / "followed_module.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []

    def around(spec, execute, module):
        execute(module)
        seen.append(module.value)

    hook = ImportHook("followed_module", around)
    hook.install()
    for _ in range(2):
        assert importlib.util.find_spec("followed_module") is not None
    assert seen == []
    import followed_module  # noqa: F401
    assert seen == [1] and hook not in sys.meta_path


def test_two_hooks_follow_one_module(tmp_path, monkeypatch):
    (tmp_path / "followed_twice.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []

    def around(spec, execute, module):
        execute(module)
        seen.append(module.value)

    for _ in range(2):
        ImportHook("followed_twice", around).install()
    importlib.import_module("followed_twice")
    assert seen == [1, 1]
