"""The checksums of an export: a file SHA256SUMS next to its tables, in the format of `sha256sum`.

Engines do not verify checksums of the data, so a flipped bit in a Parquet file could change a number in an answer.
"""
from __future__ import annotations

import hashlib
import pathlib
from typing import Optional

NAME = "SHA256SUMS"
CHUNK_BYTES = 1 << 20


def sum_of(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def tables_in(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    return {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*.parquet"))}


def write_sums(folder: pathlib.Path) -> None:
    """Writes the checksums of all Parquet files in the folder."""
    (folder / NAME).write_text("".join(f"{sum_of(path)}  {name}\n" for name, path in tables_in(folder).items()))


def find_damage(folder: pathlib.Path) -> Optional[str]:
    """Returns a text about the first difference from the written files. An older version's export has no checksums; it passes."""
    sums, tables = folder / NAME, tables_in(folder)
    if not sums.is_file():
        return None
    lines = (line.partition("  ") for line in sums.read_text(errors="replace").splitlines())
    expected = {name: digest for digest, _, name in lines}
    if expected.keys() != tables.keys():
        return f"{folder} has other files than {NAME} names"
    for name, path in tables.items():
        if sum_of(path) != expected[name]:
            return f"{path} is damaged: it does not match its checksum in {NAME}"
    return None
