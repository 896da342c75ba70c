"""The folders that a client allows, and the files in them that its tools may use. Symbolic links are resolved before a path is
checked, so that a link in a folder does not lead out of it."""
from __future__ import annotations

import os
import pathlib
import urllib.parse
from collections.abc import Iterable
from typing import NamedTuple, Optional

NO_FOLDER = ("no folder is known in which programs may run: start the server as memtrace mcp --folder DIR, "
             "or let the client name its roots")


class Refused(Exception):
    """Why a tool has no answer, and what to do; and, if a command ran, the command and its output."""

    def __init__(self, error: str, said: str = "", command: Optional[str] = None) -> None:
        super().__init__(error)
        self.error, self.said, self.command = error, said, command


def folder_of(uri: str) -> Optional[pathlib.Path]:
    """Returns the folder of a root; None if it is not a folder on this machine."""
    parts = urllib.parse.urlsplit(uri)
    path = urllib.parse.unquote(parts.path)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or not os.path.isdir(path):
        return None
    return pathlib.Path(path).resolve()


class Folders(NamedTuple):
    paths: tuple[pathlib.Path, ...]  # resolved, at least one; relative paths are relative to the first

    def place(self, path: str) -> tuple[pathlib.Path, pathlib.Path]:
        """Returns the allowed folder that contains a file, and the file's real path."""
        try:
            real = (self.paths[0] / path).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a null character
            raise Refused(f"{path[:200]!r} is not a path: {error}") from None
        for folder in self.paths:
            if real.is_relative_to(folder):
                return folder, real
        raise Refused(f"{path[:200]!r} is outside of {self.words()}: name a file inside")

    def script(self, path: str) -> tuple[pathlib.Path, str]:
        """Returns the folder in which a Python script runs, and the script's path in it."""
        folder, real = self.place(path)
        if real.suffix != ".py" or not real.is_file():
            raise Refused(f"{path[:200]!r} is not a Python script in {self.words()}: name a file that ends in .py, without its "
                          "arguments and without a launcher")
        return folder, str(real.relative_to(folder))

    def words(self) -> str:
        return " and ".join(map(str, self.paths))


def folders_of(roots: Iterable[str], otherwise: Optional[str]) -> Folders:
    """Returns the client's folders, or the server's if the client has none."""
    named = [folder for folder in map(folder_of, roots) if folder is not None]
    if not named and otherwise is not None:
        named = [pathlib.Path(otherwise).resolve()]
    if not named:
        raise Refused(NO_FOLDER)
    return Folders(tuple(named))
