"""The samples for gates, VS Code and dashboards, run as their readers would run them."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import memtrace
import pytest
import torch
from memtrace._library import find_program

SAMPLES = pathlib.Path(__file__).parents[2] / "samples"
HUGE = "import torch\nx = torch.empty(10 << 30, device='cuda')\n"  # 40 GiB
needs_no_card = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")


def environment(*folders, **more):
    """The environment of a user with memtrace and Python on the path, and no other test's library."""
    path = [*map(str, folders), os.path.dirname(find_program()), os.path.dirname(sys.executable), os.environ["PATH"]]
    packages = [os.path.dirname(os.path.dirname(memtrace.__file__)), os.environ.get("PYTHONPATH", "")]
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    return {**kept, "PATH": ":".join(path), "PYTHONPATH": ":".join(filter(None, packages)), **more}


def run(folder, *words, **how):
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, **how)


@needs_no_card
def test_the_action_passes_a_program_and_annotates_one_that_is_too_large(tmp_path):
    yaml = pytest.importorskip("yaml")
    action = yaml.safe_load((SAMPLES / "ci/action.yml").read_text())
    used = yaml.safe_load((SAMPLES / "ci/workflow.yml").read_text())["jobs"]["memory"]["steps"][-1]["with"]
    assert set(used) <= set(action["inputs"])
    step = action["runs"]["steps"][-1]
    assert step["env"] == {"BUDGET": "${{ inputs.budget }}"}

    folder = shutil.copytree(SAMPLES / "ci", tmp_path / "ci")
    budget, summary = folder / action["inputs"]["budget"]["default"], tmp_path / "summary.md"
    made = environment(BUDGET=budget.name, GITHUB_STEP_SUMMARY=str(summary))
    passed = run(folder, "bash", "-e", "-o", "pipefail", "-c", step["run"], env=made)
    assert passed.returncode == 0, passed.stderr
    assert passed.stdout.startswith("train: passes: it needs ")

    budget.write_text(budget.read_text().replace("4GiB", "500MiB"))
    failed = run(folder, "bash", "-e", "-o", "pipefail", "-c", step["run"], env=made)
    assert failed.returncode == 1
    line = (folder / "train.py").read_text().splitlines().index("    optimizer.step()") + 1
    assert f"::error file={folder / 'train.py'},line={line},title=memtrace check train::the program does not fit: " in failed.stderr
    assert "of the limit of 500.00 MiB on sim:l4" in failed.stderr
    assert summary.read_text().count("### memtrace check train: ") == 2


@needs_no_card
def test_a_program_is_submitted_only_if_it_fits(tmp_path):
    folder = shutil.copytree(SAMPLES / "ci", tmp_path / "ci")
    sbatch = tmp_path / "sbatch"
    sbatch.write_text('#!/bin/sh\nprintf "%s\\n" "$@" >"$0.said"\n')
    sbatch.chmod(0o755)
    (folder / "huge.py").write_text(HUGE)
    refused = run(folder, "./submit.sh", "l4", "python", "huge.py", env=environment(tmp_path))
    assert (refused.returncode, (tmp_path / "sbatch.said").exists()) == (1, False), refused.stderr
    (folder / "hold.py").write_text(HUGE.replace("30", "20"))
    assert run(folder, "./submit.sh", "l4", "python", "hold.py", "two words", env=environment(tmp_path)).returncode == 0
    assert (tmp_path / "sbatch.said").read_text().splitlines() == ["--gres=gpu:l4:1", "--wrap",
                                                                   "exec 'python' 'hold.py' 'two words' "]


@needs_no_card
def test_vs_code_finds_the_line_of_the_peak(tmp_path):
    text = re.sub(r"^ *//.*$", "", (SAMPLES / "vscode/tasks.json").read_text(), flags=re.MULTILINE)
    task = json.loads(text)["tasks"][0]
    program = tmp_path / "huge.py"
    program.write_text(HUGE)
    words = [word.replace("${file}", str(program)) for word in task["args"]]
    said = run(tmp_path, task["command"], *words, env=environment())
    pattern = task["problemMatcher"]["pattern"]
    problems = [found for found in map(re.compile(pattern["regexp"]).match, said.stderr.splitlines()) if found]
    assert len(problems) == 1, said.stderr
    assert [problems[0][pattern[part]] for part in ("severity", "file", "line")] == ["error", str(program), "2"]
    assert problems[0][pattern["message"]].startswith("the program does not fit: it needs 40.2")


@pytest.fixture(scope="module")
def dashboards(tmp_path_factory, asked):
    folder = shutil.copytree(SAMPLES / "dashboards", tmp_path_factory.mktemp("samples") / "dashboards")
    shutil.copy(asked.path, folder / "memtrace.db")
    return folder


def test_the_picture_is_of_the_live_bytes(dashboards, monkeypatch):
    pytest.importorskip("PIL")
    monkeypatch.syspath_prepend(dashboards)
    import picture
    trace = str(dashboards / "memtrace.db")
    names, live = picture.live_bytes(trace)
    with memtrace.open(trace) as opened:
        peak = opened.peak()
    at_peak = live[:, live.sum(axis=0).argmax()]
    assert live.min() == 0 and live.sum(axis=0).max() == peak.bytes
    assert {name: count for name, count in zip(names, at_peak) if count} == {row.category: row.allocated_bytes for row in peak.shares}
    assert picture.draw(trace).shape == (picture.HEIGHT, picture.WIDTH + picture.LEGEND, 3)


def test_tensorboard_shows_the_picture(dashboards):
    pytest.importorskip("torch.utils.tensorboard")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    said = run(dashboards, sys.executable, "to_tensorboard.py", "memtrace.db", "runs", env=environment())
    assert said.returncode == 0, said.stderr
    read = accumulator.EventAccumulator(str(dashboards / "runs"))
    read.Reload()
    image = read.Images("memtrace/memory")[0]
    assert (image.width, image.height) == (1190, 400) and image.encoded_image_string.startswith(b"\x89PNG")
    assert len(read.Scalars("memtrace/peak_allocated_bytes")) == 3


def test_wandb_stores_the_picture_and_the_timeline(dashboards):
    pytest.importorskip("wandb")
    said = run(dashboards, sys.executable, "to_wandb.py", "memtrace.db", env=environment(WANDB_MODE="offline", WANDB_SILENT="true"))
    assert said.returncode == 0, said.stderr
    media = next(dashboards.glob("wandb/offline-run-*/files/media"))
    assert next(media.glob("images/memtrace/memory_*.png")).read_bytes().startswith(b"\x89PNG")
    assert "memtrace" in next(media.glob("html/memtrace/timeline_*.html")).read_text()
