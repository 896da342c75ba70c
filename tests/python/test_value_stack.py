"""Loops that are ended from outside, by the value stack of their frame."""
import sys

import pytest

from memtrace.dry import value_stack

LOOPS = {
    "range": "for item in range(9):\n    step(item)",
    "generator": "for item in (one for one in range(9)):\n    step(item)",
    "dict": "for item in dict.fromkeys(range(9)).items():\n    step(item)",
    "zip": "for item in zip(range(9),\n                range(9)):\n    step(item)",
    "one line": "for item in range(9): step(item)",
    "long body": "for item in range(9):\n    step(item)\n" + 200 * "    item = [item, (item, 1)][0]\n",
    "with": "with open('/dev/null') as file:\n    for item in enumerate(file.mode * 9):\n        step(item)",
    "outer": "for outer in range(2):\n    for item in range(9):\n        step(item)",
    "comprehension": "for item in range(9):\n    [step(item) for _ in range(1)]",
}


class Ending:
    """A function that ends the innermost `for` statement around its first call."""

    def __init__(self):
        self.calls, self.head = 0, None

    def __call__(self, item):
        self.calls += 1
        frame = sys._getframe(1)
        while frame.f_code.co_name != "loop":
            frame = frame.f_back
        if self.head is None:
            line = next(n for n, text in enumerate(self.lines, 1) if "for item" in text)
            self.head, self.frame = value_stack.head_of(frame, range(line, line + 2)), frame
            frame.f_trace = self.trace
            sys.settrace(self.trace)

    def trace(self, frame, event, _):
        if frame is self.frame and event == "line" and value_stack.is_at(self.head, frame):
            sys.settrace(None)
            frame.f_trace = self.frame = None
            value_stack.exhaust(frame)
        return self.trace


def make(source, step):
    step.lines = ["def loop():", "    done = []", *("    " + line for line in source.splitlines()), "    else:" if
                  source.startswith("for") else "    if True:", "        done.append('else')", "    return done"]
    variables = {"step": step}
    exec("\n".join(step.lines), variables)
    return variables["loop"]


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_ends_at_its_head_and_goes_on_behind(name):
    assert value_stack.known_layout() is not None
    step = Ending()
    assert make(LOOPS[name], step)() == ["else"]
    assert step.calls == (10 if name == "outer" else 1)


def test_the_iterator_of_an_ended_loop_is_released_and_not_advanced():
    step, shared = Ending(), iter(range(9))
    references = sys.getrefcount(shared)
    loop = make("for item in shared:\n    step(item)", step)
    loop.__globals__["shared"] = shared
    loop()
    assert next(shared) == 1 and sys.getrefcount(shared) == references + 1


def test_a_generator_of_an_ended_loop_is_closed():
    closed = []

    def batches():
        try:
            yield from range(9)
        finally:
            closed.append(True)

    loop = make("for item in batches():\n    step(item)", Ending())
    loop.__globals__["batches"] = batches
    loop()
    assert closed == [True]


def test_a_layout_with_other_offsets_is_not_used():
    layout = value_stack.LAYOUTS[sys.version_info.minor]
    assert value_stack.is_right(layout)
    assert not value_stack.is_right(layout._replace(begin=layout.begin + value_stack.WORD))


def numbers(count):
    for number in range(count):
        yield number


@pytest.mark.parametrize("items, left", [
    ("range(9)", 8), ("[1, 2, 3]", 2), ("enumerate(zip('abc', range(9)))", 2), ("numbers(5)", 4), ("map(str, numbers(7))", 6),
    ("(one for one in 'abcd')", 3), ("iter(int, 1)", None), ("zip(range(3), iter(int, 1))", None)])
def test_the_remaining_items_of_a_loop_are_known(items, left):
    found = []

    def look():
        frame = sys._getframe(1)
        found.append(value_stack.remaining(frame, value_stack.head_of(frame, range(4, 5))))

    exec(f"""
for outer in numbers(2):
    with open('/dev/null') as file:
        for item in {items}:
            look()
            break
""", {"numbers": numbers, "look": look})
    assert found == 2 * [left if sys.version_info >= (3, 11) else None]  # older ones forget where the stack of a running frame ends
