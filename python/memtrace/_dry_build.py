"""The library that gives this PyTorch a card (src/torch/dry): found, or compiled once and kept in the user's cache."""
from __future__ import annotations

import hashlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent import futures

from ._library import BESIDE, WHEEL

OLDEST = (2, 6)
STANDARD = "-std=c++20"


class NoLibrary(Exception):
    """There is none for this PyTorch, and it can't be compiled."""


def sources() -> pathlib.Path:
    """Returns the folder with the sources, in which torch/dry is."""
    for place in (WHEEL / "src", BESIDE / "src"):
        if (place / "torch/dry").is_dir():
            return place
    raise NoLibrary("the sources of the library for PyTorch are not beside memtrace")


def version_of(torch_folder: pathlib.Path) -> str:
    """Returns PyTorch's version, without importing it: "2.13.0+cpu"."""
    found = re.search(r"^__version__ = '([^']+)'", (torch_folder / "version.py").read_text(), flags=re.M)
    return found.group(1) if found else "0"


def check(version: str) -> None:
    """Fails with NoLibrary for a PyTorch that a dry run does not take."""
    numbers = tuple(int(number) for number in version.split("+")[0].split(".")[:2])
    if numbers < OLDEST:
        raise NoLibrary(f"a dry run takes PyTorch {OLDEST[0]}.{OLDEST[1]} or later; this is {version}")


def cache() -> pathlib.Path:
    given = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(given) if given else pathlib.Path.home() / ".cache") / "memtrace"


def key_of(files: list[pathlib.Path], version: str) -> str:
    """Returns a name that is another one for other sources, another PyTorch or another Python."""
    content = hashlib.sha256(version.encode())
    for path in files:
        content.update(path.read_bytes())
    return f"dry-{version.split('+')[0]}-{content.hexdigest()[:16]}.so"


def find(torch_folder: pathlib.Path) -> str:
    """Returns the path of the library. Compiles it if need be, which takes some 20 seconds. Fails with NoLibrary."""
    given = os.environ.get("MEMTRACE_DRY_LIBRARY")
    if given:
        return given
    version = version_of(torch_folder)
    check(version)
    folder = sources()
    headers = ["torch/memtrace_torch.h", "torch/torch_plan.h", "operators/operator_call.h"]
    files = sorted(folder.glob("torch/dry/*")) + [folder / header for header in headers]
    name = key_of(files, version)
    for place in (WHEEL, BESIDE, cache()):
        if (place / name).is_file():
            return str(place / name)
    target = cache() / name
    try:
        build(folder, torch_folder, target, version)
    except OSError as error:
        raise NoLibrary(f"the library for PyTorch {version} can't be kept in {cache()} ({error.strerror}): "
                        "name another folder in XDG_CACHE_HOME") from error
    return str(target)


def find_compiler() -> list[str]:
    """Returns the command of a C++ compiler, or nothing."""
    names = [os.environ.get("CXX") or "c++", "g++", "clang++"]
    return next((command for command in map(shlex.split, names) if shutil.which(command[0])), [])


def has_new_strings(torch_folder: pathlib.Path) -> bool:
    """True if PyTorch has C++11's strings, which its wheels up to 2.6 have not."""
    old = b"_ZN3c105Error11add_contextESs"  # c10::Error::add_context(std::string)
    return old not in (torch_folder / "lib/libc10.so").read_bytes()


def compile_sources(command: list[str], folder: pathlib.Path, scratch: str) -> list[str]:
    """Returns the objects' paths. Fails with NoLibrary and the compiler's words."""
    def compile(source: pathlib.Path) -> str:
        made = f"{scratch}/{source.stem}.o"
        done = subprocess.run([*command, "-c", str(source), "-o", made], stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise NoLibrary(f"{command[0]} can't compile the library for this PyTorch:\n{done.stderr[-2000:]}")
        return made

    with futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        return list(workers.map(compile, sorted(folder.glob("torch/dry/*.cpp"))))


def build(folder: pathlib.Path, torch_folder: pathlib.Path, target: pathlib.Path, version: str) -> None:
    """Compiles the library for a PyTorch into a file."""
    compiler = find_compiler()
    if not compiler:
        raise NoLibrary(f"memtrace has no library for PyTorch {version}, and there is no C++ compiler to make one: install g++")
    print(f"memtrace: compiling the library for PyTorch {version}, once", file=sys.stderr)
    target.parent.mkdir(parents=True, exist_ok=True)
    options = [STANDARD, "-O1", "-fPIC", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={int(has_new_strings(torch_folder))}", f"-I{folder}",
               f"-isystem{torch_folder}/include", f"-isystem{torch_folder}/include/torch/csrc/api/include"]
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        objects = compile_sources(compiler + options, folder, scratch)
        made = f"{scratch}/made.so"
        subprocess.run([*compiler, "-shared", *objects, f"-L{torch_folder}/lib", "-ltorch_cpu", "-lc10", "-o", made], check=True)
        os.replace(made, target)
