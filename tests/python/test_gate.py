"""`memtrace fit` in front of a queue: exit codes, the bytes of a GPU, requests to schedulers, annotations and summaries."""
import json
import math
import os
import subprocess
import sys
from typing import NamedTuple

import pytest
import torch
from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

# Ends when the loop repeats itself, so that `evaluate` does not run.
TRAIN = """
import torch
net = torch.nn.Linear(1024, 1024).cuda()
for _ in range(100):
    net(torch.randn(64, 1024, device="cuda")).sum().backward()
    net.zero_grad()
def evaluate(): pass
evaluate()
"""
HOLD = "import torch\nx = torch.empty(1 << 28, device='cuda')\n"  # 1 GiB
MIB, GIB = 1 << 20, 1 << 30
CONTEXT = "--device", "sim:h100"


def run(folder, *words):
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    return subprocess.run([find_program(), *words], capture_output=True, text=True, cwd=folder, env=kept, check=False)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for name, source in {"train.py": TRAIN, "hold.py": HOLD, "huge.py": HOLD.replace("28", "40"),
                         "fails.py": HOLD + "def rate(): return {}['lr']\nrate()\n", "syntax.py": HOLD + "x =\n",
                         "inside.py": "import json\njson.loads('{')\n", "idle.py": "import torch\n"}.items():
        (folder / name).write_text(source)
    return folder


def fit(folder, options, *words):
    return run(folder, "fit", *options, "--", *words)


class Case(NamedTuple):
    code: int
    options: tuple[str, ...]
    program: tuple[str, ...]
    says: str


PYTHON = sys.executable
TORCHRUN = os.path.join(os.path.dirname(PYTHON), "torchrun")
CASES = {
    "fits": Case(0, ("--device", "sim:h100", "--quiet"), (PYTHON, "hold.py"), ""),
    "does not fit": Case(1, ("--device", "sim:h100:900MiB", "--quiet", "--annotate"), (PYTHON, "hold.py"),
                         "/hold.py,line=2,title=memtrace fit::the program does not fit: it needs 1.00 GiB of the 900.00 MiB"),
    "needs more than any card": Case(1, ("--quiet",), (PYTHON, "huge.py"), "more than 1.00 TiB"),
    "fails": Case(1, ("--quiet",), (PYTHON, "fails.py"), "the program fails: exit code 1, KeyError: 'lr'"),
    "fails at a line": Case(1, ("--quiet", "--annotate"), (PYTHON, "fails.py"),
                            "/fails.py,line=3,title=memtrace fit::the program fails: exit code 1, KeyError: 'lr'"),
    "fails inside a library": Case(1, ("--quiet", "--annotate"), (PYTHON, "inside.py"), "/inside.py,line=2,title=memtrace fit::"),
    "does not compile": Case(1, ("--quiet", "--annotate"), (PYTHON, "syntax.py"), "/syntax.py,line=3,title=memtrace fit::"),
    "no program": Case(2, ("--quiet",), (), "--quiet is about a program"),
    "wrong option": Case(2, ("--quite",), ("true",), 'did you mean "--quiet"'),
    "wrong scheduler": Case(2, ("--as", "pbs"), ("true",), "slurm"),
    "two answers": Case(2, ("--as", "slurm", "--json"), ("true",), "leave --json out"),
    "half a program": Case(2, (), ("true", "--and"), "--and stands between two programs"),
    "unknown card": Case(4, ("--device", "sim:h101", "--quiet"), ("true",), 'did you mean "h100"'),
    "no such program": Case(8, ("--quiet",), ("no-such-program",), "No such file or directory"),
    "nothing on a card": Case(8, ("--quiet",), (PYTHON, "idle.py"), "allocated nothing on a card"),
    "no PyTorch": Case(8, ("--quiet",), ("true",), "allocated nothing on a card"),
}


@pytest.mark.parametrize("name", CASES)
def test_exit_codes_say_what_a_gate_has_to_know(programs, name):
    case = CASES[name]
    said = fit(programs, case.options, *case.program) if case.program else run(programs, "fit", *case.options)
    assert (said.returncode, case.says in said.stderr) == (case.code, True), said.stderr
    assert said.stdout == "" or said.stdout.strip().isdigit()


def test_the_number_is_the_bytes_that_a_dry_run_names(programs):
    asked = json.loads(run(programs, "dry-run", "--json", "--trace", "t.db", *CONTEXT, "--", PYTHON, "train.py").stdout)
    said = fit(programs, (*CONTEXT, "--json", "--quiet", "--strict"), PYTHON, "train.py")
    told = json.loads(said.stdout)
    assert (told["bytes"], told["outside"], told["fits"], told["rank"]) == (asked["bytes"], asked["outside"], True, None)
    assert told["schema"] == "memtrace.fit_need/1" and not told["certain"]
    assert told["exit_code"] == said.returncode == 9  # not certain, since it did not evaluate
    assert (told["unknown"], [row["name"] for row in told["not_run"]]) == ([], ["evaluate"])


def test_growth_and_cached_memory_are_judged_on_the_card(programs):
    """A dry run of `fit` has more memory than the card: it tells of a leak when the card would be full, as `dry-run` does."""
    (programs / "leaks.py").write_text(TRAIN.replace("net.zero_grad()", "net.zero_grad(); kept.append(torch.empty(1 << 21, device='cuda'))")
                                       .replace("import torch", "import torch\nkept = []"))
    device = "--device", "sim:1GiB"
    asked = json.loads(run(programs, "dry-run", "--json", "--trace", "l.db", *device, "--", PYTHON, "leaks.py").stdout)
    told = json.loads(fit(programs, (*device, "--json", "--quiet"), PYTHON, "leaks.py").stdout)
    assert [row["bytes"] for row in asked["growth"]] == [row["bytes"] for row in told["growth"]] == [8 * MIB]
    assert abs(told["growth"][0]["count"] - asked["growth"][0]["count"]) <= 1
    (programs / "frees.py").write_text("import torch\nfor mib in 600, 700:\n    x = torch.empty(mib << 18, device='cuda')\n    del x\n")
    told = json.loads(fit(programs, (*device, "--json", "--quiet"), PYTHON, "frees.py").stdout)
    assert (told["exit_code"], told["fits"], told["by_reuse"], told["bytes"], told["short"]) == (0, True, True, 1300 * MIB, 0)


def test_json_says_why_there_is_no_answer(programs):
    said = fit(programs, ("--quiet", "--json"), "true")
    told = json.loads(said.stdout)
    assert (said.returncode, told["exit_code"], told["fits"], told["bytes"]) == (8, 8, False, None)
    assert "allocated nothing" in told["reason"]


def test_programs_on_a_card_add_up_with_a_context_each_and_annotate_the_largest(programs):
    summary = programs / "summary.md"
    said = fit(programs, ("--device", "sim:rtx4060:free=3GiB", "--json", "--annotate", "--summary", str(summary)),
               PYTHON, "hold.py", "--and", PYTHON, "hold.py", "--and", PYTHON, "train.py")
    told = json.loads(said.stdout)
    assert (said.returncode, told["fits"], len(told["programs"])) == (0, True, 3), said.stderr
    assert told["bytes"] == sum(row["bytes"] for row in told["programs"])
    assert told["outside"] == sum(row["outside"] for row in told["programs"]) > 3 * 90 * MIB
    assert told["bytes"] > 2 * GIB and "::error" not in said.stderr
    assert "they need" in summary.read_text() and "on rank" not in summary.read_text()
    assert "hold.py | 1.00 GiB | " in summary.read_text().replace("\\", "")


def test_a_request_has_the_bytes_of_the_largest_rank_for_the_cards_of_a_node(programs):
    words = TORCHRUN, "--nnodes", "2", "--nproc-per-node", "2", "hold.py"
    told = json.loads(fit(programs, (*CONTEXT, "--quiet", "--json", "--only", "1"), *words).stdout)
    said = fit(programs, (*CONTEXT, "--as", "kai", "--only", "0"), *words)
    mib = math.ceil(told["bytes"] / MIB) + 768
    assert (told["rank"], said.returncode) == (1, 0), said.stderr
    assert said.stdout == f'gpu-memory: "{mib}"\ngpu-fraction-num-devices: "2"\n'


OWN = "import os, torch\nx = torch.empty(1 << 28, device='cuda:' + os.environ['LOCAL_RANK'])\n"
VISIBLE = "import os\nos.environ['CUDA_VISIBLE_DEVICES'] = os.environ['LOCAL_RANK']\n" + HOLD
STRAY = OWN + "y = torch.empty(1 << 26, device='cuda:0')\n"  # 256 MiB more of rank 0, and of rank 1 on rank 0's card
RANKS = TORCHRUN, "--nproc-per-node", "2"
SHARED = {  # the program, its launcher, ranks on the fullest card, bytes there without contexts
    "each its own": (OWN, RANKS, 1, GIB),
    "one card for both": (HOLD, RANKS, 2, 2 * GIB),
    "visible to one": (VISIBLE, RANKS, 1, GIB),
    "a stray allocation": (STRAY, RANKS, 2, GIB + GIB // 2),
    "two nodes": (HOLD, (TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1"), 1, GIB),
    "cards of a task": (HOLD, ("srun", "-n", "2", "--ntasks-per-node", "2", "--gpus-per-task", "1", PYTHON), 1, GIB),
    "cards of a node": (HOLD, ("srun", "-n", "2", "--ntasks-per-node", "2", "--gpus-per-node", "1", PYTHON), 2, 2 * GIB),
}
REQUESTED = {"one card for both": 1, "cards of a task": 2}  # cards of a node


@pytest.fixture(scope="module", name="context")
def bytes_of_a_context(programs):
    return json.loads(fit(programs, (*CONTEXT, "--quiet", "--json"), PYTHON, "hold.py").stdout)["outside"]


@pytest.mark.parametrize("name", SHARED)
def test_ranks_on_one_card_add_up_with_a_context_each(programs, context, name):
    source, launcher, sharers, held = SHARED[name]
    (programs / "shared.py").write_text(source)
    told = json.loads(fit(programs, (*CONTEXT, "--quiet", "--json"), *launcher, "shared.py").stdout)
    [row] = told["programs"]
    assert (row["sharers"], row["reserved"]) == (sharers, held), told
    assert told["outside"] == sharers * context and told["bytes"] == held + told["outside"]
    if name not in REQUESTED:
        return
    requested = fit(programs, (*CONTEXT, "--as", "kai"), *launcher, "shared.py").stdout
    assert requested.startswith(f'gpu-memory: "{math.ceil(told["bytes"] / MIB) + 768}"')
    assert (f'gpu-fraction-num-devices: "{REQUESTED[name]}"' in requested) == (REQUESTED[name] > 1)


def test_ranks_on_one_card_do_not_fit_if_their_sum_does_not(programs):
    (programs / "shared.py").write_text(HOLD)
    card = "--device", "sim:1900MiB"
    said = fit(programs, (*card, "--quiet"), *RANKS, "shared.py")
    assert said.returncode == 1 and "on the card that 2 ranks share 2.00 GiB of the 1.86 GiB" in said.stderr
    said = fit(programs, (*card, "--json"), *RANKS, "shared.py")
    told = json.loads(said.stdout)
    assert (told["fits"], told["sharers"], told["bytes"], told["room_bytes"]) == (False, 2, 2 * GIB, -148 * MIB)
    assert fit(programs, (*card, "--quiet"), TORCHRUN, "--nnodes", "2", "--nproc-per-node", "1", "shared.py").returncode == 0
