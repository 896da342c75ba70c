"""Which parameters of a Triton kernel may be written, found in its source.

Pointers flow from parameters through assignments, arithmetic and calls. A parameter is only read if none of its pointers reaches
a call that may write: `tl.store`, an atomic operation, a descriptor's `store`, or a function that is not known. So a kernel's
inputs keep their values in a dry run. If the source can't be read, all parameters may be written.
"""
from __future__ import annotations

import ast
import builtins
import inspect
import weakref
from typing import Any, NamedTuple, Optional

LANGUAGE = "triton.language"
STORING = "store", "atomic"  # parts of the names of functions that write through their first argument, or through their object
WRITING = "asm", "scatter", "copy"  # and of functions that may write through any argument
DESCRIBING = "make_tensor_descriptor"
NO_POINTER = {"dtype", "type", "shape", "strides", "numel"}  # attributes of a pointer that hold none
Parameters = frozenset[str]
NOTHING: Parameters = frozenset()

written: weakref.WeakKeyDictionary[Any, Parameters] = weakref.WeakKeyDictionary()  # by Python function
describing: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()


def written_parameters(kernel: Any) -> Parameters:
    """Returns the names of the parameters through which a kernel, a JITFunction, may write."""
    if kernel.fn not in written:
        written[kernel.fn] = frozenset(kernel.arg_names)  # for a kernel that calls itself
        if not is_of_another_language(kernel):
            written[kernel.fn] = Flow(kernel).written()
    return written[kernel.fn]


def makes_descriptors(kernel: Any) -> bool:
    """True if a kernel, or a function that it calls, may make a tensor descriptor, which takes scratch memory of the card."""
    if kernel.fn not in describing:
        describing[kernel.fn] = mentions(kernel, DESCRIBING, set())
    return describing[kernel.fn]


def is_of_another_language(kernel: Any) -> bool:
    return bool(getattr(kernel, "is_gluon", bool)())


def tree_of(kernel: Any) -> ast.Module:
    tree: ast.Module = kernel.parse()
    return tree


def names_of(kernel: Any) -> dict[str, Any]:
    """Returns the global names and the names of enclosing functions, as the kernel sees them."""
    return {**vars(builtins), **kernel.fn.__globals__, **inspect.getclosurevars(kernel.fn).nonlocals}


def resolved(expression: ast.expr, names: dict[str, Any]) -> Any:
    """Returns the object that a dotted name stands for; None if it is not known."""
    if isinstance(expression, ast.Name):
        return names.get(expression.id)
    if isinstance(expression, ast.Attribute):
        owner = resolved(expression.value, names)
        return None if owner is None else getattr(owner, expression.attr, None)
    return None


def mentions(kernel: Any, word: str, seen: set[Any]) -> bool:
    seen.add(kernel.fn)
    names = names_of(kernel)
    for node in ast.walk(tree_of(kernel)):
        if isinstance(node, (ast.Name, ast.Attribute)):
            if word in (node.id if isinstance(node, ast.Name) else node.attr):
                return True
            inner = resolved(node, names)
            if is_kernel(inner) and inner.fn not in seen and mentions(inner, word, seen):
                return True
    return False


def is_kernel(value: Any) -> bool:
    return hasattr(value, "fn") and hasattr(value, "parse") and hasattr(value, "arg_names")


class Assignment(NamedTuple):
    names: list[str]  # of the variables that get the value, or a part of it
    value: ast.expr


class Flow:
    """How the pointers of one kernel flow. `carried` has the parameters whose pointers a variable may hold."""

    def __init__(self, kernel: Any) -> None:
        self.parameters = frozenset(each.name for each in kernel.params if not each.is_constexpr)
        self.carried = {name: frozenset({name}) for name in self.parameters}
        self.names = {name: value for name, value in names_of(kernel).items() if name not in kernel.arg_names}
        nodes = list(ast.walk(tree_of(kernel)))
        self.assignments = [one for one in map(assignment_of, nodes) if one is not None]
        self.calls = [node for node in nodes if isinstance(node, ast.Call)]
        self.result: set[str] = set()

    def written(self) -> Parameters:
        while self.assign_all():
            pass
        for call in self.calls:
            self.visit(call)
        return frozenset(self.result) & self.parameters

    def assign_all(self) -> bool:
        """Carries pointers over each assignment once. Returns true if a variable got more."""
        before = dict(self.carried)
        for one in self.assignments:
            pointers = self.pointers(one.value)
            for name in one.names:
                self.carried[name] = self.carried.get(name, NOTHING) | pointers
        return self.carried != before

    # ---- expressions ----

    def pointers(self, expression: ast.AST) -> Parameters:
        """Returns the parameters whose pointers the value of an expression may hold."""
        if isinstance(expression, ast.Name):
            return self.carried.get(expression.id, NOTHING)
        if isinstance(expression, ast.Compare) or isinstance(expression, ast.Call) and name_of(expression) == "load":
            return NOTHING
        if isinstance(expression, ast.Attribute) and expression.attr in NO_POINTER:
            return NOTHING
        return self.all_pointers(ast.iter_child_nodes(expression))

    def all_pointers(self, expressions: Any) -> Parameters:
        return NOTHING.union(*map(self.pointers, expressions))

    # ---- calls ----

    def visit(self, node: ast.Call) -> None:
        """Adds what a call may write."""
        function = resolved(node.func, self.names)
        if is_kernel(function):
            self.call(function, node)
        elif any(word in name_of(node) for word in STORING):
            # Nothing carried: through a pointer that was loaded, or computed from a number.
            self.result |= self.all_pointers(targets_of(node)) or self.parameters
        elif any(word in name_of(node) for word in WRITING) or not self.is_harmless(node, function):
            self.result |= self.pointers(node)

    def is_harmless(self, node: ast.Call, function: Any) -> bool:
        """True for functions of Triton's language and of Python, and for methods of tensors."""
        if function is None:
            return isinstance(node.func, ast.Attribute) and resolved(node.func.value, self.names) is None
        return str(getattr(function, "__module__", "")).startswith(LANGUAGE) or vars(builtins).get(name_of(node)) is function

    def call(self, kernel: Any, node: ast.Call) -> None:
        """Adds what another function of Triton writes through its arguments."""
        if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
            self.result |= self.pointers(node)
            return
        given = dict(zip(kernel.arg_names, node.args)) | {each.arg: each.value for each in node.keywords if each.arg}
        self.result |= self.all_pointers(given[name] for name in written_parameters(kernel) if name in given)


def assignment_of(node: ast.AST) -> Optional[Assignment]:
    """Returns what a node assigns; None if it is no assignment."""
    if isinstance(node, ast.Assign):
        return Assignment([name for target in node.targets for name in names_in(target)], node.value)
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        return Assignment(names_in(node.target), node.value)
    if isinstance(node, (ast.For, ast.comprehension)):
        return Assignment(names_in(node.target), node.iter)
    return None


def names_in(target: ast.AST) -> list[str]:
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name)]


def name_of(call: ast.Call) -> str:
    """Returns the last part of the name of a called function; "" if it has none."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""


def targets_of(call: ast.Call) -> list[ast.expr]:
    """Returns what `tl.store(pointer, value)` and `descriptor.store(offsets, value)` write through."""
    owner = [call.func.value] if isinstance(call.func, ast.Attribute) else []
    return owner + call.args[:1] + [each.value for each in call.keywords if each.arg == "pointer"]
