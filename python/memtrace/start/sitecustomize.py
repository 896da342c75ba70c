"""Follows the import of PyTorch. `memtrace record` and `memtrace dry-run` put this folder into PYTHONPATH, and Python runs this file
at its start, also in the program's child processes. It costs little until torch is imported, and needs nothing but the standard
library."""
import atexit
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
NAME = "_memtrace"  # not the package's own name: the program may have another copy, or another package of that name
NO_DRY_RUN = 8  # the exit code of a dry run that did not take place


def is_here(path):
    return os.path.abspath(path or ".") == HERE


def run_other():
    """Runs the sitecustomize that this one hides."""
    sys.path[:] = [path for path in sys.path if not is_here(path)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def load_file(name, path, **places):
    """Loads a module by its path, since it may not be on the interpreter's path."""
    spec = importlib.util.spec_from_file_location(name, path, **places)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load(module):
    """Loads a module of the package."""
    if NAME not in sys.modules:
        load_file(NAME, os.path.join(PACKAGE, "__init__.py"), submodule_search_locations=[PACKAGE])
    return importlib.import_module(NAME + "." + module)


def end_without_dry_run(reason):
    """Ends the program: without a simulated card it would really train."""
    print(f"memtrace: no dry run: {reason}", file=sys.stderr)
    sys.exit(NO_DRY_RUN)


def read_settings():
    """Returns the settings (memtrace/_settings.py). If they are damaged, ends a dry run, but lets another program run."""
    try:
        return dict(json.loads(os.environ.get("MEMTRACE_SETTINGS") or "{}"))
    except (ValueError, TypeError):
        reason = "MEMTRACE_SETTINGS is damaged: unset it, or start the program with memtrace again"
    is_dry = "MEMTRACE_DRY_DEVICE" in os.environ
    print(f"memtrace: {'no dry run' if is_dry else 'PyTorch is not watched'}: {reason}", file=sys.stderr, flush=True)
    if is_dry:
        os._exit(NO_DRY_RUN)  # sys.exit prints a traceback here
    return {}


def run_dry(spec, execute, module):
    """Adds PyTorch's cards before it is executed, and begins the trace afterwards."""
    try:
        load("dry.simulated").prepare(pathlib.Path(spec.origin).parent)
    except Exception as error:
        end_without_dry_run(error)
    execute(module)
    try:
        if "server" in SETTINGS:
            load("dry.server").prepare()
        else:
            load("dry.program").begin()
    except load("_private_names").Missing as error:
        end_without_dry_run(error)


def record(spec, execute, module):
    """Begins to watch PyTorch's allocator after PyTorch was executed. A failure does not end the program."""
    execute(module)
    try:
        load("recording.watching").begin_recorded()
    except Exception as error:
        print(f"memtrace: PyTorch is not watched: {error!r}", file=sys.stderr)


def require_hook(hook):
    """Keeps the hook in front of other finders, and ends the program if PyTorch is imported without it."""
    def audit(event, given):
        if event != "import" or hook.is_done:
            return
        if given[0] == "torch" and sys.meta_path[:1] != [hook]:
            hook.remove()
            hook.install()
        elif given[0] == "torch._C":
            end_without_dry_run("torch was imported in a way that memtrace can't follow")

    sys.addaudithook(audit)


class Warner:
    """A finder that finds nothing, and warns if PyTorch is imported without the hook."""

    def __init__(self, hook):
        self.hook, self.is_done = hook, False

    def find_spec(self, name, path=None, target=None):
        if name == "torch._C" and not self.is_done and not self.hook.is_done:
            print("memtrace: torch was imported in a way that memtrace can't follow: PyTorch is not watched", file=sys.stderr)
        self.is_done |= name == "torch._C"


def may_have_children():
    """True if this process has started others, or if the system can't list them."""
    children = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/children")]
    return not children or any(children)


def end_before_torch():
    """Ends the program unless it has imported PyTorch, whose part ends it cleanly, or may have children."""
    if "torch" in sys.modules or may_have_children():
        return
    print("memtrace: the time limit passed before the program imported PyTorch: raise --time-limit", file=sys.stderr, flush=True)
    sys.stdout.flush()
    os._exit(NO_DRY_RUN)


def explain_missing_torch():
    """Says what to do if the program failed since this Python has no PyTorch."""
    error = getattr(sys, "last_value", None)
    if isinstance(error, ModuleNotFoundError) and error.name == "torch":
        print(f"memtrace: {sys.executable} has no PyTorch: activate the environment that has it, or name its interpreter with "
              "--python FILE", file=sys.stderr, flush=True)


def limit_time(settings):
    """Ends the program at its time limit if PyTorch is not imported yet, and 30 seconds later in any case."""
    if "deadline" not in settings:
        return
    left = max(0, settings["deadline"] - time.time())
    for timer in (threading.Timer(left, end_before_torch), threading.Timer(left + 30, os._exit, [NO_DRY_RUN])):
        timer.daemon = True
        timer.start()


def follow(mode):
    hook = load_file("_memtrace_import_hook", os.path.join(PACKAGE, "recording/import_hook.py")).ImportHook(
        "torch", run_dry if mode == "dry" else record)
    hook.install()
    atexit.register(explain_missing_torch)
    if mode == "dry":
        require_hook(hook)
    else:
        sys.meta_path.insert(0, Warner(hook))


def serve_runs():
    """Makes the first imports of the script, and forks a process for each dry run. Returns in each of them."""
    try:
        load("dry.server").serve(SETTINGS["server"])
    except Exception as error:
        print(f"memtrace: no dry run: {error}", file=sys.stderr, flush=True)
        os._exit(NO_DRY_RUN)


SETTINGS = read_settings()
MODE = SETTINGS.get("torch")
if MODE in ("own", "ours", "dry"):
    follow(MODE)
run_other()
if MODE == "dry" and "server" in SETTINGS:
    serve_runs()
if MODE == "dry":
    limit_time(read_settings())
