"""Runs training steps of models of `transformers` dry, and compares them with what the same steps requested on a card.

    python3 bench/dry_programs.py --memtrace build/release/memtrace --reference FOLDER [--python PYTHON] [PROGRAM ...]

FOLDER has `programs.json` (requested bytes at the peak of four steps) and `steps/PROGRAM.csv.gz` (action and requested bytes of
each event of a later step, and the operators that asked). For each program it prints both peaks, and how many of the events
are equal in sequence (the longest common subsequence over the longer one). `--operators` adds what is missing and what is too
much, by the operators that asked on the card or in the dry run.

Exits with 1 if a program's peak is off by more than 0.1 %, or if less than 98 % of its events are equal.
"""
from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Optional

LLAMA_1B = dict(vocab_size=128256, hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                num_key_value_heads=8, head_dim=64, rms_norm_eps=1e-5, tie_word_embeddings=True,
                max_position_embeddings=131072)
LLAMA_8B = dict(vocab_size=128256, hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                num_key_value_heads=8, rms_norm_eps=1e-5, max_position_embeddings=8192)
LLAMA_200M = dict(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=16,
                  num_key_value_heads=4)
PEAK_STEPS, STEADY_STEPS = 4, 4  # the peak is that of the first; the events are those of the step after all of these
MARK_BYTES = 1_234_567  # of a block that is taken and freed before and after that step
MOST_PEAK_ERROR, LEAST_EQUAL = 0.001, 0.98


class Program(NamedTuple):
    model: str  # the family
    config: dict[str, Any]
    batch: int
    seq: int
    weights: str = "float32"
    autocast: str = ""
    optimizer: str = "adamw"
    accumulate: int = 1
    is_clipped: bool = False
    is_checkpointed: bool = False


PROGRAMS = {
    "gpt2_fp32": Program("gpt2", {}, 4, 1024),
    "gpt2_autocast": Program("gpt2", {}, 4, 1024, autocast="bfloat16"),
    "llama1b_bf16": Program("llama", LLAMA_1B, 2, 2048, weights="bfloat16"),
    "llama1b_autocast": Program("llama", LLAMA_1B, 2, 2048, autocast="bfloat16"),
    "llama1b_bf16_ckpt": Program("llama", LLAMA_1B, 2, 2048, weights="bfloat16", is_checkpointed=True),
    "llama8b_bf16_ckpt": Program("llama", LLAMA_8B, 1, 2048, weights="bfloat16", is_checkpointed=True),
    "llama_fused_adamw_autocast": Program("llama", LLAMA_200M, 4, 1024, autocast="bfloat16", optimizer="fused"),
    "llama_sgd_accum_clip_autocast": Program("llama", LLAMA_200M, 4, 1024, autocast="bfloat16", optimizer="sgd",
                                             accumulate=2, is_clipped=True),
    "llama_fp16_scaler": Program("llama", LLAMA_200M, 4, 1024, autocast="float16"),
    "bert_cls_autocast": Program("bert", {}, 16, 512, autocast="bfloat16"),
}


# ---- the program, in the dry run ----

def make_model(torch: Any, program: Program) -> Any:
    import transformers as hf

    makers: dict[str, Callable[[], Any]] = {
        "gpt2": lambda: hf.GPT2LMHeadModel(hf.GPT2Config(attn_implementation="sdpa")),
        "llama": lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**program.config)),
        "bert": lambda: hf.BertForSequenceClassification(hf.BertConfig(num_labels=3)),
    }
    with torch.device("cuda"):
        torch.set_default_dtype(getattr(torch, program.weights))
        model = makers[program.model]()
        torch.set_default_dtype(torch.float32)
    model.train()
    model.config.use_cache = False
    if program.is_checkpointed:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def make_optimizer(torch: Any, program: Program, parameters: list[Any]) -> Any:
    if program.optimizer == "sgd":
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    return torch.optim.AdamW(parameters, lr=1e-4, fused=True if program.optimizer == "fused" else None)


def make_data(torch: Any, model: Any, program: Program) -> dict[str, Any]:
    size = (program.batch, program.seq)
    if program.model != "bert":
        text = torch.randint(0, model.config.vocab_size, size, device="cuda")
        return dict(input_ids=text, labels=text)
    return dict(input_ids=torch.randint(0, 30000, size, device="cuda"),
                attention_mask=torch.ones(*size, dtype=torch.long, device="cuda"),
                labels=torch.randint(0, 3, size[:1], device="cuda"))


def make_step(torch: Any, program: Program) -> Callable[[], None]:
    """Returns a function that trains one step."""
    model = make_model(torch, program)
    parameters = list(model.parameters())
    optimizer = make_optimizer(torch, program, parameters)
    scaler = torch.amp.GradScaler() if program.autocast == "float16" else None
    narrow = getattr(torch, program.autocast or "bfloat16")

    def step() -> None:
        for _ in range(program.accumulate):
            with torch.autocast("cuda", dtype=narrow, enabled=bool(program.autocast)):
                loss = model(**make_data(torch, model, program)).loss
            (scaler.scale(loss) if scaler else loss).backward()
        if program.is_clipped:
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad()

    return step


def train(program: Program) -> None:
    """Trains all steps, and prints the peak of requested bytes."""
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    step = make_step(torch, program)
    torch.cuda.reset_peak_memory_stats()
    for _ in range(PEAK_STEPS):
        step()
    print(torch.cuda.memory_stats()["requested_bytes.all.peak"])
    for _ in range(STEADY_STEPS):
        step()
    torch.empty(MARK_BYTES, dtype=torch.uint8, device="cuda")
    step()
    torch.empty(MARK_BYTES, dtype=torch.uint8, device="cuda")


# ---- the comparison ----

class Event(NamedTuple):
    what: str  # "alloc 512"
    operators: str


def measured_events(path: pathlib.Path) -> list[Event]:
    """Returns the events of the card; a free has the operators of its block."""
    operators: dict[str, str] = {}
    events = []
    with gzip.open(path, "rt") as file:
        for row in csv.DictReader(file):
            if row["action"] == "alloc":
                operators[row["id"]] = row["operators"]
            if row["action"] in ("alloc", "free"):
                events.append(Event(f"{row['action']} {row['bytes']}", operators.get(row["id"], "")))
    return events


SQL = """SELECT event_kind.name AS action, requested_bytes AS bytes, label.op AS operator
FROM run_event AS event JOIN event_kind ON event_kind.id = event.kind
LEFT JOIN label ON label.run = event.run AND label.id = event.label
WHERE event_kind.name IN ('alloc', 'free') ORDER BY event.id"""


def dry_events(memtrace: str, trace: str) -> list[Event]:
    """Returns the events between the marks."""
    told = subprocess.run([memtrace, "sql", "--trace", trace, "--json", SQL], check=True, capture_output=True, text=True)
    events = [Event(f"{action} {size}", operator or "") for action, size, operator in json.loads(told.stdout)["rows"]]
    marks = [i for i, event in enumerate(events) if event.what.endswith(f" {MARK_BYTES}")]
    return events[marks[1] + 1:marks[2]]


def unequal(folder: str, measured: list[Event], dry: list[Event]) -> tuple[Counter[str], Counter[str]]:
    """Returns what is missing and what is too much in the dry run, by event and operators, as diff finds it."""
    paths = []
    for name, events in (("measured", measured), ("dry", dry)):
        paths.append(os.path.join(folder, name))
        pathlib.Path(paths[-1]).write_text("".join(event.what + "\n" for event in events))
    told = subprocess.run(["diff", "--minimal", "--old-line-format=<%dn\n", "--new-line-format=>%dn\n",
                           "--unchanged-line-format=", *paths], capture_output=True, text=True)
    missing, extra = Counter[str](), Counter[str]()
    for line in told.stdout.split():
        event = (measured if line[0] == "<" else dry)[int(line[1:]) - 1]
        (missing if line[0] == "<" else extra)[f"{event.what} ({event.operators})"] += 1
    return missing, extra


def run_dry(options: argparse.Namespace, name: str, folder: str) -> tuple[int, list[Event]]:
    """Returns the peak and the events of a program's dry run."""
    trace = os.path.join(folder, f"{name}.db")
    told = subprocess.run([options.memtrace, "dry-run", "--steps", "1000", "--trace", trace, "--", options.python, __file__,
                           "--train", name], check=True, stdout=subprocess.PIPE, text=True)
    return int(told.stdout), dry_events(options.memtrace, trace)


def compare(options: argparse.Namespace, name: str, card_peak: int, folder: str) -> bool:
    """Prints a program's line. Returns whether the dry run is as near to the card as it must be."""
    peak, dry = run_dry(options, name, folder)
    error = (peak - card_peak) / card_peak
    line, is_good = f"{name:30} {peak:>14,} {card_peak:>14,} {error:>9.4%}", abs(error) <= MOST_PEAK_ERROR
    path = options.reference / "steps" / f"{name}.csv.gz"
    if path.is_file():
        measured = measured_events(path)
        missing, extra = unequal(folder, measured, dry)
        equal = (len(measured) - missing.total()) / max(len(measured), len(dry))
        line += f" {len(dry):6} {len(measured):6} {equal:8.2%}"
        is_good = is_good and equal >= LEAST_EQUAL
    print(line, flush=True)
    if options.operators and path.is_file():
        for sign, counted in (("-", missing), ("+", extra)):
            for what, count in counted.most_common():
                print(f"    {sign}{count:4} {what}")
    return is_good


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", metavar="PROGRAM")
    parser.add_argument("--memtrace", default="memtrace")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch and transformers")
    parser.add_argument("--reference", type=pathlib.Path)
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--train", metavar="PROGRAM", help="be the program")
    return parser.parse_args()


def main() -> int:
    options = read_options()
    if options.train:
        train(PROGRAMS[options.train])
        return 0
    known = json.loads((options.reference / "programs.json").read_text())["programs"]
    print(f"{'program':30} {'peak, dry':>14} {'on a card':>14} {'error':>9} {'events':>6} {'card':>6} {'equal':>8}")
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(options, name, known[name]["peak_4_steps"]["requested"], folder)
                   for name in options.programs or PROGRAMS]
    return 0 if all(results) else 1


sys.exit(main())
