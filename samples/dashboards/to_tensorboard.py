"""Logs the newest run of a trace to TensorBoard: python to_tensorboard.py memtrace.db LOGDIR"""
import sys

import memtrace
from picture import draw
from torch.utils.tensorboard import SummaryWriter

with SummaryWriter(sys.argv[2]) as writer:
    memtrace.log_to(writer, sys.argv[1])  # the peaks of each step, and what the highest is made of
    writer.add_image("memtrace/memory", draw(sys.argv[1]), dataformats="HWC")
