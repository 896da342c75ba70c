"""The command `memtrace mcp`.

    memtrace mcp [--folder DIR] [--python FILE] [--time-limit SECONDS] [--memory BYTES]
    memtrace mcp --skill
"""
from __future__ import annotations

import argparse
import os
import pathlib
import sys

SKILL = pathlib.Path(__file__).with_name("SKILL.md")
PART_OF_HOST = 2  # programs get 1/PART_OF_HOST of the host's memory


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="memtrace mcp", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder")
    parser.add_argument("--python")
    parser.add_argument("--time-limit", type=int, default=600)
    parser.add_argument("--memory", type=int, default=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // PART_OF_HOST)
    parser.add_argument("--version", default="")
    parser.add_argument("--skill", action="store_true")
    return parser.parse_args()


def main() -> int:
    given = read_options()
    if given.skill:
        print(SKILL)
        return 0
    if given.folder is not None and not os.path.isdir(given.folder):
        print(f"memtrace: mcp: --folder {given.folder}: there is no such folder", file=sys.stderr)
        return 2
    try:
        from .limited import Limits
        from .tools import Settings, make_server
    except ImportError as error:
        print(f"memtrace: mcp: {sys.executable} lacks the package mcp 2, which needs Python 3.10 ({error}): "
              f"{sys.executable} -m pip install 'memtrace-gpu[mcp]'", file=sys.stderr)
        return 1
    make_server(Settings(given.folder, given.python, Limits(given.time_limit, given.memory)), given.version).run("stdio")
    return 0


if __name__ == "__main__":
    sys.exit(main())
