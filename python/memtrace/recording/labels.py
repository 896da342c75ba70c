"""Labels for the memory of a PyTorch program: spans by module, categories by rules, phases and steps.

Hooks around each forward, backward and optimizer tell libmemtrace_torch.so where the program is. They change nothing that
is computed, and work with and without a card. Those that run often, around modules and gradients, are C.
"""
from __future__ import annotations

import contextlib
import ctypes
import re
import sys
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Callable, NamedTuple, Optional

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from .._private_names import replace, wrap
from .spread import SpreadGradients, local_of

# The category of a module's memory, by the first rule whose pattern is found in the name of its class or in its own. A module
# without a rule has the category of the module around it.
RULES: tuple[tuple[str, str], ...] = (
    (r"(?i)softmax", "Softmax"),
    (r"(?i)norm", "Norm"),
    (r"(?i)embed|wte|wpe", "Embed"),
    (r"(?i)loss|criterion|entropy", "Loss"),
    (r"(?i)attention|attn", "Attn"),
    (r"(?i)linear|lm_?head|conv|proj", "einsum"),
    (r"(?i)mlp|ffn|feed_?forward|swiglu", "FFN"),
    (r"(?i)block|layer|transformer|model", "Block"),
)

# The names of modules within modules that only wrap them. They are no part of a path, as in the names of a state_dict.
WRAPPED = "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_orig_mod"

ROOT = 0
OBJECT_BYTES = 16  # of a Python object before what it is about, in an interpreter with one lock


def tensors_of(value: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors in the arguments or results of a module: alone, or in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)


def start_of(tensor: torch.Tensor) -> int:
    """Returns the address of a tensor's block; 0 if it is on no card, or has no memory of its own."""
    if not tensor.is_cuda:
        return 0
    tensor = local_of(tensor)
    try:
        return tensor.untyped_storage().data_ptr() if tensor.storage_offset() else tensor.data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


class Place(NamedTuple):
    """A module, as the library knows it: its span, and the category of its memory."""

    span: int
    category: int
    module: weakref.ref[torch.nn.Module]


class Labels:
    """Gives the memory of modules, gradients and optimizers their labels."""

    watches_all = False  # every module that is called, and not only those inside of a watched one
    error: Optional[BaseException] = None  # that ended the program

    def __init__(self, library: Any, rules: Iterable[tuple[str, str]] = RULES) -> None:
        self.library = library
        self.rules = [(re.compile(pattern), self.category(name)) for pattern, name in rules]
        self.phases = {name: library.memtrace_torch_phase_number(name.encode()) for name in
                       ("init", "forward", "loss", "backward", "optimizer")}
        self.other, self.data, self.loss = (self.category(name) for name in ("Other", "Data", "Loss"))
        self.optimizer = self.category("Optimizer")
        self.param, self.gradient, self.state = (self.category(name) for name in ("Param", "Gradient", "Opt State"))
        self.places: dict[int, Place] = {}  # of modules that are watched, by id: they are not kept alive
        self.has_hooks = object.__basicsize__ == OBJECT_BYTES and library.memtrace_torch_python() == 0
        self.phase_now = ("init", self.other)
        self.phases_before: dict[int, tuple[str, int]] = {}  # of optimizers that are under way
        # of optimizers: how many tensors of state are labelled
        self.known_state: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.handles: list[Any] = []
        self.spread = SpreadGradients(self)

    # ---- names ----

    def category(self, name: str) -> int:
        """Returns the number of a category: one of memtrace's, or a name of your own."""
        return int(self.library.memtrace_torch_category(name.encode()))

    def rule_for(self, module: torch.nn.Module, name: str, around: int) -> int:
        """Returns the category of a module by the rules, or else `around`, that of the module around it."""
        for pattern, category in self.rules:
            if pattern.search(type(module).__name__) or pattern.search(name):
                return category
        return around

    # ---- watching ----

    def watch(self, model: torch.nn.Module, name: str = "model") -> Labels:
        """Labels the memory of a model's modules with spans and categories, and its parameters and gradients. Call it once the
        model is on its card, and again after moving the model."""
        if not self.handles:
            self._watch_calls()
        self._watch_in(model, name, ROOT, self.other)
        return self

    def _watch_in(self, model: torch.nn.Module, name: str, parent: int, around: int) -> None:
        """Does the same for a model in a span and in a module of that category."""
        known = set(self.places)
        found: dict[torch.nn.Module, Place] = {}
        self._place(model, name, parent, around, found)
        for module, place in found.items():
            self.spread.watch_module(module)
            for own_name, parameter in module.named_parameters(recurse=False):
                span = self._span(place.span, own_name, "Parameter")
                self.relabel(parameter, self.param, span)
                if parameter.requires_grad and id(module) not in known and not self.spread.watch(parameter, span):
                    self._watch_gradient(parameter, span)
            for own_name, buffer in module.named_buffers(recurse=False):
                self.relabel(buffer, self.data, self._span(place.span, own_name, "Buffer"))

    def unwatch(self) -> None:
        """Removes all hooks. The labels stay in the trace."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        for key in list(self.places):
            self._forget(key)

    def _span(self, parent: int, name: str, kind: str) -> int:
        return int(self.library.memtrace_torch_span(parent, name.encode(), kind.encode()))

    def _place(self, module: torch.nn.Module, name: str, parent: int, around: int,
               found: dict[torch.nn.Module, Place]) -> None:
        """Adds the places of a module and of the modules inside it to `found`."""
        key = id(module)
        if key not in self.places:
            category = self.rule_for(module, name, around)
            span = parent if name in WRAPPED else self._span(parent, name, type(module).__name__)
            self.places[key] = Place(span, category, weakref.ref(module, lambda _: self._forget(key)))
            self.library.memtrace_torch_module(key, self.places[key].span, category)
        found[module] = place = self.places[key]
        for child_name, child in module.named_children():
            if child not in found:
                self._place(child, child_name, place.span, place.category, found)

    def _forget(self, key: int) -> None:
        """Takes away the place of a module that is no more."""
        self.places.pop(key, None)
        self.library.memtrace_torch_module_end(key)

    def _watch_gradient(self, parameter: Any, span: int) -> None:
        """Labels a tensor as a gradient once it becomes one, since it keeps its memory."""
        if self.has_hooks:
            hook = self.library.memtrace_torch_gradient_hook(span, self.gradient)
            self.handles.append(parameter.register_post_accumulate_grad_hook(hook))

    def _watch_calls(self) -> None:
        self.handles += [
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        ]
        self.patch("torch.autograd.backward", self._backward)
        if not self.has_hooks:
            self._say("modules and gradients are not labelled: the hooks need CPython with its lock")
            return
        in_span = self.library.memtrace_torch_module_call(
            torch.nn.Module.__call__, self._on_new if self.watches_all else None, self._on_outermost)

        # A function, since others put __call__ away and back, and nothing else is the same after that.
        def call(module: Any, *given: Any, **named: Any) -> Any:
            return in_span(module, *given, **named)

        self.handles.append(replace("torch.nn.Module.__call__", call))
        graph = find_graph()
        if graph is not None:
            self.library.memtrace_torch_graph(*graph)

    def patch(self, name: str, around: Callable[..., Any]) -> None:
        """Has calls of a function of PyTorch go to `around`, which gets the function first, until all hooks are removed."""
        self.handles.append(wrap(name, around))

    def _say(self, words: str) -> None:
        print("memtrace: " + words, file=sys.stderr)

    def relabel(self, tensor: torch.Tensor, category: int, span: int = ROOT) -> bool:
        """Gives a tensor's memory another category (its number)."""
        start = start_of(tensor)
        return bool(start) and self.library.memtrace_torch_relabel(start, span, category) == 0

    def relabel_all(self, tensors: Iterable[torch.Tensor], category: int, span: int = ROOT) -> None:
        """Does the same for tensors of which several may share a block."""
        for start in {start_of(tensor) for tensor in tensors} - {0}:
            self.library.memtrace_torch_relabel(start, span, category)

    # ---- forward and backward ----

    def _on_new(self, module: torch.nn.Module) -> None:
        """Watches a module when it is first called, inside of the one that is under way."""
        self._watch_in(module, type(module).__name__, self.library.memtrace_torch_span_now(),
                       self.library.memtrace_torch_category_now())

    def _on_outermost(self, module: Optional[torch.nn.Module]) -> None:
        """Is told of an outermost module before its call, and of None after it."""
        if module is None:
            if self.phase_now[0] == "forward":
                self._phase("loss", self.loss)
        elif self.phase_now[0] not in ("backward", "optimizer"):
            self._phase("forward", self.data)
            self._begin_forward(module)

    def _begin_forward(self, module: torch.nn.Module) -> None:
        """Is called before the forward of an outermost module."""

    def _backward(self, original: Callable[..., Any], *given: Any, **named: Any) -> Any:
        before = self.phase_now
        self._phase("backward", self.loss)
        try:
            return original(*given, **named)
        finally:
            self._phase(*before)

    # ---- phases and steps ----

    def _phase(self, name: str, category: int) -> None:
        self.phase_now = (name, category)
        self.library.memtrace_torch_phase(self.phases[name], category)

    @contextlib.contextmanager
    def step(self) -> Iterator[Labels]:
        """One step of training."""
        self.begin_step()
        try:
            yield self
        finally:
            self.end_step()

    def begin_step(self) -> int:
        self._phase("forward", self.data)
        return int(self.library.memtrace_torch_step_begin())

    def end_step(self) -> None:
        self.library.memtrace_torch_step_end()

    @contextlib.contextmanager
    def labelled(self, category: str, span: Optional[str] = None) -> Iterator[Labels]:
        """Labels this thread's allocations inside with a category, and a span if `span` is a name."""
        parent = self.library.memtrace_torch_span_now()
        number = self._span(parent, span, "") if span else parent
        depth = self.library.memtrace_torch_span_begin(number, self.category(category))
        try:
            yield self
        finally:
            self.library.memtrace_torch_span_end(depth)

    def measure(self, name: str, value: float) -> None:
        """Stores a number of the current step in the trace: measure("loss", 4.08)."""
        self.library.memtrace_torch_measure(name.encode(), float(value))

    # ---- optimizers ----

    def _before_optimizer(self, optimizer: Any, given: Any, named: Any) -> Optional[tuple[Any, Any]]:
        """Begins the optimizer's phase. Returns other arguments where a closure is among them, which an optimizer calls to
        have forward and backward run again."""
        before = self.phases_before[id(optimizer)] = self.phase_now
        self.spread.before_optimizer()
        self._phase("optimizer", self.optimizer)
        if optimizer not in self.known_state and hasattr(optimizer, "_init_group"):
            self._label_as_made(optimizer)
        if callable(named.get("closure")):
            return given, {**named, "closure": self._in_phase(before, named["closure"])}
        if len(given) > 1 and callable(given[1]):
            return (given[0], self._in_phase(before, given[1]), *given[2:]), named
        return None

    def _in_phase(self, phase: tuple[str, int], closure: Callable[[], Any]) -> Callable[[], Any]:
        """Returns the closure of an optimizer, to be called in another phase than the optimizer's."""
        def call() -> Any:
            self._phase(*phase)
            try:
                return closure()
            finally:
                self._phase("optimizer", self.optimizer)
        return call

    def _label_as_made(self, optimizer: Any) -> None:
        """Labels the state of each group of parameters as soon as it is made, before the step that may be the peak."""
        groups = iter(optimizer.param_groups)
        next(groups, None)

        def make(*given: Any, **named: Any) -> Any:
            result = type(optimizer)._init_group(optimizer, *given, **named)
            self.label_state(optimizer)
            if next(groups, None) is None:
                vars(optimizer).pop("_init_group", None)
            return result

        optimizer._init_group = make

    def _after_optimizer(self, optimizer: Any, given: Any, named: Any) -> None:
        self.label_state(optimizer)
        self._phase(*self.phases_before.pop(id(optimizer), ("forward", self.data)))

    def label_state(self, optimizer: Any) -> None:
        """Labels the state of an optimizer when it is created. Optimizers of torch.optim are labelled without this call."""
        count = sum(len(state) for state in optimizer.state.values())
        if self.known_state.get(optimizer) == count:
            return
        self.known_state[optimizer] = count
        for state in optimizer.state.values():
            for tensor in tensors_of(state):
                self.relabel(tensor, self.state)

    # ---- the end ----

    def close(self, outcome: int = 0) -> None:
        """Ends the trace: 0 done, 1 failed, 5 out of memory. The end of the program does so, too."""
        self._check(self.library.memtrace_torch_close(outcome))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.library.memtrace_torch_last_error().decode())


def find_graph() -> Optional[tuple[int, int, int]]:
    """Returns where a node of autograd's graph has its number and its thread's, and the number of this thread; None if its
    memory is not as known. Looks at two nodes of a graph of its own, on the host."""
    words = []
    for _ in range(2):
        try:
            node: Any = (torch.ones(1, requires_grad=True) * 2).grad_fn
            number = node._sequence_nr()
        except AttributeError:
            return None
        address = ctypes.c_uint64.from_address(id(node) + OBJECT_BYTES).value
        words.append((number, [ctypes.c_uint64.from_address(address + at).value for at in range(0, 64, 8)]))
    for at, thread_at in ((24, 48), (16, 40)):
        found = [(number == word[at // 8], word[thread_at // 8]) for number, word in words]
        if found[0] == found[1] and found[0][0] and 0 < found[0][1] < 1 << 32:
            return at, thread_at, found[0][1]
    return None
