"""The library that gives this PyTorch a card (src/producers/torch/dry): found, or compiled once and kept in the user's cache."""
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
from concurrent import futures
from typing import Any

from .._library import BESIDE, WHEEL
from . import cache
from .cache import NoLibrary

OLDEST = (2, 6)
STANDARD = "-std=c++20"
SIGNALLED = 128  # and the signal's number: the exit code of who was ended by it


def sources() -> pathlib.Path:
    """Returns the folder with the sources, in which torch/dry is."""
    for place in (WHEEL / "src", BESIDE / "src"):
        if (place / "producers/torch/dry").is_dir():
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


def key_of(files: list[pathlib.Path], version: str) -> str:
    """Returns a name that is another one for other sources or another PyTorch."""
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
    headers = ["producers/torch/memtrace_torch.h", "producers/torch/torch_plan.h", "operators/operator_call.h"]
    files = sorted(folder.glob("producers/torch/dry/*")) + [folder / header for header in headers]
    name = key_of(files, version)
    for place in (WHEEL, BESIDE):
        if (place / name).is_file():
            return str(place / name)
    target = cache.choose() / name
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
    """Prints how many files are compiled: in place on a terminal, else one line at the start and one at the end."""

    def __init__(self, version: str, count: int) -> None:
        self.text = f"memtrace: compiling the dry-run library for PyTorch {version.split('+')[0]} (once)"
        self.done, self.count, self.begin = 0, count, time.monotonic()
        self.is_terminal = sys.stderr.isatty()
        self.say(f"{self.text}: 0 of {count} files" if self.is_terminal else self.text + "\n")

    def say(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def step(self) -> None:
        self.done += 1
        if self.is_terminal:
            self.say(f"\r{self.text}: {self.done} of {self.count} files")

    def end(self, how: str) -> None:
        self.say("\n" if self.is_terminal else f"memtrace: {how} after {time.monotonic() - self.begin:.0f} s\n")


class Compiler:
    """Runs compilers, several at a time, and ends them with itself."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.running: set[subprocess.Popen[str]] = set()
        self.is_ended = False
        self.lock = threading.Lock()

    def start(self, words: list[str]) -> subprocess.Popen[str]:
        with self.lock:
            if self.is_ended:
                raise NoLibrary("the compilation was ended")
            process = subprocess.Popen([*self.command, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True, start_new_session=True)  # its children end, too
            self.running.add(process)
        return process

    def run(self, *words: str) -> None:
        """Fails with NoLibrary and the compiler's words."""
        process = self.start(list(words))
        errors = process.communicate()[1]
        with self.lock:
            self.running.discard(process)
        if process.returncode:
            raise NoLibrary(f"{self.command[0]} can't compile the library for this PyTorch:\n{errors[-2000:]}")

    def end(self) -> None:
        with self.lock:
            self.is_ended = True
            for process in self.running:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)


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


def compile_sources(compiler: Compiler, options: list[str], sources: list[pathlib.Path], scratch: pathlib.Path,
                    progress: Progress) -> list[str]:
    """Returns the objects' paths. Fails with NoLibrary and the compiler's words."""
    def compile(source: pathlib.Path) -> str:
        made = str(scratch / f"{source.stem}.o")
        compiler.run(*options, "-c", str(source), "-o", made)
        return made

    with futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        try:
            waited = [workers.submit(compile, source) for source in sources]
            for future in futures.as_completed(waited):
                future.result()
                progress.step()
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            compiler.end()  # since leaving the block waits for them
            raise
        return [future.result() for future in waited]


def build(command: list[str], folder: pathlib.Path, torch_folder: pathlib.Path, target: pathlib.Path, version: str) -> None:
    """Compiles the library for a PyTorch into a file of the cache, whose lock is held."""
    sources = sorted(folder.glob("producers/torch/dry/*.cpp"))
    options = [STANDARD, "-O1", "-fPIC", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={int(has_new_strings(torch_folder))}", f"-I{folder}",
               f"-isystem{torch_folder}/include", f"-isystem{torch_folder}/include/torch/csrc/api/include"]
    compiler, progress, how = Compiler(command), Progress(version, len(sources)), "not compiled"
    try:
        with ended_by_signals(), cache.scratch(target.parent) as scratch:
            objects = compile_sources(compiler, options, sources, scratch, progress)
            compiler.run("-shared", *objects, f"-L{torch_folder}/lib", "-ltorch_cpu", "-lc10", "-o", str(scratch / "made.so"))
            cache.keep(scratch / "made.so", target)
        how = "compiled"
    finally:
        compiler.end()
        progress.end(how)
