"""The C functions, structs and constants that the package uses, read from the C headers, so that nothing is declared twice.

Understands the C of memtrace's own headers: structs of scalars, texts, pointers and arrays, enums, #define of a number, and
functions. tests/python/test_declarations.py compares layouts with the compiler's.
"""
from __future__ import annotations

import ctypes
import dataclasses
import functools
import re
from typing import Any, TypeVar

from ._library import find_header, find_library

Row = TypeVar("Row")

SCALARS: dict[str, Any] = {
    "void": None, "char": ctypes.c_char, "int": ctypes.c_int, "double": ctypes.c_double, "size_t": ctypes.c_size_t,
    "ssize_t": ctypes.c_ssize_t, "uint16_t": ctypes.c_uint16, "int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64, "PyObject": ctypes.py_object,
}
POINTERS: dict[str, Any] = {"void": ctypes.c_void_p, "char": ctypes.c_char_p, "PyObject": ctypes.py_object}


class Header:
    """The declarations of some headers, by name. Structs are subclasses of ctypes.Structure."""

    def __init__(self, *paths: str) -> None:
        text = ""
        for path in paths:
            with open(path, encoding="utf-8") as file:
                text += file.read()
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        self.constants = {name: int(value) for name, value in
                          re.findall(r"^#define (\w+) (?:UINT64_C\()?(\d+)\)?$", text, flags=re.M)}
        text = re.sub(r"^#.*(?:\\\n.*)*|extern \"C\" \{", "", text, flags=re.M)
        self.types = dict(SCALARS)
        self.structs: dict[str, type[Any]] = {}
        for kind, name, body in re.findall(r"\b(enum|struct) ?(\w*) \{([^{}]*)\}", text):
            if kind == "enum":
                self._add_constants(body)
                self.types[name] = ctypes.c_int
            else:
                self.structs[name] = self.types[name] = type(name, (ctypes.Structure,), {"_fields_": self._fields(body)})
        found = re.findall(r"^([^;{}()]*?)(\w+)\(((?:[^()]|\([^()]*\))*)\);", text, flags=re.M)
        self.functions = {name: (self._type(result, 0), [self._type(*self._declared(word)[1:]) for word in split(words)])
                          for result, name, words in found}

    def _add_constants(self, body: str) -> None:
        value = -1
        for name, given in re.findall(r"(\w+)\s*(?:=\s*(-?\d+))?", body):
            value = self.constants[name] = int(given) if given else value + 1

    def _fields(self, body: str) -> list[tuple[str, Any]]:
        """Returns the fields of a struct: "uint64_t requested, allocated; char name[64];"."""
        fields: list[tuple[str, Any]] = []
        for line in body.split(";"):
            first, *others = split(line) or [""]
            base = first.rpartition(" ")[0].rstrip("* ")
            for declared in [first, *(f"{base} {other}" for other in others)] if first else ():
                name, words, stars = self._declared(re.sub(r"\[.*", "", declared))
                kind = self._type(words, stars)
                for size in reversed(re.findall(r"\[(\w+)\]", declared)):
                    kind = kind * self.constants.get(size, 0) if not size.isdigit() else kind * int(size)
                fields.append((name, kind))
        return fields

    @staticmethod
    def _declared(text: str) -> tuple[str, str, int]:
        """Returns the name, the words of the type, and the pointers of a parameter or field. A passed array or function is a
        pointer."""
        if "(" in text:
            return "", "void", 1
        words = text.replace("*", " ").partition("[")[0].rpartition(" ")
        return words[2], words[0], text.count("*") + text.count("[")

    def _type(self, words: str, stars: int) -> Any:
        """Returns the ctypes type. A struct that no header describes is opaque."""
        stars += words.count("*")
        names = [word for word in words.replace("*", " ").split() if word not in ("const", "struct", "enum", "MEMTRACE_API")]
        base = names[-1]
        if stars and (base in POINTERS or base not in self.types):
            kind, stars = POINTERS.get(base, ctypes.c_void_p), stars - 1
        else:
            kind = self.types[base]
        for _ in range(stars):
            kind = ctypes.POINTER(kind)
        return kind

    def declare(self, library: Any) -> Any:
        """Sets the types of a library's functions from the headers. A missing function fails when it is called."""
        for name, (result, arguments) in self.functions.items():
            function = getattr(library, name, None)
            if function is not None:
                function.restype, function.argtypes = result, arguments
        return library


def split(words: str) -> list[str]:
    """Splits the text at commas outside parentheses; returns no parts for "void"."""
    parts = (" ".join(part.split()) for part in re.split(r",(?![^(]*\))", words))
    return [part for part in parts if part not in ("", "void")]


@functools.lru_cache(maxsize=None)
def public() -> Header:
    """The header of libmemtrace.so."""
    return Header(find_header("include/memtrace.h"))


@functools.lru_cache(maxsize=None)
def torch() -> Header:
    """The headers of libmemtrace_torch.so."""
    return Header(*(find_header(f"src/producers/torch/{name}.h") for name in ("memtrace_torch", "torch_plan")))


@functools.lru_cache(maxsize=None)
def dry() -> Header:
    """The header of the library that is compiled for each PyTorch."""
    return Header(find_header("src/producers/torch/dry/dry_library.h"))


@functools.lru_cache(maxsize=None)
def library() -> Any:
    """Loads libmemtrace.so, once."""
    return public().declare(ctypes.CDLL(find_library()))


def load_torch_library(path: str, mode: int = ctypes.DEFAULT_MODE) -> Any:
    """Loads libmemtrace_torch.so. Calls keep the GIL, since releasing it takes longer."""
    return torch().declare(ctypes.PyDLL(path, mode=mode))


def load_dry_library(path: str) -> Any:
    """Loads the library that was compiled for this PyTorch."""
    return dry().declare(ctypes.PyDLL(path, mode=ctypes.RTLD_GLOBAL))


def value_of(value: Any) -> Any:
    """Returns a field's value. Text is decoded even if it is invalid UTF-8, since the trace's author chose it."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


def plain(row: Any, kind: type[Row]) -> Row:
    """Copies a struct into a dataclass with the same fields."""
    return kind(**{field.name: value_of(getattr(row, field.name)) for field in dataclasses.fields(kind)})  # type: ignore
