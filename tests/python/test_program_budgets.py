"""`memtrace check` of the programs of memtrace.toml."""
import json
import os
import subprocess
import sys

import pytest
import torch
from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

HOLD = "import torch\nx = torch.empty(1 << 28, device='cuda')\n"  # 1 GiB
BUDGETS = f"""
# What our programs may take.
[fits]
program = "'{sys.executable}' hold.py --name 'two words'"
card = "h100"
limit = "2GiB"

[large]
program = [ "{sys.executable}",
    "hold.py", # 1 GiB and a context
]
card = "sim:h100"
limit = "1GiB"

[shared]
programs = ["'{sys.executable}' hold.py", "'{sys.executable}' hold.py"]
card = "h100"
strict = true
"""


def check(folder, *words):
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    return subprocess.run([find_program(), "check", *words], capture_output=True, text=True, cwd=folder, env=kept, check=False)


def test_programs_are_held_to_their_limits_and_the_failed_line_is_annotated(tmp_path):
    (tmp_path / "hold.py").write_text(HOLD)
    (tmp_path / "memtrace.toml").write_text(BUDGETS)
    said = check(tmp_path, "--annotate", "--summary", "summary.md", "--json")
    told = json.loads(said.stdout)
    assert (said.returncode, told["schema"], told["passed"]) == (1, "memtrace.check_programs/1", False), said.stderr
    budgets = {row["budget"]: row for row in told["budgets"]}
    assert {name: row["fits"] for name, row in budgets.items()} == {"fits": True, "large": False, "shared": True}
    assert budgets["shared"]["bytes"] == 2 * budgets["fits"]["bytes"]
    assert budgets["fits"]["programs"][0]["program"].endswith("hold.py --name 'two words'")
    assert "1 of 3 budgets of memtrace.toml are not kept" in said.stderr
    annotations = [line for line in said.stderr.splitlines() if line.startswith("::error")]
    assert len(annotations) == 1
    assert annotations[0].startswith(f"::error file={tmp_path / 'hold.py'},line=2,title=memtrace check large::the program does not fit")
    assert (tmp_path / "summary.md").read_text().count("### memtrace check ") == 3


def test_a_run_that_fails_is_annotated_at_its_peak(tmp_path):
    (tmp_path / "hold.py").write_text(HOLD)
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    subprocess.run([find_program(), "dry-run", "--", sys.executable, "hold.py"], check=True, cwd=tmp_path, env=kept, capture_output=True)
    said = check(tmp_path, "--max-allocated", "1MiB", "--annotate")
    assert said.returncode == 1
    assert f"::error file={tmp_path / 'hold.py'},line=2,title=memtrace check::max-allocated: 1.00 GiB, over 1.00 MiB" in said.stderr


@pytest.mark.parametrize("text, code, says", [
    ("", 2, "memtrace.toml has no budget"),
    ("program = 'x'", 2, "line 1: program stands above the first budget"),
    ("[a]\ncard = 'h100'", 2, "[a] has no program"),
    ("[a]\nprogram = 'x'", 2, "[a] has no card"),
    ("[a]\nprogram = ''", 2, "line 2: a command is empty"),
    ("[a]\nprogram = \"x 'y\"", 2, "line 2: a command has no closing '"),
    ("[a]\nprogram = 'x'\nprograms = ['x', 'y']", 2, "line 3: the table has a program already"),
    ("[a]\nprograms = ['x']", 2, "line 2: programs is wrong"),
    ("[a]\nprogram = 3", 2, "line 2: program is wrong"),
    ("[a]\nlimit = 3", 2, "line 2: limit is wrong"),
    ("[a]\nlimit = '52'", 2, "line 2: "),
    ("[a]\nlimits = '1GiB'", 2, 'line 2: unknown key "limits"; did you mean "limit"'),
    ("[a]\nstrict = 'yes'", 2, "line 2: strict is wrong"),
    ("[a]\n[a]", 2, "line 2: there are two budgets [a]"),
    ("[a]\nprogram = 'x'\ncard = 'h101'", 4, '[a]: unknown card "h101"'),
    ("[a]\nprogram = 'x --and'\ncard = 'h100'", 2, "[a]: --and stands between two programs"),
    ("[a]\nprogram = 'no-such-program'\ncard = 'h100'", 8, "1 of 1 budgets of memtrace.toml are not kept"),
])
def test_errors_name_the_line(tmp_path, text, code, says):
    (tmp_path / "memtrace.toml").write_text(text)
    said = check(tmp_path)
    assert (said.returncode, says in said.stderr) == (code, True), said.stderr


def test_criteria_of_runs_are_not_for_programs(tmp_path):
    (tmp_path / "memtrace.toml").write_text("[a]\nprogram = 'x'\ncard = 'h100'\n")
    said = check(tmp_path, "--budget", "memtrace.toml", "--no-leaks")
    assert (said.returncode, "are about a run" in said.stderr) == (2, True)
    assert "no trace" in check(tmp_path, "--no-leaks").stderr.lower()  # memtrace.toml is not read
