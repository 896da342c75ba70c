"""The library that gives this PyTorch a card (src/producers/torch/dry): one that came with memtrace (tools/dry-libraries), or
one that is compiled once and kept in the user's cache."""
from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Optional

from .._library import BESIDE, WHEEL
from . import cache
from .cache import NoLibrary

OLDEST = (2, 6)
SHIPPED = (WHEEL, BESIDE)  # folders of libraries that came with memtrace
STANDARD = "-std=c++20"
SIGNALLED = 128  # and the signal's number: the exit code of a program that it ended


def sources() -> pathlib.Path:
    """Returns the folder with the sources, in which torch/dry is."""
    for place in (WHEEL / "src", BESIDE / "src"):
        if (place / "producers/torch/dry").is_dir():
            return place
    raise NoLibrary("the sources of the library for PyTorch are missing from the folder of memtrace")


def version_of(torch_folder: pathlib.Path) -> str:
    """Returns PyTorch's version, without importing it: "2.13.0+cpu"."""
    found = re.search(r"^__version__ = '([^']+)'", (torch_folder / "version.py").read_text(), flags=re.M)
    return found.group(1) if found else "0"


def check(version: str) -> None:
    """Fails with NoLibrary for a PyTorch that a dry run does not take."""
    numbers = tuple(int(number) for number in version.split("+")[0].split(".")[:2])
    if numbers < OLDEST:
        raise NoLibrary(f"a dry run needs PyTorch {OLDEST[0]}.{OLDEST[1]} or later; this is {version}")


def files_of(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the files that the library is made of, by the folder with the sources."""
    headers = ["producers/torch/memtrace_torch.h", "producers/torch/torch_plan.h", "operators/operator_call.h"]
    return sorted(folder.glob("producers/torch/dry/*")) + [folder / header for header in headers]


def digest_of(files: list[pathlib.Path], words: str) -> str:
    content = hashlib.sha256(words.encode())
    for path in files:
        content.update(path.read_bytes())
    return content.hexdigest()[:16]


def key_of(files: list[pathlib.Path], version: str) -> str:
    """Returns a name that is another one for other sources or another PyTorch."""
    return f"dry-{version.split('+')[0]}-{digest_of(files, version)}.so"


def shipped_key_of(files: list[pathlib.Path], version: str, has_new_strings: bool) -> Optional[str]:
    """Returns the name of the library that a wheel has for a release of PyTorch. One serves all releases of a minor version, with
    and without CUDA. None for another build of PyTorch, such as a nightly one: its headers may be others."""
    found = re.fullmatch(r"(\d+\.\d+)\.\d+(\+(cpu|cu\d+))?", version)
    if found is None:
        return None
    strings = "cxx11" if has_new_strings else "precxx11"
    return f"dry-{found.group(1)}-{strings}-{digest_of(files, found.group(1))}.so"


def find(torch_folder: pathlib.Path) -> str:
    """Returns the path of the library: one that came with memtrace, or else one that is compiled. Fails with NoLibrary."""
    given = os.environ.get("MEMTRACE_DRY_LIBRARY")
    if given:
        return given
    version = version_of(torch_folder)
    check(version)
    name = shipped_key_of(files_of(sources()), version, has_new_strings(torch_folder))
    shipped = (str(place / name) for place in SHIPPED if name and (place / name).is_file())
    return next(shipped, None) or find_compiled(torch_folder)


def is_shipped(library: str) -> bool:
    """True if the library came with memtrace."""
    return pathlib.Path(library).parent in SHIPPED


def find_compiled(torch_folder: pathlib.Path) -> str:
    """Returns the path of the library in the cache. Compiles it if need be, which takes half a minute. Fails with NoLibrary."""
    folder, version = sources(), version_of(torch_folder)
    target = cache.choose() / key_of(files_of(folder), version)
    return cache.find(target) or compile_once(folder, torch_folder, target, version)


def compile_once(folder: pathlib.Path, torch_folder: pathlib.Path, target: pathlib.Path, version: str) -> str:
    """Compiles the library, unless another process does so first. Returns its path."""
    compiler = find_compiler()
    if not compiler:
        raise NoLibrary(f"memtrace has no library for PyTorch {version}, and there is no C++ compiler to make one: install g++")
    try:
        with cache.locked(target.parent):
            if not cache.find(target):
                build(compiler, folder, torch_folder, target, version)
    except (OSError, cache.Unsafe) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise NoLibrary(f"the library for PyTorch {version} can't be kept in {target.parent} ({reason}): "
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


class Progress:
    """Prints for how long the library has been compiled: in place on a terminal, else one line at the start and one at the end."""

    def __init__(self, version: str) -> None:
        self.text = f"memtrace: compiling the dry-run library for PyTorch {version.split('+')[0]} (once, half a minute)"
        self.begin = time.monotonic()
        self.is_terminal = sys.stderr.isatty()
        self.say(self.text + ("" if self.is_terminal else "\n"))

    def say(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def seconds(self) -> str:
        return f"{time.monotonic() - self.begin:.0f} s"

    def step(self) -> None:
        if self.is_terminal:
            self.say(f"\r{self.text}: {self.seconds()}")

    def end(self, how: str) -> None:
        self.say("\n" if self.is_terminal else f"memtrace: {how} after {self.seconds()}\n")


def run(words: list[str], progress: Progress) -> None:
    """Runs a compiler, and ends it with itself. Fails with NoLibrary and the compiler's words."""
    process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               start_new_session=True)  # its children end with it
    try:
        errors = None
        while errors is None:
            progress.step()
            with contextlib.suppress(subprocess.TimeoutExpired):
                errors = process.communicate(timeout=1)[1]
    except BaseException:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    if process.returncode:
        raise NoLibrary(f"{words[0]} can't compile the library for this PyTorch:\n{errors[-2000:]}")


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Has SIGTERM and SIGHUP end this process as an exception does, which removes what was begun."""
    def end(number: int, frame: Any) -> None:
        raise SystemExit(SIGNALLED + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)
              if signal.getsignal(number) == signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def text_of(folder: pathlib.Path) -> str:
    """Returns a program of all sources: most of a compilation reads PyTorch's headers, which then takes place once."""
    return "".join(f'#include "{source.relative_to(folder)}"\n' for source in sorted(folder.glob("producers/torch/dry/*.cpp")))


def options_of(folder: pathlib.Path, torch_folder: pathlib.Path, has_new_strings: bool) -> list[str]:
    """Returns the compiler's options, without the names of files."""
    return [STANDARD, "-O1", "-fPIC", "-w", "-DNDEBUG", f"-D_GLIBCXX_USE_CXX11_ABI={int(has_new_strings)}", f"-I{folder}",
            f"-isystem{torch_folder}/include", f"-isystem{torch_folder}/include/torch/csrc/api/include", "-shared"]


def build(command: list[str], folder: pathlib.Path, torch_folder: pathlib.Path, target: pathlib.Path, version: str) -> None:
    """Compiles the library for a PyTorch into a file of the cache, whose lock is held."""
    progress, how = Progress(version), "not compiled"
    try:
        with ended_by_signals(), cache.scratch(target.parent) as scratch:
            (scratch / "dry.cpp").write_text(text_of(folder))
            run([*command, *options_of(folder, torch_folder, has_new_strings(torch_folder)), str(scratch / "dry.cpp"),
                 f"-L{torch_folder}/lib", "-ltorch_cpu", "-lc10", "-o", str(scratch / "made.so")], progress)
            cache.keep(scratch / "made.so", target)
        how = "compiled"
    finally:
        progress.end(how)
