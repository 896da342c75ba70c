"""A fake PyTorch with the parts that the package uses, over the library with fake cards. Tensors are
blocks of memory and nothing else. Backward runs the nodes of a graph in another thread."""
import contextlib
import ctypes
import os
import pickle
import sys
import threading
import types

C10 = ctypes.CDLL(os.environ["FAKE_C10"])
CUDA = ctypes.CDLL(os.environ["FAKE_C10_CUDA"])
CPU = ctypes.CDLL(os.environ["FAKE_TORCH_CPU"])
CPU.fake_torch_number.restype = CPU.fake_torch_class.restype = ctypes.c_uint64
for name in ("take", "take_elsewhere", "allocated", "reserved"):
    getattr(CUDA, "fake_cuda_" + name).restype = ctypes.c_uint64
C10.fake_c10_take.restype = ctypes.c_char_p


@contextlib.contextmanager
def operator(name):
    """An operator of PyTorch's, as its observers see it."""
    text = ctypes.create_string_buffer(name.encode())
    CPU.fake_cpu_operator_begin(text)
    try:
        yield
    finally:
        CPU.fake_cpu_operator_end()


@contextlib.contextmanager
def record_function(name):
    """A range of the program."""
    text = ctypes.create_string_buffer(name.encode())
    CPU.fake_cpu_range_begin(text)
    try:
        yield
    finally:
        CPU.fake_cpu_range_end()


@contextlib.contextmanager
def no_grad():
    CPU.fake_cpu_enable_grad(0)
    try:
        yield
    finally:
        CPU.fake_cpu_enable_grad(1)


class OutOfMemoryError(RuntimeError):
    pass


class Allocator:
    """CUDAPluggableAllocator: stores the functions that were set, by name."""

    current = None

    def __init__(self, path, take, give):
        library = ctypes.CDLL(path)
        self.take = ctypes.cast(getattr(library, take), ctypes.c_void_p)
        self.give = getattr(library, give)
        self.give.restype = None
        self.give.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
        self.hooks = {}
        self._allocator = self

    def __getattr__(self, name):
        if not name.startswith("set_"):
            raise AttributeError(name)
        return lambda address: self.hooks.__setitem__(name[4:-3], address)


class Begun:
    """The beginning of CUDA, which waits for the first tensor, and what is called then."""

    done, queued = False, []

    @classmethod
    def lazy_call(cls, function, **options):
        if cls.done:
            function()
        else:
            cls.queued.append(function)

    @classmethod
    def begin(cls):
        if not cls.done:
            cls.done = True
            for function in cls.queued:
                function()


class Stat:
    """Counters of PyTorch's own allocator."""

    peaks = {}

    @classmethod
    def count(cls, device):
        for name in ("allocated", "reserved"):
            now = getattr(CUDA, "fake_cuda_" + name)(device)
            cls.peaks[name, device] = max(now, cls.peaks.get((name, device), 0))


def take_native(count, device, stream):
    """Takes a block of PyTorch's own allocator."""
    Begun.begin()
    start = CUDA.fake_cuda_take(ctypes.c_uint64(count), device, ctypes.c_void_p(stream))
    Stat.count(device)
    if not start:
        raise OutOfMemoryError(f"CUDA out of memory: {count} bytes")
    return start


def give_back(start, count, device):
    if Allocator.current is None:
        CUDA.fake_cuda_give(ctypes.c_uint64(start), device)
    else:
        Allocator.current.give(start, count, device, None)


def take(count, device=0, stream=0):
    if Allocator.current is None:
        return take_native(count, device, stream)
    out = ctypes.c_void_p()
    said = C10.fake_c10_take(Allocator.current.take, ctypes.c_ssize_t(count), device, ctypes.c_void_p(stream),
                             ctypes.byref(out)).decode()
    if said:
        kind, _, text = said.partition(" ")
        raise (OutOfMemoryError if kind == "OutOfMemoryError" else RuntimeError)(text)
    return out.value or 0


class Node(ctypes.Structure):
    """A step of backward: its allocations, and the nodes after it. Its memory has its class, its number, and that of its
    thread."""

    _fields_ = [("words", ctypes.c_uint64 * 8)]

    def __init__(self, count, *after):
        super().__init__()
        self.count, self.after = count, after
        self.words[0] = CPU.fake_torch_class()
        self.words[3], self.words[6] = CPU.fake_torch_number(), threading.get_native_id()

    def _sequence_nr(self):
        return self.words[3]

    def run(self):
        CPU.fake_torch_run(ctypes.c_void_p(ctypes.addressof(self)))
        if self.count:
            Tensor(self.count)
        for node in self.after:
            node.run()
        CPU.fake_torch_run(None)


class NativeNode:
    """A step of backward in a thread that runs no Python."""

    def __init__(self, count):
        self.count = count

    def run(self):
        CUDA.fake_cuda_take_elsewhere(ctypes.c_uint64(self.count), 0)


class OnHost:
    """A tensor without a card, whose product with a number has a node."""

    def __mul__(self, factor):
        return types.SimpleNamespace(grad_fn=Node(0))


def ones(count, requires_grad):
    return OnHost()


class Tensor:
    is_cuda, dtype = True, None

    def __init__(self, count, node=None, device=0):
        self.count, self.grad_fn, self.device = count, node, device
        self.start = take(count, device)

    def untyped_storage(self):
        return self

    def data_ptr(self):
        return self.start

    def storage_offset(self):
        return 0

    def backward(self):
        autograd.backward(self)

    def __del__(self):
        if getattr(self, "start", 0):
            give_back(self.start, self.count, self.device)


class Parameter(Tensor):
    requires_grad = True

    def __init__(self, count):
        super().__init__(count)
        self.grad, self.hooks = None, []

    def register_post_accumulate_grad_hook(self, hook):
        self.hooks.append(hook)
        return Handle(self.hooks, hook)

    def accumulate(self, gradient):
        self.grad = gradient
        for hook in self.hooks:
            hook(self)


class Handle:
    def __init__(self, owner, hook):
        self.owner, self.hook = owner, hook

    def remove(self):
        self.owner.remove(self.hook)


def module_named(name, **entries):
    made = types.ModuleType("torch." + name)
    made.__dict__.update(entries)
    sys.modules["torch." + name] = made
    return made


class Module:
    training = True

    def named_children(self):
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Module)]

    def named_parameters(self, recurse=True):
        return [(name, value) for name, value in vars(self).items() if isinstance(value, Parameter)]

    def named_buffers(self, recurse=True):
        return []

    def _apply(self, function):
        return self

    def load_state_dict(self, state):
        for name, parameter in self.named_parameters():
            setattr(self, name, state.get(name, parameter))

    def __call__(self, *inputs):
        return self.forward(*inputs)


module_call = Module.__call__


class Optimizer:
    def __init__(self):
        self.state, self.param_groups = {}, []

    def step(self):
        def wrapper(self):
            with record_function(f"Optimizer.step#{type(self).__name__}.step"):
                self.update()
        wrapper(self)


def run_nodes(tensor):
    thread = threading.Thread(target=tensor.grad_fn.run)
    thread.start()
    thread.join()


class Variable:
    make_engine = ctypes.PyDLL(os.environ["FAKE_TORCH_CPU"]).fake_torch_engine_type
    make_engine.restype = ctypes.py_object
    _execution_engine = make_engine()()


def run_backward(tensor):
    Variable._execution_engine.run_backward(run_nodes, tensor, accumulate_grad=True)


def change_current_allocator(allocator):
    Allocator.current = allocator


class Profile:
    def step(self):
        with record_function("ProfilerStep#1"):
            pass


nvtx = module_named("cuda.nvtx", range_push=lambda msg: 0, range_pop=lambda: 0)
history = []  # the calls that would have PyTorch keep its memory history


def load(path):
    with open(path, "rb") as file:
        return pickle.load(file)


def save(value, path):
    with open(path, "wb") as file:
        pickle.dump(value, file)


def dump_snapshot(path):
    """Writes a history of five blocks of 1 MiB."""
    entries = [{"action": "segment_alloc", "addr": 1 << 21, "size": 1 << 24, "stream": 0, "time_us": 1}]
    entries += [{"action": "alloc", "addr": (2 + block) << 20, "size": 1 << 20, "stream": 0, "time_us": 2 + block}
                for block in range(5)]
    with open(path, "wb") as file:
        pickle.dump({"segments": [], "device_traces": [entries]}, file)


memory = module_named("cuda.memory", CUDAPluggableAllocator=Allocator, change_current_allocator=change_current_allocator,
                      _record_memory_history=lambda **options: history.append(options), _dump_snapshot=dump_snapshot)
cuda = module_named("cuda", memory=memory, nvtx=nvtx, current_device=lambda: 0, OutOfMemoryError=OutOfMemoryError,
                    _lazy_call=Begun.lazy_call, is_initialized=lambda: Begun.done, device_count=lambda: 2, memory_snapshot=lambda: [],
                    get_device_properties=lambda device: types.SimpleNamespace(name="fake card", total_memory=1 << 30),
                    max_memory_allocated=lambda device=0: Stat.peaks["allocated", device],
                    max_memory_reserved=lambda device=0: Stat.peaks["reserved", device])
is_grad_enabled = lambda: True
_guards = module_named("_guards", CompileContext=types.SimpleNamespace(try_get=lambda: None))
__version__ = "2.13.0"
version = types.SimpleNamespace(cuda="13.0")
profiler = module_named("profiler", profile=Profile)
graph = module_named("autograd.graph", _engine_run_backward=lambda t_outputs, *given, **named: None)
autograd = module_named("autograd", graph=graph, _get_sequence_nr=lambda: 0, backward=run_backward, grad=run_backward, Variable=Variable)
_C = module_named("_C", _dispatch_get_registrations_for_dispatch_key=lambda dispatch_key: ["aten::relu", "aten::add.Tensor"])
jit = module_named("jit", is_tracing=lambda: False)
module_named("_C._dynamo.eval_frame", set_eval_frame=lambda callback: None)
optim = module_named("optim", Optimizer=Optimizer)
nn = module_named("nn", Module=Module, Parameter=Parameter)
utils = module_named("utils", swap_tensors=lambda first, second: None)


def device(value):
    return types.SimpleNamespace(index=int(str(value).partition(":")[2] or 0))
