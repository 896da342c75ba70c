"""Labels for the memory of a PyTorch program: spans by module, categories by rules, phases and steps.

Notifies libmemtrace_torch.so of the program's position: around each module, each run of autograd's engine and each step of an
optimizer. Results do not change, with and without a card, nor does code compiled by torch.compile: no PyTorch object is replaced,
no hook is registered where the compiler would trace it, and the compiler is disabled in functions of this file. Frequently run
code is in C.
"""
from __future__ import annotations

import contextlib
import ctypes
import functools
import pathlib
import re
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any, Callable, NamedTuple, Optional

import torch

from .._private_names import has, original_of, wrap
from . import abi, gradients, stacks
from .caches import Caches
from .generated import WRAPPED, Generated
from .gradients import GradientHooks
from .shapes import shape_of
from .spread import SpreadGradients, local_of, rebuilding
from .weak_tensors import WeakTensor, swap

# The category of a module's memory, by the first rule whose pattern occurs in the name of its class or in its own name. A module
# without a matching rule has the category of the module around it.
RULES: tuple[tuple[str, str], ...] = (
    (r"(?i)softmax", "Softmax"),
    (r"(?i)norm", "Norm"),
    (r"(?i)embed|wte|wpe", "Embed"),
    (r"(?i)loss|criterion|entropy", "Loss"),
    (r"(?i)attention|attn", "Attn"),
    (r"(?i)linear|lm_?head(?!model)|conv|proj", "einsum"),
    (r"(?i)mlp|ffn|feed_?forward|swiglu", "FFN"),
    (r"(?i)block|layer|transformer|model", "Block"),
)

ROOT = 0
OBJECT_BYTES = 16  # of a Python object's header, in an interpreter with the GIL
ENGINE = "torch.autograd.Variable._execution_engine"
MOST_FRAMES = 16  # between the range of an optimizer's step and the optimizer's frame


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
    """Returns the address of a tensor's block; 0 if it is not on a card, or has no memory."""
    if not tensor.is_cuda:
        return 0
    tensor = local_of(tensor)
    try:
        return tensor.untyped_storage().data_ptr() if tensor.storage_offset() else tensor.data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


class Place(NamedTuple):
    """A module in the library: its span, and the category of its memory."""

    span: int
    category: int
    module: weakref.ref[torch.nn.Module]


class Update(NamedTuple):
    """A running step of an optimizer."""

    optimizer: Any  # None: unknown
    phase_before: tuple[str, int]
    handled: int  # the id of the exception that the program handled when the step began


class Labels:
    """Labels the memory of modules, gradients and optimizers."""

    watches_all = False  # every called module, not only those inside a watched one
    error: Optional[BaseException] = None  # that ended the program
    is_moving = False  # a module's parameters to a card

    def __init__(self, library: Any, rules: Iterable[tuple[str, str]] = RULES) -> None:
        self.library = library
        self.rules = [(re.compile(pattern), self.category(name)) for pattern, name in rules]
        self.phases = {name: library.memtrace_torch_phase_number(name.encode()) for name in
                       ("init", "forward", "loss", "backward", "optimizer")}
        self.other, self.data, self.loss = (self.category(name) for name in ("Other", "Data", "Loss"))
        self.optimizer = self.category("Optimizer")
        self.param, self.gradient, self.state = (self.category(name) for name in ("Param", "Gradient", "Opt State"))
        self.places: dict[int, Place] = {}  # of watched modules, by id; they are not kept alive
        self.has_hooks = object.__basicsize__ == OBJECT_BYTES and library.memtrace_torch_python(original_of) == 0
        self.phase_now = ("init", self.other)
        self.backwards: list[tuple[str, int]] = []  # the phases before the current runs of autograd's engine
        self.updates: list[Update] = []  # running ones, nested
        # of optimizers: number of labelled state tensors
        self.known_state: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        # of optimizers: their parameters that belong to no module
        self.unowned: weakref.WeakKeyDictionary[Any, list[WeakTensor]] = weakref.WeakKeyDictionary()
        # of running optimizers: addresses of the first parameter and its states before the step
        self.first_starts: weakref.WeakKeyDictionary[Any, tuple[int, ...]] = weakref.WeakKeyDictionary()
        self.handles: list[Any] = []
        self.gradients = GradientHooks()
        self.spread = SpreadGradients(self)
        self.caches = Caches(self)

    # ---- names ----

    def category(self, name: str) -> int:
        """Returns the number of a category: memtrace's, or one with your own name."""
        return int(self.library.memtrace_torch_category(name.encode()))

    def workspace_category(self, name: str) -> int:
        """Like category(), for scratch memory."""
        return int(self.library.memtrace_torch_workspace_category(name.encode()))

    def rule_for(self, kind: str, name: str, around: int) -> int:
        """Returns the category of a module by the rules, or otherwise `around`, the category of the module around it."""
        for pattern, category in self.rules:
            if pattern.search(kind) or pattern.search(name):
                return category
        return around

    def _category_in(self, kinds: tuple[str, ...], name: str) -> int:
        """Returns the category of a module, given the classes of the modules around it, outermost first, and its own class last."""
        category = self.other
        for kind in kinds[:-1]:
            category = self.rule_for(kind, "", category)
        return self.rule_for(kinds[-1], name, category)

    # ---- watching ----

    def watch(self, model: torch.nn.Module, name: str = "model") -> Labels:
        """Labels the memory of a model's modules with spans and categories, and its parameters and gradients. Call it once the
        model is on its card, and again after moving the model."""
        if not self.handles:
            self._watch_calls()
        self._watch_in(model, name, ROOT, self.other)
        return self

    def _watch_in(self, model: torch.nn.Module, name: str, parent: int, around: int) -> None:
        """Like watch(), for a model in a span and in a module with this category."""
        self.caches.follow()
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
        self.gradients.clear()
        for key in list(self.places):
            self._forget(key)

    def _span(self, parent: int, name: str, kind: str) -> int:
        return int(self.library.memtrace_torch_span(parent, name.encode(), kind.encode()))

    def _place(self, module: torch.nn.Module, name: str, parent: int, around: int,
               found: dict[torch.nn.Module, Place]) -> None:
        """Adds the places of a module and of the modules inside it to `found`."""
        key = id(module)
        if key not in self.places:
            category = self.rule_for(type(module).__name__, name, around)
            span = parent if name in WRAPPED else self._span(parent, name, type(module).__name__)
            self.places[key] = Place(span, category, weakref.ref(module, lambda _: self._forget(key)))
            self.library.memtrace_torch_module(key, self.places[key].span, category)
        found[module] = place = self.places[key]
        for child_name, child in module.named_children():
            if child not in found:
                self._place(child, child_name, place.span, place.category, found)

    def _forget(self, key: int) -> None:
        """Removes the place of a deleted module."""
        self.places.pop(key, None)
        self.library.memtrace_torch_module_end(key)

    def _watch_gradient(self, parameter: Any, span: int) -> None:
        """Labels a tensor as a gradient when it becomes one, since it keeps its memory."""
        if self.has_hooks:
            self.gradients.add(parameter, self.library.memtrace_torch_gradient_hook(span, self.gradient))

    def _watch_calls(self) -> None:
        if not self.has_hooks:
            self._say("modules, gradients, backward and steps are not followed: the hooks need CPython with its lock")
            return
        library = self.library
        if has("compiler"):
            library.memtrace_torch_compiler(original_of("torch._C._dynamo.eval_frame.set_eval_frame"))
        if has("modules"):
            self._follow("modules are not labelled", original_of("torch.nn.Module.__call__"), library.memtrace_torch_modules_begin,
                         library.memtrace_torch_modules_end, self._on_new if self.watches_all else None, self._on_outermost)
        if has("backward"):
            self._follow("backward is not followed", type(original_of(ENGINE)).run_backward,
                         library.memtrace_torch_backward_begin, library.memtrace_torch_backward_end, self._on_backward)
        self._follow_ranges()
        if has("moved modules"):
            self.patch("torch.nn.Module._apply", self._move)
        if has("swapped tensors"):
            self.patch("torch.utils.swap_tensors", swap)
        self.spread.watch_buckets()
        self.handles.append(self.caches)
        self.handles.append(types.SimpleNamespace(remove=functools.partial(rebuilding.leave, self.spread)))
        graph = find_graph()
        if graph is not None:
            library.memtrace_torch_graph(*graph)
        self._follow_generated()

    def _follow_generated(self) -> None:
        """Follows code generated by torch.compile, whose lines are found in call stacks."""
        try:
            stacks.find(self.library)
        except stacks.NotKnown as error:
            self._say(f"modules of compiled code are not known: {error}")
            return
        generated = Generated(self.library, self._category_in)
        generated.follow()
        self.handles.append(generated)

    def _follow(self, without: str, what: Any, begin: Callable[..., int], end: Callable[[Any], None], *functions: Any) -> None:
        """Makes the library call functions around each call of a PyTorch function, until all hooks are removed."""
        if begin(what, *functions):
            self._say(f"{without}: {self.library.memtrace_torch_last_error().decode()}")
            return
        self.handles.append(types.SimpleNamespace(remove=functools.partial(end, what)))

    def _follow_ranges(self) -> None:
        """Follows PyTorch's ranges around steps of optimizers."""
        try:
            kind = abi.check_observer(pathlib.Path(torch.__file__).parent / "include")
            self.library.memtrace_torch_ranges_watch(self._watch_range)
            self._check(self.library.memtrace_torch_ranges(kind))
        except (abi.NotUnderstood, OSError, RuntimeError) as error:
            self._say(f"steps of optimizers are not followed: {error}")
            return
        self.handles.append(types.SimpleNamespace(remove=self.library.memtrace_torch_ranges_end))

    def patch(self, name: str, around: Callable[..., Any]) -> None:
        """Redirects calls of a PyTorch function to `around`, whose first argument is the function, until all hooks are removed."""
        self.handles.append(wrap(name, around))

    def _say(self, words: str) -> None:
        print("memtrace: " + words, file=sys.stderr)

    def relabel(self, tensor: torch.Tensor, category: int, span: int = ROOT) -> bool:
        """Sets the category of a tensor's memory (a category's number)."""
        start = start_of(tensor)
        return bool(start) and self.library.memtrace_torch_relabel(start, span, category, shape_of(tensor)) == 0

    def relabel_all(self, tensors: Iterable[torch.Tensor], category: int, span: int = ROOT) -> None:
        """Like relabel(), for tensors that may share blocks."""
        for start in {start_of(tensor) for tensor in tensors} - {0}:
            self.library.memtrace_torch_relabel(start, span, category, None)

    # ---- forward and backward ----

    def _on_new(self, module: torch.nn.Module) -> None:
        """Watches a module at its first call, inside the running one."""
        inner = getattr(module, "_orig_mod", module)  # of a module made by torch.compile
        self._watch_in(module, type(inner).__name__, self.library.memtrace_torch_span_now(),
                       self.library.memtrace_torch_category_now())

    def _move(self, original: Any, *given: Any, **named: Any) -> Any:
        """Labels the new parameters of a module that moves, or gets another dtype. Its buffers get their own category at its call."""
        if self.is_moving:
            return original(*given, **named)
        self.is_moving = True
        try:
            with self.labelled("Param"):
                return original(*given, **named)
        finally:
            self.is_moving = False

    def _on_outermost(self, module: Optional[torch.nn.Module]) -> None:
        """Called with an outermost module before its call, and with None afterwards."""
        if module is None:
            if self.phase_now[0] == "forward":
                self._phase("loss", self.loss)
        elif self.phase_now[0] != "backward":  # in an optimizer's phase, a closure calls it
            self.library.memtrace_torch_keep()
            self._phase("forward", self.data)
            self._begin_forward(module)

    def _begin_forward(self, module: torch.nn.Module) -> None:
        """Called before the forward of an outermost module."""

    def _on_backward(self, named: Optional[dict[str, Any]]) -> None:
        """Called with the arguments of a run of autograd's engine before it, and with None afterwards."""
        if named is None:
            self._end_backward()
        else:
            self._begin_backward(bool(named.get("accumulate_grad", True)))

    def _begin_backward(self, accumulates: bool) -> None:
        """Begins the phase, unless torch.autograd.grad requests the gradients."""
        gradients.begin_backward()
        self.backwards.append(self.phase_now)
        if accumulates:
            self._phase("backward", self.loss)

    def _end_backward(self) -> None:
        gradients.end_backward()
        before = self.backwards.pop()
        is_in_closure = bool(self.updates) and not self.backwards
        self._phase(*(("optimizer", self.optimizer) if is_in_closure else before))

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
    def labelled(self, category: str, span: Optional[str] = None, kind: str = "", module: Any = None) -> Iterator[Labels]:
        """Labels this thread's allocations in the `with` with a category, and a span if `span` is a name, of a class `kind`. The span
        is in the span of `module`, if that is watched, or otherwise in the current one."""
        place = self.places.get(id(module))
        parent = place.span if place is not None else self.library.memtrace_torch_span_now()
        number = self._span(parent, span, kind) if span else parent
        depth = self.library.memtrace_torch_span_begin(number, self.category(category))
        try:
            yield self
        finally:
            self.library.memtrace_torch_span_end(depth)

    def measure(self, name: str, value: float) -> None:
        """Stores a number of the current step in the trace: measure("loss", 4.08)."""
        self.library.memtrace_torch_measure(name.encode(), float(value))

    # ---- optimizers ----

    def _watch_range(self, name: Optional[str]) -> None:
        try:
            self._on_range(name)
        except (SystemExit, KeyboardInterrupt) as error:
            raise made_alone(error) from None

    def _on_range(self, name: Optional[str]) -> None:
        """Called when the step of an optimizer, or of torch.profiler, begins, and with None when an optimizer's step has ended."""
        if name is None:
            self._end_update()
        elif name.startswith("Optimizer"):
            self._before_optimizer(optimizer_of(sys._getframe(1)))

    def _before_optimizer(self, optimizer: Any) -> None:
        """Begins the optimizer's phase."""
        self.updates.append(Update(optimizer, self.phase_now, id(sys.exc_info()[1])))
        if optimizer is not None:
            self.first_starts[optimizer] = self._starts_of_first(optimizer)
            self._label_unowned(optimizer)
        self.spread.before_optimizer()
        self._phase("optimizer", self.optimizer)
        if optimizer is not None and optimizer not in self.known_state and hasattr(optimizer, "_init_group"):
            self._label_as_made(optimizer)

    def _end_update(self) -> None:
        update = self.updates.pop()
        self._phase(*update.phase_before)
        if update.handled == id(sys.exc_info()[1]):  # the step did not fail
            self._after_optimizer(update.optimizer)

    def _label_unowned(self, optimizer: Any) -> None:
        """Labels parameters that belong to no module, such as fp32 copies of half-precision weights, and gradients that the program sets
        itself."""
        if optimizer not in self.unowned:
            owners = self._owners()
            self.unowned[optimizer] = [WeakTensor(one) for group in optimizer.param_groups for one in group["params"]
                                       if id(one) not in owners]
            self.relabel_all([one for one in (weak() for weak in self.unowned[optimizer]) if one is not None], self.param)
        gradients = [one.grad for one in (weak() for weak in self.unowned[optimizer]) if one is not None]
        self.relabel_all([one for one in gradients if one is not None], self.gradient)

    def _label_as_made(self, optimizer: Any) -> None:
        """Labels the state of each group of parameters as soon as it is created, before the step, which may contain the peak."""
        groups = iter(optimizer.param_groups)
        next(groups, None)

        def make(*given: Any, **named: Any) -> Any:
            result = type(optimizer)._init_group(optimizer, *given, **named)
            self.label_state(optimizer)
            if next(groups, None) is None:
                vars(optimizer).pop("_init_group", None)
            return result

        optimizer._init_group = make

    def _after_optimizer(self, optimizer: Any) -> None:
        if optimizer is None:
            return
        before, now = self.first_starts.pop(optimizer, ()), self._starts_of_first(optimizer)
        if before[:1] != now[:1]:
            self._label_parameters()
        if len(before) == len(now) and before[1:] != now[1:]:
            self.known_state.pop(optimizer, None)
        self.label_state(optimizer)

    def _starts_of_first(self, optimizer: Any) -> tuple[int, ...]:
        """Returns the addresses of the memory of the optimizer's first parameter and its states."""
        first = next((parameter for group in optimizer.param_groups for parameter in group["params"]), None)
        return () if first is None else tuple(map(start_of, (first, *tensors_of(optimizer.state.get(first, {})))))

    def _label_parameters(self) -> None:
        """Labels the parameters of all watched modules, which may have new memory."""
        for place in list(self.places.values()):
            module = place.module()
            if module is not None:
                for name, parameter in module.named_parameters(recurse=False):
                    self.relabel(parameter, self.param, self._span(place.span, name, "Parameter"))

    def label_state(self, optimizer: Any) -> None:
        """Labels the state of an optimizer when it is created. Optimizers of torch.optim are labelled without this call."""
        count = sum(len(state) for state in optimizer.state.values())
        if self.known_state.get(optimizer) == count:
            return
        self.known_state[optimizer] = count
        owners = self._owners()
        for parameter, state in optimizer.state.items():
            span, name = owners.get(id(parameter), (ROOT, ""))
            for key, value in state.items() if isinstance(state, dict) else [("state", state)]:
                for tensor in tensors_of(value):
                    own = self._span(self._span(span, name, "Parameter"), str(key), str(key)) if name else ROOT
                    self.relabel(tensor, self.state, own)

    def _owners(self) -> dict[int, tuple[int, str]]:
        """Returns the span of the module and the name in it of each parameter of the watched modules, by id."""
        return {id(parameter): (place.span, name) for place in self.places.values() if (module := place.module()) is not None
                for name, parameter in module.named_parameters(recurse=False)}

    # ---- the end ----

    def close(self, outcome: int = 0) -> None:
        """Ends the trace: 0 done, 1 failed, 5 out of memory. Also happens at the end of the program."""
        self._check(self.library.memtrace_torch_close(outcome))

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(self.library.memtrace_torch_last_error().decode())


def made_alone(error: BaseException) -> BaseException:
    """Returns an exception whose class can be called without arguments for a copy of `error`, as when Python raises a class later."""
    if type(error) is KeyboardInterrupt and not error.args:
        return error  # Python ends with 130 only for this class itself

    def initialize(self: BaseException) -> None:
        self.args = error.args
        if isinstance(error, SystemExit):
            self.code = error.code  # type: ignore[attr-defined]

    made: BaseException = type(type(error).__name__, (type(error),), {"__init__": initialize})()
    return made


def optimizer_of(frame: Optional[types.FrameType]) -> Any:
    """Returns the optimizer whose step runs in `frame`, from the frame of PyTorch's wrapper of each step; None if it is not found."""
    for _ in range(MOST_FRAMES):
        if frame is None:
            break
        found = frame.f_locals.get("self") if frame.f_code.co_name == "wrapper" else None
        if isinstance(found, torch.optim.Optimizer):
            return found
        frame = frame.f_back
    return None


def find_graph() -> Optional[tuple[int, int, int]]:
    """Returns the offsets of the sequence number and the thread's number in an autograd node, and this thread's number; None if
    the layout is unknown. Inspects two nodes of a test graph on the host."""
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
