"""The structs of the package are laid out as include/memtrace.h has them."""
import ctypes
import os
import shutil
import subprocess

import pytest

from memtrace import program
from memtrace._header import STRUCTS

INCLUDE = os.path.join(os.path.dirname(__file__), "../../include")


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_structs_have_the_compiler_s_offsets(tmp_path):
    lines = [f'printf("{name}.{field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name} *)0)->{field}));'
             for name, struct in {**STRUCTS, **program.STRUCTS}.items() for field, *_ in struct._fields_]
    source = tmp_path / "layout.c"
    source.write_text("#include <memtrace.h>\n#include <stdio.h>\nint main(void)\n{\n" + "\n".join(lines) + "\n}\n")
    subprocess.run(["cc", "-I", INCLUDE, str(source), "-o", str(tmp_path / "layout")], check=True)
    said = subprocess.run([str(tmp_path / "layout")], capture_output=True, text=True, check=True).stdout
    ours = [f"{name}.{field} {getattr(struct, field).offset} {ctypes.sizeof(kind)}"
            for name, struct in {**STRUCTS, **program.STRUCTS}.items() for field, kind in struct._fields_]
    assert said.splitlines() == ours
