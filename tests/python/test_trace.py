"""Questions by Python get the program's answers."""
import gc
import html.parser
import subprocess
import sys

import pytest

import memtrace
from memtrace._html import ROLES
from memtrace._library import find_program
from memtrace._rows import Rows


@pytest.fixture
def trace(asked):
    with memtrace.open(asked.path) as opened:
        yield opened


def test_runs_are_those_of_the_program(trace, asked):
    expected = [(run["run"], run["name"], run["state"], run["steps"]) for run in asked.json("runs")["rows"]]
    assert [(run.number, run.name, run.state, run.steps) for run in trace.runs()] == expected
    assert trace.run("small") == trace.runs()[0] and trace.run() == trace.runs()[1]


@pytest.mark.parametrize("measured", ["allocated", "requested", "reserved"])
def test_the_peak_is_that_of_the_program(trace, asked, measured):
    peak = trace.peak(measured=measured)
    assert peak.bytes == asked.json("peak")[f"{measured}_bytes"] > 0
    kind = "requested_bytes" if measured == "requested" else "allocated_bytes"
    assert sum(getattr(share, kind) for share in peak.shares) + peak.cached_bytes == peak.bytes


def test_shares_come_by_role_and_of_one_step(trace, asked):
    rows = asked.json("peak", "--by", "role")["rows"]
    assert [(share.category, share.allocated_bytes) for share in trace.peak(by="role").shares] == [
        (row["role"], row["allocated_bytes"]) for row in rows]
    assert trace.peak(step=0).step == 0 and trace.peak(step=-1).phase == "init"


def test_the_largest_blocks_are_those_of_the_program(trace, asked):
    said = asked.json("top", "3", "--at", "peak")["rows"]
    assert [(block.count, block.category, block.span) for block in trace.top(3)] == [
        (row["count"], row["category"], row["span"]) for row in said]
    assert "<table>" in trace.top(5, at="run")[:2]._repr_html_()


def test_causes_sum_to_the_difference(trace):
    causes = trace.diff("small", "large")
    assert len(causes) > 1 and sum(cause.bytes for cause in causes) == trace.peak("large").bytes - trace.peak("small").bytes
    with memtrace.open(trace.path) as other:
        assert trace.diff("small", "large", other=other) == causes


def test_findings_and_categories_have_bytes(trace):
    assert all(finding.saved_bytes > 0 for finding in trace.advise(2))
    assert trace.categories()[0].max_bytes >= trace.categories()[-1].max_bytes > 0


def test_an_export_is_written(trace, tmp_path):
    trace.export(tmp_path / "blocks.csv", "csv", "small")
    assert (tmp_path / "blocks.csv").read_text().count("\n") > 100


@pytest.mark.parametrize("question, error", [
    (lambda trace: trace.run("no such"), memtrace.MemtraceError),
    (lambda trace: trace.peak(step=99), memtrace.MemtraceError),
    (lambda trace: trace.peak(by="colour"), memtrace.MemtraceError),
    (lambda trace: trace.peak(measured="used"), ValueError),
    (lambda trace: trace.top(at="noon"), ValueError),
])
def test_a_question_that_cannot_be_answered_says_why(trace, question, error):
    with pytest.raises(error) as caught:
        question(trace)
    assert str(caught.value)


def test_what_is_no_trace_fails_with_the_program_s_status(tmp_path):
    (tmp_path / "text.db").write_text("no trace")
    for name in ("text.db", "none.db"):
        with pytest.raises(memtrace.MemtraceError) as caught:
            memtrace.open(tmp_path / name)
        assert caught.value.status == 3
    gc.collect()  # an object that was never opened has nothing to close


def test_a_closed_trace_is_not_asked(asked):
    trace = memtrace.open(asked.path)
    trace.close()
    trace.close()
    with pytest.raises(ValueError, match="closed"):
        trace.peak()


class Balanced(html.parser.HTMLParser):
    """Counts tags, and fails for an end without its beginning."""

    def __init__(self):
        super().__init__()
        self.under_way, self.seen = [], []

    def handle_starttag(self, tag, attributes):
        self.under_way.append(tag)
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.under_way.pop() == tag


def test_notebooks_get_html_with_a_row_a_share(trace):
    page = Balanced()
    page.feed(trace._repr_html_())
    shares = trace.peak(by="role").shares
    assert all(f'background:{ROLES[share.category]}"' in trace._repr_html_() for share in shares)
    assert page.under_way == [] and page.seen.count("rect") == len(shares) and page.seen.count("path") == 1
    assert page.seen.count("tr") == 1 + len(trace.runs()) + 1 + len(shares)
    assert "script" not in page.seen


def test_text_of_a_trace_is_escaped():
    share = memtrace.Share("<script>alert(1)</script>\x1b", 5, 5, 1)
    peak = memtrace.Peak("allocated", "category", 5, 0, 0, 0, "forward", "<b>\n", Rows([share]))
    shown = peak._repr_html_()
    assert "<script>" not in shown and "<b>" not in shown and "&lt;script&gt;" in shown
    assert str(peak) == ("peak of allocated bytes: 5 B in step 0, forward, <b>\\x0a\n"
                         "category                       allocated  requested  blocks\n"
                         "<script>alert(1)</script>\\x1b        5 B        5 B       1")


def test_print_shows_tables(trace):
    said = str(trace).splitlines()
    assert said[0] == trace.path and said[1].split()[:3] == ["number", "name", "state"] and said[2].split()[1] == "small"
    assert str(trace).endswith(str(trace.peak(by="role"))) and str(trace.top(1)).split()[0] == "bytes"
    assert str(Rows(())) == "no rows"


def test_a_curve_reaches_the_peak(trace):
    curve = trace.curve("small")
    assert curve.axis == "time" and max(curve.bytes) == trace.peak("small").bytes
    assert len(curve.bytes) == curve.end // curve.bin + 1


def test_the_timeline_is_a_page_within_a_frame(trace):
    page = trace.timeline("small", height=500)
    seen = Balanced()
    seen.feed(page._repr_html_())
    assert seen.seen == ["iframe"] and page.html.startswith("<!doctype html>") and 'height="500"' in page._repr_html_()


def test_out_of_memory_is_explained(trace, tmp_path):
    with pytest.raises(memtrace.MemtraceError, match="ended with the state oom") as caught:
        trace.oom()
    assert caught.value.status == 2
    path = tmp_path / "oom.db"
    subprocess.run([find_program(), "run", "--device", "sim:2GiB", "--trace", path, "--model", "small"], capture_output=True)
    with memtrace.open(path) as opened:
        oom = opened.oom()
    assert oom.changes and oom.short_bytes > 0 and sum(share.allocated_bytes for share in oom.shares) == oom.allocated_bytes
    lines = str(oom).splitlines()
    assert lines[0].startswith("Out of memory: run 1 asked for ") and oom.verdict == lines[1]
    assert lines[-1] == f"{len(oom.changes)}. {oom.changes[-1].command or oom.changes[-1].hint}"
    page = Balanced()
    page.feed(oom._repr_html_())
    assert page.under_way == [] and page.seen.count("li") == len(oom.changes)


def test_importing_the_package_does_not_import_torch(asked):
    said = subprocess.run([sys.executable, "-c", f"import sys, memtrace; memtrace.open({str(asked.path)!r}).peak();"
                           "print('torch' in sys.modules, sorted(memtrace.__all__) == dir(memtrace))"],
                          capture_output=True, text=True)
    assert said.stdout == "False True\n", said.stderr


def test_python_m_memtrace_is_the_program():
    said = subprocess.run([sys.executable, "-m", "memtrace", "run", "--no-such"], capture_output=True, text=True)
    assert said.returncode == 2 and "--no-such" in said.stderr
