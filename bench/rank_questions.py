"""python3 bench/rank_questions.py --memtrace FILE [--ranks 1000]: how long questions over ranks take.

Makes a folder with a trace of each rank, copies of two runs of about 20,000 events, and asks about it: first without a
catalogue, then with one. Prints medians of three.
"""

import argparse
import pathlib
import shutil
import sqlite3
import statistics
import subprocess
import tempfile
import time

OPTIONS = ["--device", "sim:h200", "--model", "small", "--warmup", "0", "--steps", "4"]


def make_traces(memtrace: str, folder: pathlib.Path, ranks: int) -> None:
    """Writes the traces: every eighth rank has a batch of 5, the others of 4."""
    originals = {}
    for batch in (4, 5):
        originals[batch] = folder.parent / f"batch{batch}.db"
        command = [memtrace, "run", *OPTIONS, "--batch", str(batch), "--trace", str(originals[batch])]
        subprocess.run(command, check=True, capture_output=True)
    for rank in range(ranks):
        path = folder / f"memtrace-rank{rank}.db"
        shutil.copy(originals[5 if rank % 8 == 0 else 4], path)
        with sqlite3.connect(path) as trace:
            trace.execute("UPDATE run SET rank = ?, local_rank = ?, world_size = ?, host = ?, job = 'job'",
                          (rank, rank % 8, ranks, f"node{rank // 8}"))


def seconds(command: list[str]) -> float:
    began = time.monotonic()
    subprocess.run(command, check=True, capture_output=True)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memtrace", required=True)
    parser.add_argument("--ranks", type=int, default=1000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place) / "job"
        folder.mkdir()
        make_traces(given.memtrace, folder, given.ranks)
        questions = {"ranks": ["ranks", str(folder)], "peak": ["peak", "--trace", str(folder)],
                     "diff": ["diff", "--trace", str(folder), "rank1", "rank0"]}
        print("question\tfirst, s\tnext, s")
        for name, words in questions.items():
            first, after = [], []
            for _ in range(3):
                (folder / "memtrace.ranks").unlink(missing_ok=True)
                first.append(seconds([given.memtrace, *words]))
                after.append(seconds([given.memtrace, *words]))
            print(f"{name}\t{statistics.median(first):.2f}\t{statistics.median(after):.2f}")


if __name__ == "__main__":
    main()
