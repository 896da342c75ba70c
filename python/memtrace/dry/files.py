"""Protects the user's files in a dry run: files that Python code writes, renames or removes go to a folder of the job, and are read
back from there (overlay.py has the rule).

    begin()    before the program opens files, in each process of the job; they share the folder through the environment
    end()      leaves the functions of os as they were; a folder that begin() made is removed at exit

The functions of os that take paths, and open, are replaced wherever a module has them. An audit hook refuses what other functions
would do to a file that was there before the run. Native code and other programs are not covered.
"""
from __future__ import annotations

import atexit
import errno
import functools
import os
import shutil
import stat
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Callable, Optional

from .._settings import change, settings
from ..recording.handover import tell
from .disk import copy_data, real
from .overlay import DATA, Overlay

MOST_NAMED = 5  # files in the note at the end
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
NEW = os.O_CREAT | os.O_EXCL
EVENTS = frozenset(("open", "os.remove", "os.rename", "os.truncate", "tempfile.mkstemp", "tempfile.mkdtemp"))  # that may change files
MODES = {"r": 0, "w": os.O_CREAT | os.O_TRUNC, "a": os.O_CREAT | os.O_APPEND, "x": NEW}
READING = "stat", "access", "getxattr", "listxattr"
READING_LINKS = "lstat", "readlink"
ATTRIBUTES = "chmod", "chown", "lchown", "utime", "setxattr", "removexattr"


def flags_of(mode: str) -> int:
    """Returns the flags of os.open for a mode of open, "r+b"."""
    kind = next((MODES[letter] for letter in mode if letter in MODES), 0)
    return kind | (os.O_RDWR if "+" in mode else os.O_WRONLY if kind else os.O_RDONLY)


class Found:
    """An os.DirEntry for a file that is in the job's folder."""

    def __init__(self, folder: Any, name: Any) -> None:
        self.name, self.path = name, os.path.join(folder, name)

    def __fspath__(self) -> Any:
        return self.path

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return os.stat(self.path, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        return self.stat(follow_symlinks=False).st_ino

    def is_kind(self, kind: Callable[[int], bool], follows: bool) -> bool:
        try:
            return kind(self.stat(follow_symlinks=follows).st_mode)
        except FileNotFoundError:
            return False  # a link to nothing

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self.is_kind(stat.S_ISDIR, follow_symlinks)

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self.is_kind(stat.S_ISREG, follow_symlinks)

    def is_symlink(self) -> bool:
        return self.is_kind(stat.S_ISLNK, False)

    def is_junction(self) -> bool:
        return False


class Listing:
    """An iterator over entries that can be closed, like the result of os.scandir."""

    def __init__(self, entries: Iterable[Any]) -> None:
        self.entries = iter(entries)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self.entries)

    def __enter__(self) -> Listing:
        return self

    def __exit__(self, *given: object) -> None:
        self.close()

    def close(self) -> None:
        self.entries = iter(())


class Redirection:
    """Replacements for functions of os, with the same names and arguments, that look at the overlay first."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self.local = threading.local()  # .is_opening: open_file's own call, which the audit hook is not to judge
        for name in (*READING, *READING_LINKS):
            setattr(self, name, self.reading(name))
        for name in ATTRIBUTES:
            setattr(self, name, self.setting(name))
        self.remove = self.unlink
        self.replace = self.rename

    def watch(self, event: str, given: tuple[Any, ...]) -> None:
        """Refuses what would change a file of the user, by an audit event."""
        if event in ("tempfile.mkstemp", "tempfile.mkdtemp"):
            self.note_temporary(os.fsdecode(given[0]))
        elif event == "open":
            if given[2] & WRITES and not getattr(self.local, "is_opening", False):
                self.check(given[0])
        elif event in ("os.remove", "os.truncate"):
            self.check(given[0])
        elif event == "os.rename":
            self.check(given[0], given[2])
            self.check(given[1], given[3])

    def note_temporary(self, path: str) -> None:
        folder = os.path.realpath(tempfile.gettempdir())
        if self.overlay.folder_of(os.path.dirname(path)) == folder:
            self.overlay.note_temporary(path)

    def check(self, given: Any, dir_fd: int = -1) -> None:
        if isinstance(given, int):
            return
        path = self.overlay.path_of(given, dir_fd if dir_fd >= 0 else None)
        if stat.S_ISREG(self.overlay.mode(path)) and not self.overlay.is_left(path):
            raise PermissionError(errno.EACCES, "memtrace dry-run protects this file, which was there before the run, and can't "
                                                "redirect the function that would change it", path)

    # ---- files ----

    def place_to_open(self, path: Any, flags: int, dir_fd: Optional[int] = None, mode: int = 0o666) -> Optional[str]:
        """Returns the file to open instead; None: the path itself."""
        if isinstance(path, int) or flags & os.O_DIRECTORY or not (self.overlay.is_used() or flags & WRITES):
            return None
        follows = not flags & os.O_NOFOLLOW and flags & NEW != NEW
        named = self.overlay.path_of(path, dir_fd, follows)
        place = self.overlay.place_to_write(named, flags, mode) if flags & WRITES else self.overlay.place_to_read(named)
        return None if place == named and not self.overlay.has_links else place

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> int:
        place = self.place_to_open(path, flags, dir_fd, mode)
        if place is None:
            return int(real.open(path, flags, mode, dir_fd=dir_fd))
        return int(real.open(place, flags & ~os.O_EXCL, mode))

    def open_file(self, file: Any, mode: str = "r", buffering: int = -1, encoding: Optional[str] = None,
                  errors: Optional[str] = None, newline: Optional[str] = None, closefd: bool = True, opener: Any = None) -> Any:
        """Opens a file as open does; its name stays the program's."""
        is_opening, self.local.is_opening = getattr(self.local, "is_opening", False), True
        try:
            place = self.place_to_open(file, flags_of(mode)) if opener is None and isinstance(mode, str) else None
            if place is not None:
                def opener(path: Any, flags: int) -> int:
                    return int(real.open(place, flags & ~os.O_EXCL, 0o666))
            elif opener is None:
                self.local.is_opening = is_opening
            return real.open_file(file, mode, buffering, encoding, errors, newline, closefd, opener)
        finally:
            self.local.is_opening = is_opening

    def truncate(self, path: Any, length: int) -> None:
        flags = os.O_WRONLY if length else os.O_WRONLY | os.O_TRUNC
        place = self.place_to_open(path, flags)
        real.truncate(path if place is None else place, length)

    def reading(self, name: str) -> Callable[..., Any]:
        """Returns the function that reads a path in the overlay."""
        original = getattr(real, name)

        def call(path: Any = None, *given: Any, **named: Any) -> Any:
            if isinstance(path, int) or not self.overlay.is_used():
                return original(path, *given, **named)
            follows = name in READING and named.get("follow_symlinks", True)
            found = self.overlay.path_of(path, named.get("dir_fd"), follows)
            place = self.overlay.place_to_read(found)
            if place == found and not self.overlay.has_links:
                return original(path, *given, **named)
            named.pop("dir_fd", None)
            return original(place, *given, **named)

        def call_access(*given: Any, **named: Any) -> bool:
            try:
                return bool(call(*given, **named))
            except OSError:
                return False
        return functools.wraps(original)(call_access if name == "access" else call)

    def setting(self, name: str) -> Callable[..., Any]:
        """Returns the function that changes attributes of a file if the program may change it, and otherwise does nothing."""
        original = getattr(real, name)

        def call(path: Any, *given: Any, **named: Any) -> Any:
            if isinstance(path, int):
                return original(path, *given, **named)
            self.overlay.is_used()
            found = self.overlay.path_of(path, named.get("dir_fd"), named.get("follow_symlinks", True))
            named.pop("dir_fd", None)
            entry = self.overlay.entries.get(found)
            if entry is not None and entry.kind == DATA:
                return original(entry.place, *given, **named)
            if self.overlay.place_of(found) is None:
                self.overlay.fail_missing(found)
            if entry is None and (found in self.overlay.made or self.overlay.is_left(found)):
                return original(found, *given, **named)
        return functools.wraps(original)(call)

    # ---- folders ----

    def listdir(self, path: Any = None) -> Any:
        folder = self.folder_to_list(path)
        if folder is None:
            return real.listdir(path)
        names = self.overlay.names_in(folder)
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else names

    def scandir(self, path: Any = None) -> Any:
        folder = self.folder_to_list(path)
        if folder is None:
            return real.scandir(path)
        named, changed = "." if path is None else os.fspath(path), self.overlay.names.get(folder, {})
        entries: list[Any] = []
        if not self.overlay.has_links:
            with real.scandir(named) as found:
                entries = [entry for entry in found if os.fsdecode(entry.name) not in changed and not entry.is_symlink()]
        kept = {os.fsdecode(entry.name) for entry in entries}
        others = [name for name in self.overlay.names_in(folder) if name not in kept]
        return Listing(entries + [Found(named, os.fsencode(name) if isinstance(named, bytes) else name) for name in others])

    def folder_to_list(self, path: Any) -> Optional[str]:
        """Returns the folder to list in the overlay; None: the one on the disk."""
        if isinstance(path, int) or not self.overlay.is_used():
            return None
        folder = self.overlay.path_of("." if path is None else path)
        self.overlay.check_folder(folder)
        return folder

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> None:
        self.overlay.is_used()
        self.overlay.make_folder(self.overlay.path_of(path, dir_fd, False), mode)

    def rmdir(self, path: Any, *, dir_fd: Optional[int] = None) -> None:
        self.overlay.is_used()
        found = self.overlay.path_of(path, dir_fd, False)
        self.overlay.check_folder(found)
        self.overlay.remove_folder(found)

    # ---- names ----

    def unlink(self, path: Any, *, dir_fd: Optional[int] = None) -> Any:
        self.overlay.is_used()
        found = self.overlay.path_of(path, dir_fd, False)
        if self.overlay.is_folder(found) or self.overlay.is_free(found):
            return real.unlink(found)
        self.overlay.remove(found)

    def rename(self, src: Any, dst: Any, *, src_dir_fd: Optional[int] = None, dst_dir_fd: Optional[int] = None) -> None:
        self.overlay.is_used()
        self.overlay.rename(self.overlay.path_of(src, src_dir_fd, False), self.overlay.path_of(dst, dst_dir_fd, False))

    def link(self, src: Any, dst: Any, *, src_dir_fd: Optional[int] = None, dst_dir_fd: Optional[int] = None,
             follow_symlinks: bool = True) -> Any:
        self.overlay.is_used()
        source, target = self.overlay.path_of(src, src_dir_fd), self.overlay.path_of(dst, dst_dir_fd, False)
        if self.overlay.is_free(source) and self.overlay.is_free(target):
            return real.link(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=follow_symlinks)
        self.overlay.link(source, target)

    def symlink(self, src: Any, dst: Any, target_is_directory: bool = False, *, dir_fd: Optional[int] = None) -> Any:
        self.overlay.is_used()
        target = self.overlay.path_of(dst, dir_fd, False)
        if self.overlay.is_free(target):
            return real.symlink(src, dst, target_is_directory, dir_fd=dir_fd)
        self.overlay.link_symbolically(src, target)


# ---- installing ----

def replace_everywhere(changes: dict[int, Any]) -> None:
    """Replaces functions, by their ids, in every module and in the classes of those that keep them there."""
    for name, module in list(sys.modules.items()):
        if name in ("posix", "_io") or not hasattr(module, "__dict__"):
            continue
        for key, value in list(vars(module).items()):
            if id(value) in changes:
                setattr(module, key, changes[id(value)])
            elif name.partition(".")[0] in ("pathlib", "glob") and isinstance(value, type):
                replace_in_class(value, changes)


def replace_in_class(owner: type, changes: dict[int, Any]) -> None:
    for key, value in list(vars(owner).items()):
        function = value.__func__ if isinstance(value, staticmethod) else value
        if id(function) in changes:
            setattr(owner, key, staticmethod(changes[id(function)]))


def copy_open_files(source: Any, target: Any) -> None:
    """Copies as shutil does, and leaves gaps out."""
    try:
        copy_data(source.fileno(), target.fileno())
    except OSError as error:
        raise shutil._GiveupOnFastCopy(error)  # type: ignore[attr-defined]


class Installed:
    """The replaced functions, and what they replace."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay
        self.redirection = Redirection(overlay)
        self.pairs = [(getattr(real, name), getattr(self.redirection, name)) for name in vars(real)]
        self.is_active = False
        self.shutil: dict[str, Any] = {}
        sys.addaudithook(self.hook())

    def hook(self) -> Callable[[str, tuple[Any, ...]], None]:
        """Returns the audit hook, a function: Python takes three times as long to call a method, and a compiler makes hundreds of
        thousands of events."""
        def watch(event: str, given: tuple[Any, ...]) -> None:
            if event in EVENTS and self.is_active:
                self.redirection.watch(event, given)

        return watch

    def begin(self) -> None:
        replace_everywhere({id(before): after for before, after in self.pairs})
        for functions in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks, os.supports_effective_ids):
            functions.update(after for before, after in self.pairs if before in functions)
        changes = {"_use_fd_functions": False, "_fastcopy_sendfile": copy_open_files}
        self.shutil = {name: getattr(shutil, name) for name in changes if hasattr(shutil, name)}
        vars(shutil).update({name: changes[name] for name in self.shutil})
        self.is_active = True

    def end(self) -> None:
        self.is_active = False
        replace_everywhere({id(after): before for before, after in self.pairs})
        vars(shutil).update(self.shutil)


installed: Optional[Installed] = None


def remove_job(overlay: Overlay) -> None:
    """Removes the job's folder, and the folders that the program has made, if they are empty."""
    overlay.is_used()  # reads what was made last
    for path in sorted(overlay.made, reverse=True):
        try:
            real.rmdir(path)
        except OSError:
            pass
    shutil.rmtree(overlay.folder, ignore_errors=True)


def tell_files(overlay: Overlay) -> None:
    """Says which files this process has written."""
    names = [min(path, os.path.relpath(path), key=len) for path in overlay.written]
    if names:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        files = "file was" if len(names) == 1 else "files were"
        tell(f"{len(names)} {files} written to a folder of the dry run and removed: {', '.join(names[:MOST_NAMED])}{more}")


def begin() -> None:
    """Begins. A second call does nothing."""
    global installed
    if installed is not None:
        return
    is_owner = not os.path.isdir(settings().files)
    if is_owner:
        change(files=tempfile.mkdtemp(prefix="memtrace-files."))
    installed = Installed(Overlay(settings().files))
    if is_owner:
        atexit.register(end_job, os.getpid())
    atexit.register(tell_files, installed.overlay)
    installed.begin()


def end() -> None:
    """Ends the redirection for the rest of the process."""
    if installed is not None and installed.is_active:
        installed.end()
        change(files="")


def end_job(pid: int) -> None:
    """Ends a job that consists of this process and its children."""
    end()
    if installed is not None and pid == os.getpid():
        remove_job(installed.overlay)


def place_to_open(path: Any, flags: int) -> Any:
    place = installed.redirection.place_to_open(path, flags) if installed is not None and installed.is_active else None
    return os.fspath(path) if place is None else place


def place_to_read(path: Any) -> Any:
    """Returns the file that native code is to read for a path of the program."""
    return place_to_open(path, os.O_RDONLY)


def place_to_write(path: Any, flags: int = os.O_WRONLY | os.O_CREAT | os.O_TRUNC) -> Any:
    """Returns the file that native code is to write for a path of the program."""
    return place_to_open(path, flags)
