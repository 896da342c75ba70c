"""No module of the package imports itself by way of others, nor hides that in a function."""
import ast
import pathlib

import memtrace

PACKAGE = pathlib.Path(memtrace.__file__).parent


def modules_of(package):
    """Returns the modules of a package, but for programs in start/, by name."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if "start" not in parts:
            found[".".join(part for part in parts if part != "__init__")] = path
    return found


def names_imported(node, package, modules):
    """Yields the modules that an import names, and those that importlib.import_module gets as a text."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package[:len(package) - node.level + 1] if node.level else []
        origin = ".".join([*above, *filter(None, [node.module])])
        for alias in node.names:
            inner = f"{origin}.{alias.name}"
            yield inner if inner in modules else origin
    elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module" and isinstance(
            node.args[0], ast.Constant) and node.args[0].value.startswith("."):
        yield ".".join(package) + node.args[0].value


def graph_of(package):
    """Returns which modules each module imports, anywhere in its text."""
    modules = modules_of(package)
    graph = {}
    for name, path in modules.items():
        inside = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        graph[name] = {other for node in nodes for other in names_imported(node, inside, modules) if other in modules} - {name}
    return graph


def cycle_in(graph):
    """Returns the modules of a cycle; nothing if there is none."""
    done, path = set(), []

    def visit(name):
        if name in path:
            return path[path.index(name):]
        if name in done:
            return []
        path.append(name)
        found = next(filter(None, map(visit, sorted(graph[name]))), [])
        path.pop()
        done.add(name)
        return found

    return next(filter(None, map(visit, sorted(graph))), [])


def test_the_package_has_no_import_cycles():
    graph = graph_of(PACKAGE)
    assert "memtrace.dry.steps" in graph["memtrace.dry.loops"] and "memtrace.dry.simulated" in graph["memtrace.dry.run"]
    assert cycle_in(graph) == []


def test_cycles_are_found_in_functions_and_across_folders(tmp_path):
    package = tmp_path / "planted"
    (package / "inner").mkdir(parents=True)
    texts = {"__init__": "", "inner/__init__": "", "a": "from .inner import b", "inner/b": "def f():\n    from ..c import x",
             "c": "x = 1", "d": "import os"}
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    assert cycle_in(graph_of(package)) == []
    (package / "c.py").write_text("def g():\n    importlib.import_module('.a', __package__)")
    assert cycle_in(graph_of(package)) == ["planted.a", "planted.inner.b", "planted.c"]


def test_names_of_files_are_unique():
    names = [path.name for path in modules_of(PACKAGE).values() if not path.name.startswith("__")]
    assert sorted(set(names)) == sorted(names)
