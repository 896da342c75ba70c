"""The folder in which compiled libraries for dry runs are kept, and what may be loaded from it.

    memtrace/            mode 0700, of the user who runs this
        NAME.so          loaded only if it is a plain file of that user, nobody else can write it, and its digest is right
        NAME.so.sha256   its digest and name, as sha256sum prints them, written last
        lock             held by the process that compiles; others wait for it, and then take what it made
        building-XXXX/   what is being compiled; the next process that compiles removes what a killed one left
"""
from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from typing import Optional

PRIVATE, OTHERS, WRITABLE = 0o700, 0o077, 0o022
SCRATCH = "building-"


class NoLibrary(Exception):
    """There is none for this PyTorch, and it can't be compiled or kept."""


class Unsafe(Exception):
    """A file or folder that somebody else may have made or changed, in words."""


def say(text: str) -> None:
    print(f"memtrace: {text}", file=sys.stderr)


def base() -> pathlib.Path:
    """Returns the user's folder for caches. A relative XDG_CACHE_HOME is ignored, as its specification says."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    return pathlib.Path(given) if os.path.isabs(given) else pathlib.Path.home() / ".cache"


def check_own(path: pathlib.Path, status: os.stat_result) -> None:
    """Fails with Unsafe if it is another user's, or if others can write to it."""
    if status.st_uid != os.geteuid():
        raise Unsafe(f"{path} belongs to user {status.st_uid}")
    if status.st_mode & WRITABLE:
        raise Unsafe(f"{path} can be written by other users")


def check_parent(path: pathlib.Path) -> None:
    """Fails with Unsafe if somebody else can put another folder in place of those below."""
    status = os.stat(path)
    if status.st_uid not in (0, os.geteuid()):
        raise Unsafe(f"{path} belongs to user {status.st_uid}")
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise Unsafe(f"{path} can be written by everybody")


def make_private(path: pathlib.Path) -> None:
    """Closes a folder of this user's to others. Fails with Unsafe if it is none; does nothing if there is nothing."""
    try:
        status = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(status.st_mode):
        raise Unsafe(f"{path} is not a folder")
    if status.st_uid == os.geteuid() and status.st_mode & OTHERS:
        with contextlib.suppress(OSError):  # of a read-only file system
            os.chmod(path, PRIVATE)
    check_own(path, os.lstat(path))


def choose() -> pathlib.Path:
    """Returns the folder, which need not exist yet. One that is not the user's is named, and another one taken. Fails with
    NoLibrary if there is none to take."""
    try:
        above = base()
        if above.is_dir():
            check_parent(above)
    except (Unsafe, OSError, RuntimeError) as reason:
        raise NoLibrary(f"compiled libraries can't be kept: {reason}; name a folder of yours in XDG_CACHE_HOME") from None
    for path in (above / "memtrace", above / f"memtrace-{os.geteuid()}"):
        try:
            make_private(path)
            return path
        except (Unsafe, OSError) as reason:
            say(f"nothing is loaded from the cache: {reason}")
    raise NoLibrary(f"compiled libraries can't be kept: remove {above / 'memtrace'}, or name another folder in XDG_CACHE_HOME")


def trim(folder: pathlib.Path, most_bytes: int) -> None:
    """Removes the oldest files of a folder that has more than `most_bytes`, until half of that is left."""
    found = []
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # another process removes it
                status = os.lstat(os.path.join(path, name))
                found.append((status.st_mtime, os.path.join(path, name), status.st_size))
    left = sum(size for _, _, size in found)
    if left <= most_bytes:
        return
    for _, path, size in sorted(found):
        with contextlib.suppress(OSError):
            os.remove(path)
        left -= size
        if left <= most_bytes // 2:
            return


def digest_of(path: pathlib.Path) -> str:
    """Returns the line that sha256sum prints of the file."""
    return f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"


def digest_file(library: pathlib.Path) -> pathlib.Path:
    return library.with_name(library.name + ".sha256")


def check_file(path: pathlib.Path) -> None:
    """Fails with Unsafe unless the path is a plain file that only this user could have written."""
    status = os.lstat(path)
    if not stat.S_ISREG(status.st_mode):
        raise Unsafe(f"{path} is not a regular file")
    check_own(path, status)


def find(library: pathlib.Path) -> Optional[str]:
    """Returns the path of a library that may be loaded, or None. Says on stderr why one is not loaded."""
    if not os.path.lexists(library):
        return None
    try:
        check_file(library)
        if not os.path.lexists(digest_file(library)):
            return None  # of an earlier version, or its process was killed
        check_file(digest_file(library))
        if digest_file(library).read_text(errors="replace") != digest_of(library):
            raise Unsafe(f"{library} has another digest than when it was compiled")
    except (Unsafe, OSError) as reason:
        say(f"{reason}, so it is compiled again")
        return None
    return str(library)


def keep(made: pathlib.Path, library: pathlib.Path) -> None:
    """Moves a compiled file to its place, and its digest after it."""
    digest = made.with_name("digest")
    made.chmod(PRIVATE)
    os.replace(made, library)
    digest.write_text(digest_of(library))
    digest.chmod(0o600)
    os.replace(digest, digest_file(library))


@contextlib.contextmanager
def locked(folder: pathlib.Path) -> Iterator[None]:
    """Makes the folder if need be, and holds its lock. Waits for the process that has it. Fails with Unsafe or OSError."""
    folder.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    folder.mkdir(mode=PRIVATE, exist_ok=True)
    make_private(folder)  # again, since it may have been made by another in the meantime
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another process that compiles the dry-run library")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextlib.contextmanager
def scratch(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Makes a folder to compile in, under the lock, after removing those that killed processes left."""
    for left in folder.glob(SCRATCH + "*"):
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder) as made:
        yield pathlib.Path(made)
