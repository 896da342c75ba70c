"""Logs the newest run of a trace to Weights & Biases: python to_wandb.py memtrace.db"""
import subprocess
import sys

import memtrace
import wandb
from picture import draw

subprocess.run([sys.executable, "-m", "memtrace", "timeline", "--trace", sys.argv[1], "-o", "timeline.html"], check=True)
with wandb.init(project="gpu-memory") as run:
    memtrace.log_to(run, sys.argv[1])  # the peaks of each step, and what the highest is made of
    run.log({"memtrace/memory": wandb.Image(draw(sys.argv[1])), "memtrace/timeline": wandb.Html("timeline.html")})
