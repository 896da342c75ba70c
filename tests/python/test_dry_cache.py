"""How the library for dry runs is found, compiled and kept: what is loaded, and what is compiled anew. Scripts play the compiler
and a folder plays PyTorch, so nothing here takes long."""
import os
import pathlib
import pty
import signal
import stat
import subprocess
import sys
import time

import pytest

from memtrace.dry import build, cache, simulated

COMPILER = """#!/bin/sh
echo "$*" >>{folder}/calls
{before}
for word; do [ "$last" = -o ] && out=$word; last=$word; done
echo "made by {folder}" >"$out"
"""

PROGRAM = "import pathlib, sys\nfrom memtrace.dry import build\nprint(build.find(pathlib.Path(sys.argv[1])))"


class Place:
    """A cache, a PyTorch and a compiler in a folder."""

    def __init__(self, folder, monkeypatch):
        self.folder, self.cache, self.torch = folder, folder / "cache/memtrace", folder / "torch"
        (self.torch / "lib").mkdir(parents=True)
        (self.torch / "version.py").write_text("__version__ = '2.13.0+cpu'\n")
        (self.torch / "lib/libc10.so").touch()
        (folder / "cache").mkdir(mode=0o700)
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        monkeypatch.setenv("CXX", str(folder / "c++"))
        monkeypatch.delenv("MEMTRACE_DRY_LIBRARY", raising=False)
        self.make_compiler()

    def make_compiler(self, before=""):
        path = self.folder / "c++"
        path.write_text(COMPILER.format(folder=self.folder, before=before))
        path.chmod(0o700)

    def find(self):
        return pathlib.Path(build.find(self.torch))

    def start(self, **options):
        return subprocess.Popen([sys.executable, "-c", PROGRAM, str(self.torch)], stdout=subprocess.PIPE, text=True,
                                **{"stderr": subprocess.PIPE, **options})

    def links(self):
        """Returns how often a library was made."""
        calls = self.folder / "calls"
        return calls.read_text().count("-shared ") if calls.exists() else 0

    def wait_for_compiler(self):
        while not (self.folder / "calls").exists():
            time.sleep(0.01)

    def left(self):
        return sorted(path.name for path in self.cache.glob("*") if path.name != "lock")


@pytest.fixture
def place(tmp_path, monkeypatch):
    return Place(tmp_path, monkeypatch)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_library_is_compiled_once_into_a_private_folder(place, capfd):
    before = os.umask(0)
    try:
        library = place.find()
    finally:
        os.umask(before)
    assert place.find() == library and place.links() == 1
    assert library.parent == place.cache and mode_of(place.cache) == 0o700 and mode_of(library) == 0o700
    assert place.left() == [library.name, library.name + ".sha256"]
    begin, end = capfd.readouterr().err.splitlines()
    assert begin == "memtrace: compiling the dry-run library for PyTorch 2.13.0 (once, half a minute)"
    assert end.startswith("memtrace: compiled after ")


def test_a_terminal_shows_the_time_in_place(place):
    ours, theirs = pty.openpty()
    program = place.start(stderr=theirs)
    os.close(theirs)
    assert program.wait() == 0
    said = os.read(ours, 1 << 16).decode()
    assert "\rmemtrace: compiling the dry-run library for PyTorch 2.13.0 (once, half a minute): 0 s" in said
    assert said.count("\n") == 1


@pytest.fixture
def shipped(place, monkeypatch):
    """Returns a function that makes the library of a wheel for a version of PyTorch, and has the version be there."""
    def make(version, has_new_strings=True, content=""):
        library = place.folder / build.shipped_key_of(build.files_of(build.sources()), version, has_new_strings)
        library.write_text(content)
        return library

    monkeypatch.setattr(build, "SHIPPED", (place.folder,))
    return make


@pytest.mark.parametrize("version", ["2.13.0", "2.13.0+cpu", "2.13.2+cu130"])
def test_a_shipped_library_serves_the_releases_of_its_minor_version(place, shipped, version):
    library = shipped("2.13.1")
    (place.torch / "version.py").write_text(f"__version__ = '{version}'\n")
    assert place.find() == library and place.links() == 0 and build.is_shipped(str(library))


@pytest.mark.parametrize("version", ["2.14.0", "2.13.0a0+git1234", "2.13.0.dev20260101+cu130", "2.13.0+nv25.6"])
def test_a_shipped_library_serves_no_other_build(place, shipped, version):
    shipped("2.13.1")
    (place.torch / "version.py").write_text(f"__version__ = '{version}'\n")
    assert place.find().parent == place.cache and place.links() == 1


def test_a_shipped_library_serves_one_kind_of_strings(place, shipped):
    old, new = shipped("2.13.0", has_new_strings=False), shipped("2.13.0")
    assert place.find() == new
    (place.torch / "lib/libc10.so").write_bytes(b"_ZN3c105Error11add_contextESs")
    assert place.find() == old


def test_a_shipped_library_that_does_not_load_is_replaced(place, shipped, monkeypatch, capfd):
    library = shipped("2.13.0", content="no library")
    loaded = []

    def load(path):
        loaded.append(path)
        if build.is_shipped(path):
            raise OSError(f"{path}: undefined symbol: other")

    monkeypatch.setattr(simulated, "load_dry_library", load)
    simulated.load_device(str(library), place.torch)
    assert len(loaded) == 2 and pathlib.Path(loaded[1]).parent == place.cache
    assert "does not fit this build of it" in capfd.readouterr().err


def test_what_others_could_have_written_is_compiled_anew(place, capfd):
    library = place.find()
    digest = library.with_name(library.name + ".sha256")

    def expect(reason, links):
        capfd.readouterr()
        assert place.find() == library and place.links() == links
        assert library.read_text() == f"made by {place.folder}\n"
        said = capfd.readouterr().err.splitlines()
        assert (reason in said[0]) if reason else said[0].startswith("memtrace: compiling"), said
        assert place.find() == library and place.links() == links and not library.is_symlink()

    library.write_text("changed")
    expect("has another digest than when it was compiled, so it is compiled again", 2)
    library.chmod(0o722)
    expect("can be written by other users", 3)
    digest.chmod(0o666)
    expect("can be written by other users", 4)
    digest.unlink()
    expect(None, 5)
    digest.write_text("no digest")
    expect("has another digest", 6)
    library.rename(place.folder / "elsewhere")
    library.symlink_to(place.folder / "elsewhere")
    expect("is not a regular file", 7)
    digest.write_bytes(b"\xff\xfe")
    expect("has another digest", 8)


def test_a_library_under_another_name_is_not_loaded(place):
    library = place.find()
    other = library.with_name("dry-2.13.0-0123456789abcdef.so")
    for path in (library, library.with_name(library.name + ".sha256")):
        path.rename(path.with_name(path.name.replace(library.name, other.name)))
    assert cache.find(other) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_another_user_s_file_and_folder_are_not_used(place, capfd):
    library = place.find()
    os.chown(library, 12345, -1)
    assert place.find() == library and place.links() == 2
    assert "belongs to user 12345, so it is compiled again" in capfd.readouterr().err
    os.chown(place.cache, 12345, -1)
    own = place.find()
    assert own.parent == place.cache.with_name(f"memtrace-{os.geteuid()}") and place.links() == 3
    assert f"nothing is loaded from the cache: {place.cache} belongs to user 12345" in capfd.readouterr().err
    os.chown(own.parent, 12345, -1)
    with pytest.raises(build.NoLibrary, match="remove .*/cache/memtrace, or name another folder in XDG_CACHE_HOME"):
        place.find()
    os.chown(place.folder / "cache", 12345, -1)
    with pytest.raises(build.NoLibrary, match="belongs to user 12345; name a folder of yours in XDG_CACHE_HOME"):
        place.find()


def test_a_folder_that_others_can_write_is_closed(place):
    library = place.find()
    place.cache.chmod(0o777)
    assert place.find() == library and mode_of(place.cache) == 0o700


def test_a_link_in_place_of_the_folder_is_not_followed(place, capfd):
    (place.folder / "elsewhere").mkdir(mode=0o700)
    place.cache.symlink_to(place.folder / "elsewhere")
    assert place.find().parent.name == f"memtrace-{os.geteuid()}"
    assert f"{place.cache} is not a folder" in capfd.readouterr().err and not list((place.folder / "elsewhere").iterdir())


def test_a_cache_below_a_folder_that_everybody_can_write_is_refused(place):
    (place.folder / "cache").chmod(0o777)
    with pytest.raises(build.NoLibrary, match="can be written by everybody; name a folder of yours"):
        place.find()
    (place.folder / "cache").chmod(0o1777)  # as /tmp
    assert place.find().exists()


@pytest.mark.parametrize("given", ["cache", "./cache", ""])
def test_a_relative_cache_home_is_ignored(place, monkeypatch, given):
    monkeypatch.chdir(place.folder)
    monkeypatch.setenv("HOME", str(place.folder / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    assert place.find().parent == place.folder / "home/.cache/memtrace"


def test_a_second_process_waits_and_takes_what_the_first_made(place):
    place.make_compiler("sleep 0.2")
    programs = [place.start() for _ in range(3)]
    said = [program.communicate() for program in programs]
    assert len({out for out, _ in said}) == 1 and place.links() == 1
    errors = "".join(err for _, err in said)
    assert errors.count("memtrace: compiling ") == 1
    assert errors.count("memtrace: waiting for another process that compiles the dry-run library") == 2


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_killed_process_leaves_nothing_that_counts(place, number):
    place.make_compiler("sleep 30")
    program = place.start()
    place.wait_for_compiler()
    program.send_signal(number)
    begin = time.monotonic()
    program.communicate(timeout=120)
    assert program.returncode and time.monotonic() - begin < 10
    assert [name for name in place.left() if not name.startswith(cache.SCRATCH)] == []
    assert number == signal.SIGKILL or place.left() == []
    place.make_compiler()
    library = place.find()
    assert place.left() == [library.name, library.name + ".sha256"]


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(place):
    place.make_compiler("echo it is not C++ >&2; exit 1")
    with pytest.raises(build.NoLibrary, match="c\\+\\+ can't compile the library for this PyTorch:\nit is not C\\+\\+"):
        place.find()
    assert place.left() == []


def test_the_oldest_of_too_many_kept_files_are_removed(tmp_path):
    for age in range(10):
        path = tmp_path / str(age % 2) / f"graph{age}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(100))
        os.utime(path, (1000 - age, 1000 - age))
    cache.trim(tmp_path, 1000)
    assert sum(path.is_file() for path in tmp_path.rglob("*")) == 10
    cache.trim(tmp_path, 999)
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == [f"graph{age}" for age in range(4)]
