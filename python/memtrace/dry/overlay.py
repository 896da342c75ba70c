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

import collections
import errno
import json
import os
import stat
import tempfile
import threading
from typing import Any, Callable, NamedTuple, NoReturn, Optional

from .._settings import settings
from .disk import born, cache_folders, copy, fail, is_download, real

DATA, FILE, LINK, GONE = "data", "file", "link", "gone"
MOST_LINKS = 40  # in a row, as in Linux


class Entry(NamedTuple):
    """What a path names, where it differs from the disk."""

    kind: str
    place: str = ""


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


class Overlay:
    """The files of a job. Invariants: a DATA or LINK entry's file is in the folder; a FILE entry's is not, and is never written;
    the parent of each entry is a folder on the disk."""

    on_write: Callable[[], None] = staticmethod(lambda: None)  # is called when the program writes a file

    def __init__(self, folder: str) -> None:
        self.lock = threading.RLock()
        self.entries: dict[str, Entry] = {}
        self.names: dict[str, dict[str, Entry]] = {}  # the same, by folder and name
        self.uses: collections.Counter[Entry] = collections.Counter()  # paths by their entry
        self.link_count = 0
        self.made: set[str] = set()  # folders
        self.written: dict[str, None] = {}  # paths that this process has written, in their order
        self.temporary: tuple[str, ...] = ()  # what tempfile made, with and without a slash at the end
        self.real_folders: dict[str, str] = {}  # by the spelling of the program
        self.place_folder, self.place_names = "", set[str]()  # where this process makes its next file, and the files there
        self.move(folder)
        os.register_at_fork(after_in_child=self.follow_fork)

    def move(self, folder: str) -> None:
        """Begins in a folder, while no path has an entry."""
        self.folder = os.path.realpath(folder)
        self.began = born(self.folder)
        self.journal = Journal(os.path.join(self.folder, "journal"))
        mail = [os.path.realpath(settings().mail)] if settings().mail else []
        self.roots = tuple(path + "/" for path in ("/dev", "/proc", "/sys", self.folder, *mail, *cache_folders()))
        self.own = {os.path.realpath(path) for path in (settings().answers,) if path is not None}

    def follow_fork(self) -> None:
        self.lock = threading.RLock()
        self.place_folder = ""
        self.written.clear()

    # ---- the journal ----

    def is_used(self) -> bool:
        """Reads what others have changed. True if an entry may be there."""
        with self.lock:
            for verb, path, *rest in self.journal.take():
                self.real_folders.clear()
                if verb == "put":
                    self.take_entry(path, Entry(*rest))
                elif verb == "forget":
                    self.take_entry(path, None)
                elif verb == "made":
                    self.made.add(path)
                elif verb == "temporary":
                    self.temporary += (path, path + "/")
                else:
                    self.made.discard(path)
        return bool(self.entries)

    def take_entry(self, path: str, entry: Optional[Entry]) -> None:
        folder, name = os.path.split(path)
        before = self.entries.pop(path, None)
        if before is not None:
            self.uses[before] -= 1
            del self.names[folder][name]
        if entry is not None:
            self.uses[entry] += 1
            self.entries[path] = self.names.setdefault(folder, {})[name] = entry
        self.link_count += (entry is not None and entry.kind == LINK) - (before is not None and before.kind == LINK)

    @property
    def has_links(self) -> bool:
        return self.link_count > 0

    def put(self, path: str, entry: Optional[Entry]) -> None:
        """Changes the entry of a path. Removes the file of the entry before from the job's folder, unless another path has it."""
        before = self.entries.get(path)
        self.journal.add(*(("put", path, *entry) if entry is not None else ("forget", path)))
        self.is_used()
        if entry is not None and entry.kind == DATA:
            self.written[path] = None
            self.on_write()
        if entry is None or entry.kind == GONE:
            self.written.pop(path, None)
        if before is not None and before.kind in (DATA, LINK) and not self.uses[before]:
            real.unlink(before.place)

    def hide(self, path: str) -> None:
        """Removes a path for the program."""
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
        """Returns the absolute path for a path of the program, without symbolic links. Only with `follows`, this includes the last
        part."""
        base = os.getcwd() if dir_fd is None else real.readlink(f"/proc/self/fd/{dir_fd}")
        text = os.path.join(base, os.fsdecode(path))
        folder, name = os.path.split(text)
        if name in ("", ".", ".."):
            return self.resolve(text)
        found = os.path.join(self.folder_of(folder), name)
        target = self.link_at(found) if follows else None
        return found if target is None else self.resolve(os.path.join(os.path.dirname(found), target))

    def mode(self, path: str) -> int:
        """Returns the mode of a file or folder on the disk; 0 if there is none."""
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
        """True if the program may change a path that has no entry: caches, devices, temporary files, and files made on the disk since
        the run began. False for the user's files and for new ones."""
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
        """Returns the path of a new file in the job's folder, with the name that the program gave: archives have it inside."""
        name = os.path.basename(path)
        with self.lock:
            if not self.place_folder or name in self.place_names:
                self.place_folder, self.place_names = tempfile.mkdtemp(dir=self.folder), set()
            self.place_names.add(name)
            return os.path.join(self.place_folder, name)

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
            self.on_write()
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
        """Removes a file that stays on the disk."""
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
        """Gives a file another name."""
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
        """Renames a file. The program may change one of the two paths on the disk, but not both."""
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
