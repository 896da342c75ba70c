"""How dry runs leave loops that no loader drives, of the user's own code and of libraries, and what they name as not run."""
import sys

import pytest
import torch
from test_dry_end import EVALUATE, NET, caveats, dry, last, peak  # noqa: F401 (a fixture)

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a dry run is for where there is no card")


def test_a_loop_over_a_range_is_left_and_what_did_not_run_in_it_is_named(dry):
    said = dry.run(NET + EVALUATE + """
for step in range(1000):
    train(torch.randn(64, 256))
    if step % 100 == 99:
        evaluate(data(4, 64))
torch.save(net.state_dict(), "net.pt")
print("done")
""")
    assert said.stdout == "done\n" and last(dry, "ended_by") == "program"
    assert [name for name, *_ in caveats(dry, "not_run")] == ["evaluate"]
    assert "did not run: evaluate (program.py:" in said.stderr


def test_functions_that_lead_to_a_model_are_known_by_what_they_call(dry):
    dry.run(NET + """
def render(x, through):
    return through(x)
def look(x):
    with torch.no_grad():
        return render(x, net)
@torch.no_grad()
def spiral(x):
    return render(x, net)
@torch.no_grad()
def average(x):
    return x.mul_(2)
for step in range(1000):
    render(torch.randn(64, 256).cuda(), net).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 100 == 99:
        look(torch.randn(64, 256).cuda())
    if step % 200 == 99:
        spiral(torch.randn(64, 256).cuda())
    average(torch.randn(64, 256).cuda())
""")
    assert [name for name, *_ in caveats(dry, "not_run")] == ["look", "spiral"]


@pytest.mark.parametrize("batches", ["range(50)", "(n for n in range(50))", "dict.fromkeys(range(50))", "enumerate('x' * 50)"])
def test_a_loop_at_the_end_of_its_function_is_left(dry, batches):
    said = dry.run(NET + EVALUATE + f"""
def train_epoch():
    for batch in {batches}:
        train(torch.randn(64, 256))
for epoch in range(2):
    train_epoch()
    print(evaluate(data(5, 64)))
""")
    assert said.stdout == "5\n5\n" and last(dry, "ended_by") == "program"
    assert dry.rows("SELECT count(*) FROM step")[0][0] < 10


SWEEP = """
import torch
from torch.utils.data import DataLoader, TensorDataset
def make(width):
    net = torch.nn.Linear(256, width).cuda()
    return net, torch.optim.Adam(net.parameters())
def step(net, optimizer, x):
    net(x.cuda()).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
RANGE = """
def main(width):
    net, optimizer = make(width)
    for n in range(1000):
        step(net, optimizer, torch.randn(64, 256))
    return width
"""
LOADER = """
def main(width):
    net, optimizer = make(width)
    loader = DataLoader(TensorDataset(torch.randn(6400, 256)), batch_size=64)
    for epoch in range(20):
        for (x,) in loader:
            step(net, optimizer, x)
    return width
"""


@pytest.mark.parametrize("main", [RANGE, LOADER])
@pytest.mark.parametrize("calls", ["for width in WIDTHS:\n    main(width)\n", "print([main(width) for width in WIDTHS])\n"])
def test_a_sweep_runs_each_setting_that_makes_other_requests(dry, main, calls):
    dry.run(SWEEP + main + calls.replace("WIDTHS", "(512, 1024, 8192)"))
    assert peak(dry) > 3 * 8192 * 257 * 4  # weights, gradients and states of the last setting
    assert dry.rows("SELECT count(*) FROM step")[0][0] < 80


@pytest.mark.parametrize("main", [RANGE, LOADER])
def test_a_loop_that_is_left_keeps_no_model(dry, main):
    said = dry.run("import gc\ngc.disable()\n" + SWEEP + main + """
begin = []
for width in (512, 1024, 2048, 8192):
    begin.append(torch.cuda.memory_allocated())
    main(width)
print("begin", begin[1] > 0, set(begin[1:]) == {begin[1]})
""")
    assert "begin True True" in said.stdout


STEPS = """
def steps():
    for n in range(1000):
        train(torch.randn(64, 256))
        yield n
print(len([n for n in steps()]) < 10)
"""
COROUTINE = """
import asyncio
async def main():
    done = 0
    while done < 1000:
        train(torch.randn(64, 256))
        await asyncio.sleep(0)
        done += 1
    print(done < 10)
asyncio.run(main())
"""


@pytest.mark.parametrize("program", [STEPS, COROUTINE])
def test_a_loop_that_suspends_its_function_is_left(dry, program):
    said = dry.run(NET + EVALUATE + program + "print(evaluate(data(4, 64)))\n")
    assert said.stdout == "True\n4\n" and last(dry, "ended_by") == "program"


def test_a_variable_that_is_set_behind_a_loop_that_was_left_frees_its_value(dry):
    said = dry.run(NET + EVALUATE + """
def main():
    kept = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    for _ in range(100):
        train(torch.randn(8, 256))
    kept = None
    print("live", torch.cuda.memory_allocated() >> 20)
    evaluate(data(3, 8))
main()
""")
    assert int(said.stdout.split()[1]) < 256, said.stdout


def test_a_sweep_ends_once_it_repeats_itself_and_says_so(dry):
    dry.run(SWEEP + LOADER + "for seed in range(100):\n    main(512)\n")
    assert last(dry, "ended_by") == "settled"
    assert dry.rows("SELECT count(*) FROM step")[0][0] < 80
    assert [(name, line) for name, line, *_ in caveats(dry, "not_run")] == [("further iterations", 19)]


def test_a_sweep_that_can_t_be_continued_is_named(dry):
    dry.run(SWEEP + """
for width in (512, 8192):
    net, optimizer = make(width)
    while True:
        step(net, optimizer, torch.randn(64, 256))
""")
    assert [(name, line) for name, line, *_ in caveats(dry, "not_run")] == [("further iterations", 12)]


def test_a_sweep_whose_last_statement_is_a_for_loop_is_continued(dry):
    dry.run(SWEEP + """
for width in (512, 8192):
    net, optimizer = make(width)
    for n in range(1000):
        step(net, optimizer, torch.randn(64, 256))
""")
    assert caveats(dry, "not_run") == [] and peak(dry) > 4 * 4 * 2 * 256 * 8192


def test_epochs_over_a_range_are_no_sweep(dry):
    said = dry.run(NET + """
for epoch in range(100):
    for n in range(1000):
        train(torch.randn(64, 256))
    print(epoch)
""")
    assert said.stdout == "0\n1\n"
    assert caveats(dry, "not_run") == []


LEARNER = """
import torch
class Learner:
    def __init__(self, width):
        self.net = torch.nn.Linear(256, width).cuda()
        self.optimizer = torch.optim.Adam(self.net.parameters())
    def update(self):
        for epoch in range(10):
            for chunk in range(8):
                self.net(torch.randn(64, 256, device="cuda")).mean().backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
    def learn(self, total):
        done = 0
        try:
            if total:
                while done < total:
                    self.update()
                    done += 1
        except ValueError:
            pass
        return self
"""


def test_the_loops_of_a_library_are_left_too(dry):
    package = dry.folder / "site-packages" / "learners"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(LEARNER)
    dry.run("""
import sys
sys.path.insert(0, "site-packages")
from learners import Learner
first = Learner(512).learn(1000)
second = Learner(8192).learn(1000)
final = torch.empty(1 << 30, dtype=torch.uint8, device="cuda")
""".replace("import sys\n", "import sys, torch\n"))
    assert last(dry, "ended_by") == "program" and caveats(dry, "not_run") == []
    assert peak(dry) > (1 << 30) + 3 * 8192 * 257 * 4
    assert dry.rows("SELECT count(*) FROM step")[0][0] < 60
    assert [line for _, line, *_ in caveats(dry, "shortened")] == [5, 6]


@pytest.mark.parametrize("behind, ended_by", [
    ("big = torch.empty(1 << 30, device='cuda')", "program"), ("big = torch.empty(1 << 30).to('cuda')", "program"),
    ("measure()", "program"), ("print(torch.zeros(3).to('cpu'))", "settled")])
def test_a_program_goes_on_behind_its_last_loop_if_something_there_needs_the_card(dry, behind, ended_by):
    dry.run(NET + f"""
def measure():
    return torch.empty(1 << 30, device="cuda")
for step in range(1000):
    train(torch.randn(64, 256))
{behind}
""")
    assert last(dry, "ended_by") == ended_by and (peak(dry) > 1 << 30) == (ended_by == "program")
    assert caveats(dry, "not_run") == []


def test_an_allocation_behind_a_loop_that_can_t_be_left_is_named(dry):
    said = dry.run(NET + """
def forever():
    while True:
        train(torch.randn(64, 256))
forever()
big = torch.empty(1 << 30, device="cuda")
""")
    assert [(name, line) for name, line, *_ in caveats(dry, "not_run")] == [("torch.empty", 18)], said.stderr


@pytest.mark.parametrize("behind", [
    "for x in torch.empty(1, 1 << 30, device='cuda'):\n    pass", "while torch.empty(1 << 30, device='cuda') is None:\n    pass",
    "size = (\n    len(\n        torch.empty(1 << 30, device='cuda')))"])
def test_a_while_loop_is_left_to_whatever_statement_follows(dry, behind):
    dry.run(NET + f"""
done = 0
while done < 1000:
    train(torch.randn(64, 256))
    done += 1
{behind}
print("left at", done)
""")
    assert last(dry, "ended_by") == "program" and peak(dry) > 1 << 30
    assert dry.rows("SELECT count(*) FROM step")[0][0] < 10


@pytest.mark.skipif(sys.version_info < (3, 10), reason="match is new in Python 3.10")
@pytest.mark.parametrize("loop", ["for done in range(1000):", "while (done := done + 1) < 1000:"])
def test_a_loop_in_a_match_is_left(dry, loop):
    said = dry.run(NET + EVALUATE + f"""
done = 0
match "train":
    case "train":
        {loop}
            train(torch.randn(64, 256))
print(evaluate(data(4, 64)))
""")
    assert said.stdout == "4\n" and last(dry, "ended_by") == "program"


def test_a_loop_that_python_refuses_to_jump_out_of_ends_the_program_at_its_head(dry):
    said = dry.run(NET + EVALUATE + f"""
done = 0
while done < 1000:
    train(torch.randn(64, 256))
    done += 1
    ({", ".join(["done"] * 30)})
print(evaluate(data(4, 64)))
""".replace("    (done", "    max(done"))
    assert last(dry, "ended_by") == "settled" and said.stdout == ""
    assert [name for name, *_ in caveats(dry, "not_run")] == ["evaluate"] and "Traceback" not in said.stderr


HIDDEN = """
class Trainer:
    def __init__(self):
        self.net = net
    @torch.inference_mode()
    def score(self, rows):
        return self.net(torch.randn(rows, 256, device="cuda")).sum()
def report(model, rows):
    return measured(rows=rows, using=model)
def measured(using, rows):
    return using(torch.randn(rows, 256, device="cuda"))
trainer = Trainer()
for step in range(1000):
    train(torch.randn(64, 256))
    if step == 500:
        CALL
print("behind")
CALL
"""


@pytest.mark.parametrize("call", ["trainer.score(64)", "report(trainer.net, 64)"])
def test_a_call_whose_functions_call_a_model_is_named_or_run(dry, call):
    said = dry.run(NET + HIDDEN.replace("CALL", call))
    assert said.stdout == "behind\n" and last(dry, "ended_by") == "program"
    assert [name for name, *_ in caveats(dry, "not_run")] == [call.partition("(")[0]]


def test_a_call_in_a_loop_over_a_loader_that_no_batch_came_to_is_named(dry):
    dry.run(NET + """
import argparse
args = argparse.Namespace(compiled=False, every=40)
scaler = None
def measure(rows):
    return net(torch.randn(rows, 256, device="cuda"))
for n, (x,) in enumerate(data(50, 64)):
    if args.compiled or scaler is not None:
        measure(64)
    else:
        train(x)
    if n % args.every == 39:
        measure(8192)
""")
    assert last(dry, "ended_by") == "program"
    assert [(name, line) for name, line, *_ in caveats(dry, "not_run")] == [("measure", 25)]


def test_a_checkpoint_that_is_written_again_is_not_named(dry):
    dry.run(NET + """
torch.save(net.state_dict(), "net.pt")
for step in range(1000):
    train(torch.randn(64, 256))
torch.save(net.state_dict(), "net.pt")
""")
    assert caveats(dry, "not_run") == [] and last(dry, "ended_by") == "program"
