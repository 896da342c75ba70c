"""memtrace under PyTorch: its allocator, labels for memory, and statistics.

    import memtrace_torch

    memtrace = memtrace_torch.install(trace="train.db")     # before the first CUDA tensor
    with memtrace.labelled("Param"):
        model = Model().cuda()
    memtrace.watch(model)                                    # spans by module, categories by rules
    for batch in batches:
        with memtrace.step():
            ...                                              # forward, backward and optimizer as always
    print(memtrace.summary())

Then use `memtrace peak --trace train.db`, `memtrace timeline --trace train.db` and others. The allocator also works without
`watch`. This is one file, which needs torch and the standard library. It looks for libmemtrace_torch.so at
MEMTRACE_TORCH_LIBRARY, beside itself, and in lib/memtrace of its installation.
"""
import atexit
import contextlib
import ctypes
import functools
import os
import pathlib
import re
import sys
import threading
import weakref
from collections import OrderedDict

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

__all__ = ["RULES", "Memtrace", "install"]

# The category of a module's memory, by the first rule whose pattern is found in the name of its class or in its own. A module
# without a rule has the category of the module around it.
RULES = (
    (r"(?i)softmax", "Softmax"),
    (r"(?i)norm", "Norm"),
    (r"(?i)embed|wte|wpe", "Embed"),
    (r"(?i)loss|criterion|entropy", "Loss"),
    (r"(?i)attention|attn", "Attn"),
    (r"(?i)linear|lm_?head|conv|proj", "einsum"),
    (r"(?i)mlp|ffn|feed_?forward|swiglu", "FFN"),
    (r"(?i)block|layer|transformer|model", "Block"),
)

ALL = -1
ROOT = 0


class Figures(ctypes.Structure):
    """Bytes of one card, in one category or in all; see memtrace_torch.h."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "requested allocated blocks peak_requested peak_allocated allocations "
            "reserved peak_reserved capacity segments largest_free refusals unknown_frees"
        ).split()
    ]


def find_library():
    """Returns the path of libmemtrace_torch.so."""
    name = "libmemtrace_torch.so"
    given = os.environ.get("MEMTRACE_TORCH_LIBRARY")
    if given:
        return given
    here = pathlib.Path(__file__).resolve().parent
    for folder in (here, *(parent / "lib/memtrace" for parent in here.parents)):
        if (folder / name).exists():
            return str(folder / name)
    raise FileNotFoundError(f"{name} is not beside {__file__}; set MEMTRACE_TORCH_LIBRARY to where it is")


def load_library(path):
    """Loads the library and declares its functions. Calls keep the interpreter's lock, since releasing it takes longer."""
    library = ctypes.PyDLL(path)
    text, number, word = ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32
    for name, result, *arguments in (
        ("configure", number, text, text, text),
        ("close", number, number),
        ("last_error", text),
        ("span", word, word, text, text),
        ("category", number, text),
        ("category_name", text, number),
        ("phase_number", number, text),
        ("span_begin", word, word, number),
        ("span_end", None, word),
        ("span_now", word),
        ("category_now", number),
        ("place", None, word, number),
        ("come_to", None, word, number, ctypes.py_object),
        ("phase", None, number, number),
        ("step_begin", ctypes.c_int64),
        ("step_end", None),
        ("relabel", number, ctypes.c_void_p, word, number),
        ("measure", None, text, ctypes.c_double),
        ("statistics", number, number, number, ctypes.POINTER(Figures)),
        ("reset_peaks", None, number),
        ("reset", None),
    ):
        function = getattr(library, "memtrace_torch_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def plug_in(path, library):
    """Makes the library PyTorch's allocator."""
    plugged = torch.cuda.memory.CUDAPluggableAllocator(path, "memtrace_torch_alloc", "memtrace_torch_free")
    hooks = plugged._allocator  # the hooks have no other name in Python
    for hook in ("init", "reset", "memory_fraction", "base_alloc", "record_stream"):
        setter = getattr(hooks, f"set_{hook}_fn", None)
        if setter is not None:
            setter(ctypes.cast(getattr(library, "memtrace_torch_" + hook), ctypes.c_void_p).value)
    torch.cuda.memory.change_current_allocator(plugged)
    return plugged


def tensors_of(value):
    """Yields the tensors in the arguments or results of a module: alone, or in tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from tensors_of(item)


def start_of(tensor):
    """Returns the address of a tensor's block; 0 if it is on no card, or has no memory of its own."""
    if not tensor.is_cuda:
        return 0
    try:
        return tensor.untyped_storage().data_ptr() if tensor.storage_offset() else tensor.data_ptr()
    except (RuntimeError, NotImplementedError):
        return 0


class Place:
    """A module, as the library knows it: its span, the category of its memory, and the hook for backward, which is a function
    of the library and not of Python."""

    __slots__ = ("span", "category", "come_to")

    def __init__(self, library, span, category):
        self.span, self.category = span, category
        self.come_to = functools.partial(library.memtrace_torch_come_to, span, category)


def mark_backward(tensor, place):
    """Sets the place of backward when it reaches the operation that made this tensor. A tensor has one place, the innermost.
    Does the same as tensor.register_hook without a handle for removal, which would take most of the time."""
    hooks = tensor._backward_hooks
    if hooks is not None and "memtrace" in hooks:
        return
    node = tensor.grad_fn
    if node is None:
        return
    if hooks is None:
        try:
            register = node._register_hook_dict
        except AttributeError:  # a PyTorch that does it otherwise
            tensor.register_hook(place.come_to)
            return
        tensor._backward_hooks = hooks = OrderedDict()
        register(tensor)
    hooks["memtrace"] = place.come_to


def mark_all_backward(value, place):
    """Does the same for all tensors in the arguments or results of a module."""
    for tensor in tensors_of(value):
        mark_backward(tensor, place)


def end_call(calls, module):
    """Removes and returns the current call of a module, and calls inside it that an exception left; None if there is none."""
    for index in range(len(calls) - 1, -1, -1):
        if calls[index][0] is module:
            call = calls[index]
            del calls[index:]
            return call
    return None


class Memtrace:
    """The installed allocator. Cards have PyTorch's numbers; None is the current one."""

    def __init__(self, library, rules):
        self.library = library
        self.rules = [(re.compile(pattern), self.category(name)) for pattern, name in rules]
        self.phases = {name: library.memtrace_torch_phase_number(name.encode()) for name in
                       ("init", "forward", "loss", "backward", "optimizer")}
        self.other, self.data, self.loss = (self.category(name) for name in ("Other", "Data", "Loss"))
        self.optimizer = self.category("Optimizer")
        self.param, self.gradient, self.state = (self.category(name) for name in ("Param", "Gradient", "Opt State"))
        self.places = {}  # of modules that are watched
        self.local = threading.local()  # .calls: modules that are under way in this thread, with their places and depths
        self.phase_now = ("init", self.other)
        self.phases_before = {}  # of optimizers that are under way
        self.known_state = weakref.WeakKeyDictionary()  # of optimizers: how many tensors of state are labelled
        self.handles = []

    # ---- names ----

    def category(self, name):
        """Returns the number of a category: one of memtrace's, or a name of your own."""
        return self.library.memtrace_torch_category(name.encode())

    def rule_for(self, module, name, around):
        """Returns the category of a module by the rules, or else `around`, that of the module around it."""
        for pattern, category in self.rules:
            if pattern.search(type(module).__name__) or pattern.search(name):
                return category
        return around

    # ---- watching ----

    def watch(self, model, name="model"):
        """Labels the memory of a model's modules with spans and categories, and its parameters and gradients. Call it once the
        model is on its card, and again after moving the model."""
        if not self.handles:
            self._watch_calls()
        known, found = set(self.places), {}
        self._place(model, name, ROOT, self.other, found)
        for module, place in found.items():
            for own_name, parameter in module.named_parameters(recurse=False):
                span = self._span(place.span, own_name, "Parameter")
                self.relabel(parameter, self.param, span)
                if parameter.requires_grad and module not in known:
                    self._watch_gradient(parameter, span)
            for own_name, buffer in module.named_buffers(recurse=False):
                self.relabel(buffer, self.data, self._span(place.span, own_name, "Buffer"))
        return self

    def unwatch(self):
        """Removes all hooks. The labels stay in the trace."""
        for handle in self.handles:
            handle.remove()
        self.handles.clear()
        self.places.clear()

    def _span(self, parent, name, kind):
        return self.library.memtrace_torch_span(parent, name.encode(), kind.encode())

    def _place(self, module, name, parent, around, found):
        """Adds the places of a module and of the modules inside it to `found`."""
        if module not in self.places:
            category = self.rule_for(module, name, around)
            self.places[module] = Place(self.library, self._span(parent, name, type(module).__name__), category)
        found[module] = place = self.places[module]
        for child_name, child in module.named_children():
            if child not in found:
                self._place(child, child_name, place.span, place.category, found)

    def _watch_gradient(self, parameter, span):
        """Labels a tensor as a gradient once it becomes one, since it keeps its memory."""
        relabel, gradient = self.library.memtrace_torch_relabel, self.gradient

        def on_gradient(parameter):
            if parameter.grad is not None:
                start = start_of(parameter.grad)
                if start:
                    relabel(start, span, gradient)

        self.handles.append(parameter.register_post_accumulate_grad_hook(on_gradient))

    def _watch_calls(self):
        modules = torch.nn.modules.module
        before, after = self._hooks_of_calls()
        self.handles += [
            modules.register_module_forward_pre_hook(before),
            modules.register_module_forward_hook(after, always_call=True),
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
            Patched(torch.autograd, "backward", self._backward),
        ]

    def relabel(self, tensor, category, span=ROOT):
        """Gives a tensor's memory another category (its number)."""
        start = start_of(tensor)
        return bool(start) and self.library.memtrace_torch_relabel(start, span, category) == 0

    # ---- forward and backward ----

    def _hooks_of_calls(self):
        """Returns the hooks that run around every forward. So they look up as little as possible."""
        find_place, local, tensor_type = self.places.get, self.local, torch.Tensor
        begin, end = self.library.memtrace_torch_span_begin, self.library.memtrace_torch_span_end

        def before(module, inputs):
            place = find_place(module)
            if place is None:
                return
            try:
                calls = local.calls
            except AttributeError:
                calls = local.calls = []
            if calls:
                around = calls[-1][1]
                for value in inputs:
                    if isinstance(value, tensor_type):
                        mark_backward(value, around)
                    else:
                        mark_all_backward(value, around)
            elif self.phase_now[0] not in ("backward", "optimizer"):
                self._phase("forward", self.data)
            calls.append((module, place, begin(place.span, place.category)))

        def after(module, inputs, output):
            calls = getattr(local, "calls", None)
            if not calls:
                return
            call = calls.pop() if calls[-1][0] is module else end_call(calls, module)
            if call is None:
                return
            _, place, depth = call
            end(depth)
            if isinstance(output, tensor_type):
                mark_backward(output, place)
            else:
                mark_all_backward(output, place)
            if not calls and self.phase_now[0] == "forward":
                self._phase("loss", self.loss)

        return before, after

    def _backward(self, original, *given, **named):
        before = self.phase_now
        self._phase("backward", self.loss)
        try:
            return original(*given, **named)
        finally:
            self._phase(*before)

    # ---- phases and steps ----

    def _phase(self, name, category):
        self.phase_now = (name, category)
        self.library.memtrace_torch_phase(self.phases[name], category)

    @contextlib.contextmanager
    def step(self):
        """One step of training."""
        self.begin_step()
        try:
            yield self
        finally:
            self.end_step()

    def begin_step(self):
        self._phase("forward", self.data)
        return self.library.memtrace_torch_step_begin()

    def end_step(self):
        self.library.memtrace_torch_step_end()

    @contextlib.contextmanager
    def labelled(self, category, span=None):
        """Labels this thread's allocations inside with a category, and a span if `span` is a name."""
        parent = self.library.memtrace_torch_span_now()
        number = self._span(parent, span, "") if span else parent
        depth = self.library.memtrace_torch_span_begin(number, self.category(category))
        try:
            yield self
        finally:
            self.library.memtrace_torch_span_end(depth)

    def measure(self, name, value):
        """Stores a number of the current step in the trace: measure("loss", 4.08)."""
        self.library.memtrace_torch_measure(name.encode(), float(value))

    # ---- optimizers ----

    def _before_optimizer(self, optimizer, given, named):
        self.phases_before[id(optimizer)] = self.phase_now
        self._phase("optimizer", self.optimizer)

    def _after_optimizer(self, optimizer, given, named):
        self.label_state(optimizer)
        self._phase(*self.phases_before.pop(id(optimizer), ("forward", self.data)))

    def label_state(self, optimizer):
        """Labels the state of an optimizer when it is created. Optimizers of torch.optim are labelled without this call."""
        count = sum(len(state) for state in optimizer.state.values())
        if self.known_state.get(optimizer) == count:
            return
        self.known_state[optimizer] = count
        for state in optimizer.state.values():
            for tensor in tensors_of(state):
                self.relabel(tensor, self.state)

    # ---- statistics ----

    def figures(self, device=None, category=ALL):
        """Returns all figures of a card, or of one category on it (its number)."""
        figures = Figures()
        self._check(self.library.memtrace_torch_statistics(card(device), category, ctypes.byref(figures)))
        return figures

    def memory_allocated(self, device=None):
        return self.figures(device).allocated

    def max_memory_allocated(self, device=None):
        return self.figures(device).peak_allocated

    def memory_reserved(self, device=None):
        return self.figures(device).reserved

    def max_memory_reserved(self, device=None):
        return self.figures(device).peak_reserved

    def reset_peak_memory_stats(self, device=None):
        self.library.memtrace_torch_reset_peaks(card(device))

    def categories(self, device=None):
        """Returns the figures by name of the category, for categories with allocations."""
        found, number = {}, 0
        while (name := self.library.memtrace_torch_category_name(number)) is not None:
            figures = self.figures(device, number)
            if figures.allocations:
                found[name.decode()] = figures
            number += 1
        return found

    def summary(self, device=None):
        """Returns a table for people."""
        whole = self.figures(device)
        rows = [("category", "now", "at its peak", "blocks", "allocations")]
        by_peak = sorted(self.categories(device).items(), key=lambda item: -item[1].peak_allocated)
        for name, figures in [*by_peak, ("all", whole)]:
            rows.append((name, in_words(figures.allocated), in_words(figures.peak_allocated), f"{figures.blocks:,}",
                         f"{figures.allocations:,}"))
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        lines = ["  ".join(cell.ljust(width) if column == 0 else cell.rjust(width)
                           for column, (cell, width) in enumerate(zip(row, widths))) for row in rows]
        lines.append(f"reserved {in_words(whole.reserved)}, at its peak {in_words(whole.peak_reserved)}, "
                     f"of {in_words(whole.capacity)}; requests refused: {whole.refusals}")
        return "\n".join(lines)

    # ---- the end ----

    def close(self, outcome=0):
        """Ends the trace: 0 done, 1 failed, 5 out of memory. The end of the program does so, too."""
        self._check(self.library.memtrace_torch_close(outcome))

    def _check(self, status):
        if status:
            raise RuntimeError(self.library.memtrace_torch_last_error().decode())


class Patched:
    """Wraps a function of a module until it is removed."""

    def __init__(self, owner, name, around):
        self.owner, self.name, self.original = owner, name, getattr(owner, name)
        original = self.original
        setattr(owner, name, lambda *given, **named: around(original, *given, **named))

    def remove(self):
        setattr(self.owner, self.name, self.original)


def card(device):
    """Returns the number of a card, from any argument that PyTorch's functions take."""
    if isinstance(device, int):
        return device
    index = None if device is None else torch.device(device).index
    return torch.cuda.current_device() if index is None else index


def in_words(count):
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count} B"


def replace_statistics(memtrace):
    """Makes torch.cuda's own statistics work. They fail with a pluggable allocator otherwise."""
    for name in ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved",
                 "reset_peak_memory_stats"):
        for owner in (torch.cuda, torch.cuda.memory):
            setattr(owner, name, getattr(memtrace, name))
    for owner in (torch.cuda, torch.cuda.memory):
        owner.memory_summary = lambda device=None, abbreviated=False: memtrace.summary(device)


def outcome_of(error):
    if error is None:
        return 0
    return 5 if isinstance(error, getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)) else 1


def close_at_exit(memtrace):
    """Ends the trace at the exit of the program, with the program's outcome."""
    ended = {"error": None}
    shown = sys.excepthook

    def excepthook(kind, error, trace):
        ended["error"] = error
        shown(kind, error, trace)

    def close():
        if memtrace.library.memtrace_torch_close(outcome_of(ended["error"])):
            print("memtrace: " + memtrace.library.memtrace_torch_last_error().decode(), file=sys.stderr)

    sys.excepthook = excepthook
    atexit.register(close)


def install(trace=None, alloc="", rules=RULES, program=None):
    """Makes memtrace PyTorch's allocator and returns a Memtrace. Call it before any tensor is on a card.

    trace: the path of the trace; None: none is written.
    alloc: the allocator's settings, as for `memtrace run --alloc`; "policy=torch" reserves as PyTorch would.
    rules: (pattern, category) for modules, in order.
    program: the run's name in the trace.
    """
    path = find_library()
    memtrace = Memtrace(load_library(path), rules)
    name = program or pathlib.Path(sys.argv[0]).name or "PyTorch"
    memtrace._check(memtrace.library.memtrace_torch_configure(
        alloc.encode(), os.fsencode(trace) if trace else None, os.fsencode(name)))
    memtrace.plugged = plug_in(path, memtrace.library)
    replace_statistics(memtrace)
    close_at_exit(memtrace)
    return memtrace
