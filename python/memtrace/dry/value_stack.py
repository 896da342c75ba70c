"""The iterators of `for` loops, which CPython keeps on the value stack of a frame.

A loop ends as if its iterator were exhausted: its place on the stack gets an empty one. So the loop's `else` and the code
behind it run, also if the loop is the last statement of its function. Other references to the old iterator still work. The
offsets come from CPython's headers, and are checked on a loop with known contents before they are used.
"""
from __future__ import annotations

import ctypes
import dis
import functools
import operator
import sys
import types
from typing import Any, NamedTuple, Optional

WORD = ctypes.sizeof(ctypes.c_void_p)
TAGS = 3  # low bits of a reference of Python 3.14: how it is counted; none: as in earlier versions
FOR, JUMPS = "FOR_ITER", ("JUMP_BACKWARD", "JUMP_ABSOLUTE")
COMBINED = enumerate, zip, map


class Layout(NamedTuple):
    """Offsets in bytes, of a frame object or, from Python 3.11, of the struct that it points to."""

    is_inner: bool
    begin: int  # the stack: a pointer to it, or, if `is_inner`, local variables and then the stack
    end: int  # the first free place: a pointer, or an index
    is_index: bool


LAYOUTS = {9: Layout(False, 64, 72, False), 10: Layout(False, 64, 80, True), 14: Layout(True, 80, 64, False),
           **dict.fromkeys((11, 12, 13), Layout(True, 72, 64, True))}
FRAME = 24  # of the pointer in a frame object


def read(address: int, kind: Any = ctypes.c_void_p) -> int:
    return kind.from_address(address).value or 0


def slots(frame: Any, layout: Layout) -> range:
    """Returns the addresses of the values on a frame's stack, the lowest first; none if the frame is running, since Python does
    not store the end of its stack then."""
    struct = read(id(frame) + FRAME) if layout.is_inner else id(frame)
    code = frame.f_code
    variables = len({*code.co_varnames, *code.co_cellvars, *code.co_freevars})
    begin = struct + layout.begin + variables * WORD if layout.is_inner else read(struct + layout.begin)
    if not layout.is_index:
        end = read(struct + layout.end)
    elif layout.is_inner:
        end = begin + (read(struct + layout.end, ctypes.c_int) - variables) * WORD
    else:
        end = begin + read(struct + layout.end, ctypes.c_int) * WORD
    return range(begin, end if begin < end <= begin + code.co_stacksize * WORD else begin, WORD)


def value_at(slot: int) -> Any:
    """Returns the object at a place of a stack; None: nothing is there."""
    address = read(slot) & ~TAGS
    return ctypes.cast(address, ctypes.py_object).value if address else None


def put(slot: int, value: Any) -> Any:
    """Puts an object on a place of a stack, and returns the object that was there."""
    old, is_counted = value_at(slot), read(slot) & TAGS == 0
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    ctypes.c_void_p.from_address(slot).value = id(value)
    if is_counted:
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(old))
    return old


@functools.lru_cache(maxsize=None)
def heads(code: types.CodeType) -> list[dis.Instruction]:
    """Returns the instructions that advance the loops of a function."""
    return [one for one in dis.get_instructions(code) if one.opname == FOR]


def heads_around(frame: Any) -> list[dis.Instruction]:
    """Returns the heads of the loops that a frame is in, the outermost first."""
    return [one for one in heads(frame.f_code) if one.offset <= frame.f_lasti < one.argval]


def head_of(frame: Any, lines: range) -> Optional[int]:
    """Returns the place of the head of a loop that a frame is in. The loop begins on these lines; a comprehension on the same
    lines is inside it."""
    starts = dict(dis.findlinestarts(frame.f_code))
    return next((one.offset for one in heads_around(frame)
                 if starts[max(start for start in starts if start <= one.offset)] in lines), None)


@functools.lru_cache(maxsize=None)
def entries(code: types.CodeType, head: int) -> frozenset[int]:
    """Returns the places of a loop's head and of the jumps back to it. Python 3.13 reports the jump's line, not the head's, if
    they are equal. Prefixes of an instruction come first."""
    found: set[int] = set()
    prefixes: list[int] = []
    for one in dis.get_instructions(code):
        prefixes.append(one.offset)
        if one.opname == "EXTENDED_ARG":
            continue
        if one.offset == head or (one.opname in JUMPS and one.argval in found):
            found.update(prefixes)
        prefixes.clear()
    return frozenset(found)


def is_at(head: int, frame: Any) -> bool:
    """True if a frame is about to execute the head of a loop, or to jump to it: the loop's iterator is the last value on the
    stack."""
    return frame.f_lasti in entries(frame.f_code, head)


def exhaust(frame: Any) -> Any:
    """Ends the loop that a frame is at the head of (is_at). Returns its iterator."""
    layout = checked_layout()
    assert layout is not None
    return put(slots(frame, layout)[-1], iter(()))


def remaining(frame: Any, head: int) -> Optional[int]:
    """Returns how many items are left for the loop that has its head at this place, and that a frame is in; None: unknown. A
    frame that called a function of C has no known stack."""
    layout, places = known_layout(), [one.offset for one in heads_around(frame)]
    if layout is None or head not in places:
        return None
    values = map(value_at, slots(frame, layout))
    iterators = [one for one in values if hasattr(type(one), "__next__")]  # a loop's iterator is below the values of its body
    return left_in(iterators[places.index(head)]) if len(iterators) >= len(places) else None


def left_in(iterator: Any) -> Optional[int]:
    """Returns how many items an iterator has left; None: unknown. Runs no code of the program."""
    kind = type(iterator)
    if kind in COMBINED:
        inner = [left_in(one) for one in iterator.__reduce__()[1] if hasattr(type(one), "__next__")]
        known = [one for one in inner if one is not None]
        return min(known) if known and len(known) == len(inner) else None
    if isinstance(iterator, types.GeneratorType):
        loops = heads_around(iterator.gi_frame) if iterator.gi_frame is not None else []
        return remaining(iterator.gi_frame, loops[0].offset) if len(loops) == 1 else None
    length = operator.length_hint(iterator, -1) if kind.__module__ == "builtins" else -1
    return length if length >= 0 else None


def known_layout() -> Optional[Layout]:
    """Returns the layout of this Python's frames; None if it is unknown, or if a trace function is set, as by a debugger."""
    return checked_layout() if sys.gettrace() is None else None


@functools.lru_cache(maxsize=None)
def checked_layout() -> Optional[Layout]:
    layout = LAYOUTS.get(sys.version_info.minor)
    is_cpython = sys.implementation.name == "cpython" and not sys.abiflags and sys.version_info.major == 3
    return layout if layout is not None and is_cpython and is_right(layout) else None


def is_right(layout: Layout) -> bool:
    """True if the stack of a function in a loop holds the loop's iterator, and a loop whose iterator was replaced ends."""
    iterator = iter([1, 2, 3])
    references, is_found, seen = sys.getrefcount(iterator), False, []

    def loop(argument: Any) -> None:
        for one in argument:
            seen.append(one)

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal is_found
        if frame.f_code is loop.__code__ and seen and event == "line" and is_at(heads(frame.f_code)[0].offset, frame):
            stack = slots(frame, layout)
            is_found = len(stack) == 1 and read(stack[0]) & ~TAGS == id(iterator)
            if is_found:
                put(stack[0], iter(()))
        return trace

    sys.settrace(trace)
    try:
        loop(iterator)
    finally:
        sys.settrace(None)
    return is_found and seen == [1] and sys.getrefcount(iterator) == references
