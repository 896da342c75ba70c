"""The overlay of a dry run's files against a real file system: the same changes have the same results, and the user's files stay."""
import os
import pathlib
import random
import subprocess
import sys

import pytest

CHANGES = pathlib.Path(__file__).parent / "file_changes.py"


def make_files(folder):
    for name in ("x", "y", "a/x", "a/z", "a/c/y", "b/x"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("old " + name)
    (folder / "link").symlink_to("a")
    (folder / "b/s").symlink_to("../x")


def state_of(folder):
    return {str(path.relative_to(folder)): os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else ""
            for path in folder.rglob("*")}


def change_files(folder, *words):
    """Changes the files of a folder. Returns what was printed."""
    make_files(folder)
    done = subprocess.run([sys.executable, CHANGES, *words], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("number", range(6))
def test_changes_have_the_results_that_they_have_without_a_dry_run(tmp_path, number):
    seed = os.environ.get("SEED") or str(random.randrange(2**32))
    print(f"SEED={seed}")
    make_files(tmp_path / "untouched/files")
    real = change_files(tmp_path / "real/files", f"{seed}.{number}")
    dry = change_files(tmp_path / "dry/files", f"{seed}.{number}", "dry")
    for expected, found in zip(real, dry):
        assert found == expected
    assert state_of(tmp_path / "dry") == state_of(tmp_path / "untouched")
