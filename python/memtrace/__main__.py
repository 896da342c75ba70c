"""`python -m memtrace` is the program memtrace."""
import importlib.util
import os
import sys
from collections.abc import MutableMapping

from ._library import find_program


def leave_own_environment(environment: MutableMapping[str, str]) -> None:
    """Moves the folder of this Python to the end of PATH if memtrace is installed there without PyTorch: `uvx` and `pipx run`
    prepend it, and programs that memtrace starts must find the user's Python. An environment activated by the user stays."""
    own, active = os.path.realpath(sys.prefix), environment.get("VIRTUAL_ENV")
    first, *others = environment.get("PATH", "").split(os.pathsep)
    is_active = active is not None and os.path.realpath(active) == own
    if os.path.realpath(first) == os.path.join(own, "bin") and not is_active and importlib.util.find_spec("torch") is None:
        environment["PATH"] = os.pathsep.join([*others, first])


def main() -> None:
    program = find_program()
    leave_own_environment(os.environ)
    if sys.argv[1:2] == ["mcp"]:
        os.environ["MEMTRACE_PYTHON"] = sys.executable  # has the packages installed with memtrace
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
