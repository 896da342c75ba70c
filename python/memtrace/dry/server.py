"""An interpreter that imports PyTorch on simulated cards once, and forks a process for each dry run of the same script
(src/producers/program/python_server.h has the requests).

    serve(3)    at the interpreter's start, before the script: imports what the script would import first, and waits for requests.
                Returns in each process that it forks, which then runs the script as if it had just started.

Only imports at the beginning of the script are made, in its order, and only of libraries in IMPORTED and the standard library. The
process ends, and each dry run starts an interpreter of its own, where that could change the outcome.
"""
from __future__ import annotations

import ast
import gc
import importlib.machinery
import importlib.util
import json
import os
import signal
import socket
import struct
import sys
import tempfile
import threading
from typing import Any, NamedTuple, NoReturn, Optional

from .. import _settings
from ..recording import handover

# Libraries whose import does nothing but define things, and takes long.
IMPORTED = {"torch", "numpy", "transformers", "accelerate", "peft", "trl", "datasets", "diffusers", "timm", "torchvision", "torchaudio",
            "safetensors", "tokenizers", "lightning", "pytorch_lightning", "einops", "tqdm", "pandas", "scipy", "sklearn", "PIL", "yaml",
            "huggingface_hub", "evaluate", "torchmetrics", "torchdata", "sentencepiece", "packaging", "regex", "requests", "matplotlib"}
KEPT_FOLDERS = {"wandb", "mlflow"}  # libraries that keep the job's folder once they are imported
SAME = "cards", "steps", "stacks", "device", "kernels", "step", "torch"  # settings that imports may have used
LENGTH = struct.Struct("=Q")  # of a request, in bytes, before it
REPLY = struct.Struct("=q")  # the process that was forked; 0: the request is not taken. The first one, READY, follows the imports
READY = 1

watcher: Any = None  # once torch is imported


def prepare() -> None:
    """Is called after the import of torch."""
    global watcher
    from . import program

    watcher = program.prepare(has_changes=True)
    gc.collect()  # as program.begin does


# ---- imports ----

def is_plain_function(node: ast.stmt) -> bool:
    """True if the definition runs nothing of the program."""
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not node.decorator_list and all(
        isinstance(value, ast.Constant) for value in (*node.args.defaults, *filter(None, node.args.kw_defaults)))


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def packages_of(node: ast.stmt) -> list[str]:
    """Returns the packages that a statement imports; none for one that imports from the script's own package."""
    if isinstance(node, ast.Import):
        return [alias.name.partition(".")[0] for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
        return [node.module.partition(".")[0]]
    return []


def is_known(package: str, folder: str) -> bool:
    """True for a library whose import can be made early, unless the script's folder has a module of that name."""
    if importlib.machinery.PathFinder.find_spec(package, [folder]) is not None:
        return False
    if package in getattr(sys, "stdlib_module_names", ()):
        return True
    spec = importlib.machinery.PathFinder.find_spec(package, sys.path) if package in IMPORTED else None
    return spec is not None and spec.origin is not None and "-packages" + os.sep in spec.origin


def first_imports(script: str) -> list[ast.stmt]:
    """Returns the imports that the script begins with."""
    with open(script, "rb") as file:
        tree = ast.parse(file.read())
    folder, found = os.path.dirname(os.path.realpath(script)), []
    for node in tree.body:
        if is_docstring(node) or is_plain_function(node) or (isinstance(node, ast.ImportFrom) and node.module == "__future__"):
            continue
        packages = packages_of(node)
        if not packages or not all(is_known(package, folder) for package in packages):
            break
        found.append(node)
    return found


def make_imports(script: str) -> None:
    """Makes them, with the script's folder in front of the path, as Python puts it there later."""
    nodes = first_imports(script)
    if not any(package in IMPORTED for node in nodes for package in packages_of(node)):
        refuse()
    has_folder = not getattr(sys.flags, "safe_path", False)
    if has_folder:
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))
    names: dict[str, Any] = {"__name__": "__main__", "__file__": script}
    for node in nodes:
        exec(compile(ast.Module([node], []), script, "exec"), names)
    if has_folder:
        del sys.path[0]


class Variables(dict[Any, Any]):
    """The environment, which keeps the names of the variables that were read."""

    def __init__(self, values: dict[Any, Any]) -> None:
        super().__init__(values)
        self.read: set[Any] = set()

    def __getitem__(self, name: Any) -> Any:
        self.read.add(name)
        return super().__getitem__(name)


class Output:
    """Files that replace stdout and stderr while imports print; each process prints their contents again."""

    def __init__(self) -> None:
        self.files = {number: tempfile.TemporaryFile() for number in (1, 2)}
        for number, file in self.files.items():
            os.dup2(file.fileno(), number)

    def end(self, outputs: list[int]) -> None:
        """Has this process print to other files."""
        sys.stdout.flush()
        sys.stderr.flush()
        for number, output in zip(self.files, outputs):
            os.dup2(output, number)
            os.close(output)
            self.files[number].seek(0)
            os.write(number, self.files[number].read())
            self.files[number].close()
        sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]


def file_of(module: Any) -> str:
    """Returns the file of a module; "" if it has none, as torch.ops, whose path is no path, or is the script's."""
    path = getattr(module, "__file__", None)
    return path if isinstance(path, str) and os.path.isabs(path) and getattr(module, "__name__", "") != "__main__" else ""


# ---- requests ----

class Request(NamedTuple):
    script: int  # its place in the words
    words: list[str]  # of the interpreter's command line
    environment: dict[str, str]
    outputs: list[int]


def receive(connection: socket.socket) -> Optional[Request]:
    """Returns the next request; None if there is none any more."""
    head, outputs, _, _ = socket.recv_fds(connection, LENGTH.size, 2)
    left = LENGTH.unpack(head)[0] if len(head) == LENGTH.size else 0
    data = b""
    while len(data) < left:
        part = connection.recv(left - len(data))
        if not part:
            return None
        data += part
    if not data:
        return None
    script, count, *texts = os.fsdecode(data).split("\0")[:-1]
    words, entries = texts[:int(count)], texts[int(count):]
    return Request(int(script), words, dict(entry.split("=", 1) for entry in entries if "=" in entry), outputs)


def settings_of(environment: dict[str, str]) -> dict[str, Any]:
    settings = json.loads(environment.get(_settings.VARIABLE) or "{}")
    return {name: settings.get(name) for name in SAME}


class Server:
    """The state before and after the imports."""

    def __init__(self, script: str) -> None:
        environ: Any = os.environ
        self.pid = os.getpid()
        self.before = dict(os.environ)
        self.interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.output = Output()
        handover.kept = []
        environ._data = variables = Variables(environ._data)
        make_imports(script)
        environ._data = dict(variables)
        self.read = {os.fsdecode(name) for name in variables.read}
        self.changed = {name for name in {*self.before, *os.environ} if self.before.get(name) != os.environ.get(name)}

    def obstacle(self) -> bool:
        """True if processes that are forked from here might differ from others."""
        from . import files, places, simulated

        overlay = files.installed.overlay if files.installed is not None else None
        return (watcher is None or overlay is None or overlay.is_used() or bool(overlay.made) or simulated.cards is None or
                simulated.cards.process is not None or threading.active_count() > 1 or
                len(os.listdir("/proc/self/task")) > (os.cpu_count() or 1) or  # OpenBLAS has one for each processor
                any(places.is_users(path) for path in map(file_of, list(sys.modules.values())) if path) or
                not KEPT_FOLDERS.isdisjoint(sys.modules) or importlib.util.find_spec("usercustomize") is not None)

    def takes(self, request: Request) -> bool:
        """True if the imports would have been the same for the request."""
        names = {*self.before, *request.environment} - {_settings.VARIABLE}
        differing = {name for name in names if self.before.get(name) != request.environment.get(name)}
        return (differing.isdisjoint(self.read | self.changed) and not any(name.startswith("PYTHON") for name in differing) and
                settings_of(request.environment) == settings_of(self.before))

    def become(self, request: Request) -> None:
        """Has this process continue as the process of a request."""
        from . import files, program

        kept = {name: os.environ.get(name) for name in self.changed - {_settings.VARIABLE}}
        wanted: dict[str, Optional[str]] = {**dict.fromkeys(os.environ), **request.environment, **kept}
        for name, value in wanted.items():
            if value is None:
                os.environ.pop(name, None)
            elif os.environ.get(name) != value:
                os.environ[name] = value
        sys.argv[:] = request.words[request.script:]
        sys.orig_argv[:] = request.words
        self.output.end(request.outputs)
        signal.signal(signal.SIGINT, self.interrupt)
        _settings.read_again()
        _settings.change(command="\n".join(request.words))
        assert files.installed is not None
        files.installed.overlay.move(_settings.settings().files)
        said, handover.kept = handover.kept or [], None
        for words, kind in said:
            handover.tell(words, kind)
        program.start(watcher)


# ---- processes ----

def refuse() -> NoReturn:
    """Ends the server. Each dry run starts an interpreter of its own."""
    os._exit(0)


def fork_orphan() -> int:
    """Forks a process that memtrace adopts, so that it can wait for it. Returns 0 in that process, once it is adopted."""
    adopted, adopt = os.pipe()
    forked, tell = os.pipe()
    between = os.fork()
    if between == 0:
        pid = os.fork()
        if pid:
            os.write(tell, REPLY.pack(pid))
            os._exit(0)
        os.close(adopt)
        if not os.read(adopted, 1):
            os._exit(0)  # the server was killed, and memtrace starts an interpreter instead
    else:
        os.waitpid(between, 0)
        pid = int(REPLY.unpack(os.read(forked, REPLY.size))[0])
        os.write(adopt, b"+")
        os.close(adopt)
    for file in (adopted, forked, tell):
        os.close(file)
    return pid


def answer(server: Server, connection: socket.socket) -> Optional[Request]:
    """Answers a request. Returns it in the process that is forked for it."""
    request = receive(connection)
    if request is None:
        refuse()
    pid = fork_orphan() if server.takes(request) else 0
    if pid == 0 and server.pid != os.getpid():
        return request
    for output in request.outputs:
        os.close(output)
    connection.sendall(REPLY.pack(pid))
    return None


def serve(number: int) -> None:
    """Serves requests from a socket. Returns in each process that it forks."""
    connection, request = socket.socket(fileno=number), None
    try:
        server = Server(sys.argv[0])
        if server.obstacle():
            refuse()
        connection.sendall(REPLY.pack(READY))
        while request is None:
            request = answer(server, connection)
    except BaseException:  # of an import, too, which the program is to show
        refuse()
    connection.close()
    server.become(request)
