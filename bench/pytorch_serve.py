"""What every peer in PyTorch shares: it answers lines on stdin with numbers on stdout, as bench/peer.h says."""
import os
import sys
import traceback


def serve(commands):
    """Answers each line's first word by the function of that name, called with the others, which returns numbers."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed is no answer
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        name, *words = line.split()
        try:
            numbers = commands[name](*words)
            print(*(f"{number:.9g}" for number in numbers), file=answers, flush=True)
        except Exception:
            traceback.print_exc()
            print("failed", file=answers, flush=True)
