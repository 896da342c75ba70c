"""Traces as Parquet, in folders that DuckDB, ClickHouse and Spark read as tables (docs/fleet.md has the columns).

    FOLDER/run-JOB/events/0.parquet     every event of rank 0
    FOLDER/run-JOB/ranks.parquet        a row for each rank
    FOLDER/run-JOB/shares.parquet       the parts of their peaks
    FOLDER/run-JOB/steps.parquet        a row for each step of each rank
    FOLDER/run-JOB/SHA256SUMS           the checksums of these files

A job is written into a hidden folder, which is then renamed, so a reader finds all tables of one export. Traces are read by
the program `memtrace`, never here: it verifies the checksum of each page.

`memtrace export --format parquet` runs this module as a program. It needs pyarrow.
"""
from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from typing import Any, NamedTuple, NoReturn, Optional

from ._library import find_program
from ._sums import write_sums
from ._visible import visible

MISSING = "pyarrow is not installed for {python}: pip install pyarrow"
ROWS_OF_A_GROUP = 1 << 17
STEP_BEGIN = 7
DAMAGED = 3  # the program's exit code for a damaged trace
WRITING = ".writing-"

# A request is stored with its label; a free refers to its request, from which the label is found.
EVENTS = """SELECT event.id - {first}, time_ns, event_kind.name, requested_bytes, block_bytes, allocation - {first},
    category, role, op, span.path, phase, event.kind
FROM event JOIN event_kind ON event_kind.id = event.kind
LEFT JOIN label ON event.kind IN (2, 4, 10) AND label.run = :run AND label.id = event.label
LEFT JOIN span ON label.id IS NOT NULL AND span.run = :run AND span.id = coalesce(event.span, label.span)
WHERE event.id >= {first} AND event.id < {end} ORDER BY event.id"""

STEPS = """SELECT step.number, begin_ns, end_ns,
    (SELECT bytes FROM summary_peak AS peak WHERE peak.run = :run AND peak.step = step.number AND measure = 'allocated'),
    (SELECT bytes FROM summary_peak AS peak WHERE peak.run = :run AND peak.step = step.number AND measure = 'reserved')
FROM step WHERE run = :run ORDER BY number"""

RUN = """SELECT first_event, event_count,
    (SELECT event FROM summary_peak WHERE run = :run AND step = -2 AND measure = 'allocated')
FROM run WHERE id = :run"""


class Failed(Exception):
    """A reason why traces can't be written, in words for the user, and the exit code."""

    def __init__(self, words: str, code: int = 1) -> None:
        super().__init__(words)
        self.code = code


class Rank(NamedTuple):
    """A row of `memtrace ranks --each --json`, or a row for a trace that belongs to no job."""

    found: dict[str, Any]

    @property
    def number(self) -> int:
        return int(self.found["rank"])


def fail_as_program(code: int, words: str) -> NoReturn:
    raise Failed(words.strip().removeprefix("memtrace: "), code if code > 0 else 1)


def ask(*words: str) -> dict[str, Any]:
    """Returns the program's answer. Fails with its message."""
    said = subprocess.run([find_program(), *words, "--json"], capture_output=True, text=True, check=False)
    if said.returncode:
        fail_as_program(said.returncode, said.stderr)
    return dict(json.loads(said.stdout))


def read_rows(rank: Rank, query: str) -> Iterator[list[Any]]:
    """Yields the rows of a query about a rank's run. The program prints one row per line."""
    words = [find_program(), "sql", query, "--trace", rank.found["file"], "--run", str(rank.found["run"]), "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8") as program:
        assert program.stdout and program.stderr
        for line in program.stdout:
            if line.startswith("["):
                yield json.loads(line.rstrip(",\n"))
        words_of_failure = program.stderr.read()
    if program.returncode:
        fail_as_program(program.returncode, words_of_failure)


def read_growing(rank: Rank, query: str) -> Iterator[list[Any]]:
    """Yields rows, whose first column must increase: in a trace with a cycle of pages, rows would repeat without end."""
    last = -1
    for row in read_rows(rank, query):
        if row[0] <= last:
            raise Failed(f"{rank.found['file']} is damaged: row {row[0]} follows row {last}", DAMAGED)
        last = row[0]
        yield row


def shares_of(trace: str, run: str, key: str) -> list[dict[str, Any]]:
    rows = ask("peak", "--by", key, "--trace", trace, "--run", run)["rows"]
    return [{"key": key, "name": row[key], "allocated_bytes": row["allocated_bytes"]} for row in rows]


def single_run(trace: str) -> tuple[str, list[Rank]]:
    """Returns the newest run of a trace without ranks, as rank 0 of a job with its name."""
    peak = ask("peak", "--trace", trace)
    run = str(peak["run"])
    at = peak.get("allocated") or peak
    found = {"rank": 0, "file": trace, "run": peak["run"], "state": peak["state"], "device": peak["device"],
             "allocated_bytes": peak["allocated_bytes"], "requested_bytes": peak["requested_bytes"],
             "reserved_bytes": peak["reserved_bytes"], "step": at.get("step"), "phase": at.get("phase"), "span": at.get("span"),
             "steps": ask("runs", "--trace", trace)["rows"][-1]["steps"],
             "shares": [share for key in ("category", "role") for share in shares_of(trace, run, key)]}
    return str(peak["name"] or f"{pathlib.Path(trace).resolve().stem}-run{run}"), [Rank(found)]


def ranks_of(place: str) -> tuple[str, list[Rank]]:
    """Returns the name of the job in a folder or trace, and its ranks. Opening a trace recovers a killed process's events."""
    try:
        job = ask("ranks", place, "--each")
    except Failed as failure:
        if os.path.isdir(place) or "there is no trace of a rank" not in str(failure):
            raise
        return single_run(place)
    for problem in job["problems"]:
        print(visible(f"memtrace: {problem['file']} is left out: {problem['reason']}"), file=sys.stderr)
    return str(job["job"] or pathlib.Path(place).resolve().stem or "job"), [Rank(row) for row in job["rows"]]


# ---- tables ----

def schemas() -> dict[str, Any]:
    import pyarrow as pa

    whole, text, name = pa.int64(), pa.string(), pa.dictionary(pa.int32(), pa.string())
    place = [("run", name), ("rank", whole)]
    names = [(column, name) for column in ("category", "role", "op", "module", "phase")]
    return {
        "events": pa.schema([*place, ("event", whole), ("time_ns", whole), ("kind", name), ("step", whole),
                             ("requested_bytes", whole), ("block_bytes", whole), ("allocation", whole), *names]),
        "ranks": pa.schema([*place, ("host", text), ("device", text), ("state", text), ("steps", whole),
                            ("peak_allocated_bytes", whole), ("peak_requested_bytes", whole), ("peak_reserved_bytes", whole),
                            ("peak_event", whole), ("peak_step", whole), ("peak_phase", text), ("peak_module", text)]),
        "shares": pa.schema([*place, ("key", text), ("name", text), ("allocated_bytes", whole)]),
        "steps": pa.schema([*place, ("step", whole), ("begin_ns", whole), ("end_ns", whole),
                            ("peak_allocated_bytes", whole), ("peak_reserved_bytes", whole)]),
    }


# Numbers that increase, or differ little from their predecessor, take a byte or two as differences.
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

    def write(self, rows: list[list[Any]]) -> None:
        import pyarrow as pa

        columns = list(zip(*rows)) if rows else [()] * len(self.schema)
        arrays = [pa.array(column, type=field.type) for column, field in zip(columns, self.schema)]
        self.file.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
        self.rows += len(rows)

    def close(self) -> None:
        self.file.close()


def with_steps(rows: Iterator[list[Any]]) -> Iterator[list[Any]]:
    """Inserts each event's step (the step that contains or precedes it) after its kind, and removes the kind's number."""
    step: Optional[int] = None
    for row in rows:
        if row[11] == STEP_BEGIN:
            step = row[3]
        yield [*row[:3], step, *row[3:11]]


def folder_name(job: str) -> str:
    """Returns the name of a job's folder. Names are distinct, and no engine interprets one as a pattern."""
    longest, digits = 200, 16
    quoted = urllib.parse.quote(job, safe="", errors="surrogatepass").replace("~", "%7E")
    if len(quoted) > longest:
        quoted = quoted[:longest] + "~" + hashlib.sha256(quoted.encode()).hexdigest()[:digits]
    return "run-" + quoted


class Job:
    """The files of a job, which are written into `folder`."""

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self.folder, self.name, self.schemas = folder, name, schemas()
        self.events = 0

    def write_table(self, table: str, path: pathlib.Path, rank: Optional[int], rows: Iterator[list[Any]]) -> int:
        """Writes rows without their job, and without their rank unless it is None. Returns their number."""
        before = [self.name] if rank is None else [self.name, rank]
        writer = Writer(path, self.schemas[table])
        group: list[list[Any]] = []
        for row in rows:
            group.append([*before, *row])
            if len(group) == ROWS_OF_A_GROUP:
                writer.write(group)
                group = []
        writer.write(group)
        writer.close()
        return writer.rows

    def read_rank(self, rank: Rank) -> tuple[list[Any], list[list[Any]], list[list[Any]]]:
        """Writes the events of a rank. Returns its row, its shares and its steps."""
        found = rank.found
        first, count, peak = next(read_rows(rank, RUN))
        steps = [[rank.number, *row] for row in read_growing(rank, STEPS)]
        events = read_growing(rank, EVENTS.format(first=first, end=first + count))
        self.events += self.write_table("events", self.folder / "events" / f"{rank.number}.parquet", rank.number, with_steps(events))
        row = [rank.number, found.get("host"), found["device"], found["state"], found["steps"], found["allocated_bytes"],
               found["requested_bytes"], found["reserved_bytes"], peak - first if peak else None, found["step"], found["phase"],
               found["span"]]
        shares = [[rank.number, share["key"], share["name"], share["allocated_bytes"]] for share in found["shares"]]
        return row, shares, steps

    def write(self, ranks: list[Rank]) -> None:
        rows: dict[str, list[list[Any]]] = {"ranks": [], "shares": [], "steps": []}
        for rank in sorted(ranks, key=lambda rank: rank.number):
            row, shares, steps = self.read_rank(rank)
            rows["ranks"].append(row)
            rows["shares"] += shares
            rows["steps"] += steps
        for table, found in rows.items():
            self.write_table(table, self.folder / f"{table}.parquet", None, iter(found))
        write_sums(self.folder)


# ---- folders ----

def lock(folder: pathlib.Path) -> Optional[int]:
    """Locks a folder until its descriptor is closed. Returns None if a process holds it, or it is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def remove_left(folder: pathlib.Path) -> None:
    """Removes the leftovers of killed exports: hidden folders that no process has locked."""
    for left in folder.glob(WRITING + "*"):
        descriptor = lock(left)
        if descriptor is not None:
            shutil.rmtree(left, ignore_errors=True)
            os.close(descriptor)


@contextlib.contextmanager
def writing_folder(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes a hidden, locked folder in another folder, and removes it at the end."""
    with tempfile.TemporaryDirectory(prefix=WRITING, dir=folder) as part:
        descriptor = lock(pathlib.Path(part))
        yield pathlib.Path(part)
        if descriptor is not None:
            os.close(descriptor)


def exchange(one: pathlib.Path, other: pathlib.Path) -> bool:
    """Exchanges two folders atomically. False if the file system can't."""
    at_current_folder, flag = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "renameat2"):
        return False
    if libc.renameat2(at_current_folder, os.fsencode(one), at_current_folder, os.fsencode(other), flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS):
        return False
    raise OSError(code, os.strerror(code), str(other))


def move_into_place(written: pathlib.Path, target: pathlib.Path) -> bool:
    """Moves a job to its final folder, with all its tables at once. True if it replaced an earlier export."""
    if not target.exists():
        written.rename(target)
        return False
    if not (target / "ranks.parquet").is_file():
        raise Failed(f"{target} exists and is no export: name another folder with -o")
    if not exchange(written, target):
        target.rename(written.with_name("before"))
        written.rename(target)
    return True


def bytes_below(folder: pathlib.Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*.parquet"))


def export(place: str, folder: pathlib.Path) -> str:
    """Writes the traces of a folder, or one trace. Returns a text about it. A failed job leaves no files."""
    name, ranks = ranks_of(place)
    folder.mkdir(parents=True, exist_ok=True)
    remove_left(folder)
    with writing_folder(folder) as part:
        job = Job(part / "job", name)
        job.write(ranks)
        size = bytes_below(job.folder / "events")
        replaced = move_into_place(job.folder, folder / folder_name(name))
    each = f", {size / job.events:.1f} bytes each" if job.events else ""
    return f"wrote {folder}: {name}, {len(ranks)} ranks, {job.events:,} events{each}{', in place of an earlier export' if replaced else ''}"


def end_in_order(number: int, _frame: object) -> NoReturn:
    """Exits on a signal, so that an export's files are removed."""
    sys.exit(128 + number)


def main() -> int:
    place, folder = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end_in_order)
    try:
        import pyarrow  # noqa: F401 (checks that it is installed)

        print(visible(f"memtrace: {export(place, pathlib.Path(folder))}"), file=sys.stderr)
    except ImportError:
        print("memtrace: " + MISSING.format(python=sys.executable), file=sys.stderr)
        return 1
    except (Failed, OSError) as failure:
        print(visible(f"memtrace: {failure}"), file=sys.stderr)
        return failure.code if isinstance(failure, Failed) else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
