"""Runs a module of the package, without the current folder on Python's path: python3 _module.py MODULE [ARGS].

The program memtrace starts Python this way. `python3 -m` looks for every module in the current folder first, and `-P`,
which prevents that, requires Python 3.11. Running a file puts its own folder on the path instead, here the package. Its
modules are imported as memtrace.NAME, so the parent folder replaces it.
"""
import os
import runpy
import sys

PACKAGE = os.path.dirname(os.path.abspath(__file__))


def main() -> None:
    own = {PACKAGE, os.path.realpath(PACKAGE)}
    sys.path[:] = [os.path.dirname(PACKAGE), *(folder for folder in sys.path if folder not in own)]
    sys.argv[:] = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
