"""Begins to watch PyTorch when the program imports it. `memtrace record` puts this folder into PYTHONPATH, and Python runs
this file at its start. It costs nothing until torch is imported, and needs nothing but the standard library."""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
NAME = "_memtrace"  # not the package's own: the program may have another copy, or another package of that name


def is_here(path):
    return os.path.abspath(path or ".") == HERE


def run_other():
    """Runs the sitecustomize that Python would have run without this one."""
    sys.path[:] = [path for path in sys.path if not is_here(path)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def load(module):
    """Loads a module of the package by its place, since the interpreter need not know it."""
    if NAME in sys.modules:
        return importlib.import_module(NAME + "." + module)
    spec = importlib.util.spec_from_file_location(NAME, os.path.join(PACKAGE, "__init__.py"),
                                                  submodule_search_locations=[PACKAGE])
    sys.modules[NAME] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[NAME])
    return importlib.import_module(NAME + "." + module)


def begin():
    """Begins to watch."""
    load("_watch").begin_recorded()


class TorchFinder:
    """Waits for the import of torch. Then it is gone."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec("torch")
        if spec is not None and hasattr(spec.loader, "exec_module"):
            follow(spec) if MODE != "dry" else follow_dry(spec)
        return spec


def follow_dry(spec):
    """Gives PyTorch its cards before the module is run, and begins the trace after. Without cards the program would run for
    nothing, so it ends."""
    original = spec.loader.exec_module

    def exec_module(module):
        del spec.loader.exec_module
        try:
            load("_dry").prepare(pathlib.Path(spec.origin).parent)
        except Exception as error:
            sys.exit(f"memtrace: no dry run: {error}")
        original(module)
        load("_dry_program").begin()

    spec.loader.exec_module = exec_module


def follow(spec):
    """Begins to watch after the module has been run."""
    original = spec.loader.exec_module

    def exec_module(module):
        del spec.loader.exec_module
        original(module)
        try:
            begin()
        except Exception as error:  # the program is not to fail since it is watched
            print(f"memtrace: PyTorch is not watched: {error!r}", file=sys.stderr)

    spec.loader.exec_module = exec_module


MODE = os.environ.get("MEMTRACE_RECORD_TORCH")
if MODE in ("own", "ours", "dry"):
    sys.meta_path.insert(0, TorchFinder())
run_other()
