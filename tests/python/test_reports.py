"""Programs after public reports of memory trouble: the cause, the holder, the change that helps and the figures. They are kept
beside the repository, in ../shared/reference/reports."""
import json
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest
import torch
from test_dry_run import Dry

from memtrace._library import find_program

REPORTS = pathlib.Path(__file__).resolve().parents[3] / "shared/reference/reports/programs"
pytestmark = [pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card"),
              pytest.mark.skipif(not REPORTS.is_dir(), reason=f"there is no {REPORTS}")]

MIB = 1 << 20
# program, detector, change, holder or named tensor, MiB of the observation, MiB of the peak
CASES = [
    (["p01_val_nograd.py"], "kept graphs", "no_grad", "losses", 80, 1562),
    (["p02_train_leak.py"], "kept graphs", "detach", "feats.values", 4, None),
    (["p03_ckpt_infer.py"], "checkpoint on the card", "map_location", "ck", 192, 384),
    (["p03_ckpt_infer.py", "cpu"], None, None, None, None, 227),
    (["p07_amp.py", "amp"], "casts of autocast", "larger batch under autocast", None, 100, 1293),
    (["p08_ckpt_more.py", "one"], "one segment", "checkpoint each block", None, 928, 1361),
    (["p09_trainer_eval.py", "128"], "kept tensors", "eval_accumulation_steps", "all_preds.tensors", 477, 15947),
    (["p18_kv.py"], "kept tensors", "bound the cache", "self.k", 144, 17997),
    (["p21_zero.py"], "not detached", "detach the output", "fake", 41, 742),
]

# Programs of other reports. For each: the source, then as above, and the role with most of the peak.
NET = """
    import torch
    from torch import nn
    net = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    """
OTHERS = {
    "inference": (NET + """
    for _ in range(3):
        net.eval()(torch.randn(8192, 1024, device="cuda"))
    """, "graph without backward", "no_grad", None, 256, "activation"),
    "cache": (NET + """
    past = torch.zeros(8, 0, 1024, device="cuda")
    def step(past, x):
        return torch.cat([past, x], 1)
    net.forward = lambda x: step(past, x)
    with torch.no_grad():
        for _ in range(12):
            past = net.eval()(torch.randn(8, 256, 1024, device="cuda"))
    """, "kept tensors", "bound the cache", "past", 8, "key-value cache"),
    "data": ("""
    import torch
    data = torch.randn(50_000, 1024).cuda()
    """ + NET + """
    for at in range(0, 5000, 1000):
        net(data[at:at + 1000]).sum().backward()
        net.zero_grad()
    """, "data on the card", "move each batch", None, 196, "input"),
}


def run(dry, words):
    for file in REPORTS.glob("*.py"):
        shutil.copy(file, dry.folder)
    if words[0].startswith("p03"):
        subprocess.run([sys.executable, "mkckpt.py"], cwd=dry.folder, check=True)
    subprocess.run([find_program(), "dry-run", "--device", "sim:h100", "--trace", str(dry.trace), "--", sys.executable, *words],
                   cwd=dry.folder, env=dry.environment(), check=True, capture_output=True)
    said = subprocess.run([find_program(), "peak", "--trace", str(dry.trace), "--json"], capture_output=True, text=True, check=True)
    return json.loads(said.stdout)


@pytest.mark.parametrize("words, detector, change, holder, size, peak", CASES, ids=lambda case: " ".join(case) if isinstance(
    case, list) else "")
def test_the_cause_and_the_change_of_a_report_are_found(tmp_path, words, detector, change, holder, size, peak):
    answer = run(Dry(tmp_path), words)
    found = {(one["detector"], one["change"]): one for one in answer["observations"]}
    assert peak is None or answer["allocated_bytes"] // MIB == peak
    if detector is None:
        assert found == {}
        return
    one = found[detector, change]
    name = one["holder"]["name"] if one["holder"] else one["name"]
    assert (name, round(one["bytes"] / MIB)) == (holder, size)


@pytest.mark.parametrize("name", OTHERS)
def test_the_role_of_most_memory_and_its_cause_are_found(tmp_path, name):
    source, detector, change, holder, size, role = OTHERS[name]
    dry = Dry(tmp_path)
    (dry.folder / "program.py").write_text(textwrap.dedent(source))
    answer = run(dry, ["program.py"])
    one = next(one for one in answer["observations"] if (one["detector"], one["change"]) == (detector, change))
    assert (one["holder"] and one["holder"]["name"], round(one["bytes"] / MIB)) == (holder, size)
    assert max(answer["rows"], key=lambda row: row["allocated_bytes"])["role"] == role


def test_what_keeps_memory_of_a_rank_on_another_card_is_named(tmp_path):
    dry = Dry(tmp_path)
    shutil.copy(REPORTS / "p28_cuda0.py", dry.folder)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    subprocess.run([find_program(), "dry-run", "--device", "sim:h100", "--", *torchrun, "p28_cuda0.py"],
                   cwd=dry.folder, env=dry.environment(), check=True, capture_output=True)
    said = subprocess.run([find_program(), "ranks", "--json"], cwd=dry.folder, capture_output=True, text=True, check=True)
    stray, = json.loads(said.stdout)["other_cards"]
    assert (stray["rank"], stray["card"], stray["allocated_bytes"], stray["holder"]) == (1, 0, 64 * MIB, "stray (p28_cuda0.py:5)")
