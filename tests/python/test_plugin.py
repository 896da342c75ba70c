"""The marks limit_memory and limit_leaks, with a meter that a conftest.py brings in the place of a card."""
import pytest

from memtrace.pytest_plugin import pytest_pyfunc_call

CONFTEST = """
import pytest
from memtrace import Block

class Meter:
    taken = left = 0
    ended = 0
    def begin(self):
        Meter.taken = Meter.left = 0
    def peak_bytes(self):
        return Meter.taken
    def left_bytes(self):
        return Meter.left
    def holders(self):
        return [Block(3 << 30, 2, "FFN", "mul", "forward", "activation", "bf16", "4,1024,8192", "model.layers.*.ffn", 1)]
    def end(self):
        Meter.ended += 1

def pytest_memtrace_meter(item):
    return Meter()

@pytest.fixture
def take():
    def take(taken, left=0):
        Meter.taken, Meter.left = taken, left
    return take
"""


@pytest.fixture
def run_tests(pytester):
    """Runs the text of a test file with the plugin."""
    def run(text, conftest=CONFTEST):
        pytester.makeconftest(conftest)
        pytester.makepyfile("import memtrace, pytest\n" + text)
        return pytester.runpytest("-p", "memtrace.pytest_plugin", "-p", "no:cacheprovider", "--strict-markers")
    return run


def test_a_test_within_its_limits_passes(run_tests):
    said = run_tests("""
@memtrace.limit_memory("1 GiB")
@memtrace.limit_leaks("1 KiB")
def test_small(take): take(1 << 30, 1 << 10)
""")
    said.assert_outcomes(passed=1)


def test_more_memory_fails_and_says_who_held_it(run_tests):
    said = run_tests("""
@memtrace.limit_memory("1.5 GiB")
def test_large(take): take(2 << 30)
""")
    said.assert_outcomes(failed=1)
    said.stdout.fnmatch_lines([
        "memtrace: the test's peak is 2.00 GiB, 512.00 MiB over its limit of 1.50 GiB",
        "  6.00 GiB in 2 blocks: activation FFN bf16 4,1024,8192 at model.layers.[*].ffn",
    ])


def test_what_is_left_fails_a_test_that_may_leave_nothing(run_tests):
    said = run_tests("""
@memtrace.limit_leaks()
def test_leak(take): take(100, 1)
""")
    said.assert_outcomes(failed=1)
    said.stdout.fnmatch_lines(["memtrace: the test leaves 1 B, 1 B over its limit of 0 B"])


def test_the_test_s_own_failure_comes_first(run_tests):
    said = run_tests("""
@memtrace.limit_memory("1 B")
def test_wrong(take):
    take(100)
    assert 1 == 2
def test_the_meter_has_ended():
    import conftest
    assert conftest.Meter.ended == 1
""")
    said.assert_outcomes(failed=1, passed=1)
    said.stdout.fnmatch_lines(["*assert 1 == 2*"])
    assert "over its limit" not in said.stdout.str()


def test_a_test_without_a_mark_is_not_measured(run_tests):
    said = run_tests("""
def test_plain(take): take(1 << 40, 1 << 40)
""")
    said.assert_outcomes(passed=1)


def test_a_mark_holds_for_a_module_and_the_nearest_counts(run_tests):
    said = run_tests("""
pytestmark = memtrace.limit_memory(10)
def test_over(take): take(11)
@memtrace.limit_memory("20 B")
def test_under(take): take(11)
""")
    said.assert_outcomes(passed=1, failed=1)


def test_without_a_card_the_test_is_skipped(run_tests):
    said = run_tests("""
@memtrace.limit_memory("1 GiB")
def test_card(): raise SystemError("runs")
""", conftest="import torch; torch.cuda.is_available = lambda: False")
    said.assert_outcomes(skipped=1)


@pytest.mark.parametrize("size, count", [("20 GiB", 20 << 30), ("1.5gb", 3 << 29), ("2k", 2048), ("7 B", 7), (4096, 4096)])
def test_sizes_are_written_as_for_the_program(size, count):
    import memtrace
    assert memtrace.limit_memory(size).mark.args == (count,)


@pytest.mark.parametrize("size", ["20 parsecs", "GiB", "-1", "1e9", "1 ib"])
def test_what_is_no_size_is_refused(size):
    import memtrace
    with pytest.raises(ValueError, match="20 GiB"):
        memtrace.limit_memory(size)


def test_the_plugin_needs_no_newer_pluggy_than_pytest_7():
    options = pytest_pyfunc_call.pytest_impl
    assert options["hookwrapper"] and not options.get("wrapper")
