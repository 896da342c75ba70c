"""Which files a dry run's program may change in their places, and where its other files are: a folder of the job.

    path ──▶ path_of ──▶ entry? ──▶ DATA  a file in the job's folder      (written by the program)
                            │      FILE  a file of the user               (renamed by the program; copied before it is written)
                            │      LINK  a symbolic link in the folder    (made by the program)
                            │      GONE  nothing                          (removed or renamed by the program)
                            └─ no ──▶ the path itself

Folders are made in their places, so that native code can write into them; `memtrace dry-run` removes those that are empty at the
end of the job. The processes of a job share the entries through a journal: each appends a line for a change, and reads the lines
of others before it looks at an entry.

Threads: any.
"""
from __future__ import annotations

import ctypes
import errno
import functools
import getpass
import itertools
import json
import os
import stat
import sys
import tempfile
import threading
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn, Optional

FOLDER = "MEMTRACE_DRY_FILES"
DATA, FILE, LINK, GONE = "data", "file", "link", "gone"
MOST_LINKS = 40  # in a row, as in Linux

# The functions of os before they are replaced.
real = SimpleNamespace(open_file=open, **{name: getattr(os, name) for name in (
    "open", "stat", "lstat", "access", "listdir", "scandir", "mkdir", "rmdir", "remove", "unlink", "rename", "replace", "link",
    "symlink", "readlink", "truncate", "chmod", "chown", "lchown", "utime", "getxattr", "listxattr", "setxattr", "removexattr")})

# Folders of caches: the variable that names one, what is below it, and where it is without the variable.
CACHES = (("XDG_CACHE_HOME", "", "~/.cache"), ("HF_HOME", "hub", ""), ("HF_HOME", "datasets", ""), ("HF_HOME", "modules", ""),
          ("HF_HOME", "xet", ""), ("HF_HUB_CACHE", "", ""), ("HUGGINGFACE_HUB_CACHE", "", ""), ("HF_DATASETS_CACHE", "", ""),
          ("HF_MODULES_CACHE", "", ""), ("TRANSFORMERS_CACHE", "", ""), ("TORCH_HOME", "", ""), ("TORCH_EXTENSIONS_DIR", "", ""),
          ("TORCHINDUCTOR_CACHE_DIR", "", ""), ("TRITON_CACHE_DIR", "", "~/.triton"), ("MPLCONFIGDIR", "", "~/.config/matplotlib"),
          ("NUMBA_CACHE_DIR", "", ""), ("PYTHONPYCACHEPREFIX", "", ""), ("CUDA_CACHE_PATH", "", "~/.nv"), ("NLTK_DATA", "", ""),
          ("KAGGLEHUB_CACHE", "", ""))

# Modules that fetch data. New files that they write stay: they are the same without a card, and may be large.
DOWNLOADERS = ("huggingface_hub.file_download", "huggingface_hub._snapshot_download", "huggingface_hub._local_folder", "datasets.",
               "torch.hub", "torchvision.datasets.", "torchaudio.datasets.", "urllib.request", "gdown.", "kagglehub.",
               "nltk.downloader")


class Entry(NamedTuple):
    """What a path names, where it differs from the disk."""

    kind: str
    place: str = ""


def fail(number: int, path: str) -> NoReturn:
    """Raises the OSError for an errno."""
    raise OSError(number, os.strerror(number), path)


class Journal:
    """Lines that the processes of a job append to a file, each a list of texts."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.taken_bytes = 0

    def add(self, *words: str) -> None:
        file = real.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(file, json.dumps(words).encode() + b"\n")
        os.close(file)

    def take(self) -> list[list[str]]:
        """Returns the lines since the last call."""
        try:
            if real.stat(self.path).st_size == self.taken_bytes:
                return []
        except FileNotFoundError:
            return []
        with real.open_file(self.path, "rb") as file:
            file.seek(self.taken_bytes)
            lines = file.read().rpartition(b"\n")[0]
        self.taken_bytes += len(lines) + 1 if lines else 0
        return [json.loads(line) for line in lines.split(b"\n") if line]


# ---- the user's files and others ----

@functools.lru_cache(1)
def statx() -> Any:
    return getattr(ctypes.CDLL(None), "statx", None)


def born(path: str) -> tuple[int, int]:
    """Returns when a file was made, in seconds and nanoseconds; (0, 0) where the file system does not say."""
    basic, birth, no_follow = 0x7ff, 0x800, 0x100  # STATX_BASIC_STATS, STATX_BTIME, AT_SYMLINK_NOFOLLOW
    found = (ctypes.c_uint8 * 256)()
    if statx() is None or statx()(-100, os.fsencode(path), no_follow, basic | birth, found):
        return 0, 0
    mask = ctypes.c_uint32.from_buffer(found, 0).value
    seconds, nanoseconds = ctypes.c_int64.from_buffer(found, 80).value, ctypes.c_uint32.from_buffer(found, 88).value
    return (seconds, nanoseconds) if mask & birth else (0, 0)


def cache_folders() -> list[str]:
    """Returns the folders of caches, which programs without a card may fill as others do."""
    found = [os.path.join(os.environ.get(name) or default, below) for name, below, default in CACHES
             if os.environ.get(name) or default]
    try:
        found.append(os.path.join(tempfile.gettempdir(), "torchinductor_" + getpass.getuser()))
    except (KeyError, OSError):
        pass  # a user without a name
    return [os.path.realpath(os.path.expanduser(path)) for path in found]


def is_download() -> bool:
    """True if a module that fetches data is among the callers."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        if (frame.f_globals.get("__name__") or "").startswith(DOWNLOADERS):
            return True
        frame = frame.f_back
    return False


def copy(source: str, target: str) -> None:
    """Copies a file with its mode. Gaps stay gaps."""
    with real.open_file(source, "rb", 0) as reader, real.open_file(target, "wb", 0) as writer:
        copy_data(reader.fileno(), writer.fileno())
        os.fchmod(writer.fileno(), stat.S_IMODE(os.fstat(reader.fileno()).st_mode) | stat.S_IWUSR)


def copy_data(source: int, target: int) -> None:
    """Copies what an open file holds from its position on. Gaps stay gaps."""
    end, at = os.fstat(source).st_size, os.lseek(source, 0, os.SEEK_CUR)
    shift = os.lseek(target, 0, os.SEEK_CUR) - at
    while at < end:
        try:
            begin = os.lseek(source, at, os.SEEK_DATA)
        except OSError:
            break  # the rest is a gap
        at = os.lseek(source, begin, os.SEEK_HOLE)
        os.lseek(source, begin, os.SEEK_SET)
        os.lseek(target, begin + shift, os.SEEK_SET)
        while begin < at:
            begin += os.sendfile(target, source, None, at - begin)
    os.ftruncate(target, end + shift)
    os.lseek(target, end + shift, os.SEEK_SET)


class Overlay:
    """The files of a job. Invariants: a DATA or LINK entry's file is in the folder; a FILE entry's is not, and is never written;
    the parent of each entry is a folder on the disk."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.realpath(folder)
        self.began = born(self.folder)
        self.journal = Journal(os.path.join(self.folder, "journal"))
        self.lock = threading.RLock()
        self.entries: dict[str, Entry] = {}
        self.names: dict[str, dict[str, Entry]] = {}  # the same, by folder and name
        self.has_links = False
        self.made: set[str] = set()  # folders
        self.written: dict[str, None] = {}  # paths that this process has written, in their order
        self.temporary: tuple[str, ...] = ()  # what tempfile made, with and without a slash at the end
        self.real_folders: dict[str, str] = {}  # by the spelling of the program
        self.numbers = itertools.count()
        self.roots = tuple(path + "/" for path in ("/dev", "/proc", "/sys", self.folder, *cache_folders()))
        self.own = {os.path.realpath(os.environ[name]) for name in ("MEMTRACE_RECORD_ANSWERS",) if name in os.environ}
        os.register_at_fork(after_in_child=self.follow_fork)

    def follow_fork(self) -> None:
        self.lock = threading.RLock()
        self.written.clear()

    # ---- the journal ----

    def is_used(self) -> bool:
        """Reads what others have changed. True if an entry may be there."""
        with self.lock:
            for verb, path, *rest in self.journal.take():
                self.real_folders.clear()
                names = self.names.setdefault(os.path.dirname(path), {})
                if verb == "put":
                    self.entries[path] = names[os.path.basename(path)] = Entry(*rest)
                elif verb == "forget":
                    self.entries.pop(path, None), names.pop(os.path.basename(path), None)
                elif verb == "made":
                    self.made.add(path)
                elif verb == "temporary":
                    self.temporary += (path, path + "/")
                else:
                    self.made.discard(path)
                self.has_links = any(entry.kind == LINK for entry in self.entries.values())
        return bool(self.entries)

    def put(self, path: str, entry: Optional[Entry]) -> None:
        """Has a path name something else. What it named before is removed from the job's folder, unless another path names it."""
        before = self.entries.get(path)
        self.journal.add(*(("put", path, *entry) if entry is not None else ("forget", path)))
        self.is_used()
        if entry is not None and entry.kind == DATA:
            self.written[path] = None
        if entry is None or entry.kind == GONE:
            self.written.pop(path, None)
        if before is not None and before.kind in (DATA, LINK) and before not in self.entries.values():
            real.unlink(before.place)
            real.rmdir(os.path.dirname(before.place))

    def hide(self, path: str) -> None:
        """Has a path name nothing."""
        self.put(path, Entry(GONE) if self.is_on_disk(path) else None)

    def note_temporary(self, path: str) -> None:
        self.journal.add("temporary", os.path.join(self.folder_of(os.path.dirname(path)), os.path.basename(path)))

    def note_folder(self, path: str, is_made: bool) -> None:
        """Notes that the program has made a folder, or removed it."""
        self.journal.add("made" if is_made else "unmade", path)
        if is_made:
            with real.open_file(os.path.join(self.folder, "folders"), "ab") as file:
                file.write(os.fsencode(path) + b"\0")

    # ---- paths ----

    def link_at(self, path: str) -> Optional[str]:
        """Returns the text of a symbolic link; None: the path names something else."""
        entry = self.entries.get(path)
        if entry is None:
            return real.readlink(path) if stat.S_ISLNK(self.mode(path)) else None
        return real.readlink(entry.place) if entry.kind == LINK else None

    def resolve(self, text: str) -> str:
        """Returns an absolute path without symbolic links."""
        path, rest, links = "", text.split("/")[::-1], MOST_LINKS
        while rest:
            name = rest.pop()
            if name in ("", "."):
                continue
            if name == "..":
                path = os.path.dirname(path).rstrip("/")
                continue
            target = self.link_at(f"{path}/{name}")
            if target is None:
                path = f"{path}/{name}"
                continue
            links -= 1
            if links < 0:
                fail(errno.ELOOP, text)
            rest += target.split("/")[::-1]
            path = "" if target.startswith("/") else path
        return path or "/"

    def folder_of(self, folder: str) -> str:
        """Returns a folder's path without symbolic links."""
        found = self.real_folders.get(folder)
        if found is None:
            found = self.real_folders[folder] = self.resolve(folder)
        return found

    def path_of(self, path: Any, dir_fd: Optional[int] = None, follows: bool = True) -> str:
        """Returns the absolute path of what a path of the program names, without symbolic links; the last part may be one, unless
        `follows`."""
        base = os.getcwd() if dir_fd is None else real.readlink(f"/proc/self/fd/{dir_fd}")
        text = os.path.join(base, os.fsdecode(path))
        folder, name = os.path.split(text)
        if name in ("", ".", ".."):
            return self.resolve(text)
        found = os.path.join(self.folder_of(folder), name)
        target = self.link_at(found) if follows else None
        return found if target is None else self.resolve(os.path.join(os.path.dirname(found), target))

    def mode(self, path: str) -> int:
        """Returns the mode of what is on the disk; 0: nothing is."""
        try:
            return int(real.lstat(path).st_mode)
        except OSError:
            return 0

    def is_on_disk(self, path: str) -> bool:
        return self.mode(path) != 0

    def place_of(self, path: str) -> Optional[str]:
        """Returns where the contents of a path are; None: there is nothing of that name."""
        entry = self.entries.get(path)
        if entry is None:
            return path if self.is_on_disk(path) else None
        return entry.place or None

    def is_folder(self, path: str) -> bool:
        return path not in self.entries and stat.S_ISDIR(self.mode(path))

    def names_in(self, folder: str) -> list[str]:
        """Returns the names in a folder."""
        changed = self.names.get(folder, {})
        on_disk = [name for name in real.listdir(folder) if name not in changed]
        return on_disk + [name for name, entry in changed.items() if entry.kind != GONE]

    def check_folder(self, path: str) -> None:
        """Fails unless the path names a folder."""
        if not self.is_folder(path):
            if self.place_of(path) is None:
                self.fail_missing(path)
            fail(errno.ENOTDIR, path)

    # ---- the rule ----

    def is_free(self, path: str) -> bool:
        """True if the program may change the path on the disk."""
        return path not in self.entries and self.is_left(path)

    def is_left(self, path: str) -> bool:
        """True if the program may change what is at a path: caches, devices, temporary files, and what was made since the run
        began; not the user's files, and no new ones. The path has no entry."""
        if path in self.own or path.startswith(self.roots) or path in self.temporary or path.startswith(self.temporary[1::2]):
            return True
        if "/__pycache__/" in path:
            return True
        mode = self.mode(path)
        if not mode:
            return is_download()
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode)):
            return True
        return real.lstat(path).st_ctime_ns // 10**9 >= self.began[0] > 0 and born(path) >= self.began

    # ---- places ----

    def new_place(self, path: str) -> str:
        """Returns the path of a new file in the job's folder, with the name that the program gave."""
        while True:
            folder = os.path.join(self.folder, f"{os.getpid()}-{next(self.numbers)}")
            try:
                real.mkdir(folder)
            except FileExistsError:
                continue  # of a process that had this number before
            return os.path.join(folder, os.path.basename(path))

    def place_to_read(self, path: str) -> str:
        """Returns the file to read for a path. Fails as os.open does if there is none."""
        return self.place_of(path) or self.fail_missing(path)

    def place_to_write(self, path: str, flags: int, mode: int = 0o666) -> str:
        """Returns the file to open for writing, which is there; of the user's, a copy. Fails as os.open would."""
        entry = self.entries.get(path)
        if self.is_free(path):
            return path
        place = self.place_of(path)
        if place is None:
            self.check_new(path, flags)
        elif flags & os.O_EXCL and flags & os.O_CREAT:
            fail(errno.EEXIST, path)
        elif self.is_folder(path):
            return path  # and fails
        elif not real.access(place, os.W_OK):
            fail(errno.EACCES, path)
        if entry is not None and entry.kind == DATA:
            return entry.place
        return self.make(path, None if flags & os.O_TRUNC else place, mode)

    def check_new(self, path: str, flags: int) -> None:
        """Fails as os.open does where a new file can't be."""
        folder = os.path.dirname(path)
        self.check_parent(path)
        if not flags & os.O_CREAT:
            fail(errno.ENOENT, path)
        if not real.access(folder, os.W_OK | os.X_OK):
            fail(errno.EACCES, path)

    def fail_missing(self, path: str) -> NoReturn:
        self.check_parent(path)
        fail(errno.ENOENT, path)

    def check_parent(self, path: str) -> None:
        """Fails unless the path is in a folder."""
        folder = os.path.dirname(path)
        if self.is_folder(folder):
            return
        if self.place_of(folder) is None:
            self.fail_missing(folder)
        fail(errno.ENOTDIR, path)

    def make(self, path: str, source: Optional[str], mode: int = 0o666) -> str:
        """Makes the file of a path in the job's folder, as a copy or empty, and returns its place."""
        place = self.new_place(path)
        if source is not None:
            copy(source, place)
        else:
            os.close(real.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, mode | stat.S_IWUSR))
        self.put(path, Entry(DATA, place))
        return place

    # ---- changes of names ----

    def remove(self, path: str) -> None:
        """Removes a file that the program may not change in its place."""
        if self.place_of(path) is None:
            self.fail_missing(path)
        self.hide(path)

    def make_folder(self, path: str, mode: int) -> None:
        entry = self.entries.get(path)
        is_shown = entry is not None and entry.kind == GONE and stat.S_ISDIR(self.mode(path))
        if entry is not None and not is_shown:
            fail(errno.EEXIST if entry.kind != GONE else errno.EACCES, path)  # EACCES: a file of the user is on the disk
        self.check_parent(path)
        if is_shown:
            self.put(path, None)
            return
        is_noted = not self.is_left(path)  # before it is there
        real.mkdir(path, mode)
        if is_noted:
            self.note_folder(path, True)

    def remove_folder(self, path: str) -> None:
        if self.names_in(path):
            fail(errno.ENOTEMPTY, path)
        is_left = path in self.made or self.is_left(path)
        if is_left and not real.listdir(path):
            real.rmdir(path)
            self.note_folder(path, False)
        else:
            self.put(path, Entry(GONE))

    def link(self, source: str, target: str) -> None:
        """Has another path name a file."""
        place = self.place_of(source) or self.fail_missing(source)
        if self.place_of(target) is not None:
            fail(errno.EEXIST, target)
        if self.is_free(source):
            self.make(target, place)
        else:
            self.put(target, self.entry_of(source))

    def entry_of(self, path: str) -> Entry:
        """Returns the entry for another name of a file or a symbolic link."""
        entry = self.entries.get(path)
        if entry is None and stat.S_ISLNK(self.mode(path)):
            return self.make_link(path, real.readlink(path))
        return entry or Entry(FILE, path)

    def make_link(self, path: str, text: str) -> Entry:
        place = self.new_place(path)
        real.symlink(text, place)
        return Entry(LINK, place)

    def link_symbolically(self, text: Any, path: str) -> None:
        if self.place_of(path) is not None:
            fail(errno.EEXIST, path)
        self.check_new(path, os.O_CREAT)
        self.put(path, self.make_link(path, os.fsdecode(text)))

    def rename(self, source: str, target: str) -> None:
        self.check_parent(source)
        self.check_parent(target)
        place = self.place_of(source) or self.fail_missing(source)
        if source == target:
            return
        if source.startswith(target + "/"):
            fail(errno.ENOTEMPTY, target)
        if self.is_free(source) and self.is_free(target):
            real.rename(source, target)
        elif self.is_folder(source):
            self.rename_folder(source, target)
        elif self.is_folder(target):
            fail(errno.EISDIR, target)
        else:
            self.rename_file(source, place, target)

    def rename_file(self, source: str, place: str, target: str) -> None:
        """Renames a file, one of which may be a free one."""
        if self.is_free(target):
            copy(place, target)
            self.hide(source)
            return
        if self.place_of(target) is None:
            self.check_new(target, os.O_CREAT)
        if self.is_free(source):
            self.make(target, source)
            real.unlink(source)
            return
        self.put(target, self.entry_of(source))
        self.hide(source)

    def rename_folder(self, source: str, target: str) -> None:
        """Renames a folder by the files in it."""
        if (target + "/").startswith(source + "/"):
            fail(errno.EINVAL, target)
        if self.place_of(target) is not None and not self.is_folder(target):
            fail(errno.ENOTDIR, target)
        if not self.is_folder(target):
            self.make_folder(target, stat.S_IMODE(self.mode(source)))
        elif self.names_in(target):
            fail(errno.ENOTEMPTY, target)
        for name in self.names_in(source):
            self.rename(os.path.join(source, name), os.path.join(target, name))
        self.remove_folder(source)
