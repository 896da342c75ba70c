"""Dry runs that are forked from an interpreter with torch imported: they equal dry runs that each start an interpreter."""
import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import pytest
import torch
from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

TRAINING = """
    import sys
    import torch
    {before}
    net = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(3):
        net(torch.randn(int(sys.argv[1]), 64, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    {after}
    """
NOT_COMPARED = {"time_ns", "begin_ns", "end_ns", "pid", "started_at", "checksum"}


def start(folder, *words):
    kept = {name: value for name, value in os.environ.items() if name != "MEMTRACE_TORCH_LIBRARY"}
    return subprocess.Popen([find_program(), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder, env=kept,
                            start_new_session=True)


def command(folder, *words):
    process = start(folder, *words)
    out, err = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def write(folder, before="", after="", name="program.py"):
    (folder / name).write_text(textwrap.dedent(TRAINING).format(before=before, after=after))


def events_of(path):
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    found = {}
    for table in ("event", "label", "span", "stack", "frame", "segment", "step", "summary_peak", "setting"):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})") if row[1] not in NOT_COMPARED]
        rows = connection.execute(f"SELECT {', '.join(columns)} FROM {table} ORDER BY 1, 2, 3").fetchall()
        found[table] = [row for row in rows if table != "setting" or row[1] != "pid"]
    return found


def test_runs_of_a_server_are_the_same_as_others(tmp_path):
    write(tmp_path)
    sweep = command(tmp_path, "sweep", "--trace", "served.db", "--vary", "n=8,16", "--", sys.executable, "program.py", "@n")
    assert sweep.returncode == 0, sweep.stderr
    for count in ("8", "16"):
        command(tmp_path, "dry-run", "--trace", "alone.db", "--", sys.executable, "program.py", count)
    assert events_of(tmp_path / "served.db") == events_of(tmp_path / "alone.db")


def test_the_script_sees_itself_as_the_main_program(tmp_path):
    write(tmp_path, after="print('seen', sys.argv, __name__, __file__, __spec__, sys.path[0], sys.orig_argv)")
    said = command(tmp_path, "dry-run", "--steps", "all", "--ranks", "2", "--", sys.executable, "-u", "program.py", "8", "b c")
    alone = command(tmp_path, "dry-run", "--steps", "all", "--", sys.executable, "-u", "program.py", "8", "b c")
    assert alone.stdout.startswith("seen ['program.py', '8', 'b c'] __main__")
    assert said.stdout == 2 * alone.stdout


@pytest.mark.parametrize("ending, code", [("raise KeyError('lost')", 1), ("sys.exit(7)", 7), ("sys.exit('bye')", 1), ("assert False", 1),
                                          ("import os; os._exit(9)", 9), ("import os; os.abort()", 128 + signal.SIGABRT)])
def test_exit_codes_and_tracebacks_are_python_s_own(tmp_path, ending, code):
    (tmp_path / "program.py").write_text(f"import sys\nimport torch\ntorch.ones(9, device='cuda')\n{ending}\n")
    said = command(tmp_path, "dry-run", "--steps", "all", "--jobs", "1", "--ranks", "2", "--", sys.executable, "program.py", "8")
    alone = command(tmp_path, "dry-run", "--steps", "all", "--", sys.executable, "program.py", "8")
    assert said.returncode == alone.returncode == code
    assert traceback_in(said.stderr) == traceback_in(alone.stderr)


def traceback_in(text):
    return [line for line in text.splitlines() if not line.startswith("memtrace: ")]


def test_a_syntax_error_and_a_missing_script_are_python_s_own(tmp_path):
    (tmp_path / "broken.py").write_text("import torch\nx = = 1\n")
    for script, words in ("broken.py", "SyntaxError"), ("missing.py", "can't open file"):
        said = command(tmp_path, "fit", "--device", "sim:l4", "--", sys.executable, script)
        assert said.returncode == 1
        assert words in said.stderr and "Traceback" not in said.stderr


def test_a_process_that_the_script_spawns_has_its_classes(tmp_path):
    (tmp_path / "program.py").write_text(textwrap.dedent("""
        import multiprocessing
        import torch
        class Thing:
            pass
        def work(thing):
            assert type(thing) is Thing and torch.ones(9, device="cuda").is_cuda
        if __name__ == "__main__":
            process = multiprocessing.get_context("spawn").Process(target=work, args=(Thing(),))
            process.start()
            process.join()
            assert process.exitcode == 0
            torch.ones(9, device="cuda")
        """))
    said = command(tmp_path, "dry-run", "--ranks", "2", "--", sys.executable, "program.py")
    assert said.returncode == 0, said.stderr


def test_a_module_of_the_script_s_folder_is_imported_by_each_run(tmp_path):
    """Also one that torch imports, by the name of a library."""
    count = tmp_path / "count"
    (tmp_path / "tqdm.py").write_text(f"import posix\nposix.write(posix.open({str(count)!r}, {os.O_WRONLY | os.O_CREAT | os.O_APPEND}), b'x')\n")
    write(tmp_path, before="import tqdm")
    said = command(tmp_path, "dry-run", "--ranks", "2", "--", sys.executable, "program.py", "8")
    assert said.returncode == 0, said.stderr
    assert len(count.read_text()) >= 2


def test_variables_that_an_import_has_read_may_not_differ(tmp_path):
    """Lightning reads RANK as it is imported."""
    pytest.importorskip("lightning")
    write(tmp_path, before="import lightning\nfrom lightning.fabric.utilities.rank_zero import rank_zero_only",
          after="import os\nassert rank_zero_only.rank == int(os.environ['RANK'])")
    said = command(tmp_path, "dry-run", "--steps", "all", "--ranks", "2", "--", sys.executable, "program.py", "8")
    assert said.returncode == 0, said.stderr


def first_child_of(pid):
    """Returns the child that was started first."""
    def started(child):
        with open(f"/proc/{child}/stat", encoding="ascii") as file:
            return int(file.read().rpartition(")")[2].split()[19])

    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return min(map(int, file.read().split()), key=started)


def wait_for_file(path):
    end = time.monotonic() + 300
    while not path.exists():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_run_that_is_killed_is_not_reported_as_failing(tmp_path):
    write(tmp_path, after="import os, signal\nif sys.argv[1] == '8': os.kill(os.getpid(), signal.SIGKILL)")
    said = command(tmp_path, "sweep", "--steps", "100", "--json", "--vary", "n=8,16", "--", sys.executable, "program.py", "@n")
    assert said.returncode == 1
    killed, done = json.loads(said.stdout)["rows"]
    assert killed["state"] == "interrupted" and killed["told"] == "was killed by signal 9 (not counted)"
    assert done["state"] == "done"
    assert "1 of 2 cells were killed" in said.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_all_runs(tmp_path, number):
    began = tmp_path / "began"
    write(tmp_path, after=f"real = __import__('posix'); real.close(real.open({str(began)!r}, 65)); __import__('time').sleep(600)")
    process = start(tmp_path, "fit", "--steps", "100", "--device", "sim:l4", "--", sys.executable, "program.py", "8")
    wait_for_file(began)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "interrupted" in err


def test_runs_go_on_without_a_server_that_was_killed(tmp_path):
    began = tmp_path / "began"
    write(tmp_path, after=f"real = __import__('posix'); real.close(real.open({str(began)!r} + sys.argv[1], 65)); __import__('time').sleep(2)")
    process = start(tmp_path, "sweep", "--jobs", "1", "--steps", "100", "--vary", "n=8,16", "--", sys.executable, "program.py", "@n")
    wait_for_file(tmp_path / "began8")
    os.kill(first_child_of(process.pid), signal.SIGKILL)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert "2 done" in out
