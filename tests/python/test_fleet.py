"""Traces as Parquet, and the questions that DuckDB, ClickHouse and Spark answer from it. Each is skipped where it is missing."""
import functools
import importlib.util
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
from conftest import TINY, run_program

from memtrace._library import find_program
from memtrace._parquet import remove_left, writing_folder
from memtrace.fleet import QUESTIONS, Failed, show_table
from memtrace.fleet import answers as module_answers

pyarrow = pytest.importorskip("pyarrow.parquet")
ENGINES = {"duckdb": "duckdb", "clickhouse": "chdb", "spark": "pyspark"}
RANKS = 3


def run_with_python(*words, environment=None):
    """Runs the program so that `python3` is this interpreter."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return subprocess.run([find_program(), *map(str, words)], capture_output=True, text=True,
                          env={**os.environ, "PATH": path, **(environment or {})})


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """A folder of three ranks' traces; the last one has a larger batch."""
    folder = tmp_path_factory.mktemp("job")
    for rank in range(RANKS):
        path = folder / ("train.db" if rank == 0 else f"train-rank{rank}.db")
        run_program("run", "--device", "sim:l4", "--trace", path, "--batch", 4 if rank == RANKS - 1 else 2, *TINY)
        trace = sqlite3.connect(path)
        trace.execute("UPDATE run SET rank = ?, world_size = ?, host = 'node', job = 'it''s 1'", (rank, RANKS))
        trace.commit()
        trace.close()
    return folder


@pytest.fixture(scope="module")
def fleet(job, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet") / "a folder[1]{*}?"  # no part of it is a pattern
    done = run_with_python("export", "--format", "parquet", job, "-o", folder)
    assert done.returncode == 0, done.stderr
    assert f"{RANKS} ranks" in done.stderr
    return folder


@functools.cache
def answers(folder, engine):
    done = run_with_python("fleet", folder, "--engine", engine, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["schema"] == "memtrace.fleet/1"
    return {answer["question"]: answer["rows"] for answer in said["answers"]}


def needs(engine):
    if importlib.util.find_spec(ENGINES[engine]) is None:
        pytest.skip(f"{ENGINES[engine]} is not installed")
    if engine == "spark" and shutil.which("java") is None:
        pytest.skip("Spark needs Java")


@pytest.fixture(scope="module")
def expected(job):
    """What the traces themselves say."""
    ranks = json.loads(run_program("ranks", job, "--each", "--json"))["rows"]
    peaks = [{"run": "it's 1", "rank": row["rank"], "peak_allocated_bytes": row["allocated_bytes"],
              "peak_reserved_bytes": row["reserved_bytes"], "phase": row["phase"], "step": row["step"]} for row in ranks]
    most = {}
    for row in ranks:
        for share in row["shares"]:
            if share["key"] == "role":
                most[share["name"]] = max(most.get(share["name"], 0), share["allocated_bytes"])
    return {"peaks": sorted(peaks, key=lambda row: (-row["peak_allocated_bytes"], row["rank"])), "most": most,
            "peak_sum": sum(row["allocated_bytes"] for row in ranks)}


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_says_what_the_traces_say(engine, fleet, expected):
    needs(engine)
    found = answers(fleet, engine)
    assert found["peaks"] == expected["peaks"]
    assert {row["role"]: row["most_bytes"] for row in found["spread"]} == expected["most"]
    assert found["growth"] and all(row["growth_bytes"] == row["last_bytes"] - row["second_bytes"] for row in found["growth"])
    assert found["blocks"][0]["asking_ranks"] in range(1, RANKS + 1)
    sizes = [row["requested_bytes"] for row in found["blocks"]]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(row["bytes"] for row in found["holders"]) <= expected["peak_sum"]
    assert found["holders"][0]["bytes"] > expected["peak_sum"] // 20


def test_all_engines_give_the_same_answers(fleet):
    there = [engine for engine in ENGINES if importlib.util.find_spec(ENGINES[engine])
             and (engine != "spark" or shutil.which("java"))]
    if len(there) < 2:
        pytest.skip("there are not two engines")
    first, *others = [answers(fleet, engine) for engine in there]
    assert all(other == first for other in others)


def test_print_prints_a_text_for_each_engine_and_question(fleet, tmp_path):
    refused = run_with_python("fleet", fleet, "--engine", "print")
    assert refused.returncode == 1 and "characters of patterns" in refused.stderr
    (tmp_path / "link").symlink_to(fleet)
    done = run_with_python("fleet", tmp_path / "link", "peaks", "blocks", "--engine", "print")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(";\n") == 2 * len(ENGINES)
    assert str(tmp_path / "link/*/events/*.parquet") in done.stdout


def test_an_event_takes_few_bytes(tmp_path):
    trace, folder = tmp_path / "long.db", tmp_path / "fleet"
    run_program("run", "--device", "sim", "--model", "small", "--steps", 4, "--trace", trace, "--name", "long")
    done = run_with_python("export", "--format", "parquet", trace, "-o", folder)
    assert done.returncode == 0, done.stderr
    events = json.loads(run_program("runs", "--trace", trace, "--json"))["rows"][0]["events"]
    assert events > 10_000
    written = folder / "run-long/events/0.parquet"
    assert written.stat().st_size <= 15 * events


def test_exporting_again_replaces_the_run_and_nothing_else(fleet, job):
    before = sorted(path.relative_to(fleet) for path in fleet.rglob("*"))
    done = run_with_python("export", "--format", "parquet", job, "-o", fleet)
    assert done.returncode == 0 and "in place of an earlier export" in done.stderr
    assert sorted(path.relative_to(fleet) for path in fleet.rglob("*")) == before


def test_what_cannot_be_exported_leaves_nothing(tmp_path):
    folder = tmp_path / "fleet"
    (tmp_path / "empty").mkdir()
    done = run_with_python("export", "--format", "parquet", tmp_path / "empty", "-o", folder)
    assert done.returncode == 2 and "memtrace: " in done.stderr
    done = run_with_python("export", "--format", "parquet", tmp_path / "none.db", "-o", folder)
    assert done.returncode == 2 and "none.db" in done.stderr
    assert not folder.exists()
    assert run_with_python("export", "--format", "parquet", tmp_path).returncode == 2


def test_what_is_missing_is_named(fleet, job, tmp_path):
    for package in ("pyarrow", "duckdb"):
        (tmp_path / f"{package}.py").write_text("raise ImportError")
    without = {"PYTHONPATH": str(tmp_path)}
    done = run_with_python("export", "--format", "parquet", job, "-o", tmp_path / "out", environment=without)
    assert done.returncode == 1 and "pip install pyarrow" in done.stderr
    if importlib.util.find_spec("duckdb"):
        done = run_with_python("fleet", fleet, environment=without)
        assert done.returncode == 1 and "pip install duckdb" in done.stderr
    done = run_with_python("fleet", tmp_path)
    assert done.returncode == 1 and "memtrace export --format parquet" in done.stderr
    done = run_with_python("fleet", fleet, "peeks")
    assert done.returncode == 2 and "peeks" in done.stderr


def test_names_are_printed_so_that_no_reader_obeys_them(capsys):
    show_table("holders", [["job\n::error::passes", "a\x1b[31m", "\u202e\ud800", 1, 2, 3]])
    said = capsys.readouterr().out
    assert "job\\x0a::error::passes" in said and "a\\x1b[31m" in said and "\\xe2\\x80\\xae\\xed\\xa0\\x80" in said


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "train.db"
    run_program("run", "--device", "sim:l4", "--trace", path, "--batch", 2, *TINY)
    return path


def copy_as(trace, path, job):
    shutil.copy(trace, path)
    with sqlite3.connect(path) as opened:
        opened.execute("UPDATE run SET rank = 0, world_size = 1, host = 'node', job = ?", (job,))
    opened.close()
    return path


def events_in(folder):
    return pyarrow.read_table(next(folder.glob("*/events/0.parquet")))


def test_a_damaged_page_is_never_exported(trace, tmp_path):
    """A changed bit in the contents of a page may change a number of bytes, and leave SQLite's tree whole."""
    with sqlite3.connect(trace) as opened:
        size, pages = (opened.execute(f"PRAGMA {what}").fetchone()[0] for what in ("page_size", "page_count"))
    opened.close()
    codes = set()
    for page in range(pages // 3, pages + 1, pages // 6):
        (tmp_path / str(page)).mkdir()
        damaged = tmp_path / str(page) / "train.db"
        content = bytearray(trace.read_bytes())
        content[(page - 1) * size + size * 3 // 4] ^= 1
        damaged.write_bytes(content)
        done = run_with_python("export", "--format", "parquet", damaged, "-o", tmp_path / f"fleet{page}")
        codes.add(done.returncode)
        if done.returncode == 0:
            run_with_python("export", "--format", "parquet", trace, "-o", tmp_path / "fleet")
            assert events_in(tmp_path / f"fleet{page}") == events_in(tmp_path / "fleet")
        else:
            assert done.returncode == 3 and "damaged" in done.stderr, f"page {page}: {done.stderr}"
            assert not list((tmp_path / f"fleet{page}").glob("*"))
    assert 3 in codes


def test_no_damage_of_an_export_changes_an_answer(fleet, tmp_path):
    """A bit of any file, or the end of one. ATTACKS and SEED are as for the tests in C."""
    needs("duckdb")
    seed = int(os.environ.get("SEED", time.time()))
    draw = random.Random(seed)
    export = tmp_path / "fleet"
    shutil.copytree(fleet, export)
    files = sorted(path for path in export.rglob("*") if path.is_file())
    right = module_answers(export, "duckdb", list(QUESTIONS))
    codes = set()
    for attack in range(int(os.environ.get("ATTACKS", 40))):
        path = draw.choice(files)
        whole = path.read_bytes()
        damaged = bytearray(whole)
        place = draw.randrange(len(damaged))
        if attack % 8 == 0:
            del damaged[place:]
        else:
            damaged[place] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            assert module_answers(export, "duckdb", list(QUESTIONS)) == right, f"{path}, byte {place}, seed {seed}"
        except Failed as failure:
            codes.add(failure.code)
        path.write_bytes(whole)
    assert codes == {3}
    assert module_answers(export, "duckdb", list(QUESTIONS)) == right


def test_fleet_names_a_damaged_file(fleet, tmp_path):
    export = tmp_path / "fleet"
    shutil.copytree(fleet, export)
    table = next(export.glob("*/steps.parquet"))
    table.write_bytes(table.read_bytes()[:-1] + b"?")
    done = run_with_python("fleet", export)
    assert done.returncode == 3 and "steps.parquet is damaged" in done.stderr
    assert subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=table.parent, capture_output=True).returncode == 1
    next(export.glob("*/SHA256SUMS")).unlink()
    assert "not what was written" not in run_with_python("fleet", export).stderr


def test_jobs_whose_names_are_alike_are_kept_apart(trace, tmp_path):
    names = ["a b", "a/b", "a-b", "..", "a%20b", "*", "x" * 300 + "1", "x" * 300 + "2", "\u00e4"]
    for number, name in enumerate(names):
        copied = copy_as(trace, tmp_path / f"{number}.db", name)
        done = run_with_python("export", "--format", "parquet", copied, "-o", tmp_path / "fleet")
        assert done.returncode == 0 and "earlier" not in done.stderr, done.stderr
    assert len(list((tmp_path / "fleet").iterdir())) == len(names)
    if importlib.util.find_spec("duckdb"):
        assert {row["run"] for row in answers(tmp_path / "fleet", "duckdb")["peaks"]} == set(names)


def test_a_folder_that_is_no_export_is_not_replaced(trace, tmp_path):
    (tmp_path / "run-mine").mkdir()
    (tmp_path / "run-mine" / "letter.txt").write_text("keep")
    done = run_with_python("export", "--format", "parquet", copy_as(trace, tmp_path / "t.db", "mine"), "-o", tmp_path)
    assert done.returncode == 1 and "is no export" in done.stderr
    assert (tmp_path / "run-mine" / "letter.txt").read_text() == "keep"
    assert not list(tmp_path.glob(".writing-*"))


def test_a_killed_export_leaves_what_was_there(trace, tmp_path):
    """Killed at any moment, the folder has the tables of one export. The next export removes what is left."""
    folder = tmp_path / "fleet"
    copied = copy_as(trace, tmp_path / "t.db", "job")
    assert run_with_python("export", "--format", "parquet", copied, "-o", folder).returncode == 0
    before = {path: path.stat().st_ino for path in folder.rglob("*.parquet")}
    words = [sys.executable, "-m", "memtrace._parquet", str(copied), str(folder)]
    for number in (signal.SIGKILL, signal.SIGTERM):
        with subprocess.Popen(words, stderr=subprocess.DEVNULL) as export:
            while export.poll() is None and not list(folder.glob(".writing-*/job")):
                time.sleep(.001)
            export.send_signal(number)
        assert export.returncode in (-signal.SIGKILL, 128 + signal.SIGTERM)
        assert {path: path.stat().st_ino for path in folder.glob("run-*/**/*.parquet")} == before
        assert bool(list(folder.glob(".writing-*"))) == (number == signal.SIGKILL)
        remove_left(folder)
    assert not list(folder.glob(".writing-*"))
    with writing_folder(folder):
        remove_left(folder)
        assert list(folder.glob(".writing-*"))
