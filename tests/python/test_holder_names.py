"""The names of objects, by the best path to each. The tests run their code as a module of a program."""
import linecache
import sys
import types
import weakref

import pytest
import torch

from memtrace.recording.comprehensions import comprehensions_of
from memtrace.recording.frames import frames_from, variables_of
from memtrace.recording.holder_names import Names


@pytest.fixture
def name_in(tmp_path, monkeypatch):
    """Returns a function that runs a program, which calls `names(*objects)`, and returns the holders of these objects."""
    def run(source):
        file, found = str(tmp_path / "program.py"), []

        def names(*objects):
            asked = list(objects)
            del objects
            all_names = Names(asked, frames_from(sys._getframe(1)))
            found.extend(map(all_names.name, asked))

        program = types.ModuleType("program")
        monkeypatch.setitem(sys.modules, "program", program)
        program.__dict__.update(names=names, new=lambda: torch.zeros(1), __file__=file)
        (tmp_path / "program.py").write_text(source)
        linecache.checkcache(file)
        exec(compile(source, file, "exec"), vars(program))
        return [None if one is None else (one.name, one.owner, one.kind) for one in found]

    return run


def test_an_attribute_is_preferred_to_a_variable_that_sees_its_tensor(name_in):
    assert name_in("""
class Session:
    def __init__(self):
        self.past, self.sizes = None, {}
    def say(self):
        self.past = cached = Cache()
        keys = cached.layers[0].keys
        names(keys)
class Layer:
    def __init__(self):
        self.keys = new()
class Cache:
    def __init__(self):
        self.layers = [Layer()]
Session().say()
""") == [("self.past.layers[…].keys", "Session", "attribute")]


def test_attributes_of_a_dict_with_attributes_are_part_of_the_name(name_in):
    assert name_in("""
class Output(dict):
    def __init__(self, **fields):
        super().__init__(fields)
        self.__dict__.update(fields)
def generate():
    results = [Output(scores=[new()], logits=new())]
    names(results[0].scores[0], results[0].logits)
generate()
""") == [("results[…].scores", "generate", "attribute"), ("results[…].logits", "generate", "attribute")]


def test_an_attribute_of_a_module_is_named_by_its_class_and_of_a_library_s_module_by_its_variable(name_in):
    assert name_in("""
from torch import nn
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.cache, self.body = [new()], nn.Sequential(nn.Identity())
        self.body[0].trace = [new()]
net, layer = nn.Sequential(), Layer()
net.trace = [new()]
names(net.trace[0], layer.cache[0], layer.body[0].trace[0])
""") == [("net.trace", "program", "attribute"), ("self.cache", "Layer", "attribute"),
         ("self.body.0.trace", "Layer", "attribute")]


def test_default_arguments_and_attributes_of_functions_are_named(name_in):
    assert name_in("""
def log(value, _buffer=[], *, seen={}):
    _buffer.append(value)
    seen[0], log.last = [new()], [new()]
def outer():
    kept = []
    def add(value):
        kept.append(value)
    return add
def main():
    add(new())
    log(new())
    names(log.__defaults__[0][0], log.__kwdefaults__["seen"][0][0], log.last[0], add.__closure__[0].cell_contents[0])
add = outer()
main()
""") == [("default argument _buffer", "log", "variable"), ("default argument seen", "log", "variable"),
         ("log.last", "log", "attribute"), ("kept", "outer.<locals>.add", "closure")]


def test_the_root_of_linked_objects_is_named_at_any_depth(name_in):
    assert name_in("""
class Node:
    __slots__ = "state", "parent", "children"
    def __init__(self, parent):
        self.state, self.parent, self.children = new(), parent, []
class Search:
    def run(self):
        self.root = node = Node(None)
        states = [node.state]
        for _ in range(50):
            node.children.append(Node(node))
            node = node.children[0]
            states.append(node.state)
        names(*states)
Search().run()
""") == [("self.root", "Search", "attribute")] * 51


def test_the_variable_that_begins_a_list_of_tuples_is_named(name_in):
    assert name_in("""
head, values = None, []
def add(value, previous):
    return value, previous
for _ in range(40):
    head = add(new(), head)
def main():
    one, values = head, []
    while one is not None:
        values.append(one[0])
        one = one[1]
    names(*values)
main()
""")[1:] == [("head", "program", "variable")] * 39


@pytest.mark.parametrize("expression, name", [
    ("[step(n) for n in range(3)]", "list comprehension"), ("{n: step(n) for n in range(3)}", "dict comprehension"),
    ("{step(n) for n in range(3)}", "set comprehension"), ("list(step(n) for n in range(3))", "generator expression")])
def test_a_running_comprehension_is_named(name_in, expression, name):
    assert name_in(f"""
import gc, weakref
made = []
def step(n):
    if n == 2:
        names(made[0]())
    one = new()
    made.append(weakref.ref(one))
    return one
def predict():
    return {expression}
predict()
""") == [(name, "predict", "variable")]


def test_a_comprehension_that_python_put_into_its_function_is_found_by_its_lines(tmp_path):
    source = "def predict(net):\n    outputs = [net(n)\n               for n in range(3)]\n    return outputs\n"
    (tmp_path / "new.py").write_text(source)
    code = types.SimpleNamespace(co_name="predict", co_filename=str(tmp_path / "new.py"), co_firstlineno=1, co_consts=(None, 3),
                                 co_flags=0)
    found = [[(one.name, one.function, one.line) for one in comprehensions_of(types.SimpleNamespace(f_code=code, f_lineno=line))]
             for line in (3, 4)]
    assert found == [[("list comprehension", "predict", 2)], []]


def test_a_container_of_exceptions_is_named_with_what_their_frames_keep(name_in):
    assert name_in("""
import weakref
class Finder:
    def __init__(self):
        self.failures = []
    def attempt(self):
        made = [new()]
        made_last.append(weakref.ref(made[0]))
        raise MemoryError
    def find(self):
        try:
            self.attempt()
        except MemoryError as error:
            self.failures.append((1, error))
        names(made_last[0]())
made_last = []
Finder().find()
""") == [("self.failures", "Finder", "exception")]


def test_an_exception_that_is_handled_is_named_by_the_frame_that_it_left(name_in):
    assert name_in("""
import weakref
def attempt():
    made = [new()]
    refs.append(weakref.ref(made[0]))
    raise MemoryError
refs = []
def main():
    try:
        attempt()
    except MemoryError as error:
        names(refs[0]())
main()
""") == [("frame of attempt", "", "traceback")]


def test_reading_variables_leaves_what_locals_returned():
    def train(rate=0.1):
        settings = locals()
        net = torch.zeros(1)
        found = dict(variables_of(sys._getframe()))
        return settings, found["net"] is net

    assert train() == ({"rate": 0.1}, True)


def test_reading_variables_keeps_no_value():
    def release():
        net = torch.zeros(1)
        alive = weakref.ref(net)
        variables_of(sys._getframe())
        del net
        return alive() is None

    assert release()
