"""How dry runs end: loops that have shown all that they do, what is left out, what the verdict says, and exit codes."""
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
import types

import pytest
import torch
from test_dry_run import Dry

from memtrace.dry.program import DryWatcher
from memtrace.dry.steps import FACTOR, MODULUS, Iteration, Reading, Settling, State, between
from memtrace._library import find_program

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")

NET = """
import sys, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
net = nn.Sequential(nn.Linear(256, 2048), nn.ReLU(), nn.Linear(2048, 256)).cuda()
optimizer = torch.optim.Adam(net.parameters())
def data(count, batch):
    return DataLoader(TensorDataset(torch.randn(count * batch, 256)), batch_size=batch)
def train(x):
    net(x.cuda()).pow(2).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
EVALUATE = """
def evaluate(loader):
    net.eval()
    with torch.no_grad():
        for count, (x,) in enumerate(loader, 1):
            net(x.cuda())
    net.train()
    return count
"""


@pytest.fixture
def dry(tmp_path):
    return Dry(tmp_path)


def caveats(dry, kind):
    return dry.rows(f"SELECT name, line, count, total FROM caveat WHERE kind = '{kind}' AND run = (SELECT max(id) FROM run)"
                    " ORDER BY line, name")


def last(dry, column):
    return dry.rows(f"SELECT {column} FROM run ORDER BY id DESC LIMIT 1")[0][0]


def peak(dry):
    return dry.rows("SELECT bytes FROM summary_peak WHERE step = -2 AND measure = 'requested' ORDER BY run DESC LIMIT 1")[0][0]


# ---- settling ----

def iteration(number, live=100, allocated=150):
    return Iteration(number, 1, 0, live, allocated, reserved=200)


def test_an_interval_depends_on_its_requests_and_not_on_what_came_before():
    def history(sizes):
        requests = 0
        for size in sizes:
            requests = (requests * FACTOR + size + 1) % MODULUS
        return Reading(requests, len(sizes), frees=0, live=0, allocated=0, reserved=0)

    one = between(history([5, 6]), history([5, 6, 7, 8]))
    other = between(history([1]), history([1, 7, 8]))
    swapped = between(history([1]), history([1, 8, 7]))
    assert one == other != swapped


@pytest.mark.parametrize("numbers, settles_at", [
    ([1, 2, 2], 3), ([1, 2, 3, 3], 4), ([1, 2, 3, 4, 3, 4], 6), ([1, 2, 3, 4, 5, 3, 4, 5], 8), ([1, 2, 3, 4, 5, 6], None),
    ([7, 5, 6, 5], None), ([7, 5, 6, 8, 8, 9], None), ([7, 5, 6, 8, 8, 8, 8], 7)])
def test_steps_settle_once_they_repeat_and_not_by_coincidence(numbers, settles_at):
    settling = Settling()
    states = [settling.add(iteration(number)) for number in numbers]
    assert (states.index(State.SETTLED) + 1 if State.SETTLED in states else None) == settles_at


def test_equal_requests_do_not_settle_while_live_bytes_grow():
    settling = Settling()
    states = [settling.add(iteration(1, live=100 + 8 * n)) for n in range(6)]
    assert states == 5 * [State.RUNNING] + [State.GROWING] and settling.growth == 8


def test_steps_that_alternate_and_leak_grow_by_the_period():
    settling = Settling()
    for n in range(24):
        if settling.add(iteration(n % 2, live=100 + 10 * (n // 2))) is not State.RUNNING:
            break
    assert settling.state is State.GROWING and settling.growth == 5


def test_steps_with_a_rare_branch_settle_once_it_would_have_run():
    settling = Settling()
    settling.interval = 4
    states = [settling.add(iteration(number)) for number in [1, 2, 2, 2, 2, 2]]
    assert states.index(State.SETTLED) == 5
    settling = Settling()
    settling.interval = 6
    states = [settling.add(iteration(1, live=100 + 6 * (n // 6))) for n in range(40)]
    assert State.SETTLED not in states and states[-1] is State.GROWING and settling.growth == 1


def test_a_loop_that_never_repeats_itself_is_given_up():
    settling = Settling()
    states = [settling.add(iteration(n, live=100 + n % 3)) for n in range(10)]
    assert states == 9 * [State.RUNNING] + [State.UNSETTLED]


def test_steps_that_repeat_in_other_blocks_go_on_for_a_while_and_settle():
    settling = Settling()
    states = [settling.add(iteration(1, allocated=150 + n % 7 * n)) for n in range(10)]
    assert states == 9 * [State.RUNNING] + [State.SETTLED]


# ---- loaders ----

# Programs that are shortened, by the library that they need.
FILES = {"torch": "loop.py", "transformers": "trainer.py", "lightning": "lightning_fit.py", "accelerate": "accelerate_loop.py"}


def test_loaders_end_early_and_the_program_goes_on_behind_them(dry):
    said = dry.run(NET + EVALUATE + """
steps = 0
for epoch in range(2):
    for (x,) in data(50, 64):
        train(x)
        steps += 1
    batches = evaluate(data(40, 1024))
print(steps, batches)
""")
    assert said.stdout == "6 3\n"
    assert last(dry, "ended_by") == "program"
    names = {name: (count, total) for name, _, count, total in caveats(dry, "shortened")}
    assert names == {"training loader": (3, 50), "evaluation loader": (3, 40)}


@pytest.mark.parametrize("program", FILES)
def test_what_is_shortened_has_the_peak_of_the_whole_run(dry, program):
    pytest.importorskip(program)
    source = (pathlib.Path(__file__).parent / f"programs/{FILES[program]}").read_text()
    dry.run(source)
    shortened, names = peak(dry), [name for name, *_ in caveats(dry, "shortened")]
    dry.run(source, "--steps", "all")
    assert math.isclose(shortened, peak(dry), rel_tol=0.02)
    assert names and not caveats(dry, "shortened")


def test_a_loader_that_is_only_read_is_read_to_its_end(dry):
    said = dry.run(NET + """
print(sum(len(x) for (x,) in data(20, 8)), sum(x.cuda().numel() for (x,) in data(20, 8)) // 256)
""")
    assert said.stdout == "160 160\n"


def test_a_loader_cycled_in_a_range_does_not_hold_the_program(dry):
    dry.run(NET + """
def cycle(loader):
    while True:
        yield from loader
batches = cycle(data(10, 64))
for step in range(100000):
    train(next(batches)[0])
""")
    assert last(dry, "ended_by") == "settled"


def test_a_loop_with_few_batches_left_runs_to_its_end(dry):
    said = dry.run(NET + EVALUATE + """
steps = 0
for (x,) in data(6, 64):
    train(x)
    steps += 1
print(steps, evaluate(data(5, 1024)))
""")
    assert said.stdout == "6 5\n" and caveats(dry, "shortened") == []


def test_the_two_optimizers_of_a_gan_share_a_loader(dry):
    dry.run(NET + """
other = nn.Linear(256, 256).cuda()
second = torch.optim.Adam(other.parameters())
for (x,) in data(50, 64):
    train(x)
    other(x.cuda()).mean().backward()
    second.step()
    second.zero_grad()
""")
    assert last(dry, "ended_by") == "program"
    (name, _, count, total), = caveats(dry, "shortened")
    assert (name, total) == ("training loader", 50) and count < 6


def test_an_evaluation_that_keeps_its_outputs_on_the_card_is_run_to_its_end(dry):
    dry.run(NET + """
net.eval()
outputs = []
with torch.no_grad():
    for (x,) in data(30, 1024):
        outputs.append(net(x.cuda()))
print(len(outputs))
""")
    assert caveats(dry, "shortened") == []
    assert peak(dry) > 30 * 1024 * 256 * 4


# ---- loops without a loader ----

def test_an_evaluation_that_ran_only_before_training_is_named(dry):
    dry.run(NET + EVALUATE + """
for step in range(1000):
    if step % 100 == 0:
        evaluate(data(4, 64))
    train(torch.randn(64, 256))
""")
    assert [name for name, *_ in caveats(dry, "not_run")] == ["evaluate after the first step"]


def test_memory_that_grows_is_reported_with_the_iteration_at_which_the_card_is_full(dry):
    said = dry.run(NET + """
kept = []
for step in range(30000):
    train(torch.randn(64, 256))
    kept.append(torch.zeros(1 << 20, device="cuda"))
""")
    assert last(dry, "ended_by") == "growth"
    (size, count, total, done), = dry.rows("SELECT bytes, count, total, value FROM caveat WHERE kind = 'growth'")
    assert size == 4 << 20 and 15000 < count < 21000 and done < 20  # of 79 GiB
    assert "live memory grows: 4.00 MiB an iteration (program.py:" in said.stderr
    if sys.version_info >= (3, 11):
        assert total == 30000
        assert f": fits until iteration {count}, by estimate; after all 30000 iterations, by estimate: peak 117." in said.stderr
    else:
        assert said.stderr.endswith(f": fits until iteration {count}, by estimate\n")


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the iterations that are left are unknown")
@pytest.mark.parametrize("epochs, iterations", [(1, 20), (3, 60)])
def test_what_all_iterations_of_a_growing_loop_need_is_that_of_the_whole_program(dry, epochs, iterations):
    source = NET + f"""
kept = []
def train_epoch():
    for (x,) in data(20, 64):
        train(x)
        kept.append(torch.zeros(1 << 20, device="cuda"))
for epoch in range({epochs}):
    train_epoch()
"""
    verdict = json.loads(dry.run(source, "--json").stdout)
    assert verdict["iterations"] == iterations and verdict["steps"] < 20
    dry.run(source, "--steps", "all")
    assert math.isclose(verdict["live"] + verdict["rest"], peak(dry), rel_tol=0.05)


@pytest.mark.parametrize("batches", ["data(20, 64)", "[(torch.randn(64, 256),) for _ in range(20)]"])
def test_memory_that_grows_in_each_epoch_and_in_no_step_is_reported(dry, batches):
    source = NET + f"""
kept = []
def train_epoch(batches):
    for (x,) in batches:
        train(x)
batches = {batches}
for epoch in range(30):
    train_epoch(batches)
    KEEP
"""
    said = dry.run(source.replace("KEEP", "kept.append({name: p.detach().clone() for name, p in net.named_parameters()})"))
    line = 1 + next(n for n, text in enumerate(source.splitlines()) if "epoch in" in text)
    (size, place, total), = dry.rows("SELECT bytes, line, total FROM caveat WHERE kind = 'growth'")
    assert 4 << 20 <= size < 5 << 20 and place == line and last(dry, "ended_by") == "growth"
    assert total == (30 if sys.version_info >= (3, 11) else None)
    assert "memtrace: kept (program.py:" in said.stderr
    dry.run(source.replace("KEEP", "kept = [p.detach().clone() for p in net.parameters()]"))
    assert caveats(dry, "growth") == [] and last(dry, "ended_by") == "settled"


def test_a_copy_in_every_fourth_step_is_growth_with_its_holder(dry):
    said = dry.run(NET + """
import copy
pool = []
for step in range(80):
    train(torch.randn(64, 256))
    if step % 4 == 3:
        pool.append(copy.deepcopy(net.state_dict()))
""")
    (size, total), = dry.rows("SELECT bytes, total FROM caveat WHERE kind = 'growth'")
    assert 1 << 20 <= size < 2 << 20 and total == (80 if sys.version_info >= (3, 11) else None)
    assert "memtrace: pool (program.py:" in said.stderr


def test_a_program_with_its_own_update_rule_has_steps(dry):
    dry.run("""
import torch
weight = torch.randn(512, 512, device="cuda", requires_grad=True)
layer = torch.nn.Linear(512, 512).cuda()
for step in range(1000):
    (layer(torch.randn(64, 512, device="cuda")) @ weight).pow(2).mean().backward()
    with torch.no_grad():
        for p in (weight, *layer.parameters()):
            p.data -= 0.1 * p.grad
            p.grad = None
""")
    assert dry.rows("SELECT count(*) FROM step")[0][0] < 10 and last(dry, "ended_by") == "settled"


def test_accumulated_gradients_are_one_step(dry):
    dry.run(NET + """
for step in range(1000):
    for _ in range(5):
        net(torch.randn(64, 256, device="cuda")).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    assert dry.rows("SELECT count(*) FROM step")[0][0] == 3


def test_a_program_that_only_infers_has_no_training_steps(dry):
    said = dry.run("import torch\ntorch.nn.Linear(8, 8).cuda().eval()(torch.ones(2, 8, device='cuda'))\n")
    assert "no training steps, then the program ended" in said.stderr
    shown = subprocess.run([find_program(), "steps", "--trace", str(dry.trace)], capture_output=True, text=True, check=True).stdout
    assert "no training steps" in shown and "Times of a dry run" not in shown


def test_calls_without_gradients_begin_no_step(dry):
    dry.run(NET + """
criterion = torch.nn.MSELoss().cuda()
for epoch in range(2):
    for n in range(3):
        train(torch.randn(64, 256))
    with torch.no_grad():
        outputs = net.eval()(torch.randn(64, 256, device="cuda"))
        criterion(outputs, outputs)
    net.train()
""", "--steps", "all")
    assert dry.rows("SELECT count(*) FROM step") == [(6,)]


def test_steps_asked_for_are_made(dry):
    dry.run(NET + "for step in range(30):\n    train(torch.randn(64, 256))\n", "--steps", "7")
    assert dry.rows("SELECT count(*) FROM step") == [(7,)] and last(dry, "ended_by") == "steps"
    dry.run(NET + "for step in range(30):\n    train(torch.randn(64, 256))\n", "--steps", "all")
    assert last(dry, "ended_by") == "program"
    assert dry.rows("SELECT count(*) FROM step WHERE run = 2") == [(30,)]


# ---- ends ----

def test_a_program_that_catches_its_end_is_ended(dry):
    said = dry.run(NET + """
tries = 0
while tries < 10000:
    tries += 1
    try:
        train(torch.randn(64, 256))
    except:
        print("caught", flush=True)
""")
    assert said.stdout == "caught\n" and last(dry, "ended_by") == "caught" and last(dry, "state") == "done"


ENDLESS = NET + "print('begun', flush=True)\nwhile True:\n    train(torch.randn(64, 256))\n"


@pytest.mark.parametrize("number, code", [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_with_the_verdict_of_what_ran(dry, number, code):
    script = dry.folder / "program.py"
    script.write_text(ENDLESS)
    process = subprocess.Popen([find_program(), "dry-run", "--steps", "all", "--trace", str(dry.trace), "--", sys.executable,
                                str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=dry.folder,
                               env=dry.environment(), start_new_session=True)
    assert process.stdout.readline() == "begun\n"
    time.sleep(1)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == code, said
    assert last(dry, "ended_by") == "signal"
    assert said.splitlines()[-1].startswith("memtrace: ended by a signal; until then peak ")


def test_the_time_limit_ends_the_program(dry):
    said = dry.run(ENDLESS, "--steps", "all", "--time-limit", "20")
    assert last(dry, "ended_by") == "time limit"
    assert said.stderr.splitlines()[-1].startswith("memtrace: ended at the time limit; until then peak ")


@pytest.mark.parametrize("is_daemon", [True, False])
def test_a_thread_that_fills_a_queue_does_not_keep_the_program_from_ending(dry, is_daemon):
    dry.run(NET + f"""
import queue, threading
batches = queue.Queue(maxsize=16)
def fill():
    for _ in range(100):
        batches.put(torch.randn(1024, 256).to("cuda"))
threading.Thread(target=fill, daemon={is_daemon}).start()
for step in range(100):
    train(batches.get())
""")
    assert last(dry, "state") == "done" and last(dry, "ended_by") in ("settled", "unsettled")
    assert peak(dry) > 17 << 20, "the queue was full"


@pytest.mark.parametrize("has_hooks", [True, False])
def test_without_hooks_no_call_is_named_as_not_run(has_hooks):
    coverage = types.SimpleNamespace(not_run=lambda: ["evaluate"])
    watcher = types.SimpleNamespace(has_hooks=has_hooks, coverage=coverage)
    assert DryWatcher.calls_not_run(watcher) == ["evaluate"] * has_hooks


def test_a_time_limit_that_passes_before_pytorch_is_there_says_so(dry):
    begin = time.monotonic()
    said = dry.run("import time\ntime.sleep(60)\nimport torch\n", "--time-limit", "1", code=8)
    assert "the time limit passed before the program imported PyTorch: raise --time-limit" in said.stderr
    assert time.monotonic() - begin < 15


def test_at_the_time_limit_a_program_may_wait_for_another(dry):
    child = "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)']).returncode)\n"
    said = dry.run(child, "--time-limit", "1", code=8)
    assert said.stdout == "8\n"


# ---- the verdict ----

def test_the_last_line_says_what_the_program_needs_of_the_card(dry):
    said = dry.run(NET + "for step in range(30):\n    train(torch.randn(64, 256))\n")
    line = said.stderr.splitlines()[-1]
    answer = json.loads(dry.run(NET + "for step in range(30):\n    train(torch.randn(64, 256))\nprint('text')\n",
                                "--json").stdout)
    assert answer["schema"] == "memtrace.dry-run/1" and answer["fits"] and answer["exit_code"] == 0
    assert answer["bytes"] == answer["reserved"] + answer["outside"] == answer["card"] - answer["free"]
    assert line.startswith("memtrace: peak ") and " live; needs " in line and "): fits, " in line and line.endswith(" free")
    assert answer["ended_by"] == "settled" and answer["steps"] == 3 and len(answer["ranks"]) == 1


def test_out_of_memory_names_the_line_and_how_much_was_short(dry):
    source = "import torch\nkept = [torch.zeros(1 << 28, device='cuda') for _ in range(100)]\n"
    said = dry.run(source, code=5)
    line = said.stderr.splitlines()[-1]
    assert line.startswith("memtrace: out of memory: ") and " short at program.py:2" in line
    assert line.endswith(f"; next: memtrace oom --run 1 --trace {dry.trace}")
    answer = json.loads(dry.run(source, "--json", code=5).stdout)
    assert not answer["fits"] and answer["short"] > 0 and answer["ended_by"] == "out of memory"


def test_a_card_that_others_use_has_less_room(dry):
    source = "import torch\nkept = torch.zeros(1 << 28, device='cuda')\n"
    assert " of the 4.00 GiB that others leave " in dry.run(source, "--free", "4GiB").stderr
    dry.run(source, "--free", "1GiB", code=5)


def test_strict_fails_where_something_is_unknown(dry):
    dry.run("import torch\nprint(torch.mode(torch.ones(20, 3000, device='cuda'))[0].shape)\n", "--strict", code=9)
    dry.run("import torch\nprint(torch.ones(2000, 2000, device='cuda').add(1).shape)\n", "--strict")


def test_values_that_were_not_computed_are_counted_by_line_but_not_where_they_are_printed(dry):
    dry.run("""
import torch
x = torch.randn(1000, 1000, device="cuda")
print(x.sum(), x)
for _ in range(3):
    if x.sum().item() > 0:
        pass
""")
    assert dry.rows("SELECT name, line, count, round(value, 1) FROM caveat WHERE kind = 'assumed'") == [("a number", 6, 3, 1.0)]


def test_ranks_settle_at_the_same_step(dry):
    dry.run("""
import os, torch, torch.distributed as dist
from torch import nn
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.cuda.set_device(rank)
net = nn.parallel.DistributedDataParallel(nn.Linear(512, 512).cuda())
optimizer = torch.optim.Adam(net.parameters())
step, extra = 0, []
while True:
    if rank == 1 and step < 2:
        torch.zeros(1 << (18 + step), device="cuda")
    net(torch.randn(64, 512, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    step += 1
""", "--ranks", "2")
    traces = sorted(dry.folder.glob("dry*.db"))
    assert len(traces) == 2
    import sqlite3
    counts = set()
    for path in traces:
        with sqlite3.connect(path) as database:
            counts.add(database.execute("SELECT count(*) FROM step").fetchone())
    assert len(counts) == 1


# ---- loops that are easily taken for others ----

def test_a_plain_next_never_raises_the_end_into_the_program(dry):
    said = dry.run(NET + """
class Endless(DataLoader):
    def __iter__(self):
        iterator = super().__iter__()
        for _ in range(len(self)):
            yield next(iterator)
loader = data(12, 64)
batches = iter(loader)
for step in range(len(loader)):
    net(next(batches)[0].cuda())
for (x,) in Endless(TensorDataset(torch.randn(12 * 64, 256)), batch_size=64):
    net(x.cuda())
print("whole")
""")
    assert said.stdout == "whole\n"


def test_a_handler_of_failures_around_a_loop_is_not_for_the_end_of_its_batches(dry):
    said = dry.run(NET + """
try:
    batches = iter(data(20, 64))
    for step in range(20):
        train(next(batches)[0])
    print("trained", step)
except Exception as error:
    print("failed", repr(error))
    raise
torch.ones(1, device="cuda")
""")
    assert said.stdout.startswith("trained")


def test_next_in_a_try_ends_as_a_for_does(dry):
    dry.run(NET + """
def batches(loader):
    iterator = iter(loader)
    while True:
        try:
            batch = next(iterator)
        except StopIteration:
            return
        yield batch
for (x,) in batches(data(50, 64)):
    train(x)
""")
    assert last(dry, "ended_by") == "program" and [name for name, *_ in caveats(dry, "shortened")] == ["training loader"]


def test_epochs_of_two_batches_repeat_themselves_too(dry):
    dry.run(NET + "for epoch in range(5000):\n    for (x,) in data(2, 64):\n        train(x)\n")
    assert last(dry, "ended_by") == "settled"
    assert dry.rows("SELECT count(*) FROM step")[0][0] < 30


def test_training_in_evaluation_mode_has_steps(dry):
    dry.run(NET + """
net.eval()
picture = torch.randn(64, 256, device="cuda", requires_grad=True)
optimizer = torch.optim.Adam([picture])
while True:
    net(picture).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
""")
    assert last(dry, "ended_by") == "settled"


def test_a_leak_in_a_function_s_own_loader_is_reported(dry):
    said = dry.run(NET + EVALUATE + """
def main():
    kept = []
    for (x,) in data(100, 64):
        train(x)
        kept.append(torch.zeros(1 << 20, device="cuda"))
main()
""")
    (size, total), = dry.rows("SELECT bytes, total FROM caveat WHERE kind = 'growth'")
    assert (size, total) == (4 << 20, 100)
    assert said.stderr.splitlines()[-1].endswith(" free")  # 100 iterations fit


def test_growth_that_ended_is_no_forecast(dry):
    said = dry.run(NET + """
net.eval()
loader = data(30, 1024)
outputs = []
with torch.no_grad():
    for (x,) in loader:
        outputs.append(net(x.cuda()))
outputs.clear()
""")
    assert "live memory grows: 1.00 MiB an iteration (program.py:19)\n" in said.stderr
    assert said.stderr.splitlines()[-1].endswith(" free")


def test_optimizers_that_hooks_of_gradients_call_make_one_step_of_a_backward(tmp_path):
    dry = Dry(tmp_path)
    said = dry.run("""
import torch
from torch import nn
net = nn.Sequential(*(nn.Linear(256, 256) for _ in range(8))).cuda()
optimizers = {parameter: torch.optim.Adam([parameter], foreach=False) for parameter in net.parameters()}
def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()
for parameter in net.parameters():
    parameter.register_post_accumulate_grad_hook(update)
for step in range(20):
    net(torch.randn(64, 256, device="cuda")).square().mean().backward()
    print(step)
""")
    assert said.stdout.split() == ["0", "1", "2"]
    assert dry.rows("SELECT ended_by FROM run") == [("settled",)] and "after 3 iterations" in said.stderr
    assert dry.rows("SELECT kind FROM caveat WHERE kind = 'growth'") == []  # which states of the first step would be
