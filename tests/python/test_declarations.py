"""The package declares C functions as their headers do."""
import ctypes
import os
import re
import shutil
import subprocess

import pytest

from memtrace import _declarations
from memtrace._library import find_header, find_torch_library

SOURCES = os.path.join(os.path.dirname(__file__), "../../")
EXAMPLE = """
#define FACTOR UINT64_C(18446744073709551615)
enum { DIMS = 3, NEXT, BEFORE = -1 };
typedef enum kind { KIND_A = 0, /* a comment; with a semicolon */
                    KIND_B = 1 } kind;
struct shape {
    int32_t dtype, dims; /* two */
    int64_t sizes[DIMS][2];
    const char *name, *other;
};
typedef struct hidden hidden;
API const struct shape *const **first(hidden *given, kind which, void (*note)(const char *name, double value),
                                      const int *ranks, uint64_t out[DIMS]);
void second(void);
hidden **third(hidden **out);
"""


@pytest.fixture
def example(tmp_path):
    path = tmp_path / "example.h"
    path.write_text(EXAMPLE.replace("API ", "MEMTRACE_API "))
    return _declarations.Header(str(path))


def test_constants_are_read(example):
    assert example.constants == {"FACTOR": 2**64 - 1, "DIMS": 3, "NEXT": 4, "BEFORE": -1, "KIND_A": 0, "KIND_B": 1}


def test_structs_are_read(example):
    assert example.structs["shape"]._fields_ == [
        ("dtype", ctypes.c_int32), ("dims", ctypes.c_int32), ("sizes", ctypes.c_int64 * 2 * 3), ("name", ctypes.c_char_p),
        ("other", ctypes.c_char_p)]


def test_functions_are_read(example):
    shape = example.structs["shape"]
    assert example.functions == {
        "first": (ctypes.POINTER(ctypes.POINTER(ctypes.POINTER(shape))),
                  [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_uint64)]),
        "second": (None, []),
        "third": (ctypes.POINTER(ctypes.c_void_p), [ctypes.POINTER(ctypes.c_void_p)])}


HEADERS = {
    "include/memtrace.h": _declarations.public,
    "src/producers/torch/memtrace_torch.h": _declarations.torch,
    "src/producers/torch/dry/dry_library.h": lambda: _declarations.Header(find_header("src/producers/torch/dry/dry_library.h")),
}


@pytest.mark.parametrize("path", HEADERS)
def test_every_function_of_the_headers_is_declared(path):
    text = re.sub(r"/\*.*?\*/", "", open(os.path.join(SOURCES, path), encoding="utf-8").read(), flags=re.S)
    names = set(re.findall(r"\b(memtrace_\w+)\(", text))
    assert len(names) > 5 and names <= set(HEADERS[path]().functions)


def test_the_library_has_every_function():
    library = ctypes.PyDLL(find_torch_library())
    missing = [name for name in _declarations.torch().functions if not hasattr(library, name)]
    assert missing == []


def spelling(name, public):
    """Returns a struct's name in C; memtrace.h has typedefs."""
    return name if public else f"struct {name}"


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
@pytest.mark.parametrize("path", list(HEADERS)[:2])
def test_structs_have_the_compiler_s_offsets(tmp_path, path):
    structs = HEADERS[path]().structs
    assert len(structs) > 3
    lines = []
    for name, struct in structs.items():
        c_name = spelling(name, path.startswith("include"))
        lines += [f'printf("{name}.{field} %zu %zu\\n", offsetof({c_name}, {field}), sizeof((({c_name} *)0)->{field}));'
                  for field, _ in struct._fields_]
    source = tmp_path / "layout.c"
    source.write_text(f'#include "{path}"\n#include <stdio.h>\nint main(void)\n{{\n' + "\n".join(lines) + "\n}\n")
    subprocess.run(["cc", "-I", SOURCES, str(source), "-o", str(tmp_path / "layout")], check=True)
    said = subprocess.run([str(tmp_path / "layout")], capture_output=True, text=True, check=True).stdout
    ours = [f"{name}.{field} {getattr(struct, field).offset} {ctypes.sizeof(kind)}"
            for name, struct in structs.items() for field, kind in struct._fields_]
    assert said.splitlines() == ours
