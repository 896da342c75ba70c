"""The parts of PyTorch's binary interface that the watcher uses, derived from the C++ headers in every wheel.

The layout follows the C++ ABI of Linux: virtual functions have slots in the order of their declarations, base classes first;
fields follow each other at their alignment. Unsupported declarations raise NotUnderstood, and then nothing is watched.
"""
from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Iterator
from typing import Any

from .._declarations import torch

# The headers with the classes, of all known versions. Not every version has all of them.
HEADERS = ("c10/core/Allocator.h", "c10/core/CachingDeviceAllocator.h", "c10/cuda/CUDACachingAllocator.h")

ALLOCATOR, ENTRY = "CUDAAllocator", "TraceEntry"

# The header with the observers of operators, its first fields, its first kind of operator, the kind of the program's ranges, and the
# most kinds that it may have.
OBSERVER_HEADER, OBSERVER, KINDS = "ATen/record_function.h", "RecordFunctionCallback", "RecordScope"
OBSERVER_FIELDS = ["StartCallback start_", "EndCallback end_", "double sampling_prob_",
                   "std::array<bool, static_cast<size_t>(RecordScope::NUM_SCOPES)> scopes_"]
FIRST_KIND, RANGE_KIND, FEWEST_KINDS, MOST_KINDS = "FUNCTION", "USER_SCOPE", 6, 13

# Size and alignment of the types of fields, by the end of their names.
SIZES = {"Action": (4, 4), "int": (4, 4), "DeviceIndex": (1, 1), "int64_t": (8, 8), "size_t": (8, 8), "cudaStream_t": (8, 8),
         "void*": (8, 8), "MempoolId_t": (16, 8)}
SHARED_POINTER = (16, 8)

FIELDS = {"action_": "action_offset", "device_": "device_offset", "addr_": "address_offset", "stream_": "stream_offset",
          "size_": "bytes_offset"}
POOL = "mempool_"  # of newer versions
FIELD_SIZES = {"action_": 4, "device_": 1, "addr_": 8, "stream_": 8, "size_": 8}
ACTIONS = ("alloc", "free_requested", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "oom")


class NotUnderstood(Exception):
    """The headers differ from all known versions."""


def without_comments(text: str) -> str:
    """Returns C++ without its comments. Strings are emptied, since they may contain anything."""
    return re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"',
                  lambda found: '""' if found.group()[0] == '"' else " ", text, flags=re.S)


def inside(text: str, begin: int) -> str:
    """Returns the text between the brace at `begin` and its closing brace."""
    depth = 0
    for index in range(begin, len(text)):
        depth += {"{": 1, "}": -1}.get(text[index], 0)
        if depth == 0:
            return text[begin + 1 : index]
    raise NotUnderstood("a brace without its end")


def find_class(text: str, name: str) -> tuple[str, str]:
    """Returns the base of a class, "" for none, and its body."""
    found = re.search(rf"\b(?:class|struct)\s+(?:\w+\s+)?{name}\s*(?::\s*(?:public\s+)?([\w:]+)\s*)?\{{", text)
    if found is None:
        raise NotUnderstood(f"there is no class {name} with at most one base")
    body = inside(text, found.end() - 1)
    if re.search(r"^\s*#", body, flags=re.M):
        raise NotUnderstood(f"{name} depends on the build")
    return (found.group(1) or "").rpartition(":")[2], body


def declarations(body: str) -> Iterator[str]:
    """Yields the declarations in a class's body; functions without their bodies."""
    depth, begin = 0, 0
    for index, character in enumerate(body):
        depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(character, 0)
        if depth == 0 and (character == ";" or (character == "}" and is_function(body[begin:index]))):
            yield " ".join(body[begin:index].split())
            begin = index + 1


def is_function(text: str) -> bool:
    """True if the text before a closing brace is a function with its body, which no semicolon follows."""
    head = text.partition("{")[0]
    return "(" in head and "=" not in re.sub(r"\(.*\)", "", head, flags=re.S)


def signature(declaration: str) -> tuple[str, ...]:
    """Returns the name of a function, the types of its parameters without namespaces, and "const" if it is."""
    found = re.match(r"[^(]*?(~?\w+)\s*\(", declaration)
    if found is None:
        raise NotUnderstood(declaration)
    depth, end = 1, found.end()
    while depth > 0 and end < len(declaration):
        depth += {"(": 1, ")": -1}.get(declaration[end], 0)
        end += 1
    types = []
    for parameter in re.sub(r"\{[^}]*\}", "", declaration[found.end() : end - 1]).split(","):
        words = re.sub(r"\b\w+::|=.*", "", parameter).split()
        types.append(" ".join(words[:-1] if len(words) > 1 and re.fullmatch(r"\w+", words[-1]) else words))
    is_const = re.match(r"\s*const\b", declaration[end:]) is not None
    return (found.group(1), *types, "const" if is_const else "")


def slots(text: str, name: str) -> list[tuple[str, ...]]:
    """Returns the signatures of a class's virtual functions by slot. A destructor has two."""
    base, body = find_class(text, name)
    known = slots(text, base) if base else []
    for declaration in declarations(re.sub(r"\b(public|private|protected)\s*:(?!:)", "", body)):
        if not re.match(r"(\[\[\w+\]\]\s*)?virtual\b", declaration) or re.search(r"\boverride\b", declaration):
            continue
        found = signature(declaration)
        if found[0].startswith("~"):
            known += [] if any(other[0].startswith("~") for other in known) else [found, found]
        elif found not in known:
            known.append(found)
    return known


def slot_of(functions: list[tuple[str, ...]], name: str) -> int:
    """Returns the slot of the one function with this name."""
    found = [slot for slot, function in enumerate(functions) if function[0] == name]
    if len(found) != 1:
        raise NotUnderstood(f"{len(found)} virtual functions are called {name}")
    return found[0]


def size_of(kind: str) -> tuple[int, int]:
    """Returns the size and the alignment of a type."""
    if kind.startswith("std::shared_ptr<"):
        return SHARED_POINTER
    known = SIZES.get(kind.rpartition(":")[2])
    if known is None:
        raise NotUnderstood(f"{ENTRY} has a field of type {kind}")
    return known


def offsets(body: str) -> dict[str, int]:
    """Returns the offsets of the entry's required fields, and of the private pool if it has one."""
    found: dict[str, int] = {}
    offset = 0
    has_pool = re.search(rf"\b{POOL}\s*[;{{]", body) is not None
    for declaration in declarations(body):
        field = re.fullmatch(r"([\w:]+(?:<[\w:]+>)?\s*\*?)\s*\b(\w+_)\s*(\{.*\})?", declaration)
        if field is None or declaration.startswith("enum"):
            continue
        size, alignment = size_of(field.group(1).replace(" ", ""))
        offset = (offset + alignment - 1) // alignment * alignment
        name = field.group(2)
        if name in FIELDS and name != "device_" and FIELD_SIZES[name] != size:
            raise NotUnderstood(f"{name} has {size} bytes")
        found[name] = offset
        offset += size
        if FIELDS.keys() <= found.keys() and (POOL in found or not has_pool):
            return found
    raise NotUnderstood(f"{ENTRY} lacks a field")


def actions(body: str) -> dict[str, int]:
    """Returns the numbers of the entry's actions, in lower case."""
    found = re.search(r"\benum\s+Action\s*(\{)", body)
    if found is None:
        raise NotUnderstood(f"{ENTRY} has no actions")
    names = [word for word in inside(body, found.start(1)).replace("\n", " ").split(",") if word.strip()]
    if any(not re.fullmatch(r"\s*[A-Z_]+\s*", name) for name in names):
        raise NotUnderstood("an action has a number of its own")
    return {name.strip().lower(): number for number, name in enumerate(names)}


def derive(include: os.PathLike[str]) -> Any:
    """Returns the interface, a memtrace_torch_abi, of the PyTorch with these headers. Fails with NotUnderstood."""
    paths = [pathlib.Path(include) / header for header in HEADERS]
    text = without_comments("\n".join(path.read_text() for path in paths if path.exists()))
    functions = slots(text, ALLOCATOR)
    _, entry = find_class(text, ENTRY)
    fields, numbers = offsets(entry), actions(entry)
    if not set(ACTIONS) <= numbers.keys():
        raise NotUnderstood(f"{ENTRY} lacks an action")
    return torch().structs["memtrace_torch_abi"](
        name_slot=slot_of(functions, "name"), attach_slot=slot_of(functions, "attachAllocatorTraceTracker"),
        pool_offset=fields.get(POOL, 0), **{field: fields[name] for name, field in FIELDS.items()}, **{name: numbers[name] for name in ACTIONS})


def check_observer(include: os.PathLike[str]) -> int:
    """Returns the kind's number for the program's ranges. Fails with NotUnderstood unless PyTorch's observers match
    src/producers/torch/torch_record_function.cpp."""
    text = without_comments((pathlib.Path(include) / OBSERVER_HEADER).read_text())
    _, body = find_class(text, OBSERVER)
    fields = [re.sub(r"\s*(=.*|\{.*\})$", "", line) for line in declarations(body.rpartition("private:")[2])]
    if fields[:4] != OBSERVER_FIELDS or any(not re.fullmatch(r"bool \w+_", field) for field in fields[4:]):
        raise NotUnderstood(f"{OBSERVER} has other fields")
    found = re.search(rf"\benum class (?:\w+ )?{KINDS}\b[^{{;]*(\{{)", text)
    kinds = [] if found is None else re.findall(r"\w+", re.sub(r"=\s*0\b", "", inside(text, found.start(1))))
    if kinds[:1] != [FIRST_KIND] or not FEWEST_KINDS <= len(kinds) - 1 <= MOST_KINDS or len(fields) - 4 > 3:
        raise NotUnderstood(f"{KINDS} has other kinds")
    if RANGE_KIND not in kinds:
        raise NotUnderstood(f"{KINDS} has no {RANGE_KIND}")
    return kinds.index(RANGE_KIND)
