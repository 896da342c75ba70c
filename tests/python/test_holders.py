"""Who holds memory that grows, loops without steps, and phases of the program, in dry runs of programs that keep too much."""
import json
import os
import subprocess
import sys
from collections import deque

import pytest
import torch
from test_dry_run import Dry

from memtrace._library import find_program
from memtrace.recording.holder_names import Holder, Reference
from memtrace.recording.holders import release
from memtrace.recording.iterations import Loop

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")


@pytest.fixture(scope="module")
def dry(tmp_path_factory):
    """One program that does everything: it loads to the card, validates with gradients, collects outputs and decodes."""
    dry = Dry(tmp_path_factory.mktemp("holders"))
    dry.run("""
import torch
from torch import nn
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.cache = nn.Linear(1024, 3072), []
    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        if not self.training:
            self.cache.append(k)
        return q + v
class Meter:
    def __init__(self):
        self.values = []
    def update(self, value):
        self.values.append(value)
def validate(net, losses):
    net.eval()
    for _ in range(10):
        losses.append(net(torch.randn(512, 1024, device="cuda")).pow(2).mean())
        net.cache.clear()
    net.train()
def collect(net, meter):
    net.eval()
    with torch.no_grad():
        for _ in range(10):
            meter.update(net(torch.randn(512, 1024, device="cuda")))
            net.cache.clear()
    net.train()
def decode(net):
    net.eval()
    with torch.no_grad():
        for _ in range(10):
            net(torch.randn(512, 1024, device="cuda"))
def main():
    torch.save(Layer().state_dict(), "net.pt")
    net, checkpoint = Layer(), torch.load("net.pt", map_location="cuda")
    net.load_state_dict(checkpoint)
    net.cuda()
    del checkpoint
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(100):
        net(torch.randn(512, 1024, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    losses, meter = [], Meter()
    validate(net, losses)
    losses.clear()
    collect(net, meter)
    decode(net)
main()
""")
    return dry


def answer(dry, *words):
    said = subprocess.run([find_program(), *words, "--trace", str(dry.trace), "--json"], capture_output=True, text=True,
                          env=dry.environment())
    return json.loads(said.stdout)


def found(dry):
    return {(one["detector"], one["change"]): one for one in answer(dry, "peak")["observations"]}


def test_a_list_of_losses_is_named_and_its_graphs_are_counted(dry):
    one = found(dry)["kept graphs", "no_grad"]
    assert one["program_phase"] == "validate" and one["bytes"] >= 2 << 20
    assert (one["holder"]["name"], one["holder"]["owner"], one["holder"]["kind"]) == ("losses", "validate", "graph")
    assert one["holder"]["held_bytes"] > one["bytes"]


def test_tensors_that_an_attribute_of_an_object_collects_are_named_by_its_variable(dry):
    one = found(dry)["kept tensors", "move to host"]
    assert (one["holder"]["name"], one["holder"]["owner"], one["bytes"]) == ("meter.values", "collect", 2 << 20)


def test_views_that_keep_more_than_they_have_are_named_with_what_they_keep(dry):
    observations = found(dry)
    holder = observations["kept views", "clone views"]["holder"]
    assert (holder["kind"], holder["name"], holder["owner"]) == ("view", "self.cache", "Layer")
    assert observations["kept tensors", "bound the cache"]["bytes"] == 6 << 20


def test_a_checkpoint_on_the_card_is_told_with_its_variable(dry):
    one = found(dry)["checkpoint on the card", "map_location"]
    assert one["bytes"] >= 12 << 20 and one["holder"]["name"] == "checkpoint"


def test_the_phases_of_the_program_have_their_peaks(dry):
    phases = {one["program_phase"]: one["allocated_bytes"] for one in answer(dry, "peak")["program_phases"]}
    assert set(phases) >= {"load", "train", "validate", "generate"}
    assert max(phases, key=phases.get) == "generate"
    assert max(phases.values()) == answer(dry, "peak")["allocated_bytes"]


def test_no_leaks_fails_for_a_loop_without_steps_and_names_the_holder(dry):
    said = subprocess.run([find_program(), "check", "--no-leaks", "--trace", str(dry.trace)], capture_output=True, text=True)
    assert said.returncode == 1 and "an iteration of" in said.stdout and " keeps " in said.stdout


def test_reference_cycles_are_named_where_nothing_else_holds_what_grows(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import gc, torch
from torch import nn
class Node:
    def __init__(self, value):
        self.value, self.me = value, self
def infer(net):
    for _ in range(10):
        Node(net(torch.randn(1024, 1024, device="cuda")))
gc.disable()
with torch.no_grad():
    infer(nn.Linear(1024, 1024).cuda().eval())
""")
    one = found(dry)["reference cycles", "break the cycle"]
    assert (one["holder"]["kind"], one["bytes"]) == ("cycle", 4 << 20)
    assert one["holder"]["held_bytes"] >= 3 * one["bytes"]


def test_reference_cycles_are_named_in_training_rather_than_attributes_of_their_objects(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
class Node:
    def __init__(self, value):
        self.value, self.me = value, self
net = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(8):
    loss = net(torch.randn(1024, 1024, device="cuda")).mean()
    Node(torch.empty(2048, 512, device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    assert [one["kind"] for one in answer(dry, "advise")["holders"]] == ["cycle"]


def test_an_output_kept_by_the_context_of_a_function_is_named_with_what_to_write_instead(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.result = x.exp()
        return ctx.result
    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.result
net = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(8):
    Exp.apply(net(torch.randn(1024, 1024, device="cuda"))).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    holder = found(dry)["reference cycles", "save_for_backward"]["holder"]
    assert (holder["kind"], holder["owner"], holder["line"]) == ("cycle", "ctx.result of Exp", 7)


def test_what_requests_keep_is_named_where_only_some_of_them_fail(tmp_path):
    """Also the list that list() fills, which has no name yet."""
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
net = nn.Linear(1024, 1024).cuda().eval()
errors = []
def handle(batch):
    output = net(torch.ones(batch, 1024, device="cuda"))
    if batch == 1024:
        raise ValueError
def outputs():
    for _ in range(12):
        yield net(torch.ones(1024, 1024, device="cuda"))
def serve():
    for number in range(16):
        try:
            handle(1024 + number % 2)
        except ValueError as error:
            errors.append(error)
with torch.no_grad():
    serve()
    errors.clear()
    list(outputs())
""")
    kept = {one["holder"]["name"]: one for one in answer(dry, "advise")["observations"]}
    assert set(kept) == {"errors", "what outputs() yields"}
    assert (kept["errors"]["holder"]["kind"], kept["errors"]["holder"]["line"]) == ("exception", 18)


def test_results_of_tasks_and_lists_that_keep_more_than_other_variables_are_named(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import asyncio
import torch
from torch import nn
net = nn.Linear(1024, 1024).cuda().eval()
tasks = set()
async def handle():
    return net(torch.ones(1024, 1024, device="cuda"))
async def serve():
    for _ in range(16):
        tasks.add(asyncio.create_task(handle()))
        await asyncio.sleep(0)
class Beam:
    def __init__(self, state):
        self.state = state
def search():
    live, finished = [None] * 2, []
    for number in range(16):
        states = [net(torch.ones(1024, 1024, device="cuda"))]
        live[number % 2] = Beam(states)
        finished.append(live[number % 2])
with torch.no_grad():
    asyncio.run(serve())
    tasks.clear()
    search()
""")
    kept = {(one["holder"]["name"], one["holder"]["line"]) for one in answer(dry, "advise")["observations"]}
    assert kept == {("tasks[…].result()", 11), ("finished[…].state", 15)}


def test_a_search_for_holders_finds_no_objects_of_the_searches_of_other_threads(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import threading
import torch
from torch import nn
outputs = []
barrier = threading.Barrier(4)
def work():
    net = nn.Linear(1024, 1024).cuda().eval()
    with torch.no_grad():
        for _ in range(12):
            outputs.append(net(torch.ones(1024, 1024, device="cuda")))
            barrier.wait()
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""")
    assert {one["name"] for one in answer(dry, "advise")["holders"]} == {"outputs"}


def test_what_a_loop_without_backward_keeps_is_named_also_in_training_mode(tmp_path):
    """Also models that are made one after another."""
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
def predict(net):
    return torch.stack([net(torch.ones(1024, 1024, device="cuda")) for _ in range(12)])
report = {}
def evaluate(net):
    return net, net(torch.ones(1, 1024, device="cuda")).mean().item()
print(predict(nn.Sequential(nn.Linear(1024, 1024), nn.Dropout()).cuda()).mean().item())
with torch.no_grad():
    for number in range(8):
        report[number] = evaluate(nn.Linear(1024, 1024).cuda().eval())
""")
    found = {one["holder"]["name"]: one for one in answer(dry, "advise")["observations"]}
    assert {name: (one["change"], one["holder"]["line"], one["iterations"]) for name, one in found.items()} == {
        "list comprehension": ("no_grad", 5, 12), "report": ("move to host", 12, 8)}
    assert found["list comprehension"]["program_phase"] == "inference"
    said = subprocess.run([find_program(), "check", "--no-leaks", "--trace", str(dry.trace)], capture_output=True, text=True)
    assert said.returncode == 1


def test_what_each_step_frees_and_sums_after_backward_are_no_holders_of_growth(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
actor, critic = nn.Linear(1024, 1024).cuda(), nn.Sequential(nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 1)).cuda()
optimizer = torch.optim.SGD(actor.parameters())
log_probs, values = [], []
def act():
    x = torch.randn(1024, 1024, device="cuda")
    log_probs.append(actor(x).log_softmax(-1)[:, 0])
    values.append(critic(x))
for _ in range(20):
    for _ in range(8):
        act()
    torch.cat(log_probs).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    log_probs.clear()
""")
    growth = answer(dry, "advise")["observations"][0]
    assert (growth["change"], growth["holder"]["name"], growth["holder"]["line"]) == ("detach", "values", 10)


def test_graphs_of_gradients_get_a_change_of_their_own(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
from torch.func import functional_call
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(784, 1024), nn.Linear(1024, 5)
    def forward(self, x):
        return self.last(self.first(x).relu())
net = Net().cuda()
optimizer = torch.optim.Adam(net.parameters())
def loss_of(weights, count):
    x, y = torch.randn(count, 784).cuda(), torch.randint(5, (count,)).cuda()
    return nn.functional.cross_entropy(functional_call(net, weights, (x,)), y)
def adapt():
    weights = dict(net.named_parameters())
    for _ in range(10):
        gradients = torch.autograd.grad(loss_of(weights, 25), list(weights.values()), create_graph=True)
        weights = {name: one - 0.1 * gradient for (name, one), gradient in zip(weights.items(), gradients)}
    return weights
for _ in range(4):
    loss = 0
    for _ in range(4):
        loss = loss + loss_of(adapt(), 75)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""")
    graph = answer(dry, "advise")["observations"][0]
    assert (graph["detector"], graph["change"], graph["holder"]["kind"]) == ("one graph", "first order", "gradient chain")
    assert (os.path.basename(graph["file"]), graph["line"]) == ("program.py", 15)


def test_growth_from_call_to_call_is_found_though_memory_falls_in_each(tmp_path):
    """As in a chat, which reads a question at once, and then writes its answer token by token."""
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
class Bot:
    def __init__(self):
        self.net, self.past = nn.Linear(1024, 8192).cuda().eval(), []
    def say(self, words):
        for count in (words, 1, 1, 1, 1):
            output = self.net(torch.ones(count, 1024, device="cuda"))
            self.past.append(torch.empty(count, 1024, device="cuda"))
bot = Bot()
with torch.no_grad():
    for _ in range(12):
        bot.say(512)
""")
    one = found(dry)["kept tensors", "bound the cache"]
    assert (one["holder"]["name"], one["holder"]["owner"], one["line"]) == ("self.past", "Bot", 14)
    assert one["bytes"] == (512 + 4) * 4096


def test_chains_function_caches_and_generators_are_named(tmp_path):
    """A hidden state that is never detached carries the graph of every iteration; what is computed from it is no cause, nor is a sum of
    losses whose graphs backward has freed."""
    dry = Dry(tmp_path)
    dry.run("""
import functools
import torch
from torch import nn
@functools.lru_cache(maxsize=None)
def mask(length):
    return torch.ones(length, 1024, device="cuda")
one = functools.lru_cache()(functools.partial(torch.ones, 1, device="cuda"))  # it has no name
def batches():
    seen = []
    while True:
        seen.append(torch.randn(1024, 1024, device="cuda"))
        yield seen[-1]
def carry(cell):
    state, total = torch.zeros(64, 1024, device="cuda"), 0
    for _ in range(10):
        state = cell(torch.randn(64, 1024, device="cuda"), state)
        loss = state.pow(2).mean()
        total += loss
def add_up(net):
    kept, innocent = [], 0
    for _ in range(10):
        loss = (net(torch.randn(1024, 1024, device="cuda")) + one()).pow(2).mean()
        loss.backward()
        innocent += loss
        kept.append(torch.empty(1024, 1024, device="cuda"))
def look_up(net):
    for step in range(10):
        net(mask(1024 + step))
def serve(net):
    for _, batch in zip(range(10), batches()):
        net(batch)
carry(nn.GRUCell(1024, 1024).cuda())
add_up(nn.Linear(1024, 1024).cuda())
with torch.no_grad():
    net = nn.Linear(1024, 1024).cuda()
    look_up(net)
    mask.cache_clear()
    serve(net)
""", "--steps", "all")
    said = answer(dry, "advise")
    rows = {row["name"]: row for row in said["holders"]}
    assert {"state", "total", "kept", "lru_cache of mask", "seen"} == set(rows)
    assert rows["state"]["kind"] == rows["total"]["kind"] == "chain"
    assert [rows[name]["line"] for name in ("state", "lru_cache of mask", "seen")] == [17, 5, 12]
    change = {row["holder"]["name"]: row["change"] for row in said["observations"] if row["holder"]}
    assert change["lru_cache of mask"] == "lru_cache maxsize"


def test_weights_that_an_inner_loop_computes_are_named_with_their_graph(tmp_path):
    """Its model has them in place of its parameters while it is called."""
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
from torch.func import functional_call
net = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.ones(1024, 1024, device="cuda")
for _ in range(3):
    weights = dict(net.named_parameters())
    for _ in range(8):
        gradients = torch.autograd.grad(functional_call(net, weights, (x,)).pow(2).mean(), weights.values(), create_graph=True)
        weights = {name: one - 0.1 * gradient for (name, one), gradient in zip(weights.items(), gradients)}
    functional_call(net, weights, (x,)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    graphs = [one["holder"] for one in answer(dry, "advise")["observations"] if one["detector"] == "one graph"]
    assert ("weights", "chain") in {(one["name"], one["kind"]) for one in graphs}


def test_a_state_that_is_never_detached_gets_the_change_to_detach_it(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
cell = nn.GRUCell(1024, 1024).cuda()
optimizer = torch.optim.SGD(cell.parameters(), 0.1)
state = torch.zeros(64, 1024, device="cuda")
for _ in range(8):
    state = cell(torch.randn(64, 1024, device="cuda"), state)
    state.pow(2).mean().backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
""")
    holder = found(dry)["kept graphs", "detach the state"]["holder"]
    assert (holder["name"], holder["kind"], holder["line"]) == ("state", "chain", 8)


def test_tensors_in_tuples_queues_classes_and_variables_are_named_and_counted(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import collections, dataclasses, queue
import torch
from torch import nn
Step = collections.namedtuple("Step", "state reward")
class Memory:
    steps = collections.deque(maxlen=1000)
@dataclasses.dataclass
class Record:
    value: torch.Tensor
results, records = queue.Queue(), []
def remember(net):
    for _ in range(10):
        Memory.steps.append(Step(net(torch.randn(1024, 1024, device="cuda")), 0))
def log(net):
    for step in range(10):
        results.put((step, net(torch.randn(1024, 1024, device="cuda"))))
def record(net):
    for _ in range(10):
        records.append(Record(net(torch.randn(1024, 1024, device="cuda"))))
def gather(net):
    found = torch.empty(0, 1024, device="cuda")
    for _ in range(10):
        found = torch.cat([found, net(torch.randn(1024, 1024, device="cuda"))])
with torch.no_grad():
    net = nn.Linear(1024, 1024).cuda()
    remember(net)
    log(net)
    record(net)
    gather(net)
""")
    rows = {row["name"]: row for row in answer(dry, "advise")["holders"]}
    assert {name: row["line"] for name, row in rows.items()} == {
        "Memory.steps": 14, "results.queue": 17, "records[…].value": 20, "found": 24}
    assert all(row["held_bytes"] >= 3 * (4 << 20) for row in rows.values())


def test_a_queue_of_keys_with_graphs_is_named_with_what_the_graphs_keep(tmp_path):
    """The last loss was computed from all keys, so the queue alone keeps only the keys."""
    dry = Dry(tmp_path)
    dry.run("""
import collections
import torch
from torch import nn
keys = collections.deque()
net = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 64)).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(10):
    key = net(torch.randn(1024, 1024, device="cuda"))
    loss = (key @ torch.cat([key, *keys]).t()).pow(2).mean()
    keys.append(key)
    loss.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
""")
    one = found(dry)["kept graphs", "detach"]
    assert (one["holder"]["name"], one["holder"]["kind"]) == ("keys", "graph")
    assert one["holder"]["held_bytes"] >= 4 * (16 << 20)


def test_gradients_with_graphs_are_named_where_each_step_makes_a_model(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
for _ in range(10):
    net = nn.Linear(1024, 1024).cuda()
    net(torch.randn(1024, 1024, device="cuda")).pow(2).mean().backward(create_graph=True)
    sum(parameter.grad.pow(2).sum() for parameter in net.parameters()).backward()
""")
    holder = found(dry)["reference cycles", "torch.autograd.grad"]["holder"]
    assert holder["kind"] == "gradient cycle" and holder["held_bytes"] >= 3 * (8 << 20)


def test_the_frame_that_an_exception_keeps_is_named(tmp_path):
    """The program tries again inside of the except block, where the failed step's variables are still there."""
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
net = nn.Sequential(*[nn.Linear(1024, 1024) for _ in range(8)]).cuda()
def attempt(batch):
    output = net(torch.randn(batch, 1024, device="cuda"))
    return torch.empty(batch, 50_000, dtype=torch.uint8, device="cuda")
try:
    attempt(20_000)
except torch.cuda.OutOfMemoryError:
    attempt(1000)
""", "--device", "sim:h100:1GiB")
    holder = found(dry)["kept by a traceback", "leave the except block"]["holder"]
    assert (holder["kind"], holder["name"], holder["line"]) == ("traceback", "frame of attempt", 7)
    assert holder["held_bytes"] > 600 << 20


def test_copies_of_the_weights_are_named_and_models_that_are_called_are_not(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import copy
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
net = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024)).cuda()
teacher, called, average = (copy.deepcopy(net).requires_grad_(False) for _ in range(3))
swa, on_host, pairs = AveragedModel(net), AveragedModel(net, device="cpu"), [one.data for one in average.parameters()]
optimizer, best = torch.optim.SGD(net.parameters(), 0.1), None
for _ in range(6):
    x = torch.randn(64, 1024, device="cuda")
    (net(x) - teacher(x) - called[0](x)).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    swa.update_parameters(net)
    on_host.update_parameters(net)
    with torch.no_grad():
        for old, new in zip(average.parameters(), net.parameters()):
            old.lerp_(new, 0.01)
    best, latest = copy.deepcopy(net.state_dict()), teacher.state_dict()
""")
    said = answer(dry, "advise")
    copies = {one["holder"]["name"]: one for one in said["observations"] if one["detector"] == "copy of the weights"}
    assert {name: one["bytes"] for name, one in copies.items()} == dict.fromkeys(("average", "swa", "best"), 2 * 1025 * 4096)
    assert {one["change"] for one in copies.values()} == {"copy on the host"}
    assert {name: one["holder"]["line"] for name, one in copies.items()} == {"average": 7, "swa": 8, "best": 9}
    assert all(one["holder"]["kind"] == "copy" for one in copies.values())
    written = next(one for one in said["findings"] if one["pattern"] == "dead write")
    assert written["holder"]["name"] == "best"  # its blocks at the peak are of another step than those that were named
    kept = {row["role"]: row["requested_bytes"] for row in answer(dry, "peak")["rows"]}["kept"]
    assert kept == (3 * 2 + 1) * 1025 * 4096  # and called[2], which no call labels
    labelled = dict(dry.rows("SELECT span.path, count(*) FROM event JOIN label ON label.id = event.label JOIN span ON span.id = label.span"
                             " WHERE event.kind = 10 AND label.role = 'kept' GROUP BY span.path"))
    assert labelled["EMA of Sequential"] == 8 + 2  # called[2] has the label that average had
    assert labelled["copy of Sequential"] >= 2 * 4  # of each state that is stored after the first search


def test_a_variable_that_keeps_only_the_newest_tensor_is_no_holder_of_growth(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import ctypes
import torch
from torch import nn
net = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def step():
    output = net(torch.randn(1024, 1024, device="cuda"))
    output.mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    return output.detach()
for _ in range(20):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(step()))
""")
    said = answer(dry, "advise")
    assert [one["name"] for one in said["holders"]] == ["output"]
    assert [one["holder"] for one in said["observations"] if one["detector"] in ("growth", "kept tensors")] == [None]


def test_an_output_that_an_attribute_keeps_is_counted_with_its_graph(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import torch
from torch import nn
class Trainer:
    def __init__(self):
        self.net = nn.Sequential(nn.Linear(256, 4096), nn.ReLU(), nn.Linear(4096, 256)).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), 0.1)
        self.last = None
    def step(self, x):
        output = self.net(x)
        loss = output.pow(2).mean()
        loss.backward(retain_graph=True)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.last = {"output": output, "loss": loss}
trainer = Trainer()
for _ in range(8):
    trainer.step(torch.randn(4096, 256, device="cuda"))
""")
    holder = {one["name"]: one for one in answer(dry, "advise")["holders"]}["self.last"]
    assert (holder["kind"], holder["owner"]) == ("graph", "Trainer")
    assert holder["held_bytes"] >= (64 + 4) << 20


def test_copies_that_a_later_step_makes_are_named(tmp_path):
    """A backup of the weights during an evaluation, and the states of epochs."""
    dry = Dry(tmp_path)
    said = dry.run("""
import torch
from torch import nn
class Key:
    def __repr__(self):
        print("this code of the program's ran")
        return "key"
net = nn.Linear(1024, 1024).cuda()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def average_of(net):
    shadow, backup = {key: value.detach().clone() for key, value in net.named_parameters()}, {}
    def swap():
        for key, value in net.named_parameters():
            backup[key] = value.data.clone()
            value.data.copy_(shadow[key])
    return swap
swap, states = average_of(net), {}
for step in range(20):
    net(torch.randn(64, 1024, device="cuda")).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 3:
        swap()
    if step % 2:
        states[Key()] = {key: value.detach().clone() for key, value in net.state_dict().items()}
""", "--steps", "8")
    assert said.stdout == ""
    held = {(one["detector"], one["holder"]["name"]) for one in answer(dry, "advise")["observations"]}
    assert held == {("copy of the weights", "shadow"), ("copy of the weights", "backup"), ("kept tensors", "states")}


def test_an_average_inside_of_the_trained_module_is_named_and_a_target_that_is_called_is_not(tmp_path):
    dry = Dry(tmp_path)
    dry.run("""
import copy
import torch
from torch import nn
class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.online = nn.Sequential(nn.Linear(1024, 1024), nn.ReLU())
        self.average = copy.deepcopy(self.online).requires_grad_(False)
        self.target = copy.deepcopy(self.online).requires_grad_(False)
    def forward(self, x):
        return (self.online(x) - self.target(x)).pow(2).mean()
net = Learner().cuda()
optimizer = torch.optim.SGD(net.online.parameters(), 0.1)
for _ in range(6):
    net(torch.randn(64, 1024, device="cuda")).backward()
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for old, new in zip(net.average.parameters(), net.online.parameters()):
            old.lerp_(new, 0.01)
""")
    copies = [one["holder"] for one in answer(dry, "advise")["observations"] if one["detector"] == "copy of the weights"]
    assert [(one["name"], one["owner"], one["line"]) for one in copies] == [("self.average", "Learner", 9)]


def test_a_variable_that_refers_to_one_item_of_a_container_keeps_that_one_alone():
    one, other = (1,), (2,)
    containers = [[one, other], deque([one, other]), {one, other}, {"one": one, "other": other}]
    release(Holder("variable", "one", "", "", 0, references=[Reference(container, id(one)) for container in containers]))
    assert containers == [[other], deque([other]), {other}, {"other": other}]


@pytest.mark.parametrize("rises, size", [([65, 2, 2, 2, 2], 2), ([1, 3, 1, 3, 2], 2), ([5], 5), ([1, 3], 1), ([], 0),
                                         ([0, 6, 0, 6, 0, 6, 0, 6], 3), ([6, 6, 0, 0, 0, 0, 6], 0), ([6, 6, -1, 7, -1, 7], 4), ([6, 6, -4, 6], 6)])
def test_growth_is_neither_the_first_workspace_nor_what_the_allocator_rounds(rises, size):
    loop, live = Loop(sys._getframe()), 100
    for rise in [0, *rises]:
        live += rise
        loop.visit(live)
    assert loop.size == size


def test_the_iterations_of_a_loop_that_grows_anew_in_each_epoch_are_those_of_one_epoch():
    loop = Loop(sys._getframe())
    for _ in range(3):
        for live in range(100, 108):
            loop.visit(live)
    assert (loop.count, loop.run, loop.longest_run) == (24, 8, 8)
