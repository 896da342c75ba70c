"""Questions over all ranks of a job, asked of Parquet by DuckDB, ClickHouse or Spark: `memtrace fleet` (docs/fleet.md).

    memtrace fleet FOLDER --engine duckdb|clickhouse|spark|print [--json] [QUESTION...]

`memtrace export --format parquet` writes the folder. Each question is one text of SQL that all three understand; only the
tables' names differ, and with them the way to read their files. `print` prints it, for an engine elsewhere.
"""
from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ._sums import find_damage
from ._visible import visible

DAMAGED = 3  # the program's exit code for a damaged trace
TABLES = ("ranks", "shares", "steps", "events")
PACKAGES = {"duckdb": "duckdb", "clickhouse": "chdb", "spark": "pyspark"}


class Question(NamedTuple):
    words: str
    columns: tuple[str, ...]
    sql: str


# In `events` a free refers to its block by `allocation`. Rows have the same order in every engine: all keys are in ORDER BY,
# and no key is NULL.
QUESTIONS = {
    "peaks": Question(
        "The ten highest peaks, and where each was reached.",
        ("run", "rank", "peak_allocated_bytes", "peak_reserved_bytes", "phase", "step"),
        """SELECT run, rank, peak_allocated_bytes, peak_reserved_bytes, coalesce(peak_phase, '') AS phase,
       coalesce(peak_step, -1) AS step
FROM {ranks}
ORDER BY peak_allocated_bytes DESC, run, rank
LIMIT 10"""),
    "spread": Question(
        "By role, the ranks that hold least and most of it at their peak.",
        ("run", "role", "least_bytes", "most_bytes", "spread_bytes"),
        """SELECT ranks.run AS run, roles.name AS role, min(coalesce(held.allocated_bytes, 0)) AS least_bytes,
       max(coalesce(held.allocated_bytes, 0)) AS most_bytes,
       max(coalesce(held.allocated_bytes, 0)) - min(coalesce(held.allocated_bytes, 0)) AS spread_bytes
FROM {ranks} AS ranks
JOIN (SELECT DISTINCT run, name FROM {shares} WHERE key = 'role') AS roles ON roles.run = ranks.run
LEFT JOIN (SELECT run, rank, name, allocated_bytes FROM {shares} WHERE key = 'role') AS held
       ON held.run = ranks.run AND held.rank = ranks.rank AND held.name = roles.name
GROUP BY ranks.run, roles.name
ORDER BY spread_bytes DESC, run, role"""),
    "growth": Question(
        "The ten ranks whose last step went highest above their second one.",
        ("run", "rank", "second_bytes", "last_bytes", "growth_bytes"),
        """SELECT run, rank, second_bytes, last_bytes, last_bytes - second_bytes AS growth_bytes
FROM (SELECT run, rank, max(CASE WHEN place = 2 THEN peak_allocated_bytes ELSE 0 END) AS second_bytes,
             max(CASE WHEN place_from_end = 1 THEN peak_allocated_bytes ELSE 0 END) AS last_bytes, count(*) AS step_count
      FROM (SELECT run, rank, peak_allocated_bytes, row_number() OVER (PARTITION BY run, rank ORDER BY step) AS place,
                   row_number() OVER (PARTITION BY run, rank ORDER BY step DESC) AS place_from_end
            FROM {steps}) AS places
      GROUP BY run, rank) AS ends
WHERE step_count > 1
ORDER BY growth_bytes DESC, run, rank
LIMIT 10"""),
    "holders": Question(
        "The ten modules and categories that hold most at the peaks of all ranks together.",
        ("run", "module", "category", "blocks", "bytes", "holding_ranks"),
        """SELECT taken.run AS run, taken.module AS module, taken.category AS category, count(*) AS blocks,
       sum(taken.block_bytes) AS bytes, count(DISTINCT taken.rank) AS holding_ranks
FROM (SELECT run, rank, event, block_bytes, coalesce(module, '') AS module, coalesce(category, '') AS category
      FROM {events} WHERE kind = 'alloc') AS taken
JOIN {ranks} AS ranks ON ranks.run = taken.run AND ranks.rank = taken.rank
LEFT JOIN (SELECT run, rank, allocation, event AS freed FROM {events} WHERE kind = 'free') AS given
       ON given.run = taken.run AND given.rank = taken.rank AND given.allocation = taken.event
WHERE taken.event <= ranks.peak_event AND coalesce(nullif(given.freed, 0), ranks.peak_event + 1) > ranks.peak_event
GROUP BY taken.run, taken.module, taken.category
ORDER BY bytes DESC, run, module, category
LIMIT 10"""),
    "blocks": Question(
        "The ten largest blocks, and how often which ranks asked for them.",
        ("run", "requested_bytes", "category", "op", "module", "times", "asking_ranks"),
        """SELECT run, requested_bytes, category, op, module, count(*) AS times, count(DISTINCT rank) AS asking_ranks
FROM (SELECT run, rank, requested_bytes, coalesce(category, '') AS category, coalesce(op, '') AS op,
             coalesce(module, '') AS module
      FROM {events} WHERE kind = 'alloc') AS taken
GROUP BY run, requested_bytes, category, op, module
ORDER BY requested_bytes DESC, run, category, op, module
LIMIT 10"""),
}

Rows = list[list[Any]]


class Failed(Exception):
    """The reason why a question can't be answered, as a message for the user, and the exit code."""

    def __init__(self, words: str, code: int = 1) -> None:
        super().__init__(words)
        self.code = code


# ---- engines: each reads the folder's tables in its own way, and runs SQL ----

# `.writing-…`, where a running export writes a job, is one folder deeper.
FILES = {table: f"*/{table}.parquet" for table in TABLES} | {"events": "*/events/*.parquet"}


def quoted(text: str, quote: str = "'") -> str:
    return quote + text.replace(quote, quote * 2) + quote


def duckdb_table(files: str) -> str:
    return f"read_parquet({quoted(files)})"


def clickhouse_table(files: str) -> str:
    return f"file({quoted(files)}, Parquet)"


def spark_table(files: str) -> str:
    return f"parquet.{quoted(files, '`')}"


def ask_duckdb(texts: list[str]) -> list[Rows]:
    import duckdb

    with duckdb.connect() as connection:
        return [[list(row) for row in connection.execute(text).fetchall()] for text in texts]


def ask_clickhouse(texts: list[str]) -> list[Rows]:
    import chdb

    settings = " SETTINGS join_use_nulls = 1, output_format_json_quote_64bit_integers = 0"
    return [json.loads(chdb.query(text + settings, "JSONCompact").bytes())["data"] for text in texts]


def ask_spark(texts: list[str]) -> list[Rows]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    warnings.simplefilter("ignore", FutureWarning)  # about pandas, which is not used here
    builder = SparkSession.builder.master("local[*]").appName("memtrace")
    for name, value in (("spark.ui.enabled", "false"), ("spark.ui.showConsoleProgress", "false"), ("spark.log.level", "ERROR"),
                        ("spark.sql.shuffle.partitions", "4")):
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory(prefix="memtrace-spark.") as warehouse:  # Spark always makes this folder
        session = builder.config("spark.sql.warehouse.dir", warehouse).getOrCreate()
        try:
            return [[list(row) for row in session.sql(text).collect()] for text in texts]
        finally:
            session.stop()


class Engine(NamedTuple):
    table: Callable[[str], str]  # its argument: the paths of the files, as a pattern
    ask: Callable[[list[str]], list[Rows]]


ENGINES = {"duckdb": Engine(duckdb_table, ask_duckdb), "clickhouse": Engine(clickhouse_table, ask_clickhouse),
           "spark": Engine(spark_table, ask_spark)}


def text_of(question: str, engine: str, folder: pathlib.Path) -> str:
    """Returns the SQL of a question, with the engine's form of the tables. Fails if the path would be read as a pattern."""
    if re.search(r"[][*?{}\\]", str(folder)):
        raise Failed(f"{folder} has characters of patterns in its path, such as *: make a symbolic link to it")
    return QUESTIONS[question].sql.format(**{table: ENGINES[engine].table(f"{folder}/{files}") for table, files in FILES.items()})


@contextlib.contextmanager
def plain_path(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes a link to a folder, since engines may interpret the folder's own path as a pattern."""
    with tempfile.TemporaryDirectory(prefix="memtrace-fleet.") as place:
        link = pathlib.Path(place) / "fleet"
        link.symlink_to(folder)
        yield link


def check_sums(folder: pathlib.Path) -> None:
    """Fails if a file of a job differs from the exported one."""
    for job in sorted(folder.iterdir()):
        damage = find_damage(job) if job.is_dir() else None
        if damage:
            raise Failed(f"{damage}: export the job again", DAMAGED)


def answers(folder: pathlib.Path, engine: str, questions: list[str]) -> dict[str, Rows]:
    """Returns the rows of each question. Numbers are integers, and therefore the same in every engine."""
    for table, files in FILES.items():
        if not any(folder.glob(files)):
            raise Failed(f"{folder} has no {table}: memtrace export --format parquet DIR -o FOLDER writes such a folder")
    check_sums(folder)
    try:
        with plain_path(folder) as path:
            found = ENGINES[engine].ask([text_of(question, engine, path) for question in questions])
    except ImportError:
        raise Failed(f"{PACKAGES[engine]} is not installed for {sys.executable}: pip install {PACKAGES[engine]}") from None
    return {question: [[value if isinstance(value, str) else int(value) for value in row] for row in rows]
            for question, rows in zip(questions, found)}


# ---- output ----

def show_table(question: str, rows: Rows) -> None:
    columns = QUESTIONS[question].columns
    cells = [columns, *([f"{value:,}" if isinstance(value, int) else visible(value) for value in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    are_numbers = [bool(rows) and isinstance(rows[0][i], int) for i in range(len(columns))]
    print(QUESTIONS[question].words)
    for row in cells:
        aligned = [cell.rjust(width) if is_number else cell.ljust(width) for cell, width, is_number in zip(row, widths, are_numbers)]
        print("  " + "  ".join(aligned).rstrip())
    print()


def answer_json(engine: str, found: dict[str, Rows]) -> str:
    listed = [{"question": question, "rows": [dict(zip(QUESTIONS[question].columns, row)) for row in rows]}
              for question, rows in found.items()]
    return json.dumps({"schema": "memtrace.fleet/1", "engine": engine, "answers": listed}, indent=2)


def print_texts(folder: pathlib.Path, questions: list[str]) -> None:
    for engine in ENGINES:
        for question in questions:
            print(f"-- {engine}: {QUESTIONS[question].words}\n{text_of(question, engine, folder)};\n")


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="memtrace fleet", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("questions", nargs="*", metavar="QUESTION", help=", ".join(QUESTIONS))
    parser.add_argument("--engine", choices=(*ENGINES, "print"), default="duckdb")
    parser.add_argument("--json", action="store_true")
    return parser.parse_intermixed_args()


def main() -> int:
    given = read_options()
    folder, questions = given.folder.absolute(), given.questions or list(QUESTIONS)
    for question in questions:
        if question not in QUESTIONS:
            print(f'memtrace: fleet: unknown question "{visible(question)}"; there are {", ".join(QUESTIONS)}', file=sys.stderr)
            return 2
    try:
        if given.engine == "print":
            print_texts(folder, questions)
            return 0
        found = answers(folder, given.engine, questions)
    except Failed as failure:
        print(f"memtrace: {visible(str(failure))}", file=sys.stderr)
        return failure.code
    if given.json:
        print(answer_json(given.engine, found))
    else:
        for question, rows in found.items():
            show_table(question, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
