"""Programs after public reports of memory trouble: the cause, the holder, the change that helps and the figures. They are kept
beside the repository, in ../shared/reference/reports."""
import json
import pathlib
import shutil
import subprocess
import sys

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
