"""Traces as Parquet, in folders that DuckDB, ClickHouse and Spark read as tables (docs/fleet.md has the columns).

    FOLDER/events/run=JOB/rank=0/events.parquet     every event of a rank
    FOLDER/ranks/run=JOB/ranks.parquet              a row for each rank
    FOLDER/shares/run=JOB/shares.parquet            what their peaks were made of
    FOLDER/steps/run=JOB/steps.parquet              a row for each step of each rank

`memtrace export --format parquet` runs this module as a program. It needs pyarrow.
"""
from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any, NamedTuple, Optional

from ._library import find_program

MISSING = "pyarrow is not installed for {python}: pip install pyarrow"
ROWS_OF_A_GROUP = 1 << 17
ALLOC, STEP_BEGIN, OOM, RELABEL = 2, 7, 4, 10
TABLES = ("events", "ranks", "shares", "steps")

# The label of a request is stored with it; a free has what it ends, by which the label is found.
EVENTS = """SELECT event.id - :first, time_ns, event_kind.name, requested_bytes, block_bytes, allocation - :first,
    category, role, op, span.path, phase, event.kind
FROM event JOIN event_kind ON event_kind.id = event.kind
LEFT JOIN label ON event.kind IN (2, 4, 10) AND label.run = :run AND label.id = event.label
LEFT JOIN span ON label.id IS NOT NULL AND span.run = :run AND span.id = coalesce(event.span, label.span)
WHERE event.id >= :first AND event.id < :end ORDER BY event.id"""

STEPS = """SELECT step.number, begin_ns, end_ns,
    (SELECT bytes FROM summary_peak AS peak WHERE peak.run = :run AND peak.step = step.number AND measure = 'allocated'),
    (SELECT bytes FROM summary_peak AS peak WHERE peak.run = :run AND peak.step = step.number AND measure = 'reserved')
FROM step WHERE run = :run ORDER BY number"""

PEAK_EVENT = "SELECT event FROM summary_peak WHERE run = :run AND step = -2 AND measure = 'allocated'"


class Failed(Exception):
    """A reason why traces can't be written, in words for the user."""


class Rank(NamedTuple):
    """A row of `memtrace ranks --each --json`, or of a trace of no job."""

    found: dict[str, Any]

    @property
    def number(self) -> int:
        return int(self.found["rank"])


def ask(*words: str) -> dict[str, Any]:
    """Returns the program's answer. Fails with its words."""
    said = subprocess.run([find_program(), *words, "--json"], capture_output=True, text=True, check=False)
    if said.returncode:
        raise Failed(said.stderr.strip().removeprefix("memtrace: "))
    return dict(json.loads(said.stdout))


def shares_of(trace: str, run: str, key: str) -> list[dict[str, Any]]:
    rows = ask("peak", "--by", key, "--trace", trace, "--run", run)["rows"]
    return [{"key": key, "name": row[key], "allocated_bytes": row["allocated_bytes"]} for row in rows]


def single_run(trace: str) -> tuple[str, list[Rank]]:
    """Returns the newest run of a trace that is no rank's, as rank 0 of a job by its name."""
    peak = ask("peak", "--trace", trace)
    run = str(peak["run"])
    at = peak.get("allocated") or peak
    found = {"rank": 0, "file": trace, "run": peak["run"], "state": peak["state"], "device": peak["device"],
             "allocated_bytes": peak["allocated_bytes"], "requested_bytes": peak["requested_bytes"],
             "reserved_bytes": peak["reserved_bytes"], "step": at.get("step"), "phase": at.get("phase"), "span": at.get("span"),
             "steps": ask("runs", "--trace", trace)["rows"][-1]["steps"],
             "shares": [share for key in ("category", "role") for share in shares_of(trace, run, key)]}
    return str(peak["name"] or f"run{run}"), [Rank(found)]


def ranks_of(place: str) -> tuple[str, list[Rank]]:
    """Returns the name of the job in a folder or trace, and its ranks. Opening a trace stores what a killed process left."""
    try:
        job = ask("ranks", place, "--each")
    except Failed as failure:
        if os.path.isdir(place) or "there is no trace of a rank" not in str(failure):
            raise
        return single_run(place)
    for problem in job["problems"]:
        print(f"memtrace: {problem['file']} is left out: {problem['reason']}", file=sys.stderr)
    return str(job["job"] or "job"), [Rank(row) for row in job["rows"]]


# ---- tables ----

def schemas() -> dict[str, Any]:
    import pyarrow as pa

    whole, text = pa.int64(), pa.string()
    names = [(name, pa.dictionary(pa.int32(), text)) for name in ("category", "role", "op", "module", "phase")]
    return {
        "events": pa.schema([("event", whole), ("time_ns", whole), ("kind", pa.dictionary(pa.int32(), text)), ("step", whole),
                             ("requested_bytes", whole), ("block_bytes", whole), ("allocation", whole), *names]),
        "ranks": pa.schema([("rank", whole), ("host", text), ("device", text), ("state", text), ("steps", whole),
                            ("peak_allocated_bytes", whole), ("peak_requested_bytes", whole), ("peak_reserved_bytes", whole),
                            ("peak_event", whole), ("peak_step", whole), ("peak_phase", text), ("peak_module", text)]),
        "shares": pa.schema([("rank", whole), ("key", text), ("name", text), ("allocated_bytes", whole)]),
        "steps": pa.schema([("rank", whole), ("step", whole), ("begin_ns", whole), ("end_ns", whole),
                            ("peak_allocated_bytes", whole), ("peak_reserved_bytes", whole)]),
    }


# Numbers that grow, or differ little from the one before, take a byte or two as differences.
DELTAS = {name: "DELTA_BINARY_PACKED" for name in ("event", "time_ns", "allocation")}


class Writer:
    """A Parquet file that is written in groups of rows."""

    def __init__(self, path: pathlib.Path, schema: Any) -> None:
        import pyarrow.parquet as pq

        path.parent.mkdir(parents=True, exist_ok=True)
        deltas = {name: encoding for name, encoding in DELTAS.items() if name in schema.names}
        self.schema, self.rows = schema, 0
        self.file = pq.ParquetWriter(path, schema, compression="zstd", compression_level=9,
                                     use_dictionary=[name for name in schema.names if name not in deltas],
                                     column_encoding=deltas)

    def write(self, rows: list[tuple[Any, ...]]) -> None:
        import pyarrow as pa

        columns = list(zip(*rows)) if rows else [()] * len(self.schema)
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, self.schema)]
        self.file.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
        self.rows += len(rows)

    def close(self) -> None:
        self.file.close()


def with_steps(rows: Iterator[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Puts the step that each event lies in, or after, behind its kind, and takes the number of the kind away."""
    step: Optional[int] = None
    for row in rows:
        if row[11] == STEP_BEGIN:
            step = row[3]
        yield (*row[:3], step, *row[3:11])


class Job:
    """The files of a job."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.folder, self.schemas = folder, schemas()
        self.run = "run=" + re.sub(r"[^\w.-]+", "-", name, flags=re.ASCII)  # engines differ in how they read others
        self.events = 0

    def write_events(self, rank: Rank, trace: sqlite3.Connection, first: int, end: int) -> None:
        path = self.folder / "events" / self.run / f"rank={rank.number}" / "events.parquet"
        writer = Writer(path, self.schemas["events"])
        rows = with_steps(trace.execute(EVENTS, {"run": rank.found["run"], "first": first, "end": end}))
        group: list[tuple[Any, ...]] = []
        for row in rows:
            group.append(row)
            if len(group) == ROWS_OF_A_GROUP:
                writer.write(group)
                group = []
        writer.write(group)
        writer.close()
        self.events += writer.rows

    def read_rank(self, rank: Rank) -> tuple[tuple[Any, ...], list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Writes the events of a rank. Returns its row, its shares and its steps."""
        found = rank.found
        with sqlite3.connect(pathlib.Path(found["file"]).resolve().as_uri() + "?mode=ro", uri=True) as trace:
            run = {"run": found["run"]}
            first, count = trace.execute("SELECT first_event, event_count FROM run WHERE id = :run", run).fetchone()
            peak = trace.execute(PEAK_EVENT, run).fetchone()
            steps = [(rank.number, *row) for row in trace.execute(STEPS, run)]
            self.write_events(rank, trace, first, first + count)
        trace.close()
        peak_event = peak[0] - first if peak and peak[0] else None
        row = (rank.number, found.get("host"), found["device"], found["state"], found["steps"], found["allocated_bytes"],
               found["requested_bytes"], found["reserved_bytes"], peak_event, found["step"], found["phase"], found["span"])
        shares = [(rank.number, share["key"], share["name"], share["allocated_bytes"]) for share in found["shares"]]
        return row, shares, steps

    def write(self, ranks: list[Rank]) -> None:
        rows: dict[str, list[tuple[Any, ...]]] = {table: [] for table in TABLES if table != "events"}
        for rank in sorted(ranks, key=lambda rank: rank.number):
            row, shares, steps = self.read_rank(rank)
            rows["ranks"].append(row)
            rows["shares"] += shares
            rows["steps"] += steps
        for table, found in rows.items():
            writer = Writer(self.folder / table / self.run / f"{table}.parquet", self.schemas[table])
            writer.write(found)
            writer.close()


def move_into_place(job: Job, folder: pathlib.Path) -> None:
    """Puts what was written in the place of what the folder has of the same job."""
    for table in TABLES:
        target = folder / table / job.run
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.exists():
            shutil.rmtree(target)
        (job.folder / table / job.run).rename(target)


def bytes_below(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def export(place: str, folder: pathlib.Path) -> str:
    """Writes the traces of a folder, or one trace. Returns what was written, in words. Nothing of a job that failed is left."""
    name, ranks = ranks_of(place)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".writing-", dir=folder) as part:
        job = Job(pathlib.Path(part), name)
        job.write(ranks)
        size = bytes_below(job.folder / "events")
        move_into_place(job, folder)
    each = f", {size / job.events:.1f} bytes each" if job.events else ""
    return f"wrote {folder}: {job.run}, {len(ranks)} ranks, {job.events:,} events{each}"


def main() -> int:
    place, folder = sys.argv[1:]
    try:
        import pyarrow  # noqa: F401 (whether it is there)

        print(f"memtrace: {export(place, pathlib.Path(folder))}", file=sys.stderr)
    except ImportError:
        print("memtrace: " + MISSING.format(python=sys.executable), file=sys.stderr)
        return 1
    except (Failed, OSError, sqlite3.Error) as failure:
        print(f"memtrace: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
