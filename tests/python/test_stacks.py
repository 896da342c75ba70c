"""Call stacks and operators of programs, with PyTorch's CPU build."""
import pathlib
import shutil
import subprocess
import sys

import pytest
import torch

from memtrace.recording import abi, stacks, watching
from memtrace._declarations import load_torch_library
from memtrace._library import find_torch_library

INCLUDE = pathlib.Path(torch.__file__).parent / "include"


@pytest.fixture
def library():
    library = load_torch_library(find_torch_library())
    assert not list(stacks.begin(library, INCLUDE))
    yield library
    stacks.end(library)


def test_the_frames_that_are_read_are_python_s_own(library):
    depths = []
    stacks.nest(lambda: depths.append(library.memtrace_torch_stack_text().count(b"\n")) or 0)
    assert len(depths) == 6 and len(set(depths)) > 2
    stacks.check(library)


@pytest.mark.parametrize("said", ["", "look\tthis.py\t1\nnest\tthat.py\t2\n"])
def test_frames_that_are_not_python_s_are_refused(said):
    class Library:
        @staticmethod
        def memtrace_torch_stack_text():
            return said.encode()

    with pytest.raises(stacks.NotKnown):
        stacks.check(Library)


def test_a_python_that_is_not_known_is_refused(library):
    assert library.memtrace_torch_stacks(8) != 0
    assert b"the call stacks of Python 3.8 are not known" in library.memtrace_torch_last_error()
    assert library.memtrace_torch_stacks(99) != 0
    assert library.memtrace_torch_stacks(sys.version_info.minor) == 0


def test_operators_are_known_while_they_run(library):
    seen = []

    @torch.library.custom_op("memtrace_test::probe", mutates_args=())
    def probe(x: torch.Tensor) -> torch.Tensor:
        seen.append(library.memtrace_torch_operator_now())
        return x.clone()

    assert library.memtrace_torch_operator_now() is None
    torch.ops.memtrace_test.probe(torch.ones(2))  # since PyTorch 2.14, a call of probe() itself passes no dispatcher
    assert seen == [b"memtrace_test::probe"]
    assert library.memtrace_torch_operator_now() is None
    stacks.end(library)
    torch.ops.memtrace_test.probe(torch.ones(2))
    assert seen[1] is None


class Probe(torch.autograd.Function):
    """Calls a function in backward."""

    @staticmethod
    def forward(context, x, look):
        context.look = look
        return x.clone()

    @staticmethod
    def backward(context, gradient):
        context.look()
        return gradient, None


def test_in_backward_operators_are_autograd_s_nodes(library):
    watcher, seen = watching.Watcher(library), []
    look = lambda *_: seen.append(library.memtrace_torch_operator_now())  # noqa: E731
    x = Probe.apply(torch.ones(2, requires_grad=True), look) * 2
    x.register_hook(look)
    x.sum().backward()
    watcher.unwatch()
    assert seen == [b"MulBackward0", b"autograd.Function"]


@pytest.mark.parametrize("old, new", [
    ("StartCallback start_;", "StartCallback first_;"),
    ("double sampling_prob_ = 1.0;", "float sampling_prob_ = 1.0;"),
    ("FUNCTION = 0,", "SOMETHING = 0, FUNCTION,"),
    ("bool needs_inputs_ = false;", "bool needs_inputs_ = false; bool a_ = false; bool b_ = false;"),
    ("class TORCH_API RecordFunctionCallback {", "class TORCH_API Another {"),
])
def test_an_observer_that_is_not_as_known_is_refused(tmp_path, old, new):
    path = tmp_path / abi.OBSERVER_HEADER
    path.parent.mkdir()
    shutil.copy(INCLUDE / abi.OBSERVER_HEADER, path)
    abi.check_observer(tmp_path)
    assert path.read_text().count(old) >= 1
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(abi.NotUnderstood):
        abi.check_observer(tmp_path)


# Other versions of Python, where they are installed: without torch, which the check does not need.
CHECK = """
import sys
sys.path.insert(0, sys.argv[1])
from memtrace.recording import stacks
from memtrace._declarations import load_torch_library
stacks.begin_stacks(load_torch_library(sys.argv[2]))
"""


def other_pythons():
    folders = [pathlib.Path("/usr/bin"), *pathlib.Path.home().glob(".pyenv/versions/3.*/bin")]
    found = {path.name: path for folder in folders for path in folder.glob("python3.?*") if path.name[8:].isdigit()}
    return [path for name, path in sorted(found.items()) if 9 <= int(name[8:]) <= 14]


@pytest.mark.parametrize("python", other_pythons(), ids=lambda path: path.name)
def test_the_frames_of_other_versions_are_known(python):
    package = pathlib.Path(stacks.__file__).parent.parent.parent
    done = subprocess.run([python, "-c", CHECK, package, find_torch_library()], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
